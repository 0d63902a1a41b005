"""Whether a catalog is consistent: every name that an entry refers to exists and applies."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from torchsmith.catalog.axes import BadValue, CudaVersion
from torchsmith.catalog.facts import SOURCE, Gpu, Line, LineBuild, Pin
from torchsmith.catalog.load import Catalog
from torchsmith.catalog.package import CPU, TORCH, Package
from torchsmith.catalog.ranges import in_range
from torchsmith.core.problem import Invalid, Problem, did_you_mean

ATTRIBUTE = re.compile(r"[A-Za-z_][A-Za-z0-9_'-]*(\.[A-Za-z_][A-Za-z0-9_'-]*)*")
PACKAGE_NAME = re.compile(r"[a-z][a-z0-9_]*(-[a-z0-9_]+)*")
# Fields whose values are names of entries: the file, the field, the file of those entries, and what they are.
REFERENCES = (
    ("cpus", "isas", "isas", "instruction set"),
    ("errors", "gives_way_to", "errors", "error"),
    ("gpus", "cpus", "cpus", "CPU"),
    ("gpus", "superchips", "cpus", "CPU"),
    ("instances", "cpu", "cpus", "CPU"),
    ("isas", "features", "features", "feature"),
    ("features", "implies", "features", "feature"),
    ("lines", "packages", "packages", "package"),
    ("lines", "pythons", "pythons", "Python"),
    ("pins", "cudas", "cuda", "CUDA"),
    ("pins", "pythons", "pythons", "Python"),
    ("wheels", "gfx", "gfx", "target"),
    ("wheels", "intel", "intel", "GPU"),
    ("wheels", "gpu_macos", "wheel_releases", "release"),
    ("wheels", "read", "wheel_releases", "release"),
    ("wheels", "releases", "wheel_releases", "release"),
    ("workloads", "isas", "isas", "instruction set"),
)
BY_NAME = ("gpu_macos", "read")  # tables whose keys are the names
# Fields whose values are patterns.
PATTERNS = (
    ("cpus", "products"),
    ("errors", "pattern"),
    ("gfx", "chips"),
    ("gfx", "cpus"),
    ("gfx", "parts"),
    ("intel", "parts"),
    ("gpus", "chips"),
    ("gpus", "spelled"),
    ("instances", "pattern"),
    ("retired", "chips"),
    ("retired", "parts"),
    ("retired", "spelled"),
    ("systems", "pattern"),
)


@dataclass(frozen=True, slots=True)
class Fault:
    """A fact that contradicts another: the value that does, what is wrong, what to do."""

    file: str
    path: tuple[str | int, ...]
    text: str
    hint: str = ""


class Contradiction(Problem):
    """Facts of a catalog that contradict others; `faults` lists each with its place."""

    def __init__(self, faults: Sequence[Problem]) -> None:
        first, *others = faults
        text = "".join(f"\n  {other.where}: {other.message}" for other in others)
        super().__init__(
            f"the catalog contradicts itself: {first.message}{text}", hint=first.hint, where=first.where
        )
        self.faults = tuple(faults)


def check(catalog: Catalog) -> None:
    """Raise a Problem with its place: a package's fault, or facts that contradict others."""
    for fault in package_faults(catalog):
        raise _invalid(fault, catalog)
    faults = [_invalid(fault, catalog) for fault in faults_of(catalog)]
    if faults:
        raise Contradiction(faults)


def _invalid(fault: Fault, catalog: Catalog) -> Invalid:
    return Invalid(fault.text, hint=fault.hint, where=catalog.place(fault.file, fault.path))


def faults_of(catalog: Catalog) -> Iterator[Fault]:
    """Every broken reference and every fact that contradicts another."""
    for file, field, known, what in REFERENCES:
        for name, values in _values(catalog, file, field):
            text = f"{name} names an unknown {what}"
            yield from _unknown(file, (name, field), text, values, getattr(catalog, known))
    for file, field in PATTERNS:
        stated = catalog.stated(file)  # to compile the built-in ones too takes 50 ms
        for name, values in _values(catalog, file, field):
            for value in values if name in stated else ():
                try:
                    re.compile(str(value))
                except re.error as fault:
                    yield Fault(file, (name, field), f"{name}: {value!r} is not a pattern: {fault}")
    yield from _hardware_faults(catalog)
    yield from _attr_faults(catalog)
    for pin in catalog.pins.values():
        if not re.fullmatch(r"[0-9a-f]{40}", pin.rev):
            yield Fault("pins", (pin.name, "rev"), f"{pin.name} has no full revision")
        elif re.fullmatch(r"[0-9a-f]{7,}", pin.name) and not pin.rev.startswith(pin.name):
            yield Fault("pins", (pin.name, "rev"), f"{pin.name} is called by another revision")
        yield from _pin_faults(pin, catalog)
    for line in catalog.lines.values():
        yield from _line_faults(line, catalog)
    for error in catalog.errors.values():
        if not error.pattern and not error.headers:
            yield Fault("errors", (error.name,), f"{error.name} has neither a pattern nor headers")
        if error.policy == "retry" and error.sure != "certain":
            text = f'{error.name} is retried, but its certainty is not "certain"'
            yield Fault("errors", (error.name, "policy"), text)


def _values(catalog: Catalog, file: str, field: str) -> Iterator[tuple[str, list[object]]]:
    """A field of each entry of a file, as a list."""
    for key, entry in getattr(catalog, file).items():
        value = getattr(entry, field)
        if isinstance(value, Mapping) and field not in BY_NAME:
            value = value.values()
        yield str(key), [one for one in ((value,) if isinstance(value, str) else value or ()) if one != ""]


def _attr_faults(catalog: Catalog) -> Iterator[Fault]:
    """A package set's name in nixpkgs is one word, and its digits are those of the release."""
    for toolkit in catalog.cuda.values():
        version = str(toolkit.version)
        if not _is_set_of(toolkit.version, toolkit.attr):
            hint = f'such as "cudaPackages_{toolkit.version.slug}"'
            text = f"{toolkit.attr!r} is not a package set of CUDA {version}"
            yield Fault("cuda", (version, "attr"), text, hint)
    for python in catalog.pythons.values():
        if python.attr != f"{python.version.slug}Packages":
            text = f"{python.attr!r} is not the package set of Python {python.version}"
            hint = f'"{python.version.slug}Packages"'
            yield Fault("pythons", (str(python.version), "attr"), text, hint)


def _is_set_of(cuda: CudaVersion, attr: str) -> bool:
    return re.fullmatch(rf"cudaPackages(_{cuda.major}(_{cuda.minor})?)?", attr) is not None


def _hardware_faults(catalog: Catalog) -> Iterator[Fault]:
    for cpu in catalog.cpus.values():
        for isa in (catalog.isas[name] for name in cpu.isas if name in catalog.isas):
            if isa.platform != cpu.platform:
                text = f"{cpu.name} is {cpu.platform}, but {isa.name} is {isa.platform}"
                yield Fault("cpus", (cpu.name, "isas"), text)
    for isa in catalog.isas.values():
        if not re.fullmatch(r"[a-z][a-z0-9_]*", isa.name):
            yield Fault("isas", (isa.name,), f"{isa.name!r} cannot be part of a file name")
    listed: dict[str, Gpu] = {}
    for gpu in catalog.gpus.values():
        for field, parts in (("parts", gpu.parts), ("vgpus", gpu.vgpus)):
            for part in parts:
                other = listed.setdefault(part.lower(), gpu)
                if other is not gpu:
                    text = f"{part} is listed for {other.name} and for {gpu.name}"
                    yield Fault("gpus", (gpu.name, field), text, "a part has one architecture")
    for instance in catalog.instances.values():
        if not instance.cpu and instance.system is None:
            text = f"{instance.name} says neither its CPU nor its system"
            yield Fault("instances", (instance.name,), text, 'system = "x86_64-linux"')


def _unknown(
    file: str, at: tuple[str | int, ...], what: str, names: Iterable[object], known: Collection[object]
) -> Iterator[Fault]:
    """Names that refer to nothing."""
    for name in names:
        if name not in known:
            yield Fault(file, at, f"{what} {name}", did_you_mean(str(name), map(str, known)))


def package_faults(catalog: Catalog) -> Iterator[Fault]:
    """Whatever is wrong with the packages."""
    try:
        TopologicalSorter({package.name: package.needs for package in catalog.packages.values()}).prepare()
    except CycleError as fault:
        circle = list(reversed(fault.args[1]))
        message = f"packages need each other in a circle: {' -> '.join(circle)}"
        stated = catalog.stated("packages")
        own = next((name for name in circle if name in stated), circle[0])
        hint = "a package is built before what needs it: take one need out"
        yield Fault("packages", (own, "needs"), message, hint)
    for package in reversed(catalog.packages.values()):  # a workspace's own come last: the fault is theirs
        for field, message, hint in _package_faults(package, catalog):
            yield Fault("packages", (package.name, *field), message, hint)


PackageFault = tuple[tuple[str | int, ...], str, str]  # the value, what is wrong, what to do


def _mistaken_identity(package: Package, catalog: Catalog) -> Iterator[PackageFault]:
    """Names of a package that cannot be, or that are another's."""
    name = package.name
    if not PACKAGE_NAME.fullmatch(name) or "-python" in name:
        yield (
            (),
            f"{name!r} cannot be a package's name",
            "lower-case letters and digits, such as flash-attn",
        )
    if not ATTRIBUTE.fullmatch(package.attr):
        hint = "as nixpkgs' Python packages spell it: torchvision, flash-attn"
        yield ("attr",), f"{name}: {package.attr!r} is not an attribute of Nix", hint
    same = next((other.name for other in catalog.packages.values() if other.attr == package.attr), name)
    if same != name:
        yield ("attr",), f"{name} and {same} are one package of nixpkgs, {package.attr}", "keep one of them"
    for index, module in enumerate(package.modules):
        owner = next(package.name for package in catalog.packages.values() if module in package.modules)
        if owner != name:
            hint = "verify could not distinguish them: keep one of them"
            yield ("modules", index), f"{name} and {owner} both install {module}", hint
    for other in catalog.packages:
        if other != name and other.replace("-", "_") == name.replace("-", "_"):
            yield (), f"{name} and {other} are one name for Flox", "rename one of them"
        if other != name and re.fullmatch(rf"{re.escape(other)}\d{{2,4}}", name):
            yield (), f"{name} reads as a release of {other}", "rename it"


def _package_faults(package: Package, catalog: Catalog) -> Iterator[PackageFault]:
    """Faults of one package."""
    name = package.name
    yield from _mistaken_identity(package, catalog)
    for index, need in enumerate(package.needs):
        if need not in catalog.packages:
            hint = did_you_mean(need, catalog.packages)
            yield ("needs", index), f"{name} needs an unknown package {need}", hint
    tables = {"lines": package.lines, "versions": package.versions, "hashes": package.hashes}
    for field, line in ((field, line) for field, lines in tables.items() for line in lines):
        if line not in catalog.lines:
            hint = did_you_mean(line, catalog.lines)
            yield (field,), f"{name} names an unknown line {line!r}", hint
    for way in package.gpu_lists:
        if not way.name:
            yield ("gpu_list",), f"{name}: a GPU list by {way.by} needs its name", 'name = "..."'
    if package.core and (package.needs_torch or any(way.by == "argument" for way in package.gpu_lists)):
        hint = "core is for what compiles without torch, and gets its GPU by a variable or by CMake"
        yield ("core",), f"{name}: no recipe can override {package.core} inside it", hint
    if package.needs_torch and package.torch_by == "set" and "." in package.attr:
        yield (
            ("attr",),
            f"{name}: {package.attr} is in a package set within the package set",
            'torch_by = "argument"',
        )
    if not package.gpu_lists and not package.needs_torch and name != TORCH:
        hint = 'gpu_list = { by = "variable", name = "TORCH_CUDA_ARCH_LIST" }'
        yield ("gpu_list",), f"{name} does not need torch, from which it could get its GPU", hint
    try:
        compile(package.trial, "trial", "exec")
    except (SyntaxError, ValueError) as fault:
        hint = "what torchsmith test runs; docs/packages.md"
        yield ("trial",), f"{name}: its trial is not Python: {fault}", hint
    ranges = [("cuda", package.cuda), *(("limits", limit.cuda) for limit in package.limits.values())]
    for field, text in (*ranges, *(("torch", text) for text in package.torch.values())):
        try:
            in_range("12.0", text if text != CPU or field != "limits" else "")
        except BadValue as fault:
            yield (field,), f"{name}: {fault}", 'such as ">=12.6,<13"'


def _pin_faults(pin: Pin, catalog: Catalog) -> Iterator[Fault]:
    for what, default, own in (
        ("CUDA", pin.default_cuda, pin.cudas),
        ("Python", pin.default_python, pin.pythons),
    ):
        if default and default not in own:
            text = f"{pin.name}: its default {what} {default} is not among its own"
            yield Fault("pins", (pin.name, f"default_{what.lower()}"), text)
    for name, limit in pin.limits.items():
        at, what = (pin.name, "limits", name), f"{pin.name}: the limit {name}"
        for sm in limit.sms:
            if sm not in catalog.gpus:
                yield Fault("pins", at, f"{what} names an unknown GPU {sm}")
        try:
            if pin.probed and not any(in_range(str(cuda), limit.cuda) for cuda in pin.cudas):
                yield Fault("pins", at, f"{what} is about no CUDA of that pin")
        except BadValue as fault:
            yield Fault("pins", at, f"{what}: {fault}")


def _line_faults(line: Line, catalog: Catalog) -> Iterator[Fault]:
    digits = "".join(line.torch.split(".")[:2])
    if line.prefix != f"{TORCH}{digits}":
        text = f"{line.name} is called {line.prefix}, but its torch is {line.torch or 'none of its own'}"
        yield Fault("lines", (line.name, "prefix"), text, f'prefix = "{TORCH}{digits}"')
    for field, listed in (("packages", line.packages), ("pythons", line.pythons)):
        if listed is not None and not listed:
            yield Fault("lines", (line.name, field), f"{line.name} builds nothing: {field} is empty")
    builds: list[tuple[CudaVersion | None, LineBuild]] = [(None, line.cpu)] if line.cpu else []
    for text, build in line.cuda.items():
        try:
            cuda = CudaVersion.parse(text)
        except BadValue as fault:
            yield Fault("lines", (line.name, "cuda", text), f"{line.name}: {fault}")
            continue
        if cuda not in catalog.cuda:
            known = ", ".join(map(str, catalog.cuda))
            message = f"{line.name} names CUDA {cuda}, which cuda.toml does not have"
            yield Fault("lines", (line.name, "cuda", text), message, f"known: {known}")
        builds.append((cuda, build))
    for target, build in builds:
        yield from _build_faults(line, target, build, catalog)
    for name, releases in line.backends.items():
        at = (line.name, "backends", name)
        unknown = f"{line.name} is built for an unknown backend"
        yield from _unknown("lines", at, unknown, [name], catalog.backends)
        for release, build in releases.items():
            what = f"{line.name} on {name} {release} names an unknown"
            yield from _unknown("lines", (*at, release), f"{what} pin", [build.pin], catalog.pins)
            yield from _unknown("lines", (*at, release), f"{what} fix", build.fixes, catalog.fixes)


def _build_faults(
    line: Line, cuda: CudaVersion | None, build: LineBuild, catalog: Catalog
) -> Iterator[Fault]:
    what = f"{line.name} on {f'CUDA {cuda}' if cuda else 'the CPU'}"
    at: tuple[str | int, ...] = (line.name, "cuda", str(cuda)) if cuda else (line.name, "cpu")
    if build.cuda_set and not (cuda and _is_set_of(cuda, build.cuda_set)):
        yield Fault("lines", (*at, "cuda_set"), f"{what}: {build.cuda_set!r} is not its package set")
    if build.style == "pinned":
        pin = catalog.pins.get(build.pin)
        if build.lacks_pin:
            if not build.unproved:
                yield Fault("lines", at, f"{what} names no pin", "pin = ..., or unproved = why it has none")
        elif pin is None:
            hint = did_you_mean(build.pin, catalog.pins)
            yield Fault("lines", (*at, "pin"), f"{what} names an unknown pin {build.pin!r}", hint)
        elif cuda and pin.probed and cuda not in pin.cudas:
            text, cudas = f"{what}: pin {pin.name} has no CUDA {cuda}", ", ".join(map(str, pin.cudas))
            yield Fault("lines", (*at, "pin"), text, f"it has {cudas}")
        elif pin.torch and line.torch != pin.torch and SOURCE not in build.fixes:
            text = f"{what}: pin {pin.name} has torch {pin.torch}, not {line.torch}"
            hint = f'fixes.add = ["{SOURCE}", "torch-version"] and its hash, or torch = "{pin.torch}"'
            yield Fault("lines", (*at, "pin"), text, hint)
    at = (*at, "fixes")
    yield from _unknown("lines", at, f"{what} names an unknown fix", build.fixes, catalog.fixes)
    for name in build.fixes:
        fix = catalog.fixes.get(name)
        if fix is None:
            continue
        try:
            applies = in_range(line.torch, fix.torch) and (cuda is None or in_range(str(cuda), fix.cuda))
        except BadValue as fault:
            yield Fault("fixes", (name,), f"{name}: {fault}")
            continue
        if not applies or (fix.cuda and cuda is None):
            ranges = [f"torch {fix.torch}"] * bool(fix.torch) + [f"CUDA {fix.cuda}"] * bool(fix.cuda)
            text = f"{what}: the fix {name} is for {' with '.join(ranges)}, and torch is {line.torch}"
            yield Fault("lines", at, text)
