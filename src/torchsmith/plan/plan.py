"""Desired against actual, with the audit as judge of what others wrote: each file kept, created, rewritten,
replaced or deleted, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from torchsmith.audit.context import Context
from torchsmith.audit.finding import Finding, Severity
from torchsmith.audit.form import NormalizedText
from torchsmith.audit.rule import LARGEST
from torchsmith.audit.run import judge_file
from torchsmith.audit.suppress import RuleSelection
from torchsmith.audit.values import form_of, judge_evaluated
from torchsmith.catalog import Catalog
from torchsmith.matrix import package_name, try_read
from torchsmith.nix.embedded import Evaluator, available
from torchsmith.workspace.change import Adoption, Change, ChangeKind
from torchsmith.workspace.checkout import PKGS, RecipeFile
from torchsmith.workspace.load import Workspace, open_workspace
from torchsmith.workspace.reconcile import Judge, reconcile
from torchsmith.workspace.run import wanted_of
from torchsmith.workspace.wanted import WantedRepo

Phase = Literal["clean up", "GPU on x86", "GPU on ARM", "CPU only", "everything else"]
PHASES: tuple[Phase, ...] = ("clean up", "GPU on x86", "GPU on ARM", "CPU only", "everything else")
REASONS = 3  # of a broken recipe that are told one by one


@dataclass(frozen=True, slots=True)
class WorkspacePlan:
    """All changes of a workspace, in the order in which they are carried out."""

    root: Path
    catalog: Catalog
    repos: tuple[WantedRepo, ...]
    changes: tuple[Change, ...]

    def recipes(self, *kinds: ChangeKind) -> list[Change]:
        return [one for one in self.changes if one.recipe and (one.kind in kinds or not kinds)]

    @property
    def pending(self) -> list[Change]:
        return [one for one in self.changes if one.kind != "keep"]

    @property
    def afterwards(self) -> int:
        """How many recipes there are when all is done."""
        return len(self.recipes("keep", "create", "rewrite", "replace"))

    def phase(self, change: Change) -> Phase:
        return phase_of(change, self.catalog)


def plan_workspace(
    workspace: Path | None, profile: str | None = None, *, adopt: bool = False, paths: tuple[Path, ...] = ()
) -> WorkspacePlan:
    """The plan of a workspace; a Problem where there is none."""
    opened = open_workspace(workspace, profile)
    root = opened.home
    repos = wanted_of(opened)
    adoption = Adoption.of(adopt, paths, root)
    with auditor(opened) as judge:
        changes = reconcile(opened, repos, adopt=adoption, judge=judge)
    changes.sort(key=lambda one: PHASES.index(phase_of(one, opened.catalog)))
    return WorkspacePlan(root, opened.catalog, tuple(repos), tuple(changes))


def phase_of(change: Change, catalog: Catalog) -> Phase:
    """When a change is carried out: the deletions first, then recipes by what they are for."""
    if change.kind == "delete":
        return "clean up"
    reading = try_read(package_name(Path(change.path)), catalog)
    if reading is None or f"/{PKGS}/" not in change.path:
        return "everything else"
    if reading.variant.cuda is None:
        return "CPU only"
    isa = catalog.isas.get(reading.variant.isa)
    return "GPU on ARM" if isa is not None and isa.platform == "aarch64-linux" else "GPU on x86"


@contextmanager
def auditor(workspace: Workspace) -> Iterator[Judge]:
    """The errors of a recipe as audit tells them, the first few of them; empty where there is none."""
    context = Context(
        workspace.catalog,
        RuleSelection().also(workspace.settings.audit),
        {cell.name: cell.line for cell in workspace.matrix.cells},
    )

    right: set[NormalizedText] = set()

    def told(findings: Iterable[Finding]) -> list[str]:
        kept, _ = context.choice.keep([one for one in findings if one.severity is Severity.ERROR])
        return list(dict.fromkeys(one.message for one in kept))

    def errors(recipe: RecipeFile) -> str:
        shown = recipe.path.relative_to(workspace.home).as_posix()
        words = told(judge_file(recipe.path, shown, True, context).findings)
        if not words and evaluator and recipe.path.stat().st_size <= LARGEST:
            form = form_of(recipe.path, context)
            if form not in right:
                evaluated = judge_evaluated([(shown, recipe.path)], context, evaluator)
                words = told(one for judged in evaluated for one in judged.findings)
                right.update([form] if form and not words else ())
        more = f", and {len(words) - REASONS} more" if len(words) > REASONS else ""
        return "; ".join(words[:REASONS]) + more

    with Evaluator() if available() else nullcontext() as evaluator:
        yield errors
