"""This machine: cores, memory and disk, and whether a plan fits into them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torchsmith.edge.problem import Lacking
from torchsmith.record import Expected

GIB = 1 << 30
TYPICAL_CORES = 16  # of one build: more compilers than this gain little


@dataclass(frozen=True, slots=True)
class Machine:
    """What there is to build with."""

    cores: int
    memory_gb: float
    store_gb: float  # free where the store lies
    scratch_gb: float  # free where builds run
    one_disk: bool  # whether those two are the same space


def this_machine(store: Path, scratch: Path) -> Machine:
    """Measured now; a container's own limits count."""
    store, scratch = _existing(store), _existing(scratch)
    return Machine(
        len(os.sched_getaffinity(0)),
        min(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), _container_memory()) / GIB,
        shutil.disk_usage(store).free / GIB,
        shutil.disk_usage(scratch).free / GIB,
        store.stat().st_dev == scratch.stat().st_dev,
    )


def _existing(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path


def _container_memory() -> float:
    try:
        text = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return float("inf")
    return float(text) if text.isdigit() else float("inf")


@dataclass(frozen=True, slots=True)
class Share:
    """How a machine is divided: jobs side by side, and the cores of each."""

    jobs: int
    cores: int
    memory_gb: float  # for all jobs together


def share_out(
    machine: Machine, per_core_gb: float, jobs: int | None, cores: int | None, memory: float | None
) -> Share:
    """Divide cores and memory; each job has at most as many compilers as its memory serves."""
    all_cores = cores or machine.cores
    all_memory = memory or machine.memory_gb
    side_by_side = jobs or max(1, all_cores // TYPICAL_CORES)
    served = int(all_memory / side_by_side / per_core_gb) if per_core_gb else all_cores
    return Share(side_by_side, max(1, min(all_cores // side_by_side, served)), all_memory)


def size(gb: float) -> str:
    """Gigabytes as people say them; of less than one, megabytes."""
    return f"{gb:.0f} GB" if gb >= 1 else f"{gb * 1024:.1f} MB"


def require_room(machine: Machine, share: Share, expected: Sequence[Expected], per_core_gb: float) -> None:
    """Refuse, with the numbers, where memory or disk cannot suffice."""
    if not expected:
        return
    if share.memory_gb < per_core_gb * share.jobs:
        raise Lacking(
            f"memory does not suffice: {share.jobs} jobs with one compiler each need "
            f"{per_core_gb * share.jobs:.1f} GB, there are {share.memory_gb:.1f} GB",
            hint="fewer --jobs, another builder, or your own memory_gb in catalog/estimates.toml",
        )
    store = sum(one.store_gb for one in expected)
    largest = sorted((one.build_gb for one in expected), reverse=True)
    scratch = sum(largest[: share.jobs])
    if machine.one_disk:
        needs = [("for the store and the build folders together", store + scratch, machine.store_gb)]
    else:
        needs = [
            ("for the store", store, machine.store_gb),
            ("where builds run", scratch, machine.scratch_gb),
        ]
    for place, need, free in needs:
        if need > free:
            raise Lacking(
                f"disk does not suffice: {size(need)} are needed {place}, {size(free)} are free",
                hint="build fewer cells at once, collect garbage, or lay your own figures over "
                "catalog/estimates.toml if you know better",
            )
