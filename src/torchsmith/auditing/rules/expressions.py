"""Packages and nixpkgs in expressions without a variant name: overlays, flakes, modules and shells. What no
name tells is not known, and nothing is said about it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from torchsmith.auditing.rule import CERTAIN, GUESS, LIKELY, NOTE, WARNING, Defect, rule
from torchsmith.core.problem import nearest
from torchsmith.recipe.read import ChangedPackage, PackageSet
from torchsmith.recipe.read.expressions import CONFIG, cuda_set
from torchsmith.workspace.subject import Subject

CUDA_NAME = re.compile(r"(?<![\w-])cudaPackages(_\d+(?:_\d+)?)(?![\w-])")
OF_CUDA = ("mpi", "nccl", "cudnn", "ucx", "triton", "cutensor")
MAGMA = ("magma", "effectiveMagma", "magma-cuda", "magma-cuda-static")


@rule("TS310", "CUDA set for torch only", WARNING, sure=LIKELY, over="expression")
def cuda_is_that_of_the_libraries(subject: Subject, package_set: PackageSet) -> Iterator[Defect]:
    """torch is marked broken if its MAGMA or MPI is of another CUDA release. An override that sets CUDA for
    torch only leaves MAGMA, NCCL and everything built on torch at the default of the package set; an overlay
    of `cudaPackages` moves all of them. An `nccl` or `mpi` of another CUDA set than torch's is the same
    mistake."""
    for change in package_set.of("torch", "torch-bin"):
        yield from _other_libraries(change)
    pin = subject.imported_pin
    for change in package_set.of("torch"):
        cuda = change.cuda if change.kind == "override" else None
        if cuda is None or any(name in change.texts for name in MAGMA) or "magma" in package_set.bound:
            continue
        moved = [located.value for located in package_set.cudas]
        default = pin.default_cuda if pin else None
        if cuda in moved or None in moved or (default and cuda.has(default)):
            continue
        rest = f"CUDA {moved[0]}" if moved else f"the pin's {default}" if default else "the default CUDA"
        message = f"only torch gets CUDA {cuda}: MAGMA stays at {rest}, and torch is marked broken"
        hint = f"an overlay: cudaPackages = final.cudaPackages_{str(cuda).replace('.', '_')};"
        at = change.arguments.get("cudaPackages")
        sure = CERTAIN if moved or default else None
        yield Defect(message, at.span if at else change.span, hint=hint, sure=sure)


def _other_libraries(change: ChangedPackage) -> Iterator[Defect]:
    """Libraries that torch is given of another CUDA set than its own."""
    for name in (*MAGMA, *OF_CUDA):
        text = change.texts.get(name, "")
        sets = [cuda_set(f"cudaPackages{version}") for version in CUDA_NAME.findall(text)]
        for cuda in sets:
            if cuda and change.cuda and cuda != change.cuda:
                at = change.arguments[name].span
                yield Defect(f"torch gets CUDA {change.cuda}, but {name} is of CUDA {cuda}", at, sure=CERTAIN)


@rule("TS311", "CUDA that the pin's torch refuses", WARNING, over="expression")
def torch_accepts_the_cuda(subject: Subject, package_set: PackageSet) -> Iterator[Defect]:
    """nixpkgs' torch lists the CUDA majors that it was tried with (`brokenConditions`). With another one it
    is marked broken, and does not evaluate unless the recipe says otherwise."""
    pin = subject.imported_pin
    fix = subject.catalog.fixes.get("not-broken")
    refused = {
        str(cuda).partition(".")[0]
        for line in subject.catalog.lines.values()
        for cuda, build in line.cuda.items()
        if pin and fix and build.pin == pin.name and fix.name in build.fixes
    }
    for cuda in package_set.cudas if "torch" in subject.body.syntax.identifiers else ():
        broken = cuda.value is not None and str(cuda.value.major) in refused
        if broken and fix and not re.search(fix.signs[0], subject.code):
            message = (
                f"the torch of nixpkgs {pin.name if pin else ''} is marked broken with CUDA {cuda.value}"
            )
            yield Defect(
                message, cuda.span, hint="config.allowBroken = true;, or meta.broken = false of torch"
            )


@rule("TS707", "companion of another torch", WARNING, over="expression")
def companions_have_the_same_torch(subject: Subject, package_set: PackageSet) -> Iterator[Defect]:
    """All packages of one Python share one torch. A companion that gets the torch from before an override,
    another CUDA than its torch, or stands beside `torch-bin` without being a `-bin` itself brings a second
    torch: two versions collide in an environment, or two CUDA runtimes meet in a process."""
    torchs = package_set.of("torch")
    names = {package.attr for package in subject.catalog.packages.values() if package.needs_torch}
    for change in package_set.of(*names):
        torch_argument = change.arguments.get("torch")
        text = change.texts.get("torch", "")
        before = [torch for torch in torchs if torch.root and text == f"{torch.root}.torch"]
        if torch_argument is not None and before and "torch" in package_set.bound:
            yield Defect(
                f"{change.package} gets {text}, the torch from before its override", torch_argument.span
            )
        other = next(
            (torch.cuda for torch in torchs if torch.cuda and change.cuda and torch.cuda != change.cuda), None
        )
        if other:
            cuda_argument = change.arguments["cudaPackages"]
            yield Defect(
                f"{change.package} gets CUDA {change.cuda}, its torch CUDA {other}", cuda_argument.span
            )


@rule("TS708", "torch twice in one environment", WARNING, sure=LIKELY, over="expression")
def one_torch_an_environment(subject: Subject) -> Iterator[Defect]:
    """`torchvision` brings `torch`, `torchvision-bin` brings `torch-bin`: an environment with both has two
    torches, whose files collide."""
    if any("torch" in package_set.bound for package_set in subject.package_sets):
        return  # an overlay may have made them one
    names = [package.attr for package in subject.catalog.packages.values() if package.needs_torch]
    for listed, span in subject.body.lists:
        built = [name for name in names if name in listed]
        binary = [f"{name}-bin" for name in names if f"{name}-bin" in listed]
        if "torch-bin" in listed and built:
            yield Defect(f"torch-bin beside {built[0]}, which brings another torch", span)
        elif "torch" in listed and binary and "torch-bin" not in listed:
            yield Defect(f"torch beside {binary[0]}, which brings torch-bin", span)


@rule("TS212", "nixpkgs that is not locked", WARNING, over="expression")
def nixpkgs_is_locked(subject: Subject) -> Iterator[Defect]:
    """`<nixpkgs>`, the tarball of a branch, or a flake without flake.lock is whatever it is on the day of
    the build: another torch, another CUDA, hours of compiling. As the default of an argument it is a note,
    because a caller may pass another."""
    for span, default in subject.body.search_paths("nixpkgs"):
        severity = NOTE if default else None
        yield Defect("imports <nixpkgs>, which differs from machine to machine", span, severity=severity)
    for pin in subject.body.pins:
        if pin.rev is None and re.search(r"nixpkgs/(?:archive|tarball)/|channels\.nixos", pin.url.value):
            yield Defect("the tarball's address names no revision", pin.url.span)
    path = subject.recipe.path
    if path.name == "flake.nix" and path.is_file() and not (path.parent / "flake.lock").is_file():
        template = "template" in path.absolute().as_posix()
        sure = GUESS if template else LIKELY
        yield Defect("the flake has no flake.lock", hint="nix flake lock", sure=sure)


SOURCE = re.compile(
    r"import\s+\(?(?:inputs\.|sources\.)?([A-Za-z_][\w-]*)\)?\s*\{|^([\w.-]+)\.legacyPackages\b"
)
SHARED = ("torch", "cudaPackages", *MAGMA, "mpi", "nccl", "triton")


@rule("TS213", "packages of two nixpkgs in one", WARNING, sure=LIKELY, over="expression")
def packages_are_of_one_nixpkgs(subject: Subject, package_set: PackageSet) -> Iterator[Defect]:
    """Two nixpkgs have two C libraries and two CUDAs. A package of one that gets torch, CUDA or MAGMA of the
    other loads both in one process."""
    for change in package_set.changes:
        own = _source(subject, change.root)
        for name in SHARED:
            other = _source(subject, change.texts.get(name, ""))
            if own and other and own != other:
                message = f"{change.package} comes from {own}, but gets {name} of {other}"
                yield Defect(message, change.arguments[name].span)


def _source(subject: Subject, text: str) -> str:
    """The nixpkgs that a package is taken from, by the variable that it begins with."""
    name = text.split(".")[0]
    texts = subject.body.bound_texts(name) if re.fullmatch(r"[\w'-]+", name) else []
    sources = [SOURCE.search(source) for source in texts]
    return sources[0][1] or sources[0][2] if len(sources) == 1 and sources[0] else ""


X86 = re.compile(
    r"-m(?:avx|sse|fma|f16c|bmi|aes|arch=(?:x86|haswell|broadwell|skylake|icelake|sapphire|znver))"
)
NO_FLAG = re.compile(r"-m(?:no-)?(?:avx512|avx512_\w+|avx_\w+|sse4_\d)")  # as /proc/cpuinfo spells them
ARM = re.compile(r"-m(?:arch=armv|cpu=(?:neoverse|cortex|apple))")


@rule("TS507", "flags of another machine", over="expression")
def flags_are_the_systems(subject: Subject, package_set: PackageSet) -> Iterator[Defect]:
    """AVX is no flag of an ARM compiler, and armv9 none of an x86 one: it stops at the first file. `-mavx512`
    is a flag of no compiler: each part of AVX-512 has its own, such as `-mavx512f`."""
    for flag in (flag for listed in package_set.flags for flag in listed.flags):
        if NO_FLAG.fullmatch(flag.value):
            yield Defect(
                f"{flag.value} is not a flag of any compiler",
                flag.span,
                hint="use the compiler's name, such as -mavx512f",
            )
    system = package_set.system
    if system is None:
        return
    foreign = X86 if system.value.startswith("aarch64") else ARM
    for listed in package_set.flags:
        wrong = [flag.value for flag in listed.flags if foreign.match(flag.value)]
        if wrong:
            yield Defect(f"{wrong[0]} is not a flag of {system.value}", listed.span)


# What torch's derivation cannot do without, and what is lost with it.
NEEDED = {
    "passthru": "cudaSupport and cudaPackages, which companions ask torch for",
    "buildInputs": "the libraries that torch links",
    "nativeBuildInputs": "the tools that build it",
    "propagatedBuildInputs": "the packages that torch imports",
    "dependencies": "the packages that torch imports",
    "preConfigure": "TORCH_CUDA_ARCH_LIST and the paths of CUDA",
    "postPatch": "what makes its sources build in Nix",
}
PERHAPS = {"env": "variables that newer nixpkgs keep there", "patches": "nixpkgs' patches"}


@rule("TS810", "attribute of torch that is replaced", over="expression")
def attributes_are_extended(subject: Subject, package_set: PackageSet) -> Iterator[Defect]:
    """`overrideAttrs (old: { passthru = { ... }; })` drops what nixpkgs' torch had there; `old.passthru // {
    ... }` and `old.buildInputs ++ [ ... ]` keep it. A torch with a source of its own may mean to."""
    for change in package_set.of("torch"):
        replaced = {} if change.kind == "override" or "src" in change.texts else change.texts
        for name, text in replaced.items():
            lost = NEEDED.get(name) or PERHAPS.get(name)
            if lost and text != "[ ]" and not _mentions(text, change):
                message = f"{name} of torch is replaced: {lost} are lost"
                sure = None if name in NEEDED else LIKELY
                yield Defect(message, change.arguments[name].span, hint=f"extend old.{name}", sure=sure)


def _mentions(text: str, change: ChangedPackage) -> bool:
    """Whether an expression is made of what was there before."""
    match = re.search(rf"(?<![\w.-]){re.escape(change.old)}(?![\w-])", text) if change.old else None
    return match is not None or (bool(change.root) and f"{change.root}.{change.package}" in text)


MISTAKEN = {
    "cudaCapability": "cudaCapabilities",
    "cudaArchs": "cudaCapabilities",
    "cudaArchList": "cudaCapabilities",
    "gpuTargets": "cudaCapabilities",
    "cudaEnableForwardCompat": "cudaForwardCompat",
    "enableCuda": "cudaSupport",
    "enableCudaSupport": "cudaSupport",
    "cudnnSupport": "cudaSupport",
    "enableRocm": "rocmSupport",
}


@rule("TS811", "setting that nixpkgs does not have", WARNING, sure=LIKELY, over="expression")
def settings_exist(subject: Subject, package_set: PackageSet) -> Iterator[Defect]:
    """nixpkgs accepts any name in `config` but reads only `cudaSupport`, `cudaCapabilities`,
    `cudaForwardCompat` and `rocmSupport`. Another spelling has no effect, without an error."""
    for name, setting in package_set.config.items():
        near = "" if name in CONFIG else nearest(name, CONFIG) if re.match(r"(?i)cuda|rocm", name) else ""
        right = MISTAKEN.get(name, near)
        if right and name not in CONFIG:
            yield Defect(f"config.{name} does nothing", setting.span, hint=f"config.{right}", about=name)


@rule("TS110", "package in the folder of another", WARNING, sure=LIKELY, over="expression")
def folder_is_the_packages(subject: Subject) -> Iterator[Defect]:
    """A package function lies in a folder, or a file, of its own name: `pkgs/torchvision/default.nix` builds
    torchvision. A copy that kept its pname is found under two names."""
    known = {
        word: package
        for package in subject.catalog.packages.values()
        for word in (package.attr, package.name)
    }
    here = known.get(Path(subject.name).name)
    for binding in subject.bound("pname"):
        built = known.get(str(binding.value))
        if here and built and here != built and binding.owner == "":
            yield Defect(f"{subject.name} builds {binding.value}", binding.span)
