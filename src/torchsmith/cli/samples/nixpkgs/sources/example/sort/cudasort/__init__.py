"""A package that needs CUDA and no torch."""

import ctypes
from pathlib import Path

ctypes.CDLL(str(Path(__file__).parent / "libcudasort.so"))
