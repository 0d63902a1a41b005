"""Templates that look like the file they make.

A template is Nix text with two additions. `@name@` is replaced by a value, escaped for where it stands:
inside "..." or ''...'', in a comment, or in code (where a list becomes a Nix list). A line `#? ...` steers:

    #? fix NAME     the lines up to `#? end`, when the line of the recipe switches the fix on
    #? if NAME      ... when the value is there and true; `#? unless NAME` when it is not; `#? else` between
    #? each NAME    ... once for every item of a list, as `@item@`, or as the values that the item holds
    #? include FILE another template, indented like this line

In the shared layout a value can be an `Expression` of Nix in place of text; it is then interpolated. A value
can be a template too (`Nested`), which is filled where it stands: the templates of a workspace's own.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import cast

from torchsmith.edge.nixtext import NixValue, in_comment, in_indented, in_quotes, nix_value
from torchsmith.edge.problem import Where, did_you_mean
from torchsmith.recipe.compile import (
    FOLDER,
    Choice,
    Hole,
    Part,
    SourceLine,
    State,
    TemplateError,
    compile_lines,
    merged,
    with_includes,
)


@dataclass(frozen=True, slots=True)
class Expression:
    """A value that is known only to Nix: the expression, and what a comment calls it."""

    nix: str
    words: str = ""


@dataclass(frozen=True, slots=True)
class Nested:
    """A template in a hole, between two pieces of text; it is indented as its hole is."""

    file: str
    before: str
    text: str
    after: str
    includes: Mapping[str, str] = field(default_factory=dict)  # texts of its neighbours, by file name

    def __hash__(self) -> int:
        return hash((self.file, self.before, self.text))

    def lines(self, indent: str) -> list[SourceLine]:
        inner = with_includes(self.text, self.file, f"{indent}  ", self.includes)
        last = [SourceLine(f"{indent}{self.after}")]
        return [SourceLine(f"{self.before}\n"), *inner, *last]


TemplateValue = NixValue | Expression | Nested | Sequence[Mapping[str, "TemplateValue"]]
TemplateValues = Mapping[str, TemplateValue]
MARKS = "_lines"  # a value that makes nested templates tell their lines
MARK = re.compile("\0([^\0]*)\0(\\d+)\0")


@cache
def template(name: str) -> tuple[Part, ...]:
    """A template of the package by its file name, compiled once."""
    return compile_lines(with_includes((FOLDER / name).read_text(), name, "", {}))


@lru_cache(64)  # the recipes of a package hold the same template
def _nested_parts(nested: Nested, indent: str, marked: bool) -> tuple[Part, ...]:
    return compile_lines(nested.lines(indent), marked=marked)


def render(parts: Sequence[Part], values: TemplateValues) -> str:
    """Fill a template. `fixes` among the values names the fixes that are on."""
    return "".join(cast("Iterator[str]", _partly(parts, values, ())))


def partly(parts: Sequence[Part], values: TemplateValues, later: Collection[str]) -> Begun:
    """Fill what is known now; holes of the names in `later` stay, and everything else becomes plain text."""
    left = merged(list(_partly(parts, values, later)))
    texts = [part if isinstance(part, str) else "" for part in left]
    return Begun(texts, [(place, part) for place, part in enumerate(left) if isinstance(part, Hole)])


def _partly(parts: Sequence[Part], values: TemplateValues, later: Collection[str]) -> Iterator[str | Hole]:
    """The texts of a template, and the holes that stay for later."""
    for part in parts:
        if isinstance(part, str):
            yield part
        elif isinstance(part, Hole):
            if part.name in later:
                yield part
            elif isinstance(value := values.get(part.name), Nested):
                yield from _partly(_nested_parts(value, part.indent, MARKS in values), values, later)
            else:
                yield _fill(part, values)
        elif part.kind == "each":
            for item in _each(part, values):
                rest = [name for name in later if name not in item]
                yield from _partly(part.then, {**values, **item}, rest)
        else:
            yield from _partly(part.then if _holds(part, values) else part.otherwise, values, later)


@dataclass(frozen=True, slots=True)
class Begun:
    """A template with nothing but holes left: its texts, and the places among them that are still empty."""

    texts: list[str]
    holes: list[tuple[int, Hole]]


class Filled(dict[Hole, str]):
    """Holes as text for values that many recipes have in common, each made once."""

    def __init__(self, common: TemplateValues) -> None:
        self.common = common

    def __missing__(self, hole: Hole) -> str:
        text = self[hole] = _fill(hole, self.common)
        return text

    def render(self, begun: Begun, own: Mapping[str, str]) -> str:
        """A template filled with its own words and the common values."""
        texts = begun.texts.copy()
        for place, hole in begun.holes:
            name = hole.name
            texts[place] = _escaped(own[name], hole.state) if name in own else self[hole]
        return "".join(texts)


def _holds(choice: Choice, values: TemplateValues) -> bool:
    if choice.kind == "fix":
        return choice.name in _items("fixes", choice, values)
    return bool(values.get(choice.name)) is (choice.kind == "if")


def _each(choice: Choice, values: TemplateValues) -> Iterator[TemplateValues]:
    """The values that each item of a list adds."""
    for item in _items(choice.name, choice, values):
        yield item if isinstance(item, Mapping) else {"item": item}


def _items(
    name: str, choice: Choice, values: TemplateValues
) -> Sequence[NixValue] | Sequence[TemplateValues]:
    value = values.get(name, ())
    if isinstance(value, str | Mapping) or not isinstance(value, Sequence):
        raise TemplateError(f"{name} is no list", where=choice.where)
    return value


def _fill(hole: Hole, values: TemplateValues) -> str:
    value = values.get(hole.name)
    if value is None or isinstance(value, bool):
        known = [name for name, held in values.items() if isinstance(held, str | Expression)]
        hint = did_you_mean(hole.name, sorted(known))
        raise TemplateError(f"there is no value for @{hole.name}@ here", hint=hint, where=hole.where)
    if isinstance(value, Expression):
        if hole.state == "comment":
            return value.words or value.nix
        return value.nix if hole.state == "code" else f"${{{value.nix}}}"
    if not isinstance(value, str):
        if hole.state != "code":
            raise TemplateError(f"@{hole.name}@ is no text, and stands only in code", where=hole.where)
        return nix_value(cast("NixValue", value), hole.indent)
    return _escaped(value, hole.state)


@lru_cache(4096)  # the same few words go into thousands of recipes
def _escaped(text: str, state: State) -> str:
    match state:
        case "quotes":
            return in_quotes(text)
        case "indented":
            return in_indented(text)
        case "comment":
            return in_comment(text)
    return text


def lines_of(parts: Sequence[Part], values: TemplateValues) -> tuple[str, dict[int, Where]]:
    """A template filled, and for lines that come from a nested one where they stand there."""
    places: dict[int, Where] = {}
    lines = []
    for number, line in enumerate(render(parts, {**values, MARKS: True}).split("\n"), 1):
        found = MARK.search(line)
        if found and found[1]:
            places[number] = Where(found[1], int(found[2]))
        lines.append(MARK.sub("", line))
    return "\n".join(lines), places
