"""GPU code of an artifact as a whole: what is there for which target, and which GPUs it serves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeVar

from torchsmith.artifact.container import CodeEntry, CodeKind, Container
from torchsmith.artifact.fatbin import RELOCATABLE
from torchsmith.artifact.known import known
from torchsmith.catalog import Catalog, Gpu, GpuTarget
from torchsmith.catalog.axes import CodeTarget, NamedTarget
from torchsmith.catalog.facts import Gfx
from torchsmith.catalog.runs import Code, Runs, gfx_code_runs, gpu_code_runs
from torchsmith.core.text import grouped

MACHINE_CODE = (CodeKind.CUBIN, CodeKind.HSACO)
RUNNABLE = (CodeKind.CUBIN, CodeKind.PTX)  # of NVIDIA's kinds
CodeKey = tuple[CodeKind, CodeTarget]
GpuVerdict = Literal["native", "jit", "partly", "no"]


@dataclass(frozen=True, slots=True)
class TargetRow:
    """All code of one kind for one target."""

    kind: CodeKind
    target: CodeTarget
    entries: int
    size: int
    containers: int
    stray: bool  # only in some containers, in every library that has it


P = TypeVar("P", TargetRow, CodeEntry)


@dataclass(frozen=True, slots=True)
class GpuCode:
    """The GPU code of some libraries."""

    rows: tuple[TargetRow, ...]
    containers: int
    size: int


@dataclass(frozen=True, slots=True)
class Service:
    """How a GPU is served: containers that run at once, by compiling first, and not."""

    sm: str  # or another maker's architecture
    title: str
    native: int
    jit: int
    none: int
    verdict: GpuVerdict
    exact: bool  # every container holds code made for this very GPU

    @property
    def total(self) -> int:
        return self.native + self.jit + self.none


def gpu_code(libraries: Iterable[Iterable[Container]]) -> GpuCode:
    """Count what the containers of each library hold, by kind and target."""
    total = 0
    entries: Counter[CodeKey] = Counter()
    sizes: Counter[CodeKey] = Counter()
    having: Counter[CodeKey] = Counter()
    throughout: set[CodeKey] = set()
    for containers in libraries:
        holding = [container for container in containers if container.entries]
        total += len(holding)
        here: Counter[CodeKey] = Counter()
        for container in holding:
            here.update({(entry.kind, entry.target) for entry in container.entries})
            for entry in container.entries:
                entries[entry.kind, entry.target] += 1
                sizes[entry.kind, entry.target] += entry.size
        having += here
        throughout.update(key for key, count in here.items() if count == len(holding))
    rows = tuple(
        TargetRow(
            kind=key[0],
            target=key[1],
            entries=entries[key],
            size=sizes[key],
            containers=having[key],
            stray=key not in throughout,
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
    """The containers that the run time loads on every GPU; what was linked into others is never launched
    itself, and what NCCL has for one target alone on no other."""
    holding = [container for container in containers if container.entries]
    loaded = [container for container in holding if container.section != RELOCATABLE] or holding
    nccl = known().nccl
    rest = [part for part in loaded if not all(str(entry.target) in nccl.targets for entry in part.entries)]
    return rest if rest and len(loaded) - len(rest) <= nccl.containers else loaded


def services(
    libraries: Iterable[Iterable[Container]], gpus: Iterable[Gpu | Gfx], catalog: Catalog
) -> list[Service]:
    """How each GPU is served: as well as by the library that serves it worst."""
    parts = [alike(part) for part in map(launched, libraries) if part]
    return [_worst([service_of(part, gpu, catalog) for part in parts], gpu) for gpu in gpus]


def _worst(parts: list[Service], gpu: Gpu | Gfx) -> Service:
    verdicts = {part.verdict for part in parts}
    if len(verdicts) == 1:
        verdict = verdicts.pop()
    elif not verdicts:
        verdict = "no"
    else:
        verdict = "jit" if verdicts == {"native", "jit"} else "partly"
    native, jit, none = (sum(getattr(part, name) for part in parts) for name in ("native", "jit", "none"))
    exact = bool(parts) and all(part.exact for part in parts)
    return Service(gpu.name, gpu.title, native, jit, none, verdict, exact)


def alike(containers: Iterable[Container]) -> Counter[frozenset[CodeKey]]:
    """How many containers hold code of the same kinds for the same targets."""
    return Counter(frozenset([(entry.kind, entry.target) for entry in part.entries]) for part in containers)


def service_of(containers: Counter[frozenset[CodeKey]], gpu: Gpu | Gfx, catalog: Catalog) -> Service:
    """How a GPU is served by the containers of one library."""
    counts = {"native": 0, "jit": 0, "none": 0}
    own = 0
    for codes, count in containers.items():
        supports = {support_of(*code, gpu, catalog) for code in codes}
        counts["native" if "native" in supports else "jit" if "jit" in supports else "none"] += count
        own += count * any(kind in MACHINE_CODE and target.arch == gpu.name for kind, target in codes)
    total = containers.total()
    if counts["none"] == total:
        verdict: GpuVerdict = "no"
    elif counts["native"] == total:
        verdict = "native"
    else:
        verdict = "partly" if counts["none"] else "jit"
    exact = own == total
    return Service(gpu.name, gpu.title, counts["native"], counts["jit"], counts["none"], verdict, exact)


def support_of(kind: CodeKind, target: CodeTarget, gpu: Gpu | Gfx, catalog: Catalog) -> str:
    """How a GPU takes a piece of code: native, jit or none."""
    if isinstance(target, NamedTarget):
        jit = kind == CodeKind.SPIRV and isinstance(gpu, Gfx)
        fits = kind == CodeKind.HSACO and isinstance(gpu, Gfx) and gfx_code_runs(target, gpu)
        return "jit" if jit else "native" if fits else "none"
    if not isinstance(target, GpuTarget) or kind not in RUNNABLE or isinstance(gpu, Gfx):
        return "none"
    code: Code = "cubin" if kind == CodeKind.CUBIN else "ptx"
    verdict = gpu_code_runs(code, target, catalog.gpus.get(target.sm), gpu)
    return verdict.how if isinstance(verdict, Runs) else "none"


def chosen_code(pieces: Iterable[P], gpu: Gpu | Gfx, catalog: Catalog) -> list[P]:
    """The pieces that a GPU takes: machine code made for it, else the closest, else what it compiles."""
    ranked = grouped(
        ((support == "native", piece.target.arch == gpu.name, _number(piece.target)), piece)
        for piece in pieces
        if (support := support_of(piece.kind, piece.target, gpu, catalog)) != "none"
    )
    return ranked[max(ranked)] if ranked else []


def waste(code: GpuCode, arch: str) -> int:
    """Bytes of code for other targets than this one; all of them for a build without a GPU."""
    return sum(row.size for row in code.rows if row.target.arch != arch)
