"""A repository as its rules see it: small facts of each recipe, and the files around them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

from torchsmith.auditing.form import Normalizer
from torchsmith.catalog import Catalog
from torchsmith.matrix import Variant
from torchsmith.recipe.header import content_hash
from torchsmith.workspace.checkout import Repository
from torchsmith.workspace.subject import Subject

TORCH_SECTION = re.compile(
    r"^[ \t]*# ---- torch:.*?^[ \t]*# ---- end of torch ----", re.DOTALL | re.MULTILINE
)
FLAGS = re.compile(r"cpuFlags = \[[^\]]*\]")
# What two recipes of the same build may differ in: names, prose and layout.
PROSE = re.compile(
    r"(pname|description|longDescription|variant)\s*=\s*(\"[^\"]*\"|''.*?'')\s*;|echo[^\n]*", re.DOTALL
)


class RecipeFacts(msgspec.Struct, frozen=True, array_like=True):
    """What the repo's rules need to know of a recipe's text: a few words, however long it is."""

    line: str
    pin: str
    fingerprint: str  # equal for recipes that differ in names and prose alone
    torch: str  # of the torch section that a companion embeds, if it has one
    by_hand: bool  # written by a person: its line is known by its text
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
    """A folder with recipes; `torch` holds the torch sections of all repos that are audited, by cell."""

    folder: Repository
    recipes: tuple[RepoRecipe, ...]
    catalog: Catalog
    torch: Mapping[str, str]
    git: Mapping[str, bool]  # files by their labels, and whether git knows them


def facts_of(subject: Subject, forms: Normalizer) -> RecipeFacts:
    """The facts of one recipe. Its own cell is blanked: recipes of many then have equal facts, distinguished
    by name."""
    body = subject.body
    pins = [pin.rev.value for pin in body.pins if pin.rev]
    arguments = repr(sorted(body.passed.items(), key=str)) if body.passed else ""
    code = FLAGS.sub("", forms.blank(subject.name, subject.code))
    plain = re.sub(r"\s+", " ", PROSE.sub("", code)) + arguments
    section = TORCH_SECTION.search(forms.blank(subject.name, body.text))
    section_code = re.sub(r"^[ \t]+", "", FLAGS.sub("", section[0]), flags=re.MULTILINE) if section else ""
    torch = section_code + arguments if section else ""
    return RecipeFacts(
        line=subject.release,
        pin=pins[0] if pins else "",
        fingerprint=content_hash(plain) if subject.variant and not subject.wraps_nightly else "",
        torch=content_hash(torch) if torch else "",
        by_hand=subject.header is None,
        uses=frozenset(_used(subject)),
    )


def _used(subject: Subject) -> Iterator[str]:
    for recipe in subject.recipe.files:
        for path in recipe.paths:
            target = recipe.path.parent / path.value
            if target.is_file():
                yield os.path.normpath(os.path.join(os.path.dirname(subject.label_of(recipe)), path.value))
