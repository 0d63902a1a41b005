"""Cells that a flake, an overlay or a module is about: read off its targets, CUDA, Python and flags. What it
does not tell is taken from the catalog, and said; what recipes of ours would not hold is said too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from torchsmith.catalog import Catalog, CudaVersion, Line, Package, PythonVersion
from torchsmith.catalog.axes import BadValue, GpuTarget, Sm
from torchsmith.core.files import read_text
from torchsmith.core.problem import Problem
from torchsmith.matrix import Accepted, Cell, Reason, Variant, assess
from torchsmith.matrix.cells import newest_line
from torchsmith.matrix.variant import Cuda
from torchsmith.recipe.header import owner_of
from torchsmith.recipe.read import ChangedPackage, PackageSet, Recipe, expressions, read_recipe
from torchsmith.workspace.lock import locked_nixpkgs
from torchsmith.workspace.search import mentioned, nix_files

PKGS = ".flox/pkgs"
# What an override of torch says that a cell says too; all else of it would be lost.
OF_A_CELL = {"cudaSupport", "cudaPackages", "gpuTargets", "rocmSupport", "magma", "effectiveMagma", "pname"}


@dataclass(frozen=True, slots=True)
class ExpressionCells:
    """What a file is about: its cells, what was taken because nothing tells it, what would be lost, and cells
    that cannot be."""

    cells: tuple[Cell, ...]
    assumed: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


def cells_of_file(path: Path, catalog: Catalog, line: str | None) -> ExpressionCells | None:
    """The cells that a file is about; None where it asks for no GPU."""
    try:
        recipe = read_recipe(path)
    except Problem:
        return None
    if not mentioned(tuple(catalog.packages.values())).search(recipe.text):
        return None
    return _FileCells(path, recipe, catalog, line).found()


class _FileCells:
    def __init__(self, path: Path, recipe: Recipe, catalog: Catalog, line: str | None) -> None:
        self.path, self.recipe, self.catalog, self.line = path, recipe, catalog, line
        self.sets = expressions(recipe)
        self.assumed: list[str] = []
        rev = locked_nixpkgs(path).get("nixpkgs", "")
        revs = {pin.rev.value for pin in recipe.pins if pin.rev} or {rev}
        self.pin = next((one for one in catalog.pins.values() if one.rev in revs), None)

    def found(self) -> ExpressionCells | None:
        targets = sorted({sm for one in self.sets for sm in _targets(one)})
        if not targets:
            return None
        cells: dict[str, Cell] = {}
        refused: list[str] = []
        cuda, pythons, packages = self._cuda(), self._pythons(), self._packages()
        named = self._line()
        for sm in targets:
            isa = self._isa(sm)
            for python in pythons:
                for package in packages:
                    variant = Variant(package, python, Cuda(cuda, sm), isa)
                    decision = assess(variant, self.catalog, named)
                    if isinstance(decision, Accepted):
                        cells[variant.name] = Cell(variant, decision.line.name, decision.warnings)
                    else:
                        refused.append(f"{variant}: {_words(decision.reasons)}")
        if cells and named is None:
            lines = sorted({cell.line for cell in cells.values()})
            self.assumed.append(f"no torch release is told: line {', '.join(lines)}")
        assumed = tuple(dict.fromkeys(self.assumed))
        return ExpressionCells(tuple(cells.values()), assumed, tuple(self._lost()), tuple(refused))

    def _cuda(self) -> CudaVersion:
        """The CUDA that is named, or that the locked nixpkgs prefers, or else the catalog's newest pin."""
        named = [one.cuda for one in self.sets if one.cuda]
        named += [change.cuda for one in self.sets for change in one.changes if change.cuda]
        for cuda in named:
            able = [version for version in self.catalog.cuda if cuda.has(version)]
            built = [version for version in able if newest_line(self.catalog, version)]
            if built:
                if cuda.minor is None:
                    self.assumed.append(f"CUDA {cuda} names no minor release: {built[-1]}")
                return built[-1]
        if self.pin and self.pin.default_cuda:
            return self.pin.default_cuda
        defaults = [pin.default_cuda for pin in self.catalog.pins.values() if pin.default_cuda]
        self.assumed.append(f"no CUDA release is named: {defaults[-1]}")
        return defaults[-1]

    def _pythons(self) -> list[PythonVersion]:
        used = self.recipe.syntax.identifiers
        found = [
            version
            for version, python in self.catalog.pythons.items()
            if {python.attr, python.attr.removesuffix("Packages")} & used.keys()
        ]
        if found:
            return found
        default = self.pin.default_python if self.pin else None
        defaults = [pin.default_python for pin in self.catalog.pins.values() if pin.default_python]
        if default is None:
            self.assumed.append(f"no Python is named: {defaults[-1]}")
        return [default or defaults[-1]]

    def _packages(self) -> list[Package]:
        used = self.recipe.syntax.identifiers
        named = [one for one in self.catalog.packages.values() if one.attr in used and one.needs_torch]
        return [self.catalog.torch, *named]

    def _isa(self, sm: Sm) -> str:
        """The instruction set whose flags stand there, else a usual one of the machines that have the GPU."""
        for flags in (one for package_set in self.sets for one in package_set.flags):
            for isa in self.catalog.isas.values():
                if set(isa.flags) == set(flags.values):
                    return isa.name
        gpu = self.catalog.gpus.get(sm)
        systems = {one.system.value for one in self.sets if one.system}
        arm = systems == {"aarch64-linux"} or (gpu is not None and gpu.platforms == ("aarch64-linux",))
        isa_name = "armv8_2" if arm else "avx2"
        self.assumed.append(f"no CPU flags are set: {isa_name}, which older CPUs lack")
        return isa_name

    def _line(self) -> str | None:
        if self.line:
            return self.line
        changes = [one for package_set in self.sets for one in package_set.of("torch")]
        stated = [one.arguments["version"].value for one in changes if "version" in one.arguments]
        torch = str(stated[0]) if stated else self.pin.torch if self.pin else ""
        lines: list[Line] = [one for one in self.catalog.lines.values() if torch and one.torch == torch]
        return lines[0].name if lines else None

    def _lost(self) -> Iterator[str]:
        """What the file says of torch and its companions that a generated recipe would not."""
        attrs = {one.attr for one in self.catalog.packages.values()}
        for package_set in self.sets:
            fat = package_set.config.get("cudaCapabilities")
            if fat is not None and isinstance(fat.value, list) and len(fat.value) > 1:
                words = f"one build for {len(fat.value)} targets becomes a build for each"
                yield f"{self._at(fat.span.line)}: {words}"
            for mention in package_set.targets:
                if any(word.endswith("+PTX") for word in mention.values):
                    yield f"{self._at(mention.span.line)}: PTX for newer GPUs"
            for change in package_set.changes:
                yield from self._lost_of(change, attrs)

    def _lost_of(self, change: ChangedPackage, attrs: set[str]) -> Iterator[str]:
        if change.package in attrs:
            other = [name for name in change.arguments if name not in OF_A_CELL]
            if other:
                yield f"{self._at(change.span.line)}: {', '.join(other)} of {change.package}"
        else:
            yield f"{self._at(change.span.line)}: the override of {change.package}"

    def _at(self, line: int) -> str:
        return f"{self.path}:{line}"


def _targets(package_set: PackageSet) -> Iterator[Sm]:
    for mention in package_set.targets:
        for word in mention.values:
            try:
                yield GpuTarget.parse(word.removesuffix("+PTX")).sm
            except BadValue:
                continue


def _words(reasons: Iterable[Reason]) -> str:
    return "; ".join(map(str, reasons))


def torch_elsewhere(root: Path, catalog: Catalog) -> list[str]:
    """Where other files of a checkout than its recipes set what torch is built for."""
    words = mentioned(tuple(catalog.packages.values()))
    found = []
    for path in nix_files(root):
        try:
            text = read_text(path)
            if PKGS in path.as_posix() or owner_of(text) != "foreign" or not words.search(text):
                continue
            sets = expressions(read_recipe(path))
        except Problem:
            continue
        spans = [change.span for one in sets for change in one.of("torch")]
        spans += [
            said.span for one in sets for name, said in one.config.items() if name == "cudaCapabilities"
        ]
        found += [f"{path}:{min(spans).line}"] if spans else []
    return found


def merged(found: Sequence[ExpressionCells]) -> ExpressionCells:
    """What several files are about together; a cell counts once."""
    cells = {cell.name: cell for one in found for cell in one.cells}
    return ExpressionCells(
        tuple(cells.values()),
        tuple(dict.fromkeys(words for one in found for words in one.assumed)),
        tuple(words for one in found for words in one.lost),
        tuple(dict.fromkeys(words for one in found for words in one.refused)),
    )
