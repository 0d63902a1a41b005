"""From a description of a matrix to its cells, with a reason for every cell that is left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product

import msgspec
from msgspec.structs import replace

from torchsmith.catalog import Catalog, CudaVersion, Line, Package, PythonVersion, Sm, StatedRelease
from torchsmith.catalog.gpu_names import gpu_by_name
from torchsmith.core.problem import Conflict, Empty, ValuePath, did_you_mean
from torchsmith.core.text import shell_word
from torchsmith.matrix.cells import UNUSABLE, Accepted, Reason, Rejected, assess, find_line, why_unbuilt
from torchsmith.matrix.select import COMBINED, Selector
from torchsmith.matrix.variant import Accelerator, CpuOnly, Cuda, Target, Variant


def isas_with(target: Target, isas: Iterable[str]) -> Iterable[str]:
    """The instruction sets that a target is built with: all of these, or the one that goes with it."""
    return (target.isa,) if isinstance(target, Accelerator) and target.isa else isas


class Block(msgspec.Struct, frozen=True):
    """A product of axes, built by one line. `cudas` has None for CPU-only cells."""

    packages: tuple[Package, ...]
    pythons: tuple[PythonVersion, ...]
    cudas: tuple[CudaVersion | None, ...]
    sms: tuple[Sm, ...]
    isas: tuple[str, ...]
    accelerators: tuple[Accelerator, ...] = ()  # of other backends
    line: str | None = None
    release: StatedRelease | None = None  # that the names of its cells state
    usable: bool = False  # leave out what no machine can use
    path: ValuePath = ()  # where it is in its file

    def variants(self) -> Iterator[Variant]:
        for package, python, target in product(self.packages, self.pythons, self._targets()):
            for isa in isas_with(target, self.isas):
                yield Variant(package, python, target, isa, release=self.release)

    def holds(self, variant: Variant) -> bool:
        """Whether the product has a cell, buildable or not."""
        return (
            variant.package in self.packages
            and variant.python in self.pythons
            and variant.target in self._targets()
            and variant.isa in isas_with(variant.target, self.isas)
            and variant.release == self.release
            and not variant.flavor
        )

    def _targets(self) -> Iterator[Target]:
        for cuda in self.cudas:
            yield from (Cuda(cuda, sm) for sm in self.sms) if cuda else (CpuOnly(),)
        yield from self.accelerators


class Include(msgspec.Struct, frozen=True):
    """A single cell that is wanted by name."""

    variant: Variant
    line: str | None = None
    path: ValuePath = ()


class MatrixSpec(msgspec.Struct, frozen=True):
    """What is wanted: products of axes, single cells, and what to leave out."""

    blocks: tuple[Block, ...] = ()
    include: tuple[Include, ...] = ()
    exclude: tuple[Selector, ...] = ()

    def of(self, package: Package) -> MatrixSpec:
        """What of it is about one package."""
        return MatrixSpec(
            tuple(replace(block, packages=(package,)) for block in self.blocks if package in block.packages),
            tuple(cell for cell in self.include if cell.variant.package == package),
            self.exclude,
        )

    def has(self, variant: Variant, catalog: Catalog) -> bool:
        """Whether a cell is in the matrix, found out without expanding the rest of it."""
        blocks = (block for block in self.blocks if block.holds(variant))
        decided = ((block, assess(variant, catalog, block.line)) for block in blocks)
        return any(
            isinstance(decision, Accepted) and not _unwanted(decision, variant, block, self.exclude, catalog)
            for block, decision in decided
        ) or any(cell.variant == variant for cell in self.include)


class Cell(msgspec.Struct, frozen=True):
    """A variant of the matrix, the line that builds it, and what to be warned of."""

    variant: Variant
    line: str
    warnings: tuple[Reason, ...] = ()

    @property
    def name(self) -> str:
        return self.variant.name


class LeftOut(msgspec.Struct, frozen=True):
    """A cell of the product that is not in the matrix, and why."""

    variant: Variant
    reasons: tuple[Reason, ...]


class Matrix(msgspec.Struct, frozen=True):
    """The cells in their order, and those left out."""

    cells: tuple[Cell, ...]
    left_out: tuple[LeftOut, ...] = ()

    @property
    def unusable(self) -> int:
        """How many cells no machine can use."""
        return sum(any(warning.code == UNUSABLE for warning in cell.warnings) for cell in self.cells)

    def packages(self, catalog: Catalog) -> list[Package]:
        """The packages that it has, in their order."""
        packages = {cell.variant.package for cell in self.cells}
        return [package for package in catalog.packages.values() if package in packages]

    def select(self, selectors: Sequence[str], catalog: Catalog) -> Matrix:
        """The part that words select; a Problem when they select none."""
        selector = Selector.parse(selectors, catalog)
        chosen = tuple(cell for cell in self.cells if selector.matches(cell.variant, cell.line, catalog))
        if chosen:
            return Matrix(chosen, self.left_out)
        axis, _, word = selectors[0].partition(":")
        words = " ".join(selectors)
        gpu = gpu_by_name(words, catalog)
        if gpu is not None and (why := why_unbuilt(gpu, catalog)):
            raise Empty(f"no build is for {words}", hint=why)
        if gpu is not None:
            hint = f"this matrix has none; torchsmith show {shell_word(words)} says what there could be"
        elif len(selectors) > 1:
            hint = COMBINED
        elif axis == "package" and word not in catalog.packages:
            hint = did_you_mean(word, catalog.packages)
        else:
            command = f"torchsmith list -p every {shell_word(selectors[0])}"
            hint = f"this matrix has none; {command} lists all that can be built"
        raise Empty(f"no build matches {words}", hint=hint)

    def find(self, name: str) -> Cell | None:
        return next((cell for cell in self.cells if cell.name == name), None)


def expand(spec: MatrixSpec, catalog: Catalog) -> Matrix:
    """Every cell of the description, decided one by one. Pure: the same input gives the same matrix."""
    cells: dict[Variant, Cell] = {}
    left_out: dict[Variant, LeftOut] = {}
    for block in spec.blocks:
        _expand_block(block, spec.exclude, catalog, cells, left_out)
    for include in spec.include:
        decision = assess(include.variant, catalog, include.line)
        if isinstance(decision, Rejected):
            reasons = "; ".join(map(str, decision.reasons))
            raise Conflict(f"cannot include {include.variant}: {reasons}", path=include.path)
        _add(cells, Cell(include.variant, decision.line.name, decision.warnings), catalog, include.path)
    ordered = sorted(cells.values(), key=lambda cell: cell.variant.sort_key)
    missing = [left for variant, left in left_out.items() if variant not in cells]
    return Matrix(tuple(ordered), tuple(sorted(missing, key=lambda left: left.variant.sort_key)))


def _expand_block(
    block: Block,
    exclude: Sequence[Selector],
    catalog: Catalog,
    cells: dict[Variant, Cell],
    left_out: dict[Variant, LeftOut],
) -> None:
    if block.line:
        find_line(catalog, block.line)
    impossible: list[LeftOut] = []
    buildable: list[Variant] = []
    for variant in block.variants():
        decision = assess(variant, catalog, block.line)
        if isinstance(decision, Rejected):
            impossible.append(LeftOut(variant, decision.reasons))
            continue
        buildable.append(variant)
        reasons = _unwanted(decision, variant, block, exclude, catalog)
        if reasons:
            left_out.setdefault(variant, LeftOut(variant, reasons))
        else:
            _add(cells, Cell(variant, decision.line.name, decision.warnings), catalog, block.path)
    for left in impossible:
        left_out.setdefault(left.variant, left)
    if impossible and not block.usable:
        _refuse_dead_values(buildable, impossible, catalog, block.path)


def _unwanted(
    decision: Accepted, variant: Variant, block: Block, exclude: Sequence[Selector], catalog: Catalog
) -> tuple[Reason, ...]:
    if any(selector.matches(variant, decision.line.name, catalog) for selector in exclude):
        return (Reason("excluded", "excluded by the workspace"),)
    return () if decision.usable or not block.usable else decision.warnings


def _add(cells: dict[Variant, Cell], cell: Cell, catalog: Catalog, path: ValuePath) -> None:
    other = cells.get(cell.variant)
    if other is not None and other.line != cell.line:
        prefixed = cell.variant.changed(release=catalog.lines[cell.line].release)
        raise Conflict(
            f"{cell.name} is asked for by two lines, {other.line} and {cell.line}",
            hint="a plain name holds one torch release: prefix = true in one of the [[matrix]] blocks puts"
            f" the release into its names, such as {prefixed}",
            path=path,
        )
    cells[cell.variant] = cell


def _refuse_dead_values(
    buildable: Sequence[Variant], impossible: Sequence[LeftOut], catalog: Catalog, path: ValuePath
) -> None:
    """An axis value of which not one cell can be built is a mistake, not a gap."""
    alive = {value for variant in buildable for value in _values(variant)}
    for left in impossible:
        for value in _values(left.variant):
            if value not in alive:
                reasons = "; ".join(map(str, left.reasons))
                what = f"no build with {value}" if alive else "no build of this [[matrix]]"
                able = (line.name for line in catalog.releases if _builds(line, left.variant, catalog))
                hint = f'a [[matrix]] with line = "{line}" can build it' if (line := next(able, "")) else ""
                raise Conflict(f"{what} can be built: {left.variant}: {reasons}", hint=hint, path=path)


def _builds(line: Line, variant: Variant, catalog: Catalog) -> bool:
    """Whether a line can build a cell, and all hashes of its sources are known."""
    build = line.build_for(variant.toolkit)
    accepted = isinstance(assess(variant, catalog, line.name), Accepted)
    return accepted and build is not None and not catalog.unknown_hashes(line, build)


def _values(variant: Variant) -> tuple[str, ...]:
    target = variant.target
    gpu = (f"CUDA {target.version}", str(target.sm)) if isinstance(target, Cuda) else (str(target),)
    return (f"Python {variant.python}", *gpu, variant.isa)
