"""GPU code of an artifact as a whole: what is there for which target, and which GPUs it serves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from torchsmith.artifact.fatbin import LAUNCHED, Container, Kind
from torchsmith.catalog import Catalog, Gpu, GpuTarget, Sm
from torchsmith.catalog.runs import Runs, gpu_code_runs

NEARLY_ALL = 0.95  # a few containers hold code that only some GPUs can use, in every build


Key = tuple[Kind, GpuTarget]


@dataclass(frozen=True, slots=True)
class TargetRow:
    """All code of one kind for one target."""

    kind: Kind
    target: GpuTarget
    entries: int
    size: int
    containers: int
    stray: bool  # only in some containers, in every library that has it


@dataclass(frozen=True, slots=True)
class GpuCode:
    """The GPU code of some libraries."""

    rows: tuple[TargetRow, ...]
    containers: int
    size: int


@dataclass(frozen=True, slots=True)
class Service:
    """How a GPU is served: containers that run at once, by compiling first, and not."""

    sm: Sm
    title: str
    native: int
    jit: int
    none: int
    verdict: Literal["native", "jit", "partly", "no"]
    exact: bool  # nearly every container holds code made for this very GPU

    @property
    def total(self) -> int:
        return self.native + self.jit + self.none


def gpu_code(libraries: Iterable[Iterable[Container]]) -> GpuCode:
    """Count what the containers of each library hold, by kind and target."""
    total = 0
    entries: Counter[Key] = Counter()
    sizes: Counter[Key] = Counter()
    having: Counter[Key] = Counter()
    throughout: set[Key] = set()
    for containers in libraries:
        holding = [container for container in containers if container.entries]
        total += len(holding)
        here: Counter[Key] = Counter()
        for container in holding:
            here.update({(entry.kind, entry.target) for entry in container.entries})
            for entry in container.entries:
                entries[entry.kind, entry.target] += 1
                sizes[entry.kind, entry.target] += entry.size
        having += here
        throughout.update(key for key, count in here.items() if count >= NEARLY_ALL * len(holding))
    rows = tuple(
        TargetRow(*key, entries[key], sizes[key], having[key], key not in throughout)
        for key in sorted(entries, key=lambda key: key[::-1])
    )
    return GpuCode(rows, total, sizes.total())


def services(containers: Iterable[Container], gpus: Iterable[Gpu], catalog: Catalog) -> list[Service]:
    """How each GPU is served by these containers; what was linked into others is never launched itself."""
    holding = [container for container in containers if container.entries]
    holding = [container for container in holding if container.section == LAUNCHED] or holding
    return [_service(holding, gpu, catalog) for gpu in gpus]


def _service(containers: list[Container], gpu: Gpu, catalog: Catalog) -> Service:
    counts = {"native": 0, "jit": 0, "none": 0}
    own = 0
    for container in containers:
        ways = {_way(entry.kind, entry.target, gpu, catalog) for entry in container.entries}
        counts["native" if "native" in ways else "jit" if "jit" in ways else "none"] += 1
        own += any(entry.kind == Kind.CUBIN and entry.target.sm == gpu.sm for entry in container.entries)
    enough = NEARLY_ALL * len(containers)
    if not containers or counts["native"] + counts["jit"] == 0:
        verdict: Literal["native", "jit", "partly", "no"] = "no"
    elif counts["native"] >= enough:
        verdict = "native"
    elif counts["native"] + counts["jit"] >= enough:
        verdict = "jit"
    else:
        verdict = "partly"
    exact = bool(containers) and own >= enough
    return Service(gpu.sm, gpu.title, counts["native"], counts["jit"], counts["none"], verdict, exact)


def _way(kind: Kind, target: GpuTarget, gpu: Gpu, catalog: Catalog) -> str:
    if kind not in (Kind.CUBIN, Kind.PTX):
        return "none"
    code: Literal["cubin", "ptx"] = "cubin" if kind == Kind.CUBIN else "ptx"
    verdict = gpu_code_runs(code, target, catalog.gpus.get(target.sm), gpu)
    return verdict.how if isinstance(verdict, Runs) else "none"


def waste(code: GpuCode, sm: Sm | None) -> int:
    """Bytes of code for other targets than this one; all of them for a build without a GPU."""
    return sum(row.size for row in code.rows if sm is None or row.target.sm != sm)
