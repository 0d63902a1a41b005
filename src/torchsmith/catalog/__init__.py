"""Facts about GPUs, CPUs, CUDA, Python and PyTorch releases: data with sources, loaded into typed values."""

from torchsmith.catalog.axes import CudaVersion, DriverVersion, GpuTarget, PythonVersion, Sm
from torchsmith.catalog.entry import Limit
from torchsmith.catalog.facts import (
    Cpu,
    CudaPackage,
    CudaToolkit,
    Estimate,
    Feature,
    Fix,
    Gpu,
    Isa,
    KnownError,
    Line,
    LineBuild,
    Pin,
    Python,
    StatedRelease,
    Workload,
)
from torchsmith.catalog.layered import load_catalog
from torchsmith.catalog.load import Catalog, builtin_catalog
from torchsmith.catalog.package import TORCH, Package

__all__ = [
    "TORCH",
    "Catalog",
    "Cpu",
    "CudaPackage",
    "CudaToolkit",
    "CudaVersion",
    "DriverVersion",
    "Estimate",
    "Feature",
    "Fix",
    "Gpu",
    "GpuTarget",
    "Isa",
    "KnownError",
    "Limit",
    "Line",
    "LineBuild",
    "Package",
    "Pin",
    "Python",
    "PythonVersion",
    "Sm",
    "StatedRelease",
    "Workload",
    "builtin_catalog",
    "load_catalog",
]
