"""The typed facts: one frozen class per kind of entry, as the TOML files spell them."""

# No `from __future__ import annotations`: the decoder would have to compile the text of every type.
import re
from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

from torchsmith.catalog.axes import (
    BackendVersion,
    CudaVersion,
    DriverVersion,
    GpuTarget,
    Platform,
    PythonVersion,
    Sm,
)
from torchsmith.catalog.package import TORCH, Entry, Limit, Package
from torchsmith.catalog.ranges import version_key
from torchsmith.core.text import listed, written_as


class Gpu(Entry, frozen=True, kw_only=True):
    """A GPU architecture, the parts that have it and the machines they sit in."""

    sm: Sm
    generation: str
    title: str
    parts: tuple[str, ...]
    also_called: tuple[str, ...] = ()  # shorter names that people write for them
    vgpus: tuple[str, ...] = ()  # what virtual machines call them
    spelled: tuple[str, ...] = ()  # patterns of other spellings, small and without spaces: 2080ti
    chips: tuple[str, ...] = ()  # patterns of the chips that lspci names: GA102
    platforms: tuple[Platform, ...]
    min_driver: DriverVersion
    last_driver: DriverVersion | None = None  # the last series that knows it; None: the newest does
    tegra: bool = False
    cpus: tuple[str, ...] = ()  # an integrated GPU comes with one of these and no other
    superchips: Mapping[str, str] = {}  # parts that come with one CPU alone, and which
    torch_drops: bool = False  # nixpkgs' torch leaves it out of its list: gpuTargets must name it
    note: str = ""

    @property
    def name(self) -> str:
        return str(self.sm)


class RetiredGpu(Entry, frozen=True, kw_only=True):
    """GPUs of an architecture that no build here is for, and what ended their support."""

    sm: Sm
    generation: str
    parts: tuple[str, ...] = ()  # patterns of their names
    spelled: tuple[str, ...] = ()
    chips: tuple[str, ...] = ()
    ended: str
    min_driver: DriverVersion | None = None  # the first that knew it, if a wheel of PyTorch still runs
    last_driver: DriverVersion | None = None
    tegra: bool = False
    cpus: tuple[str, ...] = ()  # the only ones that they come with
    glibc: str = ""  # of the last system for them

    @property
    def name(self) -> str:
        return str(self.sm)

    @property
    def title(self) -> str:
        return self.generation


class Gfx(Entry, frozen=True, kw_only=True):
    """A target of AMD's GPUs, as LLVM names it, and the products that have it."""

    name: str
    title: str
    generation: str
    generic: str = ""  # the generic target whose code it runs as well
    parts: tuple[str, ...] = ()  # patterns of their names
    products: tuple[str, ...] = ()  # names, to complete and suggest
    chips: tuple[str, ...] = ()
    cpus: Mapping[str, str] = {}  # what it is called in CPUs, and patterns of those
    llvm: int = 14  # the first release of LLVM that has it; or an older one
    retired: str = ""  # what ended its support
    # A value of HSA_OVERRIDE_GFX_VERSION by which people run code of another target, and that target.
    override: tuple[str, str] | None = None


class IntelGpu(Entry, frozen=True, kw_only=True):
    """GPUs of Intel that wheels of PyTorch run on."""

    name: str
    title: str
    parts: tuple[str, ...]  # patterns of their names
    products: tuple[str, ...] = ()  # names, to complete and suggest


class Arch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An architecture of a backend whose architectures are not in a separate file."""

    name: str = ""
    title: str
    generation: str = ""


class GpuBackend(Entry, frozen=True, kw_only=True):
    """What code is compiled for besides the CPU: how names write it, and what nixpkgs needs to build it."""

    name: str
    title: str
    vendor: str = ""
    target: str  # as names write it: {release} with an underscore, {arch}
    arch: str = ""  # a pattern of its architectures
    example: str = ""  # one of them
    isa: str = ""  # the one instruction set that goes with it, which names leave out
    archs: Mapping[str, Arch] = {}  # if no file of the catalog has them, as gfx.toml has AMD's
    systems: tuple[Platform, ...] = ()  # empty: all
    config: Mapping[str, bool] = {}  # nixpkgs' settings that switch it on
    compiler: Literal["gcc", "clang"] = "gcc"  # of C and C++ code; gcc records its flags in recipes
    package_set: str = ""  # of nixpkgs, whose members named after an architecture are narrowed to it
    release_of: str = ""  # the member of that set whose version is the backend's release
    lists: tuple[str, ...] = ()  # variables and CMake flags by which builds in nixpkgs get architectures
    variable: str = ""  # by which builds of companions get the architecture
    packages: tuple[str, ...] | None = None  # that can have it; None: all
    refused: Mapping[str, str] = {}  # why others cannot
    driver: str = ""  # what a machine must have
    macos: str = ""  # or the oldest release of its system
    groups: tuple[str, ...] = ()  # that a user must be in
    drivers: Mapping[str, str] = {}  # the oldest release of the maker's own driver package for each release
    code: tuple[str, ...] = ()  # sections and files of a build that hold its code
    wide: tuple[str, ...] = ()  # derivations below torch that keep code for other architectures

    def word(self, release: str) -> str:
        """The first word of its targets: cuda13_0, rocm6_4, darwin."""
        return self.target.partition("-")[0].format(release=release.replace(".", "_"))

    def condition(self, release: str) -> str:
        """What must hold on a machine that runs code of a release."""
        groups = f" and you are in the groups {listed(self.groups)}" if self.groups else ""
        oldest = self.drivers.get(release)
        package = f", {oldest} or newer if it is {self.vendor}'s own package," if oldest else ""
        return f"the machine has {self.driver}{package}{groups}"


class Instance(Entry, frozen=True, kw_only=True):
    """A kind of machine with a name of one word, such as a cloud's machine type."""

    name: str
    pattern: str
    gpu: str
    cpu: str = ""  # by its name in cpus.toml; empty: not stated
    system: Platform | None = None  # if the CPU is not known


class SystemRelease(Entry, frozen=True, kw_only=True):
    """A release of an operating system: the C library that comes with it, or the release of macOS."""

    name: str
    pattern: str
    glibc: str = ""  # or the name of another C library
    macos: str = ""
    wheels: str = ""  # what wheels need there besides
    cuda: str = ""  # what must be true of it for builds with CUDA


class JetPack(Entry, frozen=True, kw_only=True):
    """A release of Linux for Tegra, by its first number, or the first two."""

    name: str
    jetpack: str  # the first that has it
    cuda: str = ""  # empty: the second number decides
    part: str = ""  # the one that it runs on; empty: there are several
    driver: str = ""
    kernel: str = ""  # Linux' release there


class Isa(Entry, frozen=True, kw_only=True):
    """A CPU instruction set: what to pass the compiler and what the CPU must have."""

    name: str
    title: str
    platform: Platform
    level: int  # higher asks more of the CPU, within a platform
    flags: tuple[str, ...]
    macros: tuple[str, ...]  # what gcc defines with these flags beyond its baseline
    features: frozenset[str]  # as /proc/cpuinfo spells them
    beyond_flags: frozenset[str] = frozenset()  # features asked of the CPU though the flags do not use them
    first_cpus: tuple[str, ...]
    torch_off: tuple[str, ...] = ()  # PyTorch parts that use instructions beyond this set
    avx2_kernels: str = ""  # what PyTorch's kernels for AVX2 are compiled with besides
    other_flags: tuple[tuple[str, ...], ...] = ()  # spellings that give the same macros
    words: tuple[str, ...] = ()  # how prose names it, besides its title
    usual: bool = False  # the one to assume on its platform if nothing states one
    note: str = ""

    @property
    def family(self) -> str:
        """avx512 of avx512bf16."""
        return re.sub(r"(?<=\d)\D.*", "", self.name)

    @property
    def needs(self) -> frozenset[str]:
        """All that a CPU must have."""
        return self.features | self.beyond_flags


class Feature(Entry, frozen=True, kw_only=True):
    """A CPU feature and the macro by which the compiler says that it may use it."""

    name: str
    platform: Platform
    macro: str
    llvm: str  # its name there
    flag: str = ""  # by which the compiler switches it on; empty: part of -march=
    implies: tuple[str, ...] = ()  # features that the compiler then switches on too


class Compiler(Entry, frozen=True, kw_only=True):
    """What gcc takes for -march= on a platform."""

    name: Platform
    march: tuple[str, ...]
    extensions: tuple[str, ...] = ()  # after a +, also with `no` before them


class Cpu(Entry, frozen=True, kw_only=True):
    """A CPU microarchitecture and the instruction sets of ours that it runs."""

    name: str
    title: str
    platform: Platform
    isas: tuple[str, ...]
    archspec: str = ""  # its name there; empty if archspec lacks it
    llvm: str = ""  # its name there, as zig spells it
    ids: tuple[str, ...] = ()  # vendor/family/model[/stepping] or implementer/part, with ranges such as 5-7
    also_called: tuple[str, ...] = ()  # names that people use for it
    products: tuple[str, ...] = ()  # patterns of product names, whatever their case
    examples: tuple[str, ...] = ()  # product names that lead to it
    system: str = ""  # of a machine of which the CPU alone is known; empty: the platform

    @property
    def mac(self) -> bool:
        return self.system.endswith("-darwin")


class CudaToolkit(Entry, frozen=True, kw_only=True):
    """A CUDA release: what it compiles for and which driver runs it."""

    version: CudaVersion
    targets: tuple[GpuTarget, ...]
    min_driver: DriverVersion
    native_driver: DriverVersion | None = None
    windows_min_driver: DriverVersion | None = None
    windows_driver: DriverVersion | None = None
    attr: str  # the package set's name in nixpkgs
    nvcc_flags: tuple[str, ...] = ()  # what recipes add to every call of nvcc
    wheel: str = ""  # the PyPI requirement whose ptxas proves the target list

    def compiles(self, sm: Sm) -> bool:
        return sm.number in [target.sm.number for target in self.targets]


class Python(Entry, frozen=True, kw_only=True):
    """A Python release and its package set in nixpkgs."""

    version: PythonVersion
    attr: str


class BackendOffer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a nixpkgs has of a backend."""

    release: str
    archs: tuple[str, ...]


class Pin(Entry, frozen=True, kw_only=True):
    """A nixpkgs revision and what recipes find there."""

    name: str
    rev: str
    sha256: str = ""
    torch: str = ""
    versions: Mapping[str, str] = {}  # of other packages there, by name
    default_cuda: CudaVersion | None = None
    cudas: tuple[CudaVersion, ...] = ()
    pythons: tuple[PythonVersion, ...] = ()
    default_python: PythonVersion | None = None  # what python3Packages is there
    aliases: tuple[str, ...] = ()  # old attributes of its Python packages that still work there
    min_sm: Sm | None = None  # what its cuDNN accepts
    # Where its torch has its variables: among its attributes, or in structured `env`; empty: not known.
    torch_shape: Literal["", "attributes", "structured"] = ""
    triton: str = ""  # the release of its Triton
    capabilities: Mapping[Platform, Mapping[str, tuple[str, ...]]] = {}  # by default, for each CUDA release
    missing: Mapping[Platform, tuple[str, ...]] = {}  # packages that it has, but not for a system
    limits: Mapping[str, Limit] = {}
    backends: Mapping[str, BackendOffer] = {}  # others than CUDA

    @property
    def probed(self) -> bool:
        """Whether it is known what it has; of a revision that was never probed only the name is."""
        return bool(self.cudas or self.pythons)


SOURCE = "torch-source"  # the fix that brings a torch which the pin has not
CLAIM = "stated by this workspace only; torchsmith eval proves a build"
LineStyle = Literal["pinned", "flox", "nightly"]


class LineBuild(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a line is built for one CUDA release, or for the CPU alone."""

    pin: str = ""
    style: LineStyle = "pinned"
    stability: str = ""  # what `flox build --stability` needs; empty: any
    cuda_set: str = ""  # the package set as recipes name it; empty: the toolkit's own attribute
    fixes: tuple[str, ...] = ()
    unproved: str = ""
    claimed: bool = False  # by a workspace alone, until an evaluation there proves a cell

    @property
    def lacks_pin(self) -> bool:
        """Known to exist, but not which nixpkgs builds it."""
        return self.style == "pinned" and not self.pin


class StatedRelease(msgspec.Struct, frozen=True):
    """A line as names state it: `28` in pytorch28, `023` in torchvision023."""

    line: str  # empty: no line here is called so
    digits: tuple[tuple[str, str], ...]  # by package

    def of(self, package: str) -> str:
        """The digits of a package; those of torch if its own release is not the line's."""
        digits = dict(self.digits)
        return digits.get(package, digits.get(TORCH, ""))


def build_name(toolkit: CudaVersion | BackendVersion | None) -> str:
    """What a build of a line is called: 13.0 of CUDA, `cpu` without a GPU, else such as `rocm 6.4`."""
    if isinstance(toolkit, BackendVersion):
        return f"{toolkit.backend} {toolkit}".strip()
    return str(toolkit or "cpu")


class Line(Entry, frozen=True, kw_only=True):
    """A torch release with its official companions, pins and fixes."""

    name: str
    prefix: str  # of torch's pname: pytorch210
    torch: str = ""  # empty: whatever its source has
    versions: Mapping[str, str] = {}  # of other packages, by name
    pythons: tuple[PythonVersion, ...]
    packages: tuple[str, ...] | None = None  # that it builds; None: all that may
    flavor: Literal["", "nightly"] = ""  # of the variants that it builds
    hashes: Mapping[str, str] = {}
    triton: str = ""  # the releases that its wheels ask for, as a range
    torch_digits: tuple[str, ...] = ()  # packages whose names state torch's release: an older line has theirs
    cuda: Mapping[str, LineBuild] = {}
    cpu: LineBuild | None = None
    backends: Mapping[str, Mapping[str, LineBuild]] = {}  # others than CUDA, each by release

    def build_for(self, toolkit: CudaVersion | BackendVersion | None) -> LineBuild | None:
        """How this line builds for a release of CUDA or of another backend (None: for the CPU alone), or None
        if it does not."""
        if isinstance(toolkit, BackendVersion):
            return self.backends.get(toolkit.backend, {}).get(str(toolkit))
        return self.cpu if toolkit is None else self.cuda.get(str(toolkit))

    @property
    def every_build(self) -> dict[str, LineBuild]:
        """How it is built, by `build_name`."""
        others = {
            build_name(BackendVersion(backend, release)): build
            for backend, releases in self.backends.items()
            for release, build in releases.items()
        }
        return ({"cpu": self.cpu} if self.cpu else {}) | dict(self.cuda) | others

    @property
    def cudas(self) -> list[str]:
        """The CUDA releases for which a nixpkgs is known, the oldest first."""
        return sorted((name for name, build in self.cuda.items() if not build.lacks_pin), key=version_key)

    def version_of(self, package: str) -> str:
        """The release of a package in this line; empty if it is whatever nixpkgs has."""
        return self.torch if package == TORCH else self.versions.get(package, "")

    def builds(self, package: Package) -> bool:
        """Whether a package is part of this line."""
        if self.packages is not None:
            return package.name in self.packages
        return not package.lines or self.name in package.lines

    @property
    def release(self) -> StatedRelease:
        """What names say of this line."""
        stated = {name: version for name, version in self.versions.items() if name not in self.torch_digits}
        digits = {name: "".join(version.split(".")[:2]) for name, version in stated.items() if version}
        own = self.prefix.removeprefix(TORCH)
        return StatedRelease(self.name, tuple(sorted((digits | {TORCH: own}).items())))


class Patch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A patch that a fix fetches."""

    name: str
    url: str
    hash: str

    @property
    def rev(self) -> str:
        """The commit that it is, if its address says so."""
        match = re.search(r"\b[0-9a-f]{40}\b", self.url)
        return match[0] if match else ""


class Fix(Entry, frozen=True, kw_only=True):
    """A named workaround, why it is needed and which versions it applies to."""

    name: str
    title: str
    why: str
    packages: tuple[str, ...] = ()  # that it is for; empty: all
    torch: str = ""  # version ranges such as ">=2.10"; empty: any
    cuda: str = ""
    pins: tuple[str, ...] = ()  # until 0.5; recipes ask the nixpkgs itself
    overlay: str = ""  # the package that its overlay changes, if it is one
    add: str = ""  # what a recipe adds
    refused: bool = False  # whether nixpkgs refuses to evaluate the package without it
    signs: tuple[str, ...] = ()  # patterns that a recipe's code has when it has the fix
    patches: Mapping[str, Patch] = {}

    def serves(self, package: Package) -> bool:
        """Whether a package's recipes hold it: what fixes torch is in every recipe that brings its torch."""
        if not self.packages:
            return True
        return package.name in self.packages or (package.needs_torch and TORCH in self.packages)


class CudaPackage(Entry, frozen=True, kw_only=True):
    """A package of build-cudatoolkit: its attribute in nixpkgs' CUDA package sets, and what it is."""

    name: str
    attr: str
    title: str
    about: str


ErrorClass = Literal[
    "compile", "memory", "disk", "network", "hash", "store", "builder", "timeout", "runtime", "evaluation"
]
Certainty = Literal["certain", "likely", "guess"]
Policy = Literal["retry", "retry-fewer-jobs", "stop"]


class KnownError(Entry, frozen=True, kw_only=True):
    """A failure that others have met: how to recognise it, its cause and its fix."""

    name: str
    title: str
    pattern: str = ""
    headers: Mapping[str, str] = {}  # that a compiler does not find, * for any text, and the package of each
    example: str = ""  # a line as the tool writes it
    kind: ErrorClass
    policy: Policy
    cause: str
    fix: str
    # Whose line it is, as a build may print anything that Nix says; "end": Nix's, if no other gives a reason.
    says: Literal["build", "nix", "end"] = "build"
    gpu: bool = False  # only builds for a GPU meet it
    sure: Certainty = "certain"
    gives_way_to: tuple[str, ...] = ()  # others: the first that an earlier line shows is the reason


class TorchRelease(Entry, frozen=True, kw_only=True):
    """What all wheels of a torch release need."""

    name: str
    pythons: tuple[PythonVersion, ...]
    glibc: str = "2.28"  # the oldest, on Linux
    macos: Mapping[str, tuple[PythonVersion, ...]] = {}  # the oldest, and the Pythons whose wheels need it
    needs: Mapping[str, tuple[str, ...]] = {}  # features of a CPU, by system

    def least_macos(self, python: PythonVersion | None) -> str:
        """The oldest macOS for a Python; for any, if it is not known which."""
        return next((least for least, own in self.macos.items() if python in own), max([*self.macos, ""]))


class WheelIndex(Entry, frozen=True, kw_only=True):
    """The wheels of PyTorch for one system in one index: what their code is for, and which releases exist."""

    name: str  # such as `cu130 x86_64-linux`
    address: str = ""  # of the index; empty: PyTorch's own
    publisher: str = "PyTorch"
    gpu: str = ""  # what it runs on besides CUDA and ROCm
    gpu_macos: Mapping[str, str] = {}  # the oldest on which releases use it, if they run on older ones
    intel: tuple[str, ...] = ()  # those of Intel, by their names in intel.toml
    cuda: CudaVersion | None = None
    sms: tuple[Sm, ...] = ()
    rocm: str = ""  # the release that it is for, with AMD's targets
    gfx: tuple[str, ...] = ()
    pythons: tuple[PythonVersion, ...] = ()  # if they are others than the release's
    releases: tuple[str, ...] = ()
    read: Mapping[str, tuple[int, int]] = {}  # on the Python index: MB as a download, and installed

    @property
    def kind(self) -> str:
        """What its code runs on, with the release."""
        return f"CUDA {self.cuda}" if self.cuda else f"ROCm {self.rocm}" if self.rocm else self.gpu or "CPU"

    @property
    def system(self) -> str:
        """As Nix writes it; Intel Macs and Windows have wheels too."""
        return self.name.partition(" ")[2]


class Wheel(msgspec.Struct, frozen=True, kw_only=True):
    """A wheel that PyTorch publishes."""

    index: WheelIndex
    release: TorchRelease

    @property
    def name(self) -> str:
        return f"{self.torch} {self.index.name}"

    @property
    def torch(self) -> str:
        return self.release.name

    @property
    def pythons(self) -> tuple[PythonVersion, ...]:
        return self.index.pythons or self.release.pythons

    @property
    def sizes_mb(self) -> tuple[int, int]:
        """As a download and installed; 0: not known."""
        return self.index.read.get(self.torch, (0, 0))

    @property
    def unproved(self) -> str:
        """That it rests on release notes; empty for a wheel of the Python index, which was read."""
        return "" if self.torch in self.index.read else self.index.unproved

    @property
    def install(self) -> str:
        """What follows `pip` or `uv pip`."""
        own = f"https://download.pytorch.org/whl/{self.index.name.partition(' ')[0]}"
        place = "" if self.torch in self.index.read else f" --index-url {self.index.address or own}"
        return f"install torch=={self.torch}{place}"


class Workload(Entry, frozen=True, kw_only=True):
    """What a machine is for, and which builds suit that best."""

    name: str
    title: str
    isas: tuple[str, ...]  # the best first
    why: str
    lower_isa_cost: int  # how much each step down that list counts against a build ...
    compatible_gpu_cost: int  # ... and GPU code that runs but was compiled for a sibling


class Action(Entry, frozen=True, kw_only=True):
    """An action of GitHub's at a commit, which cannot be moved as a tag can."""

    name: str
    repo: str
    version: str
    commit: Annotated[str, written_as("[0-9a-f]{40}", "40 digits of a commit, in lower case")]

    @property
    def uses(self) -> str:
        """As a workflow writes it."""
        return f"{self.repo}@{self.commit} # {self.version}"


class BinaryCache(Entry, frozen=True, kw_only=True):
    """A public binary cache of nixpkgs with CUDA."""

    name: str
    host: str


Figure = Literal["hours", "memory_gb", "build_gb", "store_gb"]


class Estimate(Entry, frozen=True, kw_only=True):
    """What a build costs before this workspace has measured it: a middle, not a bound."""

    name: str
    package: str
    gpu: bool
    hours: float  # on `cores` cores
    gpu_hours: float = 0.0  # besides, for each GPU that it compiles for
    gpu_share: float = 0.0  # of the hours: objects that every cell of one GPU has alike
    isa_share: float = 0.0  # objects that every cell of one instruction set has alike
    cores: int
    unit_gb: float  # memory of a compile unit: the mean of their peaks, weighted by their time
    largest_gb: float  # of the largest unit
    build_gb: float  # disk while it builds
    store_gb: float  # what stays, without the dependencies it shares with other variants
    steps: int = 0  # of the compiler's own count; 0: not known
    pnames: str = ""  # a pattern of the derivations' pnames; empty: they are known by their recipe alone
    variable: str = ""  # that only these derivations set
    measured: tuple[Figure, ...] = ()  # the figures that `source` measured; every other one is a guess

    def memory_gb(self, compilers: int) -> float:
        """The memory of a build with so many compilers at once: the largest unit beside usual ones."""
        return self.largest_gb + (compilers - 1) * self.unit_gb

    def compilers_within(self, memory_gb: float) -> int:
        """How many compilers fit into so much memory, one at least."""
        return 1 + max(0, int((memory_gb - self.largest_gb) / self.unit_gb))


class SampledObject(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An object that a rehearsal compiles, by its name, and what it represents."""

    what: str
    pattern: str
    each: bool = False  # all that fit, and not the first alone


class Rehearsal(Entry, frozen=True, kw_only=True):
    """How a package is rehearsed: what configures it, and which of its objects are compiled."""

    name: str
    configure: str
    tree: str  # the folder of build.ninja
    objects: tuple[SampledObject, ...]
    draw: int = 3  # objects of each kind to reckon with
    dispatched: str = ""  # names of objects that are one form of several
