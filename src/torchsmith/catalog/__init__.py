"""Facts about GPUs, CPUs, CUDA, Python and PyTorch releases: data with sources, loaded into typed values."""

from torchsmith.catalog.axes import CudaVersion, DriverVersion, GpuTarget, PythonVersion, Sm
from torchsmith.catalog.facts import (
    Cpu,
    CudaPackage,
    CudaToolkit,
    Estimate,
    Gpu,
    Isa,
    KnownError,
    Line,
    LineBuild,
    Pin,
    StatedRelease,
    Workload,
)
from torchsmith.catalog.layered import load_catalog
from torchsmith.catalog.load import Catalog, builtin_catalog
from torchsmith.catalog.package import TORCH, Limit, Package
