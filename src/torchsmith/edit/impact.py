"""What a change does, by derivation: which recipes become another build, and which stay the one they were."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from torchsmith.core.files import inside, write_atomic
from torchsmith.edit.plan import auditor
from torchsmith.nix.errors import Cause
from torchsmith.nix.evaluate import EvalResult, Evaluate
from torchsmith.workspace.checkout import RecipeFile, recipes_in
from torchsmith.workspace.git import lay_out
from torchsmith.workspace.load import Workspace
from torchsmith.workspace.reconcile import reconcile
from torchsmith.workspace.search import SKIPPED
from torchsmith.workspace.wanted import TOOLKIT_REPO, wanted_repos

EffectKind = Literal["changed", "new", "gone", "broken", "fixed", "still broken", "unknown", "identical"]
KINDS: tuple[EffectKind, ...] = get_args(EffectKind)


@dataclass(frozen=True, slots=True)
class Effect:
    """What a change does to one recipe."""

    name: str
    kind: EffectKind
    before: str = ""  # derivation, or why it does not evaluate
    after: str = ""
    cause: Cause | None = None  # of a recipe that does not evaluate now, or could not be evaluated


def impact(workspace: Workspace, folder: Path, revision: str, evaluate: Evaluate) -> list[Effect]:
    """Compare the recipes of a git revision with those that `apply` would leave, or without a torchsmith.toml
    with the files on disk."""
    managed = workspace.root is not None
    with tempfile.TemporaryDirectory(prefix="torchsmith-impact-") as place:
        before, after = Path(place) / "before", Path(place) / "after"
        # Checkouts beside those of the packages would only be in the old state.
        names = {package.folder for package in workspace.catalog.packages.values()} | {TOOLKIT_REPO}
        lay_out(folder, revision, before, names if managed else None)
        if managed:
            _apply_to_copy(workspace, names, after)
        places = (before, after if managed else folder)
        old, new = (recipes_in(place, workspace) for place in places)
        names = {recipe.name for recipe in (*old, *new)}
        return effects(evaluate(_named_alike(old, names)), evaluate(_named_alike(new, names)))


def _named_alike(recipes: Iterable[RecipeFile], names: Collection[str]) -> list[RecipeFile]:
    """The recipes with their repository in front if they have it in either state."""
    full = [(recipe, f"{recipe.repo.absolute().name}/{recipe.attr}") for recipe in recipes]
    return [replace(recipe, name=name) if name in names else recipe for recipe, name in full]


def _apply_to_copy(workspace: Workspace, names: Iterable[str], into: Path) -> None:
    """Write what these repositories of a workspace would be after `apply` into another folder."""
    ignored = shutil.ignore_patterns(*{*SKIPPED} - {".flox"})
    for name in (name for name in names if (workspace.home / name).is_dir()):
        shutil.copytree(workspace.home / name, into / name, symlinks=True, ignore=ignored)
    for change in reconcile(workspace, wanted_repos(workspace), check=auditor(workspace)):
        for path, text in change.files.items():
            if text is None:
                inside(into, path).unlink()
            else:
                write_atomic(inside(into, path), text)


def effects(before: Sequence[EvalResult], after: Sequence[EvalResult]) -> list[Effect]:
    """Compare two evaluations of a workspace, recipe by recipe."""
    old = {result.name: result for result in before}
    new = {result.name: result for result in after}
    return [_effect(name, old.get(name), new.get(name)) for name in sorted(old.keys() | new.keys())]


def _effect(name: str, old: EvalResult | None, new: EvalResult | None) -> Effect:
    was, now = _outcome(old), _outcome(new)
    for cause in (result.cause for result in (new, old) if new and result):
        if cause and cause.code != "recipe":
            return Effect(name, "unknown", was, now, cause)
    if old is None:
        return Effect(name, "new" if new and new.ok else "broken", was, now, new.cause if new else None)
    if new is None:
        return Effect(name, "gone", was, now)
    kinds: dict[tuple[bool, bool], EffectKind] = {
        (True, False): "broken",
        (False, True): "fixed",
        (False, False): "still broken",
        (True, True): "identical" if was == now else "changed",
    }
    return Effect(name, kinds[old.ok, new.ok], was, now, new.cause)


def _outcome(result: EvalResult | None) -> str:
    if result is None:
        return ""
    if result.evaluated is not None:
        return result.evaluated.drv_path
    return result.cause.message if result.cause else ""


def summary(effects: Sequence[Effect]) -> str:
    """One line: `2 changed, 130 identical`."""
    counts = Counter[EffectKind](effect.kind for effect in effects)
    parts = [f"{counts[kind]} {kind}" for kind in KINDS if counts[kind]]
    return ", ".join(parts) or "no recipe"
