"""The cores and the memory of this machine."""

from __future__ import annotations

import os
from pathlib import Path

GIB = 1 << 30
TYPICAL_CORES = 16  # of one build: more compilers than this gain little


def usable_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def usable_memory_gb() -> float:
    """The memory of this machine; a container's own limit counts."""
    return min(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), _container_memory()) / GIB


def _container_memory() -> float:
    try:
        text = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return float("inf")
    return float(text) if text.isdigit() else float("inf")


def builds_at_once(cores: int) -> int:
    """How many builds share a machine's cores."""
    return max(1, cores // TYPICAL_CORES)
