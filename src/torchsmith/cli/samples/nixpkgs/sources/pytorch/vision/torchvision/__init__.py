"""A miniature of torchvision."""

import ctypes
from pathlib import Path

import torch

from torchvision import version

__version__ = version.__version__
ctypes.CDLL(str(Path(__file__).parent / "_C.so"))
