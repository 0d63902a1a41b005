"""A repository as its rules see it: small facts of each recipe, and the files around them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

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
    used = list(_used(subject))
    uses, calls = frozenset(file for file, _ in used), frozenset(file for file, called in used if called)
    return RecipeFacts(subject.release, pins[0] if pins else "", uses, calls)


def _used(subject: Subject) -> Iterator[tuple[str, bool]]:
    """The files that its paths lead to, and whether it calls them without their being followed."""
    followed = {recipe.path.resolve() for recipe in subject.recipe.files}
    for recipe in subject.recipe.files:
        for path in recipe.paths:
            target = recipe.path.parent / path.value
            if target.is_file():
                called = not subject.generated and recipe.is_argument(path.span, ("import", "callPackage"))
                unread = called and target.resolve() not in followed and _is_function(target, subject)
                file = os.path.normpath(os.path.join(os.path.dirname(subject.label_of(recipe)), path.value))
                yield file, unread


def _is_function(file: Path, subject: Subject) -> bool:
    """Whether a file holds a function, and is not a recipe itself."""
    if try_read(package_name(file), subject.catalog):
        return False
    syntax = parsed_file(file)
    return syntax is not None and syntax.root.type == "function_expression"
