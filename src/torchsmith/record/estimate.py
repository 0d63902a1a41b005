"""What a build will cost: from builds of the same thing, else from the catalog's table."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from torchsmith.catalog import Catalog, Estimate

Basis = Literal[
    "own_build",
    "own_rehearsal",
    "kind_build",
    "kind_rehearsal",
    "catalog_measured",
    "guess",
    "unknown",
]
RECENT_BUILDS = 5  # that an estimate rests on
OTHER = "other"  # the catalog's entry for builds that have none of their own


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """A build that succeeded, and how long it took; or what a rehearsal says that it would take."""

    name: str
    package: str
    gpu: bool
    system: str
    cores: int
    seconds: float
    rehearsed: bool = False


@dataclass(frozen=True, slots=True)
class Work:
    """A build to estimate; `package` is the catalog's word for its kind."""

    name: str
    package: str
    gpu: bool
    system: str
    gpus: int = 1  # that it compiles for
    estimated: bool = True  # whether the catalog has figures for it; else it takes those of a similar one


@dataclass(frozen=True, slots=True)
class Expected:
    """What a build takes on a given number of cores, and what that is based on."""

    seconds: float
    memory_gb: float
    build_gb: float
    store_gb: float
    basis: Basis  # of the time
    guesses: tuple[str, ...] = ()  # the figures that were not measured
    steps: int = 0  # of the compiler's own count; 0: not known
    cached_seconds: float = 0.0  # besides, that a compile cache saves


def expect(work: Work, past: Sequence[Past], catalog: Catalog, cores: int) -> Expected:
    """The same build's median on record, or its rehearsal's, else those of its kind, else the catalog's."""
    row = estimate_row(catalog, work.package, work.gpu)
    share = cores / row.cores
    figures = row.memory_gb(cores), row.build_gb, row.store_gb
    guesses = tuple(name for name in ("memory_gb", "build_gb", "store_gb") if name not in row.measured)
    same = [build for build in past if build.name == work.name and build.system == work.system]
    kind = [
        build
        for build in past
        if (build.package, build.gpu, build.system) == (work.package, work.gpu, work.system)
        and build.package != OTHER
    ]
    known: tuple[tuple[list[Past], Basis], ...] = (
        ([build for build in same if not build.rehearsed], "own_build"),
        ([build for build in same if build.rehearsed], "own_rehearsal"),
        ([build for build in kind if not build.rehearsed], "kind_build"),
        ([build for build in kind if build.rehearsed], "kind_rehearsal"),
    )
    for builds, basis in known:
        if builds:
            # The middle of the last few, as core-seconds spread over the cores at hand.
            taken = [build.seconds * max(build.cores, 1) / cores for build in builds[-RECENT_BUILDS:]]
            return Expected(statistics.median(taken), *figures, basis, guesses, row.steps)
    seconds = (row.hours + row.gpu_hours * work.gpus) * 3600 / share
    if not work.estimated:
        every = ("seconds", "memory_gb", "build_gb", "store_gb")
        return Expected(seconds, *figures, "unknown", every)
    if "hours" in row.measured:
        return Expected(seconds, *figures, "catalog_measured", guesses, row.steps)
    return Expected(seconds, *figures, "guess", ("seconds", *guesses), row.steps)


def estimate_row(catalog: Catalog, package: str, gpu: bool) -> Estimate:
    """The catalog's figures for a kind of build; those of `other` if it has none."""
    rows = list(catalog.estimates.values())
    for row in rows:
        if row.package == package and row.gpu == gpu:
            return row
    return next((row for row in rows if row.package == package), catalog.estimates[OTHER])


def hungriest(catalog: Catalog, works: Iterable[Work]) -> Estimate | None:
    """The figures of the build with the largest compile unit; None if there is no build."""
    rows = (estimate_row(catalog, work.package, work.gpu) for work in works)
    return max(rows, key=lambda row: (row.largest_gb, row.unit_gb), default=None)
