"""A repository as its rules see it: small facts of each recipe, and the files around them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

from torchsmith.matrix import Variant
from torchsmith.workspace.checkout import Repository
from torchsmith.workspace.subject import Subject


class RecipeFacts(msgspec.Struct, frozen=True, array_like=True):
    """What the repo's rules need to know of a recipe's text: a few words, however long it is."""

    line: str
    pin: str
    uses: frozenset[str]  # files that its paths lead to


@dataclass(frozen=True, slots=True)
class RepoRecipe:
    """A recipe of a repo: its file, what its name says, and what its text says."""

    file: str
    name: str
    variant: Variant | None
    facts: RecipeFacts


@dataclass(frozen=True, slots=True)
class Repo:
    """A folder with recipes."""

    folder: Repository
    recipes: tuple[RepoRecipe, ...]
    git: Mapping[str, bool]  # files by their labels, and whether git knows them


def facts_of(subject: Subject) -> RecipeFacts:
    """The facts of one recipe."""
    pins = [pin.rev.value for pin in subject.body.pins if pin.rev]
    return RecipeFacts(subject.release, pins[0] if pins else "", frozenset(_used(subject)))


def _used(subject: Subject) -> Iterator[str]:
    for recipe in subject.recipe.files:
        for path in recipe.paths:
            target = recipe.path.parent / path.value
            if target.is_file():
                yield os.path.normpath(os.path.join(os.path.dirname(subject.label_of(recipe)), path.value))
