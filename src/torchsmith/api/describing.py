"""What is known of a cell and a GPU."""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec

from torchsmith.catalog import Catalog, Gpu
from torchsmith.catalog.axes import BackendVersion, BadValue, Sm
from torchsmith.catalog.facts import Gfx
from torchsmith.cli.options import Name, WorkspaceOption
from torchsmith.core.problem import NotKnown
from torchsmith.matrix import Accelerator, Accepted, BadName, Cuda, Variant, assess
from torchsmith.matrix import describe as cells
from torchsmith.matrix.cells import why_not_built
from torchsmith.matrix.describe import Description, Explanation
from torchsmith.workspace.load import Workspace, open_workspace


@dataclass(frozen=True, kw_only=True)
class CellRequest:
    """Which cell, or which GPU."""

    name: Name
    workspace: WorkspaceOption = None


class GpuReport(msgspec.Struct, frozen=True):
    """An architecture: who has it, what it needs, and for which CUDA releases builds exist."""

    sm: str  # or AMD's target
    capability: str
    generation: str
    parts: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()
    driver: str = ""  # the first that knows it
    cuda: dict[str, str] = {}  # by release: a cell, or why there is none
    ended: str = ""  # what ended its support
    note: str = ""

    @property
    def builds(self) -> bool:
        """Whether there is any build for it."""
        return any(text.startswith("torch") for text in self.cuda.values())


def show(request: CellRequest) -> Description | GpuReport:
    """Everything known about a cell or a GPU. Raises CannotBuild for a cell that there is none of."""
    opened, named = _named(request)
    if isinstance(named, GpuReport):
        return named
    return cells.describe(named, opened.catalog, opened.line_of(named))


def explain(request: CellRequest) -> Explanation | GpuReport:
    """Why a cell can be built and used or not, or for which CUDA releases a GPU has builds."""
    opened, named = _named(request)
    if isinstance(named, GpuReport):
        return named
    return cells.explain(request.name, opened.catalog, opened.line_of(named), opened.standing(named))


def _named(request: CellRequest) -> tuple[Workspace, Variant | GpuReport]:
    """The workspace, and what a name is: a cell, whose name may hold a GPU's, or a GPU."""
    opened = open_workspace(request.workspace)
    variant = Variant.try_parse(request.name, opened.catalog)
    gpu = None if variant else _gpu(request.name, opened.catalog)
    return opened, variant or gpu or _variant(request.name, opened.catalog)


def _variant(name: str, catalog: Catalog) -> Variant:
    """The variant of a name. Raises BadName, with what the name is instead as its hint."""
    from torchsmith.catalog.names import find_cpu_by_name, hardware_hint

    try:
        return Variant.parse(name, catalog)
    except BadName as problem:
        if re.fullmatch(r"TS\d{3}", name):
            problem.hint = f"{name} is a rule: torchsmith audit --explain {name}"
        elif name in catalog.isas:
            problem.hint = f"{name} is an instruction set: torchsmith list {name} lists its variants"
        elif cpu := find_cpu_by_name(name, catalog):
            problem.hint = f"{cpu.title} is a CPU: torchsmith pick --cpu {cpu.name} finds its variant"
        else:
            hints = (hardware_hint(word, catalog) for word in (name, *name.split("-")))
            problem.hint = next(filter(None, hints), problem.hint)
        raise


def _gpu(name: str, catalog: Catalog) -> GpuReport | None:
    """What is known of the GPU that some words name; None where they name none."""
    from torchsmith.catalog.gpu_names import instance_of, product_of_name

    try:
        sm: Sm | None = Sm.parse(name.strip().lower())
    except BadValue:
        sm = None
    instance = instance_of(name, catalog)
    product = (
        catalog.gpus.get(sm) or catalog.retired.get(sm)
        if sm
        else product_of_name(instance.gpu if instance else name, catalog)
    )
    if isinstance(product, Gpu):
        gpu = product
        return GpuReport(
            sm=str(gpu.sm),
            capability=gpu.sm.capability,
            generation=gpu.generation,
            parts=tuple(part for part in gpu.parts if f"{part} {gpu.generation}" not in gpu.parts),
            systems=gpu.platforms,
            driver=str(gpu.min_driver),
            cuda=_builds(gpu, catalog),
            note=gpu.note,
        )
    if isinstance(product, Gfx):
        builds = _backend_builds(product, catalog)
        ended = product.retired or ("" if builds else why_not_built(product, catalog))
        generation = f"{product.title}, {product.generation}"
        return GpuReport(product.name, "", generation, cuda=builds, ended=ended)
    if product is not None:
        return GpuReport(str(product.sm), product.sm.capability, product.generation, ended=product.ended)
    if name in map(str, catalog.cuda):
        hint = f"torchsmith list -p every {name} lists its variants"
        raise NotKnown(f"{name} is a release of CUDA, not a GPU", hint=hint)
    if sm is not None:
        raise NotKnown(f"unknown GPU architecture {sm}", hint=f"known: {', '.join(map(str, catalog.gpus))}")
    return None


def _backend_builds(gpu: Gfx, catalog: Catalog) -> dict[str, str]:
    """For each release of a backend the torch that is built with it for an architecture."""
    builds = {}
    for name, line in catalog.lines.items():
        releases = [(backend, release) for backend, known in line.backends.items() for release in known]
        for backend, release in releases:
            target = Accelerator.of(catalog.backends[backend], BackendVersion(backend, release), gpu.name)
            variants = [
                Variant(catalog.torch, python, target, isa) for python in line.pythons for isa in catalog.isas
            ]
            if any(isinstance(assess(variant, catalog, name), Accepted) for variant in variants):
                builds[f"{catalog.backends[backend].title} {release}"] = f"torch {line.torch}"
    return builds


def _builds(gpu: Gpu, catalog: Catalog) -> dict[str, str]:
    """For each CUDA release the torch that is built with it, or the first reason that there is none."""
    isas = [isa.name for isa in catalog.isas.values() if isa.platform in gpu.platforms]
    builds: dict[str, str] = {}
    for cuda in catalog.cuda:
        variants = [
            Variant(catalog.torch, python, Cuda(cuda, gpu.sm), isa)
            for python in catalog.pythons
            for isa in isas
        ]
        lines = [None, *(name for name, line in catalog.lines.items() if line.torch and not line.flavor)]
        decisions = [assess(variant, catalog, line) for line in lines for variant in variants]
        able = next(
            (decision.line for decision in decisions if isinstance(decision, Accepted) and decision.usable),
            None,
        )
        build = able.build_for(cuda) if able else None
        if able and build and build.style != "flox":
            builds[str(cuda)] = f"torch {able.torch}"
        elif build:
            builds[str(cuda)] = "no nixpkgs here has it: an older Flox catalog may"
        else:
            reasons = getattr(decisions[0], "reasons", ())
            texts = {"no-line": "no torch release here is built for it"}
            builds[str(cuda)] = texts.get(reasons[0].code, reasons[0].text) if reasons else "no build"
    return builds
