"""Facts about GPUs, CPUs, CUDA, Python and PyTorch releases: data with sources, loaded into typed values."""

from torchsmith.catalog.axes import CudaVersion, DriverVersion, GpuTarget, PythonVersion, Sm
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
    Workload,
)
from torchsmith.catalog.load import Catalog, builtin_catalog, load_catalog

__all__ = [
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
    "Line",
    "LineBuild",
    "Pin",
    "Python",
    "PythonVersion",
    "Sm",
    "Workload",
    "builtin_catalog",
    "load_catalog",
]
