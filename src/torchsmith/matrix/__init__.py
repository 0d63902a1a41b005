"""Variants: what can be built, under which name, and why or why not."""

from torchsmith.matrix.cells import Accepted, Decision, Reason, Rejected, assess
from torchsmith.matrix.expand import Block, Cell, LeftOut, Matrix, MatrixSpec, expand
from torchsmith.matrix.select import Selector
from torchsmith.matrix.variant import (
    Accelerator,
    BadName,
    CpuOnly,
    Cuda,
    Flavor,
    ParsedName,
    Target,
    Variant,
    package_name,
    pname,
    read_name,
    try_read,
)
