"""A repository as its rules see it: small facts of each recipe, and the files around them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

from torchsmith.matrix.variant import package_name, try_read
from torchsmith.recipe.read.fold import parsed_file
from torchsmith.workspace.checkout import RecipeFile
from torchsmith.workspace.subject import Subject


class RecipeFacts(msgspec.Struct, frozen=True, array_like=True):
    """What the repo's rules need to know of a recipe's text: a few words, however long it is."""

    line: str
    pin: str
    uses: frozenset[str]  # files that its paths lead to
    calls: frozenset[str] = frozenset()  # those of them that are functions, and that are not followed


@dataclass(frozen=True, slots=True)
class Repo:
    """The recipes of a repository that could be read, by the names that findings have for their files."""

    recipes: Mapping[str, tuple[RecipeFile, RecipeFacts]]
    git: Mapping[str, bool]  # its files in the same way, and whether git knows them
    links: tuple[str, ...] = ()  # in the place of recipes, in the same way
    ignored: tuple[str, ...] = ()  # recipes that git ignores


def facts_of(subject: Subject) -> RecipeFacts:
    """The facts of one recipe."""
    pins = [pin.rev.value for pin in subject.body.pins if pin.rev]
    called = frozenset() if subject.generated else frozenset(_used(subject, calls=True))
    return RecipeFacts(subject.release, pins[0] if pins else "", frozenset(_used(subject)), called)


def _used(subject: Subject, *, calls: bool = False) -> Iterator[str]:
    """The files that its paths lead to; or of these the functions that are neither followed nor recipes."""
    followed = {recipe.path.resolve() for recipe in subject.recipe.files}
    for recipe in subject.recipe.files:
        for path in recipe.paths:
            target = recipe.path.parent / path.value
            if not target.is_file() or (
                calls and not recipe.is_argument(path.span, ("import", "callPackage"))
            ):
                continue
            own = target.resolve() in followed or try_read(package_name(target), subject.catalog)
            file = parsed_file(target) if calls and not own else None
            if not calls or (file and file.root.type == "function_expression"):
                yield os.path.normpath(os.path.join(os.path.dirname(subject.label_of(recipe)), path.value))
