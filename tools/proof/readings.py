"""What the tools say: ptxas' targets, gcc's macros, archspec's and LLVM's CPU features; or why nothing."""

from __future__ import annotations

import re
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from torchsmith.catalog.axes import BadValue, CudaVersion, GpuTarget, Platform
from torchsmith.catalog.facts import CudaToolkit
from torchsmith.catalog.load import Catalog
from torchsmith.core.files import cache_dir
from torchsmith.core.problem import Failed, Invalid, NotKnown, Problem, did_you_mean
from torchsmith.core.process import find, run

# Macros that gcc changes with the flags without saying anything about instructions, and names for old
# instructions that gcc has since 13 and 14.
NOISE = re.compile(
    r"__(FP_FAST_|FLT_EVAL_METHOD|BIGGEST_ALIGNMENT|GCC_IEC_559|LONG_DOUBLE|SEG_"
    r"|EVEX(256|512)__|ARM_FEATURE_(BTI|PAUTH|RCPC)$)"
)


@dataclass(frozen=True, slots=True)
class Absent:
    """A reading that could not be had, and why."""

    why: str


@dataclass(frozen=True, slots=True)
class Ptxas:
    """What one toolkit's ptxas accepts, and the release it says it is."""

    release: CudaVersion
    targets: frozenset[GpuTarget]


LLCS = ("llc", *(f"llc-{release}" for release in range(14, 40)))  # as Debian names several
Macros = Callable[[Platform, tuple[str, ...]], "frozenset[str] | Absent"]
Llvm = Callable[[Platform, str], "frozenset[str] | Absent"]
LLVM_WHEEL = "ziglang==0.17.0"  # the compiler of zig is LLVM, and prints what a CPU has


@dataclass(frozen=True)
class Readings:
    """Everything the tools said. `macros` asks gcc for a platform and flags, and remembers."""

    ptxas: Mapping[CudaVersion, Ptxas | Absent]
    macros: Macros
    archspec: Mapping[str, frozenset[str]] | Absent
    llvm: Llvm = lambda platform, cpu: Absent("not asked for")
    llc: Mapping[int, frozenset[str]] | Absent = Absent("not asked for")  # AMD's targets by LLVM's release


def read_ptxas_help(text: str) -> frozenset[GpuTarget]:
    """The real targets in `ptxas --help`; virtual ones (compute_, lto_) are left out."""
    return frozenset(GpuTarget.parse(name) for name in re.findall(r"'sm_(\d+[af]?)'", text))


def read_ptxas(toolkit: CudaToolkit, *, download: bool) -> Ptxas | Absent:
    """Ask the ptxas of a toolkit's PyPI wheel, fetched once and kept."""
    if not toolkit.wheel:
        return Absent(f"no PyPI wheel is known for CUDA {toolkit.version}")
    program = wheel_program(toolkit.wheel, "bin/ptxas", download=download)
    if isinstance(program, Absent):
        return program
    answer, version = run([program, "--help"], timeout=60), run([program, "--version"], timeout=60)
    release = re.search(r"release (\d+\.\d+)", version.stdout)
    if not answer.ok or release is None:
        return Absent(f"{program} does not run here")
    return Ptxas(CudaVersion.parse(release[1]), read_ptxas_help(answer.stdout))


def wheel_program(requirement: str, member_end: str, *, download: bool) -> Path | Absent:
    """A program out of a wheel of PyPI, fetched once and kept."""
    name = member_end.rpartition("/")[2]
    program = cache_dir() / name / requirement.replace("==", "-") / name
    if program.exists():
        return program
    if not download:
        return Absent(f"{requirement} is not in the cache, and downloads are off")
    try:
        return _fetched(requirement, member_end, program)
    except Problem as problem:
        return Absent(problem.message)


def _fetched(requirement: str, member_end: str, program: Path) -> Path:
    name = program.name
    try:
        program.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Failed(f"cannot keep {name} in {program.parent}: {error.strerror}") from error
    with tempfile.TemporaryDirectory() as folder:
        wheel = download_wheel(requirement, Path(folder))
        with zipfile.ZipFile(wheel) as archive:
            members = [path for path in archive.namelist() if f"/{path}".endswith(f"/{member_end}")]
            if not members:
                raise Invalid(f"{wheel.name} holds no {name}")
            data = archive.read(members[0])
    draft = program.with_name(f"{name}.part")
    draft.write_bytes(data)
    draft.chmod(0o755)
    return draft.replace(program)


def download_wheel(requirement: str, folder: Path, *options: str) -> Path:
    """Fetch one wheel with pip, for this machine unless options of pip name another."""
    argv = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    done = run([*argv, *options, "--dest", folder, requirement], timeout=900)
    wheels = list(folder.glob("*.whl"))
    if not done.ok or not wheels:
        last = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise Failed(f"cannot fetch {requirement}: {last}")
    return wheels[0]


@cache
def gcc_macros(platform: Platform, flags: tuple[str, ...]) -> frozenset[str] | Absent:
    """The macros that flags add to gcc's baseline."""
    compiler = f"{platform}-gnu-gcc"
    if find(compiler) is None:
        package = f"gcc-{platform.replace('_', '-')}-gnu"
        return Absent(f"{compiler} is not installed (apt-get install {package})")
    if not flags:
        return _defined(compiler, ())
    base, flagged = gcc_macros(platform, ()), _defined(compiler, flags)
    if isinstance(base, Absent) or isinstance(flagged, Absent):
        return flagged if isinstance(flagged, Absent) else base
    return frozenset(name for name in flagged - base if not NOISE.match(name))


def _defined(compiler: str, flags: tuple[str, ...]) -> frozenset[str] | Absent:
    """Names that the preprocessor has; the flags must also carry a real compilation."""
    done = run([compiler, *flags, "-dM", "-E", "-xc", "-"], stdin="", timeout=60)
    built = run([compiler, *flags, "-O2", "-S", "-o", "-", "-xc", "-"], stdin="int x;", timeout=60)
    if not done.ok or not built.ok:
        error = (done.stderr or built.stderr).strip().splitlines()[:1]
        return Absent(f"{compiler} refuses {' '.join(flags)}: {' '.join(error)}")
    return frozenset(re.findall(r"^#define (\w+)", done.stdout, flags=re.MULTILINE))


@cache
def llvm_features(platform: Platform, cpu: str, *, download: bool) -> frozenset[str] | Absent:
    """The features of a CPU by its name in LLVM, as zig brings that."""
    program = wheel_program(LLVM_WHEEL, "ziglang/zig", download=download)
    if isinstance(program, Absent):
        return program
    # zig looks for its library before it answers, though it reads none of it.
    library = program.parent / "lib" / "std"
    library.mkdir(parents=True, exist_ok=True)
    (library / "std.zig").touch()
    argv = [str(program), "build-exe", "--show-builtin", "-target", platform, f"-mcpu={cpu}"]
    answer = run(argv, timeout=60)
    listed = re.search(r"featureSet\(&\.\{(.*?)\}\)", answer.stdout, re.DOTALL)
    if listed is None:
        unknown = "available CPUs" in answer.stderr
        return Absent("LLVM has no such CPU" if unknown else f"{program} does not run here")
    return frozenset(re.findall(r"\.@?\"?(\w+)", listed[1]))


def read_llc() -> Mapping[int, frozenset[str]] | Absent:
    """AMD's GPU targets as every LLVM of this machine lists them."""
    tables: dict[int, frozenset[str]] = {}
    for name in filter(find, LLCS):
        release = re.search(r"LLVM version (\d+)", run([name, "--version"], timeout=60).stdout)
        answer = run([name, "-mtriple=amdgcn", "-mcpu=help"], stdin="", timeout=60)
        targets = re.findall(r"^  (gfx\S+) +- Select", answer.stdout + answer.stderr, re.MULTILINE)
        if release and targets:
            tables[int(release[1])] = frozenset(targets)
    return tables or Absent("llc is not installed (apt-get install llvm)")


def read_archspec() -> Mapping[str, frozenset[str]] | Absent:
    """Features by archspec's names of microarchitectures."""
    try:
        import archspec.cpu
    except ImportError:
        return Absent("archspec is not installed (pip install archspec)")
    return {name: frozenset(target.features) for name, target in archspec.cpu.TARGETS.items()}


def chosen_toolkits(catalog: Catalog, versions: Sequence[str] | None) -> list[CudaToolkit]:
    """The toolkits of these versions; all of them if none is given."""
    if not versions:
        return list(catalog.cuda.values())
    chosen = []
    for version in versions:
        try:
            chosen.append(catalog.cuda[CudaVersion.parse(version)])
        except (BadValue, KeyError):
            hint = did_you_mean(version, map(str, catalog.cuda))
            raise NotKnown(f"unknown CUDA {version!r}", hint=hint) from None
    return chosen


def read_tools(
    toolkits: Iterable[CudaToolkit],
    *,
    download: bool,
    watch: Callable[[str], None] = lambda what: None,
) -> Readings:
    """Ask every tool; `watch` is called with the name of each."""
    ptxas: dict[CudaVersion, Ptxas | Absent] = {}
    for toolkit in toolkits:
        watch(f"ptxas of CUDA {toolkit.version}")
        ptxas[toolkit.version] = read_ptxas(toolkit, download=download)
    watch("gcc, archspec and LLVM")
    features = partial(llvm_features, download=download)
    return Readings(ptxas, gcc_macros, read_archspec(), features, read_llc())
