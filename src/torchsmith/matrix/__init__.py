"""Variants: what can be built, under which name, and why or why not."""

from torchsmith.matrix.cells import Accepted, Decision, Reason, Rejected, assess
from torchsmith.matrix.expand import Block, Cell, LeftOut, Matrix, MatrixSpec, expand
from torchsmith.matrix.names import BadName, Reading, pname, read_name
from torchsmith.matrix.select import Selector
from torchsmith.matrix.variant import CpuOnly, Cuda, Flavor, Package, Target, Variant

__all__ = [
    "Accepted",
    "BadName",
    "Block",
    "Cell",
    "CpuOnly",
    "Cuda",
    "Decision",
    "Flavor",
    "LeftOut",
    "Matrix",
    "MatrixSpec",
    "Package",
    "Reading",
    "Reason",
    "Rejected",
    "Selector",
    "Target",
    "Variant",
    "assess",
    "expand",
    "pname",
    "read_name",
]
