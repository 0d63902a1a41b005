"""`torchsmith show NAME`: what is known about a build or a GPU, and whether there are builds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, product
from typing import ClassVar

import msgspec

from torchsmith.catalog import Catalog, Gpu
from torchsmith.catalog.facts import Gfx, IntelGpu
from torchsmith.cli.console import answer, columns, exit_if, next_step, paint, write
from torchsmith.cli.options import JsonOption, Name, WorkspaceOption
from torchsmith.cli.request import Request
from torchsmith.core.problem import NotKnown
from torchsmith.matrix import Accepted, BadName, Cuda, Rejected, Target, Variant, assess
from torchsmith.matrix.cells import why_unbuilt
from torchsmith.matrix.describe import Description, Explanation, explain
from torchsmith.workspace.load import open_workspace

EXAMPLE = "torchsmith show pytorch-python313-cuda13_0-sm120-avx512"
STYLES = {"accepted": "green", "accepted with a warning": "yellow", "rejected": "red"}


@dataclass(frozen=True, kw_only=True)
class ShowRequest(Request):
    """Which build, or which GPU."""

    name: Name
    workspace: WorkspaceOption = None


class GpuRelease(msgspec.Struct, frozen=True):
    """A release of CUDA or of another backend, and the torch that is built with it for a GPU."""

    release: str
    torch: str = ""  # empty: there is no build
    why: str = ""  # there is no build


class GpuReport(msgspec.Struct, frozen=True):
    """A GPU architecture: its products, what it needs, and the releases that have builds for it."""

    FORMAT: ClassVar = 2
    sm: str  # or AMD's target
    capability: str
    generation: str
    parts: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()
    driver: str = ""  # the first that supports it; without a capability what a machine must have
    releases: list[GpuRelease] = []
    ended: str = ""  # what ended its support
    note: str = ""

    @property
    def builds(self) -> bool:
        """Whether there is any build for it."""
        return any(release.torch for release in self.releases)


def show(request: ShowRequest) -> Explanation | GpuReport:
    """What is known about a build or a GPU, and why it can or cannot be built."""
    opened = open_workspace(request.workspace)
    catalog = opened.catalog
    variant = Variant.try_parse(request.name, catalog)
    gpu = None if variant else _gpu(request.name, catalog)
    if gpu is not None:
        return gpu
    variant = variant or _variant(request.name, catalog)
    line, decision = opened.line_of(variant), opened.decide(variant)
    return explain(request.name, catalog, line, opened.in_matrix(variant), decision)


def run(*, request: ShowRequest, json: JsonOption = False) -> None:
    """Show everything known about a build, and why it is possible and of use, or not.

    That is: reasons, warnings, similar builds, flags, GPUs, CPUs, drivers, pins, versions, and what newer
    torch releases lack. A GPU architecture or a product (sm89, 'RTX 4090') works as well: its CUDA releases
    with builds. The exit code is 1 for a build that is not possible and for a GPU without builds.
    """
    report = show(request)
    if isinstance(report, GpuReport):
        answer(report, _print_gpu, as_json=json)
        if report.builds:
            next_step("pick", "--gpu", request.name, why="the build for a machine with it")
        exit_if(not report.builds)
        return
    answer(report, _print_cell, as_json=json)
    exit_if(report.build is None)
    opened = open_workspace(request.workspace)
    if opened.root is None and not report.nearest:
        next_step("init", "mine", "--cell", report.name, why="a workspace for it")
    elif opened.root and report.name in {cell.name for cell in opened.matrix.cells}:
        next_step("build", report.name, workspace=request.workspace)


def _variant(name: str, catalog: Catalog) -> Variant:
    """The variant of a name. Raises BadName, with what the name is instead as its hint."""
    from torchsmith.catalog.suggest import suggestion

    try:
        return Variant.parse(name, catalog)
    except BadName as problem:
        if re.fullmatch(r"TS\d{3}", name):
            hint = f"{name} is a rule: torchsmith audit --explain {name}"
        elif name in catalog.isas:
            hint = f"{name} is an instruction set: torchsmith list {name} lists its builds"
        else:
            hints = (suggestion(word, catalog) for word in (name, *name.split("-")))
            hint = next(filter(None, hints), problem.hint)
        raise problem.replace(hint=hint) from None


def _gpu(name: str, catalog: Catalog) -> GpuReport | None:
    """The GPU that a name means; None if it means none."""
    from torchsmith.catalog.gpu_names import begins_like_gpu, gpu_by_name, host_of_name
    from torchsmith.catalog.suggest import unknown_gpu

    product = gpu_by_name(name, catalog)
    if isinstance(product, Gpu):
        gpu, cpu = product, catalog.cpus.get(host_of_name(name, catalog))
        return GpuReport(
            sm=str(gpu.sm),
            capability=gpu.sm.capability,
            generation=gpu.generation,
            parts=tuple(part for part in gpu.parts if f"{part} {gpu.generation}" not in gpu.parts),
            systems=(str(cpu.platform),) if cpu else gpu.platforms,
            driver=str(gpu.min_driver),
            releases=_builds(gpu, catalog),
            note=gpu.note,
        )
    if isinstance(product, Gfx):
        builds = _backend_builds(product, catalog)
        ended = product.retired or ("" if builds else why_unbuilt(product, catalog))
        rocm = catalog.backends["rocm"]
        return GpuReport(
            sm=product.name,
            capability="",
            generation=product.generation,
            parts=(product.title,),
            systems=rocm.systems,
            driver="" if ended else rocm.driver,
            releases=builds,
            ended=ended,
        )
    if isinstance(product, IntelGpu):
        return GpuReport(product.title, "", "Intel", ended=why_unbuilt(product, catalog))
    if product is not None:
        return GpuReport(str(product.sm), product.sm.capability, product.generation, ended=product.ended)
    if name in map(str, catalog.cuda):
        hint = f"torchsmith list -p every {name} lists its builds"
        raise NotKnown(f"{name} is a release of CUDA, not a GPU", hint=hint)
    if begins_like_gpu(name) or re.fullmatch(r"sm_?\d+", name.strip().lower()):
        raise unknown_gpu(name, catalog)
    return None


def _backend_builds(gpu: Gfx, catalog: Catalog) -> list[GpuRelease]:
    """The releases of other backends that a torch is built with for an architecture."""
    from torchsmith.host.pick import other_targets

    builds = []
    for target in other_targets((gpu.name,), catalog):
        able = [found for found in _decisions(target, catalog.isas, catalog) if isinstance(found, Accepted)]
        if able:
            backend = catalog.backends[target.version.backend]
            builds.append(GpuRelease(f"{backend.title} {target.version}", torch=able[0].line.torch))
    return builds


def _builds(gpu: Gpu, catalog: Catalog) -> list[GpuRelease]:
    """For each CUDA release the torch that is built with it, or the first reason that there is none."""
    isas = [isa.name for isa in catalog.isas.values() if isa.platform in gpu.platforms]
    builds = []
    for cuda in catalog.cuda:
        decisions = [*_decisions(Cuda(cuda, gpu.sm), isas, catalog)]
        able = next((found.line for found in decisions if isinstance(found, Accepted) and found.usable), None)
        build = able.build_for(cuda) if able else None
        if able and build and build.style != "flox":
            builds.append(GpuRelease(str(cuda), torch=able.torch))
        elif build:
            builds.append(GpuRelease(str(cuda), why="no nixpkgs here has it: an older Flox catalog may"))
        else:
            reasons = getattr(decisions[0], "reasons", ())
            texts = {"no-line": "no torch release here is built for it"}
            why = texts.get(reasons[0].code, reasons[0].text) if reasons else "no build"
            builds.append(GpuRelease(str(cuda), why=why))
    return builds


def _decisions(target: Target, isas: Iterable[str], catalog: Catalog) -> Iterator[Accepted | Rejected]:
    """Whether torch can be built for a target: in the newest release that can, then in each."""
    lines = [None, *(line.name for line in catalog.releases)]
    for line, python, isa in product(lines, catalog.pythons, isas):
        yield assess(Variant(catalog.torch, python, target, isa), catalog, line)


def _print_gpu(gpu: GpuReport) -> None:
    """The facts of a GPU, and a row for each span of releases with the same answer."""
    capability = f"capability {gpu.capability}, " if gpu.capability else ""
    write(f"{gpu.sm}, {capability}{gpu.generation}", "bold")
    rows = [
        ("products", ", ".join(gpu.parts)),
        ("found on", ", ".join(gpu.systems)),
        ("driver", f"{gpu.driver} or newer" if gpu.capability and gpu.driver else gpu.driver),
        ("note", gpu.note),
        ("no builds", gpu.ended),
    ]
    for (torch, why), alike in groupby(gpu.releases, key=lambda release: (release.torch, release.why)):
        first, *others = (release.release for release in alike)
        span = f"{first} to {others[-1]}" if others else first
        rows.append((f"CUDA {span}" if gpu.capability else span, f"torch {torch}" if torch else why))
    columns([row for row in rows if row[1]], ("cyan",))


def _print_cell(cell: Explanation) -> None:
    """The verdict with its reasons, the facts of the build, and similar builds."""
    write(paint(f"{cell.name}: ", "bold") + paint(cell.verdict, STYLES[cell.verdict]))
    for reason in cell.reasons:
        write(f"  {reason}")
    for text in cell.old_spelling:
        write(f"  spelling: {text}")
    write(f"  {cell.in_matrix}")
    if cell.build:
        columns([row for row in _rows(cell.build) if row[1]], ("cyan",))
        for text in cell.build.unproved:
            write(f"untested: {text}", "dim")
    if cell.newer:
        write(f"newer torch: {cell.newer} (torchsmith line list)", "dim")
    if cell.nearest:
        write("nearest builds that are possible and of use:")
        for name in cell.nearest:
            write(f"  {name}")


def _rows(cell: Description) -> list[tuple[str, str]]:
    releases = [f"{name} {version}" for name, version in cell.versions.items() if version]
    rows = [
        ("package", f"{cell.package} {cell.versions[cell.package]}"),
        ("pname", cell.pname),
        ("line", f"{cell.line}: {', '.join(releases)}"),
        ("python", cell.python),
    ]
    if cell.gpu:
        gpu = cell.gpu
        rows += [
            (
                "GPU",
                ", ".join(
                    [gpu.sm, *([f"capability {gpu.capability}"] * bool(gpu.capability)), gpu.generation]
                ),
            ),
            ("GPU parts", ", ".join(gpu.parts)),
            ("GPU hosts", ", ".join(gpu.platforms)),
            ("CUDA" if gpu.capability else "backend", gpu.cuda),
            ("driver", f"{gpu.driver} or newer" if gpu.capability else gpu.driver),
        ]
    cpu = cell.cpu
    rows += [
        ("CPU", f"{cpu.title}, {cpu.system}"),
        ("CPU flags", " ".join(cpu.flags)),
        ("CPU needs", ", ".join(cpu.features)),
        ("CPUs", ", ".join(cpu.runs_on)),
        ("CPU note", cpu.note),
        ("torch without", ", ".join(cpu.torch_off)),
        ("nixpkgs", cell.pin or "from the Flox catalog"),
        ("pin hash", cell.pin_hash),
        *((f"{name} hash", text) for name, text in cell.source_hashes.items()),
        *((f"fix {name}", why) for name, why in cell.fixes.items()),
    ]
    return rows
