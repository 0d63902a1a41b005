"""Which builds are candidates for a machine: those of a wanted torch release and Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from torchsmith.catalog import Catalog, PythonVersion
from torchsmith.catalog.ranges import is_release
from torchsmith.core.problem import NotKnown
from torchsmith.core.text import listed
from torchsmith.host.commands import Environment
from torchsmith.host.wheel_needs import nearest_release
from torchsmith.matrix import Accepted, Cell, Variant, assess
from torchsmith.matrix.describe import state_of

Holds = Callable[[Variant], bool]  # whether a matrix has a cell


def of_release(cells: Sequence[Cell], torch: str, catalog: Catalog) -> Sequence[Cell]:
    """The cells of a torch release; all without one. Raises NotKnown for a release that is neither a line's
    nor a wheel's."""
    if not torch:
        return cells
    lines = {line.name for line in catalog.lines.values() if is_release(line.torch, torch)}
    if not lines and not any(is_release(known, torch) for known in catalog.wheel_releases):
        known = ", ".join(line.torch for line in catalog.releases)
        near = nearest_release(torch, catalog)
        hint = f"{f'nearest is {near}; ' if near else ''}known are {known}"
        raise NotKnown(f"unknown torch release {torch!r}", hint=hint)
    return [cell for cell in cells if cell.line in lines]


def for_python(
    python: PythonVersion, cells: Sequence[Cell], has: Holds | None, catalog: Catalog
) -> tuple[list[Cell], Holds | None]:
    """The cells of a built-in matrix for another Python than its own, and whether it has a cell."""
    made: list[Cell] = []
    for cell in cells:
        variant = cell.variant.changed(python=python)
        decision = assess(variant, catalog, cell.line)
        if isinstance(decision, Accepted):
            made.append(Cell(variant, cell.line, decision.warnings))
    usual = {cell.variant.python for cell in cells}
    return made, has and (lambda variant: any(has(variant.changed(python=own)) for own in usual))


def built_pythons(catalog: Catalog) -> list[PythonVersion]:
    """The Pythons that there are builds for."""
    lines = [line for line in catalog.releases if not all(one.lacks_pin for one in line.every_build.values())]
    return [python for python in catalog.pythons if any(python in line.pythons for line in lines)]


def why_none(
    torch: str, python: str, selectors: Sequence[str], catalog: Catalog, here: Environment
) -> Iterator[str]:
    """Yield that no candidate is what is asked for, what a build of the torch lacks, and what finds it."""
    lines = [line for line in catalog.releases if torch and is_release(line.torch, torch)]
    states = [(line, state) for line in lines if (state := state_of(line, catalog)).lacks]
    if not states:
        parts = [f"of torch {torch}"] * bool(torch) + [f"for Python {python}"] * bool(python)
        known = [*map(str, built_pythons(catalog))]
        others = f"; builds are for {known[0]} to {known[-1]}" if python and python not in known else ""
        yield f"no candidate is {listed([*parts, *selectors])}{others}"
    for line, state in states:
        command = state.next
        if all(build.lacks_pin for build in line.every_build.values()):
            command = here.add_line(line.name)
        yield f"there is no build of torch {line.torch} yet: it lacks {'; '.join(state.lacks)}"
        yield f"this finds it: {command}"
        yield "every build of this torch shares what it finds; then run this again, with -w and the folder"
