"""What building variants costs, by the coarse estimates of the catalog."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from torchsmith.catalog import Catalog
from torchsmith.core.cores import builds_at_once, usable_cores, usable_memory_gb
from torchsmith.core.text import counted, some_of
from torchsmith.matrix import Variant
from torchsmith.matrix.estimate import estimate_of


class Cost(msgspec.Struct, frozen=True):
    """The cost of building variants one after the other, without what they depend on."""

    hours: float = 0.0
    cores: int = 0  # that the hours are for: those that `torchsmith build` gives to one build
    machine_cores: int = 0  # all of the machine
    memory_gb: float = 0.0  # with so many cores
    build_gb: float = 0.0  # free disk that the largest single build needs
    store_gb: float = 0.0
    not_estimated: tuple[str, ...] = ()  # variants without an estimate

    def __str__(self) -> str:
        if not self.cores:
            return "not estimated"
        unknown = counted(len(self.not_estimated), "build")
        missing = f"; {unknown} not estimated: {some_of(self.not_estimated)}" if self.not_estimated else ""
        some = f"{self.cores} of " if self.cores < self.machine_cores else ""
        cores = f"{some}{counted(self.machine_cores, 'core')}"
        return (
            f"about {self.hours:.1f} h on {cores}, {self.memory_gb:.0f} GB of"
            f" memory, {self.build_gb:.0f} GB of disk{missing}"
        )


def cost_of(variants: Sequence[Variant], catalog: Catalog, stated: int = 0) -> Cost:
    """Return the cost of these variants one after the other, on a machine with the cores that are stated,
    else on this one. Of many cores a build uses as many as `torchsmith build` gives it, and on this machine
    no more than its memory serves.
    """
    machine_cores = stated or usable_cores()
    side_by_side = builds_at_once(machine_cores)
    cores = machine_cores // side_by_side
    rows = [estimate_of(variant, catalog) for variant in variants]
    known = [row for row in rows if row is not None]
    if not stated:
        memory_gb = usable_memory_gb() / side_by_side
        cores = min([cores, *(row.compilers_within(memory_gb) for row in known)])
    missing = (variant.name for variant, row in zip(variants, rows, strict=True) if row is None)
    return Cost(
        hours=sum((row.hours * row.cores / cores for row in known), 0.0),
        cores=cores if known else 0,
        machine_cores=machine_cores,
        memory_gb=max((row.memory_gb(cores) for row in known), default=0.0),
        build_gb=max((row.build_gb for row in known), default=0.0),
        store_gb=sum((row.store_gb for row in known), 0.0),
        not_estimated=tuple(missing),
    )
