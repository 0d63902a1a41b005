"""What is known about a cell, and why it can or cannot be built: the answer of `show`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

import msgspec

from torchsmith.catalog import TORCH, Catalog, Isa, Line, LineBuild
from torchsmith.catalog.ranges import in_range, version_key
from torchsmith.core.problem import CannotBuild, NotKnown
from torchsmith.core.text import counted, grouped, listed
from torchsmith.matrix.cells import Accepted, Decision, Rejected, assess, nearest_allowed, toolkit_title
from torchsmith.matrix.variant import Accelerator, CpuOnly, Cuda, Variant, pname, read_name


class GpuPart(msgspec.Struct, frozen=True):
    """The GPU half of a cell."""

    sm: str
    capability: str  # CUDA's; empty for other backends
    generation: str
    parts: tuple[str, ...]
    cuda: str  # the release of CUDA, or another backend with its release
    driver: str
    platforms: tuple[str, ...]


class CpuPart(msgspec.Struct, frozen=True):
    """The CPU half of a cell."""

    isa: str
    title: str
    system: str
    flags: tuple[str, ...]
    features: tuple[str, ...]
    runs_on: tuple[str, ...]
    torch_off: tuple[str, ...]
    note: str


class Description(msgspec.Struct, frozen=True):
    """How a cell is built: its sources, what it runs on, and what is not proved."""

    package: str
    pname: str
    python: str
    line: str
    versions: dict[str, str]
    style: str
    pin: str
    pin_hash: str
    source_hashes: dict[str, str]
    fixes: dict[str, str]
    cpu: CpuPart
    gpu: GpuPart | None = None
    unproved: tuple[str, ...] = ()


CellVerdict = Literal["accepted", "accepted with a warning", "rejected"]


class Explanation(msgspec.Struct, frozen=True):
    """A cell: why it can or cannot be built, which similar cells can, and how it is built."""

    FORMAT: ClassVar = 2
    name: str
    verdict: CellVerdict
    reasons: tuple[str, ...]
    codes: tuple[str, ...] = ()  # of the errors and warnings
    nearest: tuple[str, ...] = ()
    in_matrix: str = ""  # a sentence on whether the workspace has it
    old_spelling: tuple[str, ...] = ()
    build: Description | None = None  # null: it cannot be built
    newer: str = ""  # why it is not built with newer torch releases; empty: there are none


def explain(
    name: str,
    catalog: Catalog,
    line: str | None = None,
    in_matrix: str = "",
    decision: Decision | None = None,
) -> Explanation:
    """Read a name, and describe its cell; `decision` is that of a workspace, if it has one."""
    reading = read_name(name, catalog)
    variant, decision = reading.variant, decision or assess(reading.variant, catalog, line)
    reasons = decision.reasons if isinstance(decision, Rejected) else decision.warnings
    good: tuple[str, ...] = ()
    if isinstance(decision, Accepted) and decision.usable:
        good = tuple(_good_reasons(variant, decision.line, catalog))
    nearest = [] if good else nearest_allowed(variant, catalog, line)
    verdict: CellVerdict = "accepted with a warning" if reasons else "accepted"
    return Explanation(
        name=variant.name,
        verdict="rejected" if isinstance(decision, Rejected) else verdict,
        reasons=(*good, *map(str, reasons)),
        codes=tuple(reason.code for reason in reasons),
        nearest=tuple(variant.name for variant in nearest),
        in_matrix=in_matrix,
        old_spelling=reading.old,
        build=describe(variant, catalog, line) if isinstance(decision, Accepted) else None,
        newer=why_not_newer(variant, decision.line, catalog) if isinstance(decision, Accepted) else "",
    )


def describe(variant: Variant, catalog: Catalog, line: str | None = None) -> Description:
    """How a cell is built. Raises NotKnown or CannotBuild, with the reasons, if it cannot be."""
    decision = assess(variant, catalog, line)
    if isinstance(decision, Rejected):
        if unknown := [reason for reason in decision.reasons if reason.code.startswith("unknown-")]:
            raise NotKnown(f"{variant}: {unknown[0].text}", hint=unknown[0].hint)
        reasons = "; ".join(map(str, decision.reasons))
        hint = f"torchsmith show {variant} names similar builds"
        raise CannotBuild(f"{variant} cannot be built: {reasons}", hint=hint)
    chosen = decision.line
    build = chosen.build_for(variant.toolkit)
    assert build is not None, "an accepted cell has a build"
    pin = catalog.pins.get(build.pin)
    fixes = [catalog.fixes[name] for name in build.fixes]
    package, packages = variant.package, catalog.packages.values()
    return Description(
        package=package.name,
        pname=pname(variant, chosen),
        python=str(variant.python),
        line=chosen.name,
        versions={
            package.name: chosen.version_of(package.name) for package in packages if chosen.builds(package)
        },
        style=build.style,
        pin=pin.rev if pin else "",
        pin_hash=pin.sha256 if pin else "",
        source_hashes={name: text for name, text in chosen.hashes.items() if name in (TORCH, package.name)},
        fixes={fix.name: fix.why for fix in fixes if fix.serves(package)},
        cpu=_cpu(catalog.isas[variant.isa], catalog),
        gpu=_gpu(variant, catalog),
        unproved=tuple(_unproved(variant, chosen, build, catalog)),
    )


def _cpu(isa: Isa, catalog: Catalog) -> CpuPart:
    able = tuple(cpu.title for cpu in catalog.cpus.values() if isa.name in cpu.isas)
    features = tuple(sorted(isa.needs))
    return CpuPart(isa.name, isa.title, isa.platform, isa.flags, features, able, isa.torch_off, isa.note)


def _gpu(variant: Variant, catalog: Catalog) -> GpuPart | None:
    target = variant.target
    if isinstance(target, Accelerator):
        backend = catalog.backends[target.version.backend]
        arch, title = catalog.archs_of(backend)[target.arch], toolkit_title(variant, catalog)
        known = arch.generation, (arch.title,), title, backend.driver, backend.systems
        return GpuPart(target.arch, "", *known)
    if not isinstance(target, Cuda):
        return None
    gpu, toolkit = catalog.gpus[target.sm], catalog.cuda[target.version]
    cuda, driver = str(toolkit.version), str(max(toolkit.min_driver, gpu.min_driver))
    parts = catalog.parts_on(gpu, gpu.parts, catalog.isas[variant.isa].platform)
    return GpuPart(gpu.name, gpu.sm.capability, gpu.generation, parts, cuda, driver, gpu.platforms)


def _unproved(variant: Variant, line: Line, build: LineBuild, catalog: Catalog) -> list[str]:
    """The entries of the catalog that this cell depends on and that are not checked."""
    entries = [("line", line.unproved), ("instruction set", catalog.isas[variant.isa].unproved)]
    if build.pin:
        entries.append((f"pin {build.pin}", catalog.pins[build.pin].unproved))
    if isinstance(variant.target, Cuda):
        entries.append((f"CUDA {variant.target.version}", catalog.cuda[variant.target.version].unproved))
        entries.append((str(variant.target.sm), catalog.gpus[variant.target.sm].unproved))
    if isinstance(variant.target, Accelerator):
        backend = catalog.backends[variant.target.version.backend]
        entries.append((backend.title, backend.unproved))
    entries += [(f"fix {name}", catalog.fixes[name].unproved) for name in build.fixes]
    entries.append((f"torch {line.torch}", triton_mismatch(line, build, catalog)))
    own = {package.name for package in catalog.below(variant.package)}
    for name in catalog.unknown_hashes(line, build):
        if name in own:
            entries.append(("source", f"the hash of {name} {line.version_of(name)}: not known"))
    return [f"{what}: {text}" for what, text in entries if text]


def triton_mismatch(line: Line, build: LineBuild, catalog: Catalog) -> str:
    """That the Triton of a build's nixpkgs is not one that the line's torch needs; empty if it is, or if
    either is unknown."""
    pin = catalog.pins.get(build.pin)
    if pin is None or not pin.triton or in_range(pin.triton, line.triton):
        return ""
    asked = line.triton.removeprefix("==")
    return f"builds with Triton {pin.triton}; torch asks for {asked}"


class LineState(msgspec.Struct, frozen=True):
    """What a line lacks for a build, remarks on a build of it, and the next command."""

    lacks: list[str]
    remarks: list[str]
    next: str


def state_of(line: Line, catalog: Catalog, *, cells: int | None = None) -> LineState:
    """The state of a line, of which a workspace has so many cells; None: there is no workspace."""
    builds = [build for build in line.every_build.values() if build.style == "pinned"]
    if builds and all(build.lacks_pin for build in builds):
        command = f"torchsmith line add {line.name} --matrix"
        return LineState(["a nixpkgs with this torch"], [], command)
    hashes = {name for build in builds for name in catalog.unknown_hashes(line, build)}
    lacks = [f"the hash of {name} {line.version_of(name)}" for name in catalog.packages if name in hashes]
    tritons = dict.fromkeys(triton_mismatch(line, build, catalog) for build in builds)
    remarks = [*filter(None, tritons)]
    if claims := [build for build in builds if build.claimed]:
        remarks.append(f"{counted(len(claims), 'build')} never evaluated")
    if not lacks:
        return LineState(lacks, remarks, "torchsmith eval" if claims else "")
    cell = None if cells else _simplest_cell(line, catalog)
    if cell is None:
        return LineState(lacks, remarks, "torchsmith fix-hashes")
    if cells is not None:
        lacks.insert(0, f'a build in torchsmith.toml (include = ["{cell}"])')
        return LineState(lacks, remarks, "torchsmith apply && torchsmith fix-hashes")
    folder = f"mine-{line.name}"
    steps = (f"init {folder} --cell {cell}", f"apply -w {folder}", f"fix-hashes -w {folder}")
    return LineState(lacks, remarks, " && ".join(f"torchsmith {step}" for step in steps))


def _simplest_cell(line: Line, catalog: Catalog) -> Variant | None:
    """The cell that needs the least of a line: torch for the CPU alone, in the newest Python."""
    pythons = sorted(line.pythons, reverse=True)
    isa = next(isa.name for isa in catalog.isas.values() if isa.usual)
    cells = (Variant(catalog.torch, python, CpuOnly(), isa, release=line.release) for python in pythons)
    return next((cell for cell in cells if isinstance(assess(cell, catalog), Accepted)), None)


def _newer(line: Line, catalog: Catalog) -> list[Line]:
    """The lines of newer torch releases than a line's, the oldest first."""
    newer = (other for other in catalog.releases if version_key(other.torch) > version_key(line.torch))
    return [*newer][::-1]


def why_not_newer(variant: Variant, line: Line, catalog: Catalog) -> str:
    """Why a cell is not built with newer torch releases than its line's; empty if there are none."""
    if not line.torch or line.flavor:
        return ""
    groups = grouped((_why_not(variant, other, catalog), other.torch) for other in _newer(line, catalog))
    return "; ".join(f"{_span(releases)}: {why}" for why, releases in groups.items())


def _span(releases: list[str]) -> str:
    return f"{releases[0]} to {releases[-1]}" if len(releases) > 2 else " and ".join(releases)


def _why_not(variant: Variant, line: Line, catalog: Catalog) -> str:
    """Why a cell is not built with a line."""
    if all(build.lacks_pin for build in line.every_build.values()):
        return "cannot be built, no nixpkgs here has it"
    decision = assess(variant.changed(release=line.release), catalog)
    if isinstance(decision, Accepted):
        build = line.build_for(variant.toolkit)
        if build and catalog.unknown_hashes(line, build):
            return "can be generated, then fix-hashes"
        return decision.warnings[0].text if decision.warnings else "not among the candidates"
    reason = decision.reasons[0]
    if reason.code == "line-no-cuda":
        return f"not built for {toolkit_title(variant, catalog)} here"
    return reason.text


def _good_reasons(variant: Variant, line: Line, catalog: Catalog) -> Iterator[str]:
    """Why a cell can be built and used."""
    isa = catalog.isas[variant.isa]
    what = f"torch {line.torch}" if line.torch else f"line {line.name}"
    target = toolkit_title(variant, catalog) or "the CPU alone"
    yield f"{what} is built for {target} and Python {variant.python}"
    if isinstance(variant.target, Cuda):
        gpu = catalog.gpus[variant.target.sm]
        yield f"CUDA {variant.target.version} compiles for {gpu.name} ({gpu.title})"
        hosts = listed(platform.removesuffix("-linux") for platform in gpu.platforms)
        yield f"{gpu.name} GPUs exist on {hosts}; {isa.name} is {isa.platform.removesuffix('-linux')}"
    yield f"{isa.title} came with {', '.join(isa.first_cpus)}"
