"""Packages that are wanted together: the cells where all of them exist, and what comes with each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from torchsmith.catalog import Catalog, Package
from torchsmith.edge.problem import by_name
from torchsmith.matrix import Accepted, Cell, Variant, assess

Holds = Callable[[Variant], bool]  # whether a matrix has a cell


class Stack(msgspec.Struct, frozen=True):
    """The packages that a person named; the last of them in the order of building stands for all."""

    lead: Package
    others: tuple[Package, ...] = ()  # wanted in the same cell
    named: bool = False  # otherwise it is what the matrix has: all of it comes along

    def cells(self, everything: Iterable[Cell]) -> list[Cell]:
        """The lead's cells where the matrix has all of them."""
        cells = list(everything)
        names = {cell.name for cell in cells}
        own = (cell for cell in cells if cell.variant.package == self.lead)
        return [cell for cell in own if all(cell.variant.of(one).name in names for one in self.others)]

    def exists(self, variant: Variant, catalog: Catalog, line: str) -> bool:
        """Whether all of them can be built for a cell of the lead's."""
        return all(isinstance(assess(variant.of(one), catalog, line), Accepted) for one in self.others)

    def beside(self, catalog: Catalog) -> list[Package]:
        """What belongs to a cell besides the lead: what is named or needed, else all that there is."""
        if not self.named:
            return [one for one in catalog.packages.values() if one != self.lead]
        found = {one.name: one for one in catalog.below(self.lead)}
        for other in self.others:
            found |= {one.name: one for one in catalog.below(other)}
        return [one for name, one in catalog.packages.items() if name in found and one != self.lead]

    def brought(self, variant: Variant, has: Holds, catalog: Catalog) -> tuple[str, ...]:
        """What a cell's recipe brings by itself because the matrix has no cell of it."""
        needed = [one for one in catalog.below(self.lead) if one != self.lead]
        return tuple(one.title for one in needed if not has(variant.of(one)))


def stack_of(names: Sequence[str], cells: Iterable[Cell], catalog: Catalog) -> Stack:
    """The packages that are named, or the first that a matrix has, which is torch wherever it has any."""
    if not names:
        having = {cell.variant.package for cell in cells}
        return Stack(min(having, key=lambda one: one.order, default=catalog.torch))
    found = {name: by_name("package", name, catalog.packages) for name in names}
    # The one with most below it: its recipe brings the others where the matrix has them not.
    *others, lead = sorted(found.values(), key=lambda one: (len(catalog.below(one)), one.order))
    return Stack(lead, tuple(others), named=True)
