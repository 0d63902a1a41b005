"""Facts about GPUs, CPUs, CUDA, Python and PyTorch releases: data with sources, loaded into typed values."""

from torchsmith.catalog.axes import CudaVersion, DriverVersion, GpuTarget, PythonVersion, Sm
from torchsmith.catalog.facts import (
    Cpu,
    CudaPackage,
    CudaToolkit,
    Feature,
    Fix,
    Gpu,
    Isa,
    KnownError,
    Line,
    LineBuild,
    Pin,
    Python,
)
from torchsmith.catalog.load import Catalog, builtin_catalog, load_catalog

__all__ = [
    "Catalog",
    "Cpu",
    "CudaPackage",
    "CudaToolkit",
    "CudaVersion",
    "DriverVersion",
    "Feature",
    "Fix",
    "Gpu",
    "GpuTarget",
    "Isa",
    "KnownError",
    "Line",
    "LineBuild",
    "Pin",
    "Python",
    "PythonVersion",
    "Sm",
    "builtin_catalog",
    "load_catalog",
]
