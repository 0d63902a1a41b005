"""Cells that flakes, overlays and modules of a repository are about: read off their targets, CUDA, Python and
flags. What they do not state is taken from the catalog, and reported; what recipes of ours would not hold is
reported too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from torchsmith.catalog import Catalog, CudaVersion, Package, Pin, PythonVersion
from torchsmith.catalog.axes import Sm
from torchsmith.core.files import read_text
from torchsmith.core.problem import Empty, Problem
from torchsmith.matrix import Accepted, Cell, Variant, assess
from torchsmith.matrix.cells import newest_line, why_not_generated
from torchsmith.matrix.variant import Cuda
from torchsmith.recipe.header import owner_of
from torchsmith.recipe.read import ChangedPackage, PackageSet, Recipe, expressions, gpu_target, read_recipe
from torchsmith.recipe.read.expressions import CudaSet
from torchsmith.workspace.checkout import UnusedRecipe
from torchsmith.workspace.lock import locked_nixpkgs
from torchsmith.workspace.search import mentioned, nix_files
from torchsmith.workspace.subject import PKGS

# What an override of torch says that a cell says too; all else of it would be lost.
OF_A_CELL = {"cudaSupport", "cudaPackages", "gpuTargets", "rocmSupport", "magma", "effectiveMagma", "pname"}


@dataclass(frozen=True, slots=True)
class ExpressionCells:
    """What the files of a repository are about: their cells, what was assumed because nothing states it, what
    would be lost, and cells that cannot be."""

    files: int
    cells: tuple[Cell, ...]
    assumed: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    refused: tuple[UnusedRecipe, ...] = ()


def cells_of_files(paths: Sequence[Path], catalog: Catalog, line: str | None) -> ExpressionCells:
    """The cells that the files of one repository are about. What the file with the target does not say is
    taken from the others if they agree. A Problem says which fact is missing."""
    concerned = [file for path in paths if (file := _read(path, catalog))]
    return _RepositoryCells(concerned, catalog, line).collect()


def _read(path: Path, catalog: Catalog, *, foreign: bool = False) -> _ExpressionFile | None:
    """A file that concerns torch or CUDA, and with `foreign` is not ours."""
    try:
        text = read_text(path)
        if not mentioned(catalog).search(text):
            return None
        if foreign and owner_of(text) != "foreign":
            return None
        recipe = read_recipe(path)
    except Problem:
        return None
    return _ExpressionFile(path, recipe, expressions(recipe), catalog)


@dataclass(frozen=True)
class _ExpressionFile:
    """A file and what it says of torch and CUDA."""

    path: Path
    recipe: Recipe
    sets: tuple[PackageSet, ...]
    catalog: Catalog

    @cached_property
    def targets(self) -> list[Sm]:
        mentions = (mention for package_set in self.sets for mention in package_set.targets)
        targets = (gpu_target(word) for mention in mentions for word in mention.values)
        return sorted({target.sm for target in targets if target})

    @cached_property
    def cudas(self) -> list[CudaSet]:
        named = [package_set.cuda for package_set in self.sets]
        named += [change.cuda for package_set in self.sets for change in package_set.changes]
        return list(dict.fromkeys(filter(None, named)))

    @cached_property
    def pythons(self) -> list[PythonVersion]:
        used = self.recipe.syntax.identifiers.keys()
        return [
            version
            for version, python in self.catalog.pythons.items()
            if {python.attr, python.attr.removesuffix("Packages")} & used
        ]

    @cached_property
    def packages(self) -> list[Package]:
        used = self.recipe.syntax.identifiers
        return [
            package
            for package in self.catalog.packages.values()
            if package.attr in used and package.needs_torch
        ]

    @cached_property
    def torch(self) -> list[str]:
        changes = [change for package_set in self.sets for change in package_set.of("torch")]
        return [str(change.arguments["version"].value) for change in changes if "version" in change.arguments]

    @cached_property
    def pin(self) -> Pin | None:
        """The nixpkgs that it imports or is locked to, if the catalog knows it."""
        revs = {pin.rev.value for pin in self.recipe.pins if pin.rev}
        revs = revs or {locked_nixpkgs(self.path).get("nixpkgs", "")}
        return next((pin for pin in self.catalog.pins.values() if pin.rev in revs), None)

    @cached_property
    def cuda_support(self) -> str:
        """Where it asks for CUDA."""
        settings = [
            support
            for package_set in self.sets
            if (support := package_set.config.get("cudaSupport")) and support.value is True
        ]
        return f"cudaSupport ({self.path}:{settings[0].span.line})" if settings else ""

    def lost(self) -> Iterator[str]:
        """What the file says of torch and its companions that a generated recipe would not."""
        attrs = {package.attr for package in self.catalog.packages.values()}
        for package_set in self.sets:
            fat = package_set.config.get("cudaCapabilities")
            if fat is not None and isinstance(fat.value, list) and len(fat.value) > 1:
                loss = f"one build for {len(fat.value)} targets becomes a build for each"
                yield f"{self._at(fat.span.line)}: {loss}"
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
        elif self.targets:
            yield f"{self._at(change.span.line)}: the override of {change.package}"

    def _at(self, line: int) -> str:
        return f"{self.path}:{line}"


class _RepositoryCells:
    def __init__(self, files: Sequence[_ExpressionFile], catalog: Catalog, line: str | None) -> None:
        self.files, self.catalog, self.line = files, catalog, line
        self.assumed: dict[str, None] = {}

    def collect(self) -> ExpressionCells:
        aimed = [file for file in self.files if file.targets]
        if not aimed:
            raise Empty(
                "no Nix file here is a recipe for torch or states a GPU target: cudaCapabilities, gpuTargets"
                " or TORCH_CUDA_ARCH_LIST, with values that can be read",
                hint=f"{self._evidence()}; set the target there, or name cells: torchsmith init --cell",
            )
        cells: dict[str, Cell] = {}
        refused: dict[str, UnusedRecipe] = {}
        for file in aimed:
            for variant, line in self._variants(file):
                decision = assess(variant, self.catalog, line)
                if isinstance(decision, Accepted):
                    cells[variant.name] = Cell(variant, decision.line.name, decision.warnings)
                    if line is None:
                        self._assume(f"no torch release is stated: line {decision.line.name}")
                else:
                    why = why_not_generated(variant, self.catalog, line)
                    refused[variant.name] = UnusedRecipe(variant.name, file.path, why)
        lost = [loss for file in self.files for loss in file.lost()]
        left = tuple(refused.values())
        return ExpressionCells(len(aimed), tuple(cells.values()), tuple(self.assumed), tuple(lost), left)

    def _variants(self, file: _ExpressionFile) -> Iterator[tuple[Variant, str | None]]:
        cuda, pythons, line = self._cuda(file), self._pythons(file), self._line(file)
        for sm in file.targets:
            isa = self._isa(file, sm)
            for python in pythons:
                for package in (self.catalog.torch, *file.packages):
                    yield Variant(package, python, Cuda(cuda, sm), isa), line

    def _evidence(self) -> str:
        """What the files do say."""
        facts = [file.cuda_support for file in self.files if file.cuda_support][:1]
        facts += [f"CUDA {cuda} ({file.path})" for file in self.files for cuda in file.cudas][:1]
        facts += [f"Python {python} ({file.path})" for file in self.files for python in file.pythons][:1]
        return f"found {', '.join(facts)}" if facts else "no file sets CUDA for nixpkgs either"

    def _assume(self, assumption: str) -> None:
        self.assumed[assumption] = None

    def _joined(self, file: _ExpressionFile, fact: str) -> list[Any]:
        """What a file says, else what all others that say something agree on."""
        own: list[Any] = getattr(file, fact)
        others = [stated for other in self.files if (stated := getattr(other, fact))]
        return own or (others[0] if others and all(other == others[0] for other in others) else [])

    def _cuda(self, file: _ExpressionFile) -> CudaVersion:
        """The CUDA that is named, or that the locked nixpkgs prefers, or else the catalog's newest pin."""
        for cuda in self._joined(file, "cudas"):
            able = [version for version in self.catalog.cuda if cuda.has(version)]
            built = [version for version in able if newest_line(self.catalog, version)]
            if built:
                if cuda.minor is None:
                    self._assume(f"CUDA {cuda} names no minor release: {built[-1]}")
                return built[-1]
        if file.pin and file.pin.default_cuda:
            return file.pin.default_cuda
        default = [pin.default_cuda for pin in self.catalog.pins.values() if pin.default_cuda][-1]
        self._assume(f"no CUDA release is named: {default}")
        return default

    def _pythons(self, file: _ExpressionFile) -> list[PythonVersion]:
        if named := self._joined(file, "pythons"):
            return named
        if file.pin and file.pin.default_python:
            return [file.pin.default_python]
        default = [pin.default_python for pin in self.catalog.pins.values() if pin.default_python][-1]
        self._assume(f"no Python is named: {default}")
        return [default]

    def _isa(self, file: _ExpressionFile, sm: Sm) -> str:
        """The instruction set whose flags are there, else a usual one of the machines that have the GPU."""
        for flags in (listed for package_set in file.sets for listed in package_set.flags):
            for isa in self.catalog.isas.values():
                if isa.flags and set(isa.flags) == set(flags.values):
                    return isa.name
        gpu = self.catalog.gpus.get(sm)
        systems = {package_set.system.value for package_set in file.sets if package_set.system}
        arm = systems == {"aarch64-linux"} or (gpu is not None and gpu.platforms == ("aarch64-linux",))
        usual = self.catalog.usual_isa("aarch64-linux" if arm else "x86_64-linux").name
        self._assume(f"no CPU flags are set: {usual}, which older CPUs lack")
        return usual

    def _line(self, file: _ExpressionFile) -> str | None:
        stated = self._joined(file, "torch")
        torch = stated[0] if stated else file.pin.torch if file.pin else ""
        lines = [release.name for release in self.catalog.lines.values() if torch and release.torch == torch]
        return self.line or (lines[0] if lines else None)


def torch_elsewhere(root: Path, catalog: Catalog) -> list[str]:
    """Where other files of a checkout than its recipes set what torch is built for."""
    places = []
    for path in nix_files(root, catalog.templates):
        file = None if PKGS in path.as_posix() else _read(path, catalog, foreign=True)
        sets = file.sets if file else ()
        spans = [change.span for package_set in sets for change in package_set.of("torch")]
        configs = [package_set.config for package_set in sets]
        spans += [config["cudaCapabilities"].span for config in configs if "cudaCapabilities" in config]
        places += [f"{path}:{min(spans).line}"] if spans else []
    return places
