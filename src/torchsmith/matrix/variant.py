"""One buildable cell, as a value that prints itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from torchsmith.catalog.axes import CudaVersion, PythonVersion, Sm


class Package(StrEnum):
    """What is built: torch itself, or one of its companions."""

    PYTORCH = "pytorch"
    TORCHVISION = "torchvision"
    TORCHAUDIO = "torchaudio"

    @property
    def attr(self) -> str:
        """Its attribute in nixpkgs' Python package sets."""
        return "torch" if self is Package.PYTORCH else self.value

    @property
    def label(self) -> str:
        return {"pytorch": "PyTorch", "torchvision": "TorchVision", "torchaudio": "TorchAudio"}[self.value]

    @property
    def repo(self) -> str:
        """The folder of its recipes in a workspace."""
        return f"build-{self.value}"

    @property
    def companion(self) -> bool:
        return self is not Package.PYTORCH


class Flavor(StrEnum):
    """How it is built: a release, a nightly from source, or a wrapper that brings the nightly its CUDA."""

    RELEASE = ""
    NIGHTLY = "nightly"
    NIGHTLY_WRAPPER = "nightly-wrapper"


@dataclass(frozen=True, slots=True, order=True)
class Cuda:
    """A GPU build: a CUDA release and the architecture it compiles for."""

    version: CudaVersion
    sm: Sm

    def __str__(self) -> str:
        return f"cuda{self.version.slug}-{self.sm}"


@dataclass(frozen=True, slots=True, order=True)
class CpuOnly:
    """A build without GPU code."""

    def __str__(self) -> str:
        return "cpu"


Target = Cuda | CpuOnly


@dataclass(frozen=True, slots=True)
class Variant:
    """A package for one Python, one target and one CPU instruction set."""

    package: Package
    python: PythonVersion
    target: Target
    isa: str
    flavor: Flavor = Flavor.RELEASE

    def __str__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        """The package's name, which is its file's name too: pytorch-python313-cuda13_0-sm120-avx512."""
        return f"{self.package}-{self.cell}"

    @property
    def cell(self) -> str:
        """The name without the package: what a torch and its companions have in common."""
        tail = f"-{self.flavor}" if self.flavor else ""
        return f"{self.python.slug}-{self.target}-{self.isa}{tail}"

    @property
    def cuda(self) -> CudaVersion | None:
        return self.target.version if isinstance(self.target, Cuda) else None

    @property
    def sm(self) -> Sm | None:
        return self.target.sm if isinstance(self.target, Cuda) else None

    @property
    def sort_key(self) -> tuple[object, ...]:
        """Packages in their own order, then Python, CPU-only before CUDA, SM by number, ISA by name."""
        cuda, sm = self.cuda, self.sm
        return (
            list(Package).index(self.package),
            self.python,
            (cuda.major, cuda.minor) if cuda else (0, 0),
            sm.number if sm else 0,
            self.isa,
            self.flavor,
        )

    def of(self, package: Package) -> Variant:
        """The same cell of another package."""
        return replace(self, package=package)

    @classmethod
    def parse(cls, name: str) -> Variant:
        """The variant of a name; BadName says what is wrong, and where."""
        from torchsmith.matrix.names import read_name

        return read_name(name).variant
