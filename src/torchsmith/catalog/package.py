"""What every fact carries, and what can be built: torch, what needs it, and what needs CUDA alone."""

# No `from __future__ import annotations`: the decoder would have to compile the text of every type.
from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

from torchsmith.catalog.axes import CudaVersion, Platform, PythonVersion, Sm
from torchsmith.catalog.ranges import in_range
from torchsmith.core.text import written_as

CPU = "cpu"  # no CUDA release
TORCH = "pytorch"  # the package that is torch itself
Folder = Annotated[
    str,
    written_as(
        r"[A-Za-z0-9_][A-Za-z0-9._-]*", "a folder's name: letters, digits, . _ and -, not . or - first"
    ),
]
GitHubName = Annotated[
    str, written_as(r"[A-Za-z0-9][A-Za-z0-9._-]*", "a name on GitHub: letters, digits, . _ and -")
]
GpuForm = Literal["9.0", "90", "90-real"]  # how sm90 is spelled; CMake adds PTX to a plain 90
ModuleName = Annotated[str, written_as(r"[A-Za-z_][A-Za-z0-9_]*", "a name of Python: letters, digits and _")]


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every entry names its `source`; `unproved` says what could not be checked, and is empty otherwise."""

    source: str
    unproved: str = ""


class Limit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Cells that cannot be built though their CUDA knows their GPU; an axis left out means all of it."""

    reason: str
    cuda: str = ""  # a version range such as ">=13"
    sms: tuple[Sm, ...] = ()
    platforms: tuple[Platform, ...] = ()

    def holds(self, cuda: CudaVersion, sm: Sm, platform: Platform) -> bool:
        """Whether a cell is one of those."""
        return (
            in_range(str(cuda), self.cuda)
            and sm in (self.sms or (sm,))
            and platform in (self.platforms or (platform,))
        )


class SourceRepository(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a package's releases are fetched from; `tag` has `{version}`."""

    owner: GitHubName
    repo: GitHubName
    tag: Annotated[
        str, written_as(r"[0-9A-Za-z._/-]*\{version\}[0-9A-Za-z._-]*", "a tag with {version} in it")
    ] = "v{version}"
    submodules: bool = False

    def tag_of(self, version: str) -> str:
        return self.tag.replace("{version}", version)


class GpuList(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a build gets its GPU: by its torch, a variable, a CMake flag, or an argument."""

    by: Literal["torch", "variable", "cmake", "argument"] = "torch"
    name: Annotated[str, written_as(r"([A-Za-z_][A-Za-z0-9_]*)?", "a name: letters, digits and _")] = ""
    form: GpuForm = "9.0"


class PackageLimit(Limit, frozen=True, kw_only=True):
    """Cells that a package cannot have, of some lines and Pythons or all of them; the CUDA release "cpu"
    means cells without CUDA alone."""

    lines: tuple[str, ...] = ()
    pythons: tuple[PythonVersion, ...] = ()

    def meets(
        self,
        line: str | None,
        python: PythonVersion,
        cuda: CudaVersion | None,
        sm: Sm | None,
        platform: Platform,
    ) -> bool:
        """Whether a cell is one of those; a line that is not known is any."""
        if line and self.lines and line not in self.lines:
            return False
        if self.pythons and python not in self.pythons:
            return False
        if cuda is None or sm is None:
            anywhere = self.cuda == CPU or not (self.cuda or self.sms)
            return anywhere and platform in (self.platforms or (platform,))
        return self.cuda != CPU and self.holds(cuda, sm, platform)


class Package(Entry, frozen=True, kw_only=True, eq=False):
    """A package: what it is called, where it comes from, what it needs and which cells it can have.

    Two entries of one name are one package, whichever catalog they come from.
    """

    name: str
    title: str
    attr: str  # in nixpkgs' Python package sets
    repo: Folder = ""  # the folder of its recipes; empty: build-NAME
    order: int = 1000  # among packages, in tables and lists
    default: bool = False  # part of a workspace that names no packages
    upstream: SourceRepository | None = None  # None: nixpkgs' own source, whatever its release
    needs: tuple[str, ...] = ()  # other packages of the matrix, torch among them
    needs_cuda: bool = False  # there is no build for the CPU alone
    lines: tuple[str, ...] = ()  # that can have it; empty: any that does not say otherwise
    versions: Mapping[str, str] = {}  # its release by line, if the lines do not say it
    hashes: Mapping[str, str] = {}  # of those releases' sources
    torch: Mapping[str, str] = {}  # the torch releases that each of its own asks for: "0.11.0" = "==2.8.0"
    torch_by: Literal["set", "argument"] = "set"  # whether what else it uses must see the cell's torch too
    core: str = ""  # its argument that is what it wraps, if that is what compiles
    cuda: str = ""  # a range of CUDA releases, such as ">=12.6,<13"
    sms: tuple[Sm, ...] = ()  # that it can compile for; empty: all
    min_sm: Sm | None = None
    max_sm: Sm | None = None
    limits: Mapping[str, PackageLimit] = {}  # cells that it cannot have, each with its reason
    gpu_list: GpuList | tuple[GpuList, ...] = ()  # empty: it compiles for torch.cudaCapabilities
    cpu_flags: bool = True  # it has C or C++ code of its own
    modules: tuple[ModuleName, ...] = ()  # its folders below site-packages, the one to import first
    libraries: tuple[str, ...] = ()  # beginnings of the names of its own shared libraries
    programs: tuple[str, ...] = ()  # that people run instead of importing it; nixpkgs wraps them
    namespaces: tuple[ModuleName, ...] = ()  # of its C++ code; none: all that is not a known library's
    chooses: bool = False  # its code asks the CPU at run time, so that it may hold more than its flags say
    trial: str = ""  # an operation of ours, or Python with its module, `torch` and `device` at hand

    def __str__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Package) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def is_torch(self) -> bool:
        return self.name == TORCH

    @property
    def needs_torch(self) -> bool:
        return TORCH in self.needs

    @property
    def gpu_lists(self) -> tuple[GpuList, ...]:
        """Every way in which its build gets its GPU, apart from its torch."""
        lists = (self.gpu_list,) if isinstance(self.gpu_list, GpuList) else self.gpu_list
        return tuple(gpu_list for gpu_list in lists if gpu_list.by != "torch")

    @property
    def folder(self) -> str:
        """The folder of its recipes in a workspace."""
        return self.repo or f"build-{self.name}"
