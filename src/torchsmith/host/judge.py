"""Whether a variant runs on a machine: its CPU, its GPUs, its driver, with the reason either way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from torchsmith.catalog import Catalog, GpuTarget, Sm
from torchsmith.catalog.runs import Verdict, driver_runs, gpu_code_runs, isa_runs
from torchsmith.host.resolve import Capability
from torchsmith.matrix import Cell, Cuda, Reason, Variant
from torchsmith.matrix.cells import UNUSABLE


class Fits(msgspec.Struct, frozen=True):
    """A candidate that runs here: on which GPUs, and what must be true that no source told."""

    cell: Cell
    exact: tuple[Sm, ...] = ()  # GPUs it was compiled for
    compatible: tuple[Sm, ...] = ()  # GPUs that run it, though it was compiled for a sibling
    idle: tuple[Sm, ...] = ()  # GPUs that it cannot use
    reasons: tuple[str, ...] = ()
    provided: tuple[Reason, ...] = ()

    @property
    def variant(self) -> Variant:
        return self.cell.variant

    @property
    def used(self) -> tuple[Sm, ...]:
        return self.exact + self.compatible

    @property
    def unproved(self) -> tuple[Reason, ...]:
        return tuple(warning for warning in self.cell.warnings if warning.code == "unproved")

    def assumes(self, code: str) -> bool:
        """Whether something of this kind is unknown and must be true."""
        return any(reason.code == code for reason in self.provided)


class Misses(msgspec.Struct, frozen=True):
    """A candidate that does not run here, and everything that stands in its way."""

    cell: Cell
    reasons: tuple[Reason, ...]

    @property
    def variant(self) -> Variant:
        return self.cell.variant


@dataclass(slots=True)
class _Case:
    """What speaks for a cell, what against it, and what would have to be true."""

    pro: list[str] = field(default_factory=list)
    contra: list[Reason] = field(default_factory=list)
    provided: list[Reason] = field(default_factory=list)

    def add(self, code: str, verdict: Verdict, hint: str = "") -> None:
        if verdict:
            self.pro.append(verdict.reason)
        else:
            self.contra.append(Reason(code, verdict.reason, hint))


def judge(host: Capability, cell: Cell, catalog: Catalog) -> Fits | Misses:
    """Whether a cell runs on a machine, and why or why not."""
    case = _Case(contra=[warning for warning in cell.warnings if warning.code == UNUSABLE])
    exact: tuple[Sm, ...] = ()
    compatible: tuple[Sm, ...] = ()
    target = cell.variant.target
    if isinstance(target, Cuda):
        exact, compatible = _judge_gpus(host, target, catalog, case)
        _judge_driver(host, target, exact + compatible, catalog, case)
    _judge_cpu(host, cell, catalog, case)
    if case.contra:
        return Misses(cell, tuple(case.contra))
    idle = tuple(sm for sm in host.sms or () if sm not in exact + compatible)
    return Fits(cell, exact, compatible, idle, tuple(case.pro), tuple(case.provided))


def _judge_cpu(host: Capability, cell: Cell, catalog: Catalog, case: _Case) -> None:
    isa = catalog.isas[cell.variant.isa]
    if host.system is None:
        case.provided.append(Reason("system", f"the machine is {isa.platform}"))
    elif host.system != isa.platform:
        case.contra.append(Reason("system", f"it is for {isa.platform}, the machine is {host.system}"))
        return
    if host.features is None:
        case.provided.append(Reason("isa", f"the CPU has {', '.join(sorted(isa.needs))}"))
    else:
        case.add("isa", isa_runs(isa, host.features))


def _judge_gpus(
    host: Capability, target: Cuda, catalog: Catalog, case: _Case
) -> tuple[tuple[Sm, ...], tuple[Sm, ...]]:
    """The GPUs that the cell was compiled for, and those that run it all the same."""
    if not host.sms:
        case.contra.append(_no_gpu(host, target))
        return (), ()
    exact = tuple(sm for sm in host.sms if sm == target.sm)
    compatible: list[Sm] = []
    refused: list[str] = []
    case.pro.extend(f"{sm} runs its own code" for sm in exact)
    for sm in host.sms:
        if sm in exact:
            continue
        gpu = catalog.gpus.get(sm)
        if gpu is None:
            refused.append(f"{sm} is not in the catalog, so only code for {sm} itself is known to run there")
            continue
        verdict = gpu_code_runs("cubin", GpuTarget(target.sm), catalog.gpus.get(target.sm), gpu)
        (case.pro if verdict else refused).append(verdict.reason)
        if verdict:
            compatible.append(sm)
    if not exact and not compatible:
        case.contra.append(Reason("gpu", "; ".join(refused)))
    return exact, tuple(compatible)


def _no_gpu(host: Capability, target: Cuda) -> Reason:
    if host.sms is None:
        return Reason("no-gpu-facts", f"it needs a GPU that runs {target.sm}, and no GPU is known here")
    if host.unknown_gpus:
        text = f"the architecture of {', '.join(host.unknown_gpus)} is unknown: no GPU build can be promised"
        return Reason("gpu-unknown", text)
    return Reason("no-gpu", f"it needs a GPU that runs {target.sm}, and the machine has no NVIDIA GPU")


def _judge_driver(host: Capability, target: Cuda, used: Sequence[Sm], catalog: Catalog, case: _Case) -> None:
    toolkit = catalog.cuda[target.version]
    gpus = [catalog.gpus[sm] for sm in used if sm in catalog.gpus]
    if host.driver is None:
        # A GPU that works at all has a driver that knows it; that may already be enough.
        floor = max((gpu.min_driver for gpu in gpus), default=None)
        if host.sms and (floor is None or floor < toolkit.min_driver):
            case.provided.append(Reason("driver", f"the driver is {toolkit.min_driver} or newer"))
        return
    needed = max((toolkit.min_driver, *(gpu.min_driver for gpu in gpus)))
    cure = f"update the driver to {needed} or newer"
    case.add("driver", driver_runs(toolkit, host.driver), cure)
    for gpu in gpus:
        if host.driver < gpu.min_driver:
            text = f"driver {host.driver} does not know {gpu.name}, which needs {gpu.min_driver} or newer"
            case.contra.append(Reason("driver", text, cure))
