"""The plan of a workspace: what would change, with recipes that torchsmith does not manage checked by the
audit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from torchsmith.core.problem import Problem
from torchsmith.matrix import Cell, package_name, pname
from torchsmith.recipe.read import read_recipe, read_text_as_recipe
from torchsmith.workspace.change import PHASES, Adoption, Change
from torchsmith.workspace.checkout import RecipeFile
from torchsmith.workspace.load import Workspace, open_workspace
from torchsmith.workspace.reconcile import CheckedRecipe, CheckRecipe, reconcile
from torchsmith.workspace.subject import Subject
from torchsmith.workspace.wanted import WantedRepo
from torchsmith.workspace.write import wanted_of

if TYPE_CHECKING:
    from torchsmith.auditing.context import Context


@dataclass(frozen=True, slots=True)
class WorkspacePlan:
    """All changes of a workspace, in the order in which they are written."""

    workspace: Workspace
    repos: tuple[WantedRepo, ...]
    changes: tuple[Change, ...]

    @property
    def recipes(self) -> Iterator[tuple[Cell, Change]]:
        """The cells, each with the change of its recipe."""
        cells = {cell.name: cell for cell in self.workspace.matrix.cells}
        for change in self.changes:
            cell = cells.get(package_name(change.path))
            if cell and change.path.startswith(f"{cell.variant.package.folder}/"):
                yield cell, change

    @property
    def split_torch(self) -> dict[str, list[str]]:
        """The torch recipes that are not generated, each with the generated companions beside it: they have
        torchsmith's torch, and it is compiled for them."""
        kept: dict[str, str] = {}
        companions: dict[str, list[str]] = {}
        for cell, change in self.recipes:
            variant = cell.variant
            if variant.package.is_torch and not change.generated:
                kept[variant.stack] = change.path
            elif variant.package.needs_torch and change.generated:
                companions.setdefault(variant.stack, []).append(change.path)
        return {kept[stack]: paths for stack, paths in companions.items() if stack in kept}

    @property
    def renamed(self) -> dict[str, tuple[str, str]]:
        """The recipes that are taken over with another pname than they have: the old one and the new one."""
        catalog, renamed = self.workspace.catalog, dict[str, tuple[str, str]]()
        for cell, change in self.recipes:
            if change.pending and change.before and change.owner != "ours":
                try:
                    recipe = read_text_as_recipe(change.before.encode(), Path(change.path))
                except Problem:
                    continue
                bound = Subject(change.path, recipe, catalog).bound("pname")
                old = [binding.value for binding in bound if isinstance(binding.value, str)]
                new = pname(cell.variant, catalog.lines[cell.line])
                if old and old[-1] != new:
                    renamed[change.path] = old[-1], new
        return renamed

    @property
    def unhashed_pins(self) -> dict[str, str]:
        """The pins of recipes to be written whose hash is not recorded, each with a line that has it."""
        catalog = self.workspace.catalog
        unhashed: dict[str, str] = {}
        for cell in (cell for cell, change in self.recipes if change.pending and change.generated):
            build = catalog.lines[cell.line].build_for(cell.variant.toolkit)
            if build and build.pin and not catalog.pins[build.pin].sha256:
                unhashed.setdefault(build.pin, cell.line)
        return unhashed


def plan_workspace(
    workspace: Path | None, profile: str | None = None, *, adopt: tuple[str, ...] = ()
) -> WorkspacePlan:
    """Compare a workspace with its torchsmith.toml."""
    opened = open_workspace(workspace, profile)
    repos = wanted_of(opened)
    adoption = Adoption.of(adopt, opened.home)
    changes = reconcile(opened, repos, adopt=adoption, check=auditor(opened))
    changes.sort(key=lambda change: PHASES.index(change.phase))
    return WorkspacePlan(opened, tuple(repos), tuple(changes))


def auditor(workspace: Workspace) -> CheckRecipe:
    """Checks a recipe as `audit` does. The audit is imported when the first recipe needs it."""

    @cache
    def context() -> Context:
        from torchsmith.auditing.context import Context
        from torchsmith.auditing.suppress import RuleSelection

        lines = {cell.name: cell.line for cell in workspace.matrix.cells}
        choice = workspace.source.placed(lambda: RuleSelection().also(workspace.settings.audit))
        return Context(workspace.catalog, choice, lines)

    def check(recipe: RecipeFile) -> CheckedRecipe:
        from torchsmith.auditing.finding import Severity
        from torchsmith.auditing.run import check_file

        label = recipe.path.relative_to(workspace.home).as_posix()
        findings = check_file(recipe.path, label, True, context()).findings
        kept, _ = context().choice.keep(list(findings))
        errors = [finding for finding in kept if finding.severity is Severity.ERROR]
        fixes = [error.fix is not None and error.fix.safe for error in errors]
        return CheckedRecipe(
            errors=tuple(dict.fromkeys(finding.message for finding in errors)),
            warnings=sum(finding.severity is Severity.WARNING for finding in kept),
            rules=tuple(dict.fromkeys(finding.rule for finding in errors)),
            parsed=not any(finding.rule == "TS001" for finding in findings),
            fixable=bool(fixes) and all(fixes) and recipe.owner == "foreign",
            differs=() if errors else tuple(_differs(recipe, context())),
        )

    return check


def _differs(recipe: RecipeFile, context: Context) -> Iterator[str]:
    """In what a valid recipe differs from the line that torchsmith.toml has for it."""
    requested = context.lines.get(recipe.attr)
    subject = Subject(recipe.name, read_recipe(recipe.path), context.catalog, requested)
    if not (requested and subject.line and subject.pin):
        return
    revs = {pin.rev.value for pin in subject.body.pins if pin.rev} - {subject.pin.rev}
    if revs:
        yield f"nixpkgs {revs.pop()[:7]} (line {requested} has {subject.pin.name})"
    torch = subject.version_given("torch", "pytorch")
    if torch and torch != subject.line.torch:
        yield f"torch {torch} (line {requested} has {subject.line.torch})"
