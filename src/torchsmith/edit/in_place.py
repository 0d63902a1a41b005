"""Recipes that torchsmith does not manage: the nixpkgs of their line, as revision and hash in their text."""

from __future__ import annotations

from collections.abc import Iterator

from torchsmith.catalog import Pin
from torchsmith.core.problem import Incomplete, Problem
from torchsmith.edit.facts import FactEdit
from torchsmith.recipe.read import Edit, edited, read_recipe
from torchsmith.workspace.change import Change
from torchsmith.workspace.checkout import RecipeFile, recipes_in
from torchsmith.workspace.load import Workspace
from torchsmith.workspace.reconcile import NIXPKGS


def with_recipes(edit: FactEdit, line: str) -> FactEdit:
    """The edit with the recipes of a line that torchsmith does not manage and that import another nixpkgs."""
    return FactEdit(edit.workspace, edit.after, (*edit.files, *_changes(edit.after, line)))


def _changes(workspace: Workspace, line: str) -> Iterator[Change]:
    catalog, home = workspace.catalog, workspace.home
    for recipe in recipes_in(home, workspace):
        if recipe.owner == "ours" or recipe.variant is None or recipe.release != line:
            continue
        build = catalog.lines[line].build_for(recipe.variant.toolkit)
        pin = catalog.pins.get(build.pin) if build else None
        if pin and (after := _at(recipe, pin)) and after != recipe.text:
            path, why = recipe.path.relative_to(home).as_posix(), f"nixpkgs {pin.name}"
            yield Change("rewrite", path, why, recipe.text, after, recipe.owner, recipe=True)


def _at(recipe: RecipeFile, pin: Pin) -> str:
    """The text of a recipe at a nixpkgs; empty unless it states the one that it imports. Raises Incomplete if
    it states a hash, and that of the nixpkgs is not known."""
    try:
        read = read_recipe(recipe.path)
    except Problem:
        return ""
    stated = [(one.rev, one.sha256) for one in read.pins if one.rev and NIXPKGS.search(one.url.value)]
    if len(stated) != 1 or read.text_at(stated[0][0].span) != stated[0][0].value:
        return ""
    rev, sha256 = stated[0]
    if sha256 and not pin.sha256:
        message = f"{recipe.path} states a hash, and that of nixpkgs {pin.name} is not known"
        raise Incomplete(message, hint=f"--rev {pin.name} without --torch records it; --sha256 states it")
    values = {rev: pin.rev, **({sha256: pin.sha256} if sha256 else {})}
    return edited(read.syntax.data, [Edit(at.span.start, at.span.end, text) for at, text in values.items()])
