"""From a workspace, or a repository of other authors, to the document: nothing outside its folder is read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from torchsmith import __version__
from torchsmith.auditing.finding import Severity
from torchsmith.auditing.run import audit
from torchsmith.catalog import Catalog
from torchsmith.core.problem import Problem
from torchsmith.core.text import grouped
from torchsmith.matrix import Accepted, Cell, Rejected, Variant, assess
from torchsmith.matrix.cells import toolkit_title, why_not_generated
from torchsmith.nix.graph import Graph
from torchsmith.webpage.document import CellState, PageCell, PageFinding, PageReport
from torchsmith.webpage.past import PagePast, read_past
from torchsmith.workspace.checkout import RecipeFile, Repository, discover
from torchsmith.workspace.load import Workspace

EMPTY_HASH = "TS901"  # the rule of the audit
OWNERS: dict[str, CellState] = {"ours": "generated", "edited": "edited", "foreign": "foreign"}


@dataclass(frozen=True)
class PageInput:
    """A folder, its workspace, and the derivations of its recipes if they were evaluated."""

    root: Path
    workspace: Workspace
    with_matrix: bool  # the workspace's matrix is shown, not only the recipes of the folder
    made: float
    graph: Graph | None = None
    folder: str = ""  # of the workspace, as it was given; empty: this one


def collect(request: PageInput) -> PageReport:
    """Everything that is known below the folder."""
    notes: list[str] = []
    repositories = _repositories(request, notes)
    recipes = _recipes(repositories)
    findings = read_findings(request.root, request.workspace.root, repositories)
    past = read_past(request.root, notes)
    return PageReport(
        title=request.root.resolve().name if request.workspace.root or recipes else "",
        made=request.made,
        version=__version__,
        profile=request.workspace.profile if request.with_matrix else "",
        cells=tuple(_Cells(request, recipes, findings, past).all()),
        findings=findings.all,
        in_workspace=bool(request.workspace.root or recipes),
        folder=request.folder,
        notes=tuple(notes),
    )


def pickable(request: PageInput) -> list[Cell]:
    """Return the cells that can be picked: those of the matrix, or else those that have recipes."""
    if request.with_matrix:
        return list(request.workspace.matrix.cells)
    catalog = request.workspace.catalog
    cells = []
    for recipe in _recipes(_repositories(request, [])).values():
        decision = assess(recipe.variant, catalog, recipe.release or None) if recipe.variant else None
        if isinstance(decision, Accepted) and recipe.variant:
            cells.append(Cell(recipe.variant, decision.line.name, decision.warnings))
    return cells


def _recipes(repositories: Iterable[Repository]) -> dict[str, RecipeFile]:
    return {recipe.name: recipe for repository in repositories for recipe in repository.recipes}


def _repositories(request: PageInput, notes: list[str]) -> list[Repository]:
    """Those below the folder; a link that leads out of it is named and not followed."""
    try:
        repositories = discover([request.root], request.workspace).repositories
    except Problem:
        return []  # there is no recipe yet
    top = request.root.resolve()
    inside = [repository for repository in repositories if repository.root.resolve().is_relative_to(top)]
    outside = (repository for repository in repositories if repository not in inside)
    notes += [f"{repository.root.name} leads outside and is not shown" for repository in outside]
    return inside


@dataclass(frozen=True)
class _Cells:
    """The cells of the matrix and of recipes beside it, each with its state."""

    request: PageInput
    recipes: Mapping[str, RecipeFile]
    findings: Findings
    past: PagePast

    @property
    def catalog(self) -> Catalog:
        return self.request.workspace.catalog

    def all(self) -> Iterator[PageCell]:
        wanted = self.request.workspace.matrix.cells if self.request.with_matrix else ()
        for cell in wanted:
            yield self._cell(cell.name, cell.variant, cell.line, cell)
        names = {cell.name for cell in wanted}
        for name, recipe in self.recipes.items():
            if name not in names:
                yield self._cell(name, recipe.variant, recipe.release, None)

    def _cell(self, name: str, variant: Variant | None, line: str, wanted: Cell | None) -> PageCell:
        recipe = self.recipes.get(name)
        file = below(self.request.root, recipe.path) if recipe else ""
        graph = self.request.graph
        derivation = graph.recipes.get(name, "") if graph else ""
        own = self.past.of(name, recipe, derivation)
        state, why = self._state(recipe, own.state, file)
        cell = PageCell(
            name=name,
            state=state,
            why=(*why, *own.why, *self._warnings(variant, line, wanted)),
            line=line,
            owner=recipe.owner if recipe else "",
            file=file,
            derivation=derivation or own.derivation,
            outputs=own.outputs,
            findings=self.findings.of(file),
            build=own.build,
            verified=own.verified,
            recipe=(recipe.text or "") if recipe else "",
        )
        return _with_axes(cell, variant, self.catalog) if variant else cell

    def _state(
        self, recipe: RecipeFile | None, past: CellState | None, file: str
    ) -> tuple[CellState, list[str]]:
        if past in ("building", "failed", "wrong"):
            return past, []
        errors = self.findings.errors(file)
        if errors and all(finding.rule == EMPTY_HASH for finding in errors):
            return "unhashed", []
        if errors:
            return "wrong", [f"the audit found {'an error' if not errors[1:] else f'{len(errors)} errors'}"]
        if past is not None:
            return past, []
        if recipe is None:
            return "wanted", []
        return OWNERS[recipe.owner], [] if recipe.known else [
            "git does not track its file, so Flox cannot see it"
        ]

    def _warnings(self, variant: Variant | None, line: str, wanted: Cell | None) -> Iterator[str]:
        if wanted is not None:
            yield from map(str, wanted.warnings)
        elif variant is not None:
            decision = assess(variant, self.catalog, line if line in self.catalog.lines else None)
            impossible = why_not_generated(variant, self.catalog, line)
            yield from [impossible] if isinstance(decision, Rejected) else map(str, decision.warnings)


def _with_axes(cell: PageCell, variant: Variant, catalog: Catalog) -> PageCell:
    line, isa = catalog.lines.get(cell.line), catalog.isas.get(variant.isa)
    return msgspec.structs.replace(
        cell,
        package=variant.package.name,
        version=line.version_of(variant.package.name) if line else "",
        python=str(variant.python),
        cuda=str(variant.cuda or toolkit_title(variant, catalog)),
        sm=variant.arch,
        isa=variant.isa,
        system=isa.platform if isa else "",
        flavor=variant.flavor.value,
    )


def below(root: Path, path: Path | str) -> str:
    """Return a path relative to the folder."""
    full, top = os.path.abspath(path), os.path.join(os.path.abspath(root), "")
    return full.removeprefix(top) if full.startswith(top) else os.path.basename(full)


@dataclass(frozen=True, slots=True)
class Findings:
    """All of them, the worst first, and which of them each file has."""

    all: tuple[PageFinding, ...] = ()
    by_file: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def of(self, file: str) -> tuple[int, ...]:
        return tuple(self.by_file.get(file, ()))

    def errors(self, file: str) -> list[PageFinding]:
        findings = (self.all[number] for number in self.of(file))
        return [finding for finding in findings if finding.severity == Severity.ERROR.value]


def read_findings(root: Path, workspace: Path | None, repositories: Sequence[Repository]) -> Findings:
    """The audit of repositories below a folder."""
    if not any(repository.recipes for repository in repositories):
        return Findings()
    report = audit(tuple(repository.root for repository in repositories), workspace, cached=True)
    top = root.resolve()
    # A page of the repository may be a link to a file elsewhere, whose lines do not count.
    files = dict.fromkeys(finding.where.file for finding in report.findings)
    relative = {file: below(root, file) for file in files if Path(file).resolve().is_relative_to(top)}
    groups = grouped(
        ((finding.severity, finding.rule, finding.message, finding.hint), finding)
        for finding in sorted(report.findings, key=lambda finding: (finding.severity.rank, finding.rule))
        if finding.where.file in relative
    )
    findings: list[PageFinding] = []
    by_file: dict[str, list[int]] = {}
    for group in groups.values():
        at = tuple((relative[finding.where.file], finding.where.line) for finding in group)
        for file in dict.fromkeys(file for file, _ in at):
            by_file.setdefault(file, []).append(len(findings))
        first = group[0]
        severity, sure = first.severity.value, first.sure.value
        findings.append(PageFinding(first.rule, first.title, severity, sure, first.message, first.hint, at))
    return Findings(tuple(findings), by_file)
