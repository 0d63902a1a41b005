"""Desired against actual: each file kept, created, rewritten, replaced or deleted, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from torchsmith.audit.finding import Finding, Severity
from torchsmith.audit.run import Bench, judge_file
from torchsmith.audit.suppress import Choice
from torchsmith.edge.files import inside, read_text
from torchsmith.edge.problem import Problem
from torchsmith.matrix import Flavor, Reading, package_name, try_read
from torchsmith.recipe.header import Owner, owner_of
from torchsmith.workspace.checkout import PKGS, recipes_in
from torchsmith.workspace.load import Workspace, open_workspace
from torchsmith.workspace.wanted import WantedFile, WantedRepo, wanted_repos

Kind = Literal["keep", "create", "rewrite", "replace", "delete"]
KINDS: tuple[Kind, ...] = ("keep", "create", "rewrite", "replace", "delete")
Phase = Literal["clean up", "GPU on x86", "GPU on ARM", "CPU only", "everything else"]
PHASES: tuple[Phase, ...] = ("clean up", "GPU on x86", "GPU on ARM", "CPU only", "everything else")
AS_IT_SHOULD_BE = "it is as it should be"
REASONS = 3  # of a broken recipe that are told one by one


@dataclass(frozen=True, slots=True)
class Action:
    """One file: what is to be done, why, and with which text. `old` is what a replacement removes."""

    kind: Kind
    path: str
    why: str
    phase: Phase
    recipe: bool
    owner: Owner | None = None  # None: there is nothing yet
    text: str | None = None
    old: str = ""

    @property
    def ours(self) -> bool:
        """Whether nothing of anybody else is touched."""
        return self.owner in (None, "ours")


@dataclass(frozen=True, slots=True)
class Plan:
    """All actions of a workspace, in the order in which they are carried out."""

    root: Path
    repos: tuple[WantedRepo, ...]
    actions: tuple[Action, ...]

    def recipes(self, *kinds: Kind) -> list[Action]:
        return [one for one in self.actions if one.recipe and (one.kind in kinds or not kinds)]

    @property
    def pending(self) -> list[Action]:
        return [one for one in self.actions if one.kind != "keep"]

    @property
    def afterwards(self) -> int:
        """How many recipes there are when all is done."""
        return len(self.recipes("keep", "create", "rewrite", "replace"))


def plan_workspace(workspace: Path | None, profile: str | None = None) -> Plan:
    """The plan of a workspace; a Problem where there is none."""
    opened = open_workspace(workspace, profile)
    if opened.root is None:
        raise Problem(
            "there is no torchsmith.toml here or above",
            hint="torchsmith init writes one; it says what the plan is for",
        )
    repos = wanted_repos(opened.matrix, opened.settings, opened.catalog)
    return make_plan(opened, opened.root, repos)


def make_plan(workspace: Workspace, root: Path, repos: Sequence[WantedRepo]) -> Plan:
    """Judge what lies there, file by file."""
    lines = {cell.name: cell.line for cell in workspace.matrix.cells}
    bench = Bench(workspace.catalog, Choice(), lines)
    actions: list[Action] = []
    for repo in repos:
        actions += _Planner(workspace, root, repo, bench).actions()
    order = {phase: index for index, phase in enumerate(PHASES)}
    actions.sort(key=lambda one: order[one.phase])
    return Plan(root, tuple(repos), tuple(actions))


class _Planner:
    """The plan of one repository."""

    def __init__(self, workspace: Workspace, root: Path, repo: WantedRepo, bench: Bench) -> None:
        self.workspace, self.root, self.repo, self.bench = workspace, root, repo, bench
        self.wanted = {file.path: file for file in repo.files}
        inside(root, repo.name)

    def actions(self) -> Iterator[Action]:
        extra = self._unwanted()
        replaced = self._replacements(extra)
        for path, file in self.wanted.items():
            old = replaced.get(path)
            yield self._replace(file, old) if old else self._one(file)
        for path, reading in extra.items():
            if path not in replaced.values():
                yield self._not_wanted(path, reading)

    def _unwanted(self) -> dict[str, Reading | None]:
        folder = self.root / self.repo.name
        found = recipes_in(folder, self.workspace) if folder.is_dir() else []
        names = {one.path.relative_to(self.root).as_posix(): one.reading for one in found}
        return {name: reading for name, reading in names.items() if name not in self.wanted}

    def _replacements(self, extra: Mapping[str, Reading | None]) -> dict[str, str]:
        """Wanted files that do not exist, and the file that stands for the same cell under another name."""
        found: dict[str, str] = {}
        for path, reading in extra.items():
            if reading is None:
                continue
            variant = reading.variant
            cell = replace(variant, flavor=Flavor.RELEASE, release=None)
            wanted = f"{self.repo.name}/{PKGS}/{cell}.nix"
            if variant.release and variant.release.line != self.workspace.line_of(cell):
                continue
            if wanted in self.wanted and not (self.root / wanted).exists():
                found.setdefault(wanted, path)
        return found

    def _phase(self, path: str) -> Phase:
        reading = self._reading(path)
        if reading is None or f"/{PKGS}/" not in path:
            return "everything else"
        isa = self.workspace.catalog.isas.get(reading.variant.isa)
        if reading.variant.cuda is None:
            return "CPU only"
        return "GPU on ARM" if isa is not None and isa.platform == "aarch64-linux" else "GPU on x86"

    def _one(self, file: WantedFile) -> Action:
        path, recipe = self.root / file.path, bool(file.cell)
        phase = self._phase(file.path)
        if not path.exists() and not path.is_symlink():
            return Action("create", file.path, "it is missing", phase, recipe, text=file.text)
        before = _text(path)
        owner = owner_of(before) if before is not None else "foreign"
        if before == file.text:
            return Action("keep", file.path, AS_IT_SHOULD_BE, phase, recipe, owner)
        if owner == "ours":
            return Action(
                "rewrite", file.path, "torchsmith writes it otherwise now", phase, recipe, owner, file.text
            )
        if not file.is_recipe and path.suffix == ".md":
            why = "nobody keeps its counts and tables: it is not ours"
            return Action("rewrite", file.path, why, phase, recipe, owner, file.text)
        if not file.is_recipe:
            why = "it is not ours, and may say more than ours would"
            return Action("keep", file.path, why, phase, recipe, owner)
        errors = self._errors(path)
        if errors:
            return Action("rewrite", file.path, f"broken: {errors}", phase, recipe, owner, file.text)
        edited = "edited by hand" if owner == "edited" else "not ours"
        why = f"wanted and without an error, though {edited}; adopting it lets its companions share its torch"
        return Action("keep", file.path, why, phase, recipe, owner)

    def _replace(self, file: WantedFile, old: str) -> Action:
        before = _text(self.root / old)
        owner = owner_of(before) if before is not None else "foreign"
        errors = self._errors(self.root / old)
        reading = self._reading(old)
        flavor = reading.variant.flavor if reading else Flavor.RELEASE
        what = f"the {flavor.value} stands in for this cell" if flavor else "an old name of this cell"
        why = f"{Path(old).name}: {what}" + (f", and is broken: {errors}" if errors else "")
        return Action("replace", file.path, why, self._phase(file.path), True, owner, file.text, old)

    def _not_wanted(self, path: str, reading: Reading | None) -> Action:
        before = _text(self.root / path)
        owner = owner_of(before) if before is not None else "foreign"
        if owner == "ours":
            why = "torchsmith.toml asks for it no more"
            return Action("delete", path, why, "clean up", reading is not None, owner)
        if reading is not None and not reading.canonical:
            why = f"redundant: {reading.variant}.nix is the same cell ({'; '.join(reading.old)})"
            return Action("delete", path, why, "clean up", True, owner)
        errors = self._errors(self.root / path)
        if reading is not None and errors:
            return Action("delete", path, f"not asked for, and broken: {errors}", "clean up", True, owner)
        why = "torchsmith.toml does not ask for it, but it is right: include it there, or delete it"
        return Action("keep", path, why, "everything else", reading is not None, owner)

    def _reading(self, path: str) -> Reading | None:
        return try_read(package_name(Path(path)), self.workspace.catalog)

    def _errors(self, path: Path) -> str:
        """What is wrong with a recipe, the first few of it; empty where nothing is."""
        name = path.relative_to(self.root).as_posix()
        found = [one for one in judge_file(path, name, True, self.bench).findings if _counts(one)]
        words = list(dict.fromkeys(one.message for one in found))
        more = f", and {len(words) - REASONS} more" if len(words) > REASONS else ""
        return "; ".join(words[:REASONS]) + more


def _counts(finding: Finding) -> bool:
    return finding.severity is Severity.ERROR


def _text(path: Path) -> str | None:
    try:
        return read_text(path)
    except Problem:
        return None
