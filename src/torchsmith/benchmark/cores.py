"""Which cores to measure on: the idlest ones that this process may use, no two of them one physical core."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from torchsmith.core.problem import MissingRequirement, TooLarge

SAMPLE_SECONDS = 0.5  # between two readings of how busy each core is
CPU = Path("/sys/devices/system/cpu")


def busy_shares() -> dict[int, float]:
    """How busy each usable core is, from 0 to 1. Raises MissingRequirement if cores cannot be chosen."""
    if not hasattr(os, "sched_getaffinity"):
        raise MissingRequirement("processes cannot be pinned to cores here: compare needs Linux")
    before = _times()
    time.sleep(SAMPLE_SECONDS)
    after = _times()
    usable = os.sched_getaffinity(0)
    shares = {}
    for core in usable & after.keys() & before.keys():
        idle, total = (after[core][part] - before[core][part] for part in (0, 1))
        shares[core] = 1 - idle / total if total > 0 else 0.0
    return shares or dict.fromkeys(usable, 0.0)


def _times() -> dict[int, tuple[int, int]]:
    """For each core the ticks that it was idle, and all ticks."""
    try:
        lines = Path("/proc/stat").read_text().splitlines()
    except OSError:
        return {}
    times = {}
    for line in lines:
        name, *fields = line.split()
        if name.startswith("cpu") and name[3:].isdigit():
            ticks = [int(word) for word in fields]
            times[int(name[3:])] = (ticks[3] + ticks[4], sum(ticks[:8]))
    return times


def siblings(core: int) -> frozenset[int]:
    """The hardware threads that share a physical core."""
    try:
        text = (CPU / f"cpu{core}" / "topology" / "thread_siblings_list").read_text()
    except OSError:
        return frozenset({core})
    threads: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        threads.update(range(int(first), int(last or first) + 1))
    return frozenset(threads)


def choose(
    shares: Mapping[int, float], count: int, threads: Mapping[int, Iterable[int]] | None = None
) -> list[int]:
    """The `count` idlest cores; a core whose sibling is busy or taken comes last. Raises TooLarge."""
    if count > len(shares):
        raise TooLarge(f"{count} cores were asked for, and {len(shares)} may be used here")
    together = {core: set(threads[core] if threads else siblings(core)) for core in shares}
    taken: list[int] = []
    while len(taken) < count:
        left = [core for core in shares if core not in taken]
        taken.append(
            min(
                left,
                key=lambda core: (
                    bool(together[core] & set(taken)),
                    sum(shares.get(thread, 0.0) for thread in together[core]),
                    shares[core],
                    -core,  # the first cores serve interrupts
                ),
            )
        )
    return sorted(taken)
