"""A repository as its rules see it: small facts of each recipe, and the files around them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from torchsmith.workspace.checkout import RecipeFile
from torchsmith.workspace.subject import Subject


class RecipeFacts(msgspec.Struct, frozen=True, array_like=True):
    """What the repo's rules need to know of a recipe's text: a few words, however long it is."""

    line: str
    pin: str
    uses: frozenset[str]  # files that its paths lead to
    lacks_import: bool = False  # TS006 says which; its release may be in there
    line_of_pin: str = ""  # of the torch that its nixpkgs has


@dataclass(frozen=True, slots=True)
class Repo:
    """The recipes of a repository that could be read, by the names that findings have for their files."""

    recipes: Mapping[str, tuple[RecipeFile, RecipeFacts]]
    git: Mapping[str, bool]  # its files in the same way, and whether git knows them
    links: tuple[str, ...] = ()  # in the place of recipes, in the same way
    ignored: tuple[str, ...] = ()  # recipes that git ignores


def facts_of(subject: Subject, *, lacks_import: bool) -> RecipeFacts:
    """The facts of one recipe."""
    pins = [pin.rev.value for pin in subject.body.pins if pin.rev]
    uses = frozenset(
        os.path.normpath(os.path.join(os.path.dirname(subject.label_of(recipe)), path.value))
        for recipe in subject.recipe.files
        for path in recipe.paths
        if (recipe.path.parent / path.value).is_file()
    )
    torch = subject.imported_pin.torch if subject.imported_pin else None
    torch = None if subject.version_given("torch", "pytorch") else torch
    own = next((line.name for line in subject.catalog.releases if line.torch == torch), "")
    return RecipeFacts(subject.release, pins[0] if pins else "", uses, lacks_import, own)
