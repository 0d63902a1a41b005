"""GPU code of an artifact as a whole: what is there for which target, and which GPUs it serves."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, get_args

from torchsmith.artifact.container import CodeKind, Container
from torchsmith.artifact.fatbin import RELOCATABLE
from torchsmith.artifact.known import known
from torchsmith.catalog import Catalog, Gpu, GpuTarget
from torchsmith.catalog.axes import CodeTarget, NamedTarget
from torchsmith.catalog.facts import Gfx, RetiredGpu
from torchsmith.catalog.runs import Code, RunsNot, gfx_code_runs, gpu_code_runs
from torchsmith.core.text import grouped

RUNNABLE = (CodeKind.CUBIN, CodeKind.PTX)  # of NVIDIA's kinds
CodeKey = tuple[CodeKind, CodeTarget]
AnyGpu = Gpu | RetiredGpu | Gfx
Support = Literal["none", "jit", "compatible", "native"]  # the best last
SUPPORTS: tuple[Support, ...] = get_args(Support)
GpuVerdict = Literal["native", "compatible", "jit", "partly", "no"]
RUNS: tuple[tuple[GpuVerdict, ...], ...] = (("native", "compatible"), ("jit",))  # the best first
MOSTLY = 0.75  # of the containers; with fewer of its own a GPU runs compatible code
RELEASE = re.compile(r"(cuda)(\d\d)(\d)(?!\d)|(rocm)(\d)(\d{1,2})(?!\d)")  # in the name of a library
CodeCounts = Counter[frozenset[CodeKey]]  # containers by what they hold


@dataclass(frozen=True, slots=True)
class TargetRow:
    """All code of one kind for one target."""

    kind: CodeKind
    target: CodeTarget
    entries: int
    size: int
    containers: int


@dataclass(frozen=True, slots=True)
class GpuCode:
    """The GPU code of some libraries."""

    rows: tuple[TargetRow, ...]
    containers: int
    size: int


@dataclass(frozen=True, slots=True)
class Service:
    """How a GPU is served: the containers with code for it, with compatible code, with code that is compiled
    first, and with none."""

    sm: str  # or another maker's architecture
    title: str
    native: int
    compatible: int
    jit: int
    none: int
    verdict: GpuVerdict
    by: tuple[str, ...]  # the targets of compatible code and of what is compiled
    extra: int = 0  # containers that are not counted: they are for other GPUs alone
    extra_for: tuple[str, ...] = ()  # the targets of those
    releases: tuple[str, ...] = ()  # of CUDA or ROCm, whose libraries alone are counted; none: all are

    @property
    def total(self) -> int:
        return self.native + self.compatible + self.jit + self.none

    @property
    def exact(self) -> bool:
        """Whether every container has code made for this very GPU."""
        return 0 < self.native == self.total


def gpu_code(libraries: Iterable[Iterable[Container]]) -> GpuCode:
    """Count what the containers of each library hold, by kind and target."""
    total = 0
    entries: Counter[CodeKey] = Counter()
    sizes: Counter[CodeKey] = Counter()
    having: Counter[CodeKey] = Counter()
    for containers in libraries:
        holding = [container for container in containers if container.entries]
        total += len(holding)
        for container in holding:
            having.update({(entry.kind, entry.target) for entry in container.entries})
            for entry in container.entries:
                entries[entry.kind, entry.target] += 1
                sizes[entry.kind, entry.target] += entry.size
    rows = tuple(
        TargetRow(
            kind=key[0],
            target=key[1],
            entries=entries[key],
            size=sizes[key],
            containers=having[key],
        )
        for key in sorted(entries, key=_order)
    )
    return GpuCode(rows, total, sizes.total())


def _order(key: CodeKey) -> tuple[object, ...]:
    """NVIDIA's targets first; gfx90a before gfx1030."""
    kind, target = key
    return isinstance(target, NamedTarget), _number(target), target, kind


def _number(target: CodeTarget) -> int:
    return target.sm.number if isinstance(target, GpuTarget) else len(target.arch)


def target_names(rows: Iterable[TargetRow]) -> list[str]:
    """Kinds and targets."""
    return [f"{row.kind} {row.target}" for row in rows]


def launched(containers: Iterable[Container]) -> list[Container]:
    """The containers that the run time loads; what was linked into others is never launched itself."""
    holding = [container for container in containers if container.entries]
    return [container for container in holding if container.section != RELOCATABLE] or holding


def promised_containers(containers: Iterable[Container]) -> list[Container]:
    """The containers that a build for one GPU has code for it in: those that the run time loads, without what
    NCCL has for one target alone."""
    loaded, nccl = launched(containers), known().nccl
    rest = [part for part in loaded if not all(str(entry.target) in nccl.targets for entry in part.entries)]
    return rest if rest and len(loaded) - len(rest) <= nccl.containers else loaded


def services(
    libraries: Iterable[tuple[str, Iterable[Container]]], gpus: Iterable[AnyGpu], catalog: Catalog
) -> list[Service]:
    """How each GPU is served by the libraries with code for its maker's, which come with their names."""
    parts = [(name, alike(launched(containers))) for name, containers in libraries]
    return [_service(parts, gpu, catalog) for gpu in gpus]


def _service(parts: Iterable[tuple[str, CodeCounts]], gpu: AnyGpu, catalog: Catalog) -> Service:
    """How a GPU is served. Libraries whose names differ in the release of CUDA or ROCm alone replace each
    other: those that serve it best are counted."""
    counted, extra = CodeCounts(), CodeCounts()
    releases: dict[str, None] = {}
    mine = (
        (RELEASE.sub(r"\1\4", name), (name, part, extra_of(part, gpu, catalog)))
        for name, part in parts
        if any(of_maker(target, gpu) for keys in part for _, target in keys)
    )
    for group in grouped(mine).values():
        verdicts = [service_of(part - more, gpu, catalog).verdict for _, part, more in group]
        best = next((ways for ways in RUNS if any(verdict in ways for verdict in verdicts)), verdicts)
        chosen = [row for row, verdict in zip(group, verdicts, strict=True) if verdict in best]
        for name, part, more in chosen:
            counted, extra = counted + (part - more), extra + more
            if len(chosen) < len(group):
                releases |= dict.fromkeys(map(_release, RELEASE.finditer(name)))
    return replace(
        service_of(counted, gpu, catalog),
        extra=extra.total(),
        extra_for=tuple(sorted({target_name(target) for codes in extra for _, target in codes})),
        releases=tuple(releases),
    )


def _release(named: re.Match[str]) -> str:
    _, major, minor = filter(None, named.groups())
    return f"{major}.{minor}"


def extra_of(containers: CodeCounts, gpu: AnyGpu, catalog: Catalog) -> CodeCounts:
    """Containers of a library that are for other GPUs alone, as NCCL has for sm100f: a target of the form `a`
    or `f` is for what only those GPUs can do. If they are as many as those that the GPU runs, the library was
    compiled for others."""
    extra, running = CodeCounts(), 0
    for codes, count in containers.items():
        if best_of(codes, gpu, catalog)[0] != "none":
            running += count
        elif all(isinstance(target, GpuTarget) and target.form for _, target in codes):
            extra[codes] = count
    return extra if extra.total() < running else CodeCounts()


def of_maker(target: CodeTarget, gpu: AnyGpu) -> bool:
    """Whether code is for GPUs of the same maker."""
    return isinstance(target, NamedTarget) is isinstance(gpu, Gfx)


def alike(containers: Iterable[Container]) -> CodeCounts:
    """How many containers hold code of the same kinds for the same targets."""
    return Counter(frozenset([(entry.kind, entry.target) for entry in part.entries]) for part in containers)


def best_of(codes: Iterable[CodeKey], gpu: AnyGpu, catalog: Catalog) -> tuple[Support, CodeTarget]:
    """How a GPU takes the best of some code, and the target of that."""
    ranked = ((support_of(kind, target, gpu, catalog), target) for kind, target in codes)
    return max(ranked, key=lambda row: (SUPPORTS.index(row[0]), _number(row[1])))


def service_of(containers: CodeCounts, gpu: AnyGpu, catalog: Catalog) -> Service:
    """How a GPU is served by some containers: each by the best of its code."""
    counts: Counter[Support] = Counter()
    by: dict[CodeTarget, None] = {}
    for codes, count in containers.items():
        support, best = best_of(codes, gpu, catalog)
        counts[support] += count
        if support in ("compatible", "jit"):
            by[best] = None
    total = containers.total()
    verdict: GpuVerdict = "native" if counts["native"] >= MOSTLY * total else "compatible"
    if counts["none"]:
        verdict = "partly"
    elif counts["jit"]:
        verdict = "jit"
    return Service(
        sm=gpu.name,
        title=gpu.title,
        native=counts["native"],
        compatible=counts["compatible"],
        jit=counts["jit"],
        none=counts["none"],
        verdict="no" if counts["none"] == total else verdict,
        by=tuple(map(target_name, sorted(by, key=_number))),
    )


def support_of(kind: CodeKind, target: CodeTarget, gpu: AnyGpu, catalog: Catalog) -> Support:
    """How a GPU takes a piece of code."""
    if not of_maker(target, gpu):
        return "none"
    at_once: Support = "native" if target.arch == gpu.name else "compatible"
    if isinstance(target, NamedTarget):
        fits = kind == CodeKind.HSACO and isinstance(gpu, Gfx) and gfx_code_runs(target, gpu)
        return "jit" if kind == CodeKind.SPIRV else at_once if fits else "none"
    if kind not in RUNNABLE or not isinstance(target, GpuTarget) or isinstance(gpu, Gfx):
        return "none"
    code: Code = "cubin" if kind == CodeKind.CUBIN else "ptx"
    verdict = gpu_code_runs(code, target, catalog.gpus.get(target.sm), gpu)
    return "none" if isinstance(verdict, RunsNot) else "jit" if verdict.how == "jit" else at_once


def target_name(target: CodeTarget) -> str:
    """A target as people call it: sm90a, gfx90a."""
    return f"sm{target}" if isinstance(target, GpuTarget) else str(target)


def waste(code: GpuCode, service: Service) -> list[TargetRow]:
    """The code that a GPU does not take: what is neither for it nor what it runs in the place of that."""
    return [
        row
        for row in code.rows
        if row.target.arch != service.sm and target_name(row.target) not in service.by
    ]
