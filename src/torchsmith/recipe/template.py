"""Templates that look like the file they make.

A template is Nix text with two additions. `@name@` is replaced by a value, escaped for where it stands:
inside "..." or ''...'', in a comment, or in code (where a list becomes a Nix list). A line `#? ...` steers:

    #? fix NAME     the lines up to `#? end`, when the line of the recipe switches the fix on
    #? if NAME      ... when the value is there and true; `#? unless NAME` when it is not; `#? else` between
    #? each NAME    ... once for every item of a list, as `@item@`, or as the values that the item holds
    #? include FILE another template, indented like this line

In the shared layout a value can be an `Expression` of Nix in place of text; it is then interpolated.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal, TypeVar, cast

from torchsmith.edge.nixtext import NixValue, in_comment, in_indented, in_quotes, nix_value

FOLDER = Path(__file__).parent / "templates"
State = Literal["code", "quotes", "indented", "comment"]
PLACEHOLDER = re.compile(r"@([A-Za-z][A-Za-z0-9_.-]*)@")


@dataclass(frozen=True, slots=True)
class Expression:
    """A value that is known only to Nix: the expression, and what a comment calls it."""

    nix: str
    words: str = ""


TemplateValue = NixValue | Expression | Sequence[Mapping[str, "TemplateValue"]]
TemplateValues = Mapping[str, TemplateValue]


class TemplateError(Exception):
    """A template that cannot be read or filled: a mistake of ours."""


@dataclass(frozen=True, slots=True, eq=False)
class Hole:
    """A place to fill, where it stands, and the indentation of its line. One of a kind, so quick to find."""

    name: str
    state: State
    indent: str


@dataclass(frozen=True, slots=True)
class Choice:
    """Lines that depend on a value."""

    kind: Literal["fix", "if", "unless", "each"]
    name: str
    then: tuple[Part, ...]
    otherwise: tuple[Part, ...] = ()


Part = str | Hole | Choice


@cache
def template(name: str) -> tuple[Part, ...]:
    """A template of the package by its file name, compiled once."""
    return compile_text(_with_includes(name, ""), name)


def _with_includes(name: str, indent: str) -> str:
    lines = []
    for line in (FOLDER / name).read_text().splitlines(keepends=True):
        found = re.fullmatch(r"(\s*)#\? include (\S+)\n", line)
        if found:
            lines.append(_with_includes(found[2], indent + found[1]))
        else:
            lines.append(indent + line if line.strip() else line)
    return "".join(lines)


def compile_text(text: str, name: str = "text") -> tuple[Part, ...]:
    """The parts of a template's text."""
    lines = list(_Lexer(text).lines())
    parts, rest, stop = _block(lines, name)
    if stop or rest:
        raise TemplateError(f"{name}: `#? {stop}` without a beginning")
    return parts


TemplateLine = tuple[str, tuple[Part, ...]]  # the directive, or the parts of an ordinary line


def _block(lines: Sequence[TemplateLine], name: str) -> tuple[tuple[Part, ...], Sequence[TemplateLine], str]:
    """Parts up to `#? end` or `#? else` (which is returned), and the lines after it."""
    parts: list[Part] = []
    while lines:
        directive, content = lines[0]
        lines = lines[1:]
        if not directive:
            parts.extend(content)
        elif directive in ("end", "else"):
            return _merged(parts), lines, directive
        else:
            choice, lines = _choice(directive, lines, name)
            parts.append(choice)
    return _merged(parts), lines, ""


def _choice(
    directive: str, lines: Sequence[TemplateLine], name: str
) -> tuple[Choice, Sequence[TemplateLine]]:
    kind, _, subject = directive.partition(" ")
    if kind not in ("fix", "if", "unless", "each") or not subject:
        raise TemplateError(f"{name}: unknown directive `#? {directive}`")
    then, lines, stop = _block(lines, name)
    otherwise: tuple[Part, ...] = ()
    if stop == "else":
        otherwise, lines, stop = _block(lines, name)
    if stop != "end":
        raise TemplateError(f"{name}: `#? {directive}` has no end")
    return Choice(kind, subject, then, otherwise), lines  # type: ignore[arg-type]


P = TypeVar("P", Part, str | Hole)


def _merged(parts: Sequence[P]) -> tuple[P, ...]:
    """Neighbouring texts as one."""
    merged: list[P] = []
    for part in parts:
        if isinstance(part, str) and merged and isinstance(last := merged[-1], str):
            merged[-1] = last + part
        else:
            merged.append(part)
    return tuple(merged)


class _Lexer:
    """Follows Nix through strings, comments and interpolations, to know where each hole stands."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.stack: list[State] = ["code"]
        self.depths = [0]

    def lines(self) -> list[TemplateLine]:
        made: list[TemplateLine] = []
        for line in self.text.splitlines(keepends=True):
            found = re.fullmatch(r"\s*#\? (.*?)\s*", line)
            made.append((found[1], ()) if found else ("", tuple(self._line(line))))
        return made

    def _line(self, line: str) -> list[Part]:
        indent = line[: len(line) - len(line.lstrip())]
        parts: list[Part] = []
        at, start = 0, 0
        comment = False
        while at < len(line):
            hole = PLACEHOLDER.match(line, at)
            if hole:
                state = "comment" if comment else self.stack[-1]
                parts += [line[start:at], Hole(hole[1], state, indent)]
                at = start = hole.end()
            elif comment:
                at += 1
            elif self.stack[-1] == "code" and line[at] == "#":
                comment = True
            else:
                at += self._step(line, at)
        parts.append(line[start:])
        return [part for part in parts if part != ""]

    def _step(self, line: str, at: int) -> int:
        """Move over one token; how many characters it had."""
        state = self.stack[-1]
        two, three = line[at : at + 2], line[at : at + 3]
        if state == "code":
            return self._code_step(two)
        if state == "quotes" and two[:1] == "\\":
            return 2
        if state == "indented" and (three in ("'''", "''$") or three == "''\\"):
            return 3
        if two == "${":
            self._push("code")
            return 2
        if (state == "quotes" and two[:1] == '"') or (state == "indented" and two == "''"):
            self._pop()
            return 1 if state == "quotes" else 2
        return 1

    def _code_step(self, two: str) -> int:
        if two == "''":
            self._push("indented")
            return 2
        if two[:1] == '"':
            self._push("quotes")
        elif two[:1] == "{":
            self.depths[-1] += 1
        elif two[:1] == "}":
            if self.depths[-1] == 0 and len(self.stack) > 1:
                self._pop()
            else:
                self.depths[-1] -= 1
        return 1

    def _push(self, state: State) -> None:
        self.stack.append(state)
        self.depths.append(0)

    def _pop(self) -> None:
        self.stack.pop()
        self.depths.pop()


def render(parts: Sequence[Part], values: TemplateValues) -> str:
    """Fill a template. `fixes` among the values names the fixes that are on."""
    out: list[str] = []
    _render(parts, values, out)
    return "".join(out)


def partly(parts: Sequence[Part], values: TemplateValues, later: Collection[str]) -> Begun:
    """Fill what is known now; holes of the names in `later` stay, and everything else becomes plain text."""
    left = _merged(list(_partly(parts, values, later)))
    texts = [part if isinstance(part, str) else "" for part in left]
    return Begun(texts, [(place, part) for place, part in enumerate(left) if isinstance(part, Hole)])


def _partly(parts: Sequence[Part], values: TemplateValues, later: Collection[str]) -> Iterator[str | Hole]:
    for part in parts:
        if isinstance(part, str):
            yield part
        elif isinstance(part, Hole):
            yield part if part.name in later else _fill(part, values)
        elif part.kind == "each":
            for item in _each(part.name, values):
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


def _render(parts: Sequence[Part], values: TemplateValues, out: list[str]) -> None:
    for part in parts:
        if isinstance(part, str):
            out.append(part)
        elif isinstance(part, Hole):
            value = values.get(part.name)
            out.append(_escaped(value, part.state) if isinstance(value, str) else _fill(part, values))
        elif part.kind == "each":
            for item in _each(part.name, values):
                _render(part.then, {**values, **item}, out)
        else:
            _render(part.then if _holds(part, values) else part.otherwise, values, out)


def _holds(choice: Choice, values: TemplateValues) -> bool:
    if choice.kind == "fix":
        return choice.name in _items("fixes", values)
    return bool(values.get(choice.name)) is (choice.kind == "if")


def _each(name: str, values: TemplateValues) -> Iterator[TemplateValues]:
    """The values that each item of a list adds."""
    for item in _items(name, values):
        yield item if isinstance(item, Mapping) else {"item": item}


def _items(name: str, values: TemplateValues) -> Sequence[NixValue] | Sequence[TemplateValues]:
    value = values.get(name, ())
    if isinstance(value, str | Mapping) or not isinstance(value, Sequence):
        raise TemplateError(f"{name} is no list")
    return value


def _fill(hole: Hole, values: TemplateValues) -> str:
    value = values.get(hole.name)
    if value is None or isinstance(value, bool):
        raise TemplateError(f"no value for @{hole.name}@")
    if isinstance(value, Expression):
        if hole.state == "comment":
            return value.words or value.nix
        return value.nix if hole.state == "code" else f"${{{value.nix}}}"
    if not isinstance(value, str):
        if hole.state != "code":
            raise TemplateError(f"@{hole.name}@ is no text, and stands only in code")
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
