"""Candidates in order: which of those that run is best for a machine, and what puts each behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from torchsmith.catalog import Catalog, Workload
from torchsmith.host.judge import Fits, Misses, judge
from torchsmith.host.resolve import Capability
from torchsmith.matrix import Cell, Cuda, Flavor


class Ranking(msgspec.Struct, frozen=True):
    """All candidates: those that run, the best first, and the others, the nearest first."""

    fits: tuple[Fits, ...]
    misses: tuple[Misses, ...]


def rank(
    host: Capability, cells: Iterable[Cell], catalog: Catalog, workload: Workload, *, able: bool = False
) -> Ranking:
    """Judge every cell for a machine and order the answers; `able`: those that run alone."""
    verdicts = [judge(host, cell, catalog) for cell in cells]
    fits = [verdict for verdict in verdicts if isinstance(verdict, Fits)]
    misses = [] if able else [verdict for verdict in verdicts if isinstance(verdict, Misses)]
    fits.sort(key=order(catalog, workload))
    misses.sort(key=lambda miss: _distance(miss, host, catalog, workload))
    return Ranking(tuple(fits), tuple(misses))


HARDEST = 20
# How hard each obstacle is: a driver can be updated, a CPU cannot be changed.
HARDNESS = {
    "driver": 1,
    "isa": 3,
    "gpu": 5,
    "no-gpu-facts": 6,
    "gpu-unknown": 6,
    "no-gpu": 8,
    "system": HARDEST,
}


def _distance(
    miss: Misses, host: Capability, catalog: Catalog, workload: Workload
) -> tuple[int, int, int, str]:
    """How far a candidate is from running here."""
    hardness = sum(HARDNESS.get(code, HARDEST) for code in {reason.code for reason in miss.reasons})
    sm = miss.variant.sm
    gap = min((abs(sm.number - other.number) for other in host.sms), default=0) if sm and host.sms else 0
    return hardness, gap, place_of_isa(miss.variant.isa, catalog, workload), miss.variant.name


class Criterion(msgspec.Struct, frozen=True):
    """One thing that makes a candidate better than another, and how to say so of the worse one."""

    key: Callable[[Fits], Any]  # smaller is better
    say: Callable[[Fits, Fits], str]  # of the worse one, beside the better one


def criteria(catalog: Catalog, workload: Workload) -> tuple[Criterion, ...]:
    """What decides between candidates that all run, the weightiest first."""
    return (
        Criterion(
            lambda fit: len(fit.idle),
            lambda fit, best: f"it leaves {', '.join(map(str, fit.idle))} idle",
        ),
        Criterion(
            lambda fit: len(fit.provided),
            lambda fit, best: f"it runs only if {' and '.join(reason.text for reason in fit.provided)}",
        ),
        Criterion(
            lambda fit: (-len(fit.exact), _gap(fit)),
            lambda fit, best: f"it runs as compatible code, and {best.variant.sm} is nearer to the GPU",
        ),
        Criterion(
            lambda fit: _isa_key(fit, catalog, workload),
            lambda fit, best: f"{best.variant.isa} comes before {fit.variant.isa} for {workload.name} use",
        ),
        Criterion(
            lambda fit: bool(fit.unproved),
            lambda fit, best: f"nobody proved it: {fit.unproved[0]}",
        ),
        Criterion(
            lambda fit: _cuda_key(fit, catalog),
            lambda fit, best: f"CUDA {best.variant.cuda} {_why_cuda(fit)}",
        ),
        Criterion(
            lambda fit: list(Flavor).index(fit.variant.flavor),
            lambda fit, best: f"it is a {fit.variant.flavor} build",
        ),
        Criterion(
            lambda fit: (-fit.variant.python.major, -fit.variant.python.minor),
            lambda fit, best: f"Python {best.variant.python} is newer",
        ),
    )


def _gap(fit: Fits) -> int:
    """How far the GPUs are above the architecture that the code was compiled for."""
    sm = fit.variant.sm
    return sum(gpu.number - sm.number for gpu in fit.compatible) if sm else 0


def _isa_key(fit: Fits, catalog: Catalog, workload: Workload) -> tuple[int, int]:
    """The workload's order; the least demanding first where nothing is known of the CPU."""
    place = place_of_isa(fit.variant.isa, catalog, workload)
    return (catalog.isas[fit.variant.isa].level if fit.assumes("isa") else 0), place


def place_of_isa(isa: str, catalog: Catalog, workload: Workload) -> int:
    """Where an instruction set stands for a workload, the best at 0; one that it does not list comes last."""
    if isa in workload.isas:
        return workload.isas.index(isa)
    return len(workload.isas) + 100 - catalog.isas[isa].level


def _cuda_key(fit: Fits, catalog: Catalog) -> tuple[Any, ...]:
    """The newest CUDA; the least demanding first where the driver is unknown."""
    if not isinstance(fit.variant.target, Cuda):
        return ()
    version = fit.variant.target.version
    asked = catalog.cuda[version].min_driver.parts if fit.assumes("driver") else ()
    return asked, -version.major, -version.minor


def _why_cuda(fit: Fits) -> str:
    return "asks less of a driver that is not known" if fit.assumes("driver") else "is newer and runs too"


def order(catalog: Catalog, workload: Workload) -> Callable[[Fits], tuple[Any, ...]]:
    """The sort key of candidates that run."""
    wanted = criteria(catalog, workload)
    return lambda fit: (*(criterion.key(fit) for criterion in wanted), fit.variant.name)


def asks_no_more(fit: Fits, other: Fits, catalog: Catalog) -> bool:
    """Whether all that a candidate assumes of a machine is assumed by another one as well."""
    own, theirs = catalog.isas[fit.variant.isa], catalog.isas[other.variant.isa]
    if fit.assumes("system") and not (other.assumes("system") and own.platform == theirs.platform):
        return False
    if fit.assumes("isa") and not (other.assumes("isa") and own.needs <= theirs.needs):
        return False
    if not fit.assumes("driver"):
        return True
    if not other.assumes("driver") or fit.variant.cuda is None or other.variant.cuda is None:
        return False
    return catalog.cuda[fit.variant.cuda].min_driver <= catalog.cuda[other.variant.cuda].min_driver


def why_after(fit: Fits, best: Fits, catalog: Catalog, workload: Workload) -> str:
    """What puts a candidate behind a better one."""
    for criterion in criteria(catalog, workload):
        if criterion.key(fit) != criterion.key(best):
            return criterion.say(fit, best)
    return "it is as good"
