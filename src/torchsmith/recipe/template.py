"""Templates that look like the file they make.

A template is Nix text with two additions. `@name@` is replaced by a value, escaped for where it is:
inside "..." or ''...'', in a comment, or in code (where a list becomes a Nix list). A line `#? ...` steers:

    #? fix NAME     the lines up to `#? end`, when the line of the recipe switches the fix on
    #? if NAME      ... when the value is there and true; `#? unless NAME` when it is not; `#? else` between
    #? each NAME    ... once for every item of a list, as `@item@`, or as the values that the item has
    #? include FILE another template, indented like this line

A value can be an `Expression` of Nix in place of text; it is then interpolated. It can be a template too
(`Nested`), which is filled in its place: the templates of a workspace's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal, cast

from torchsmith.core.nixtext import NixValue, in_comment, in_indented, in_quotes, nix_value
from torchsmith.core.problem import Problem, Where, did_you_mean

FOLDER = Path(__file__).parent / "templates"
State = Literal["code", "quotes", "indented", "comment"]
PLACEHOLDER = re.compile(r"@([A-Za-z][A-Za-z0-9_.-]*)@")


class TemplateError(Problem):
    """A template that cannot be read or filled, with its file and line."""


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of a template, and where it is."""

    text: str
    file: str = ""
    number: int = 0

    @property
    def where(self) -> Where | None:
        return Where(self.file, self.number) if self.file else None


@dataclass(frozen=True, slots=True)
class Hole:
    """A place to fill, where it is, and the indentation of its line."""

    name: str
    state: State
    indent: str
    where: Where | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """Lines that depend on a value."""

    kind: Literal["fix", "if", "unless", "each"]
    name: str
    then: tuple[Part, ...]
    otherwise: tuple[Part, ...] = ()
    where: Where | None = None


Part = str | Hole | Choice


def with_includes(
    text: str, file: str, indent: str, own: Mapping[str, str], above: tuple[str, ...] = ()
) -> list[SourceLine]:
    """Lines with included files in their place: those beside it first, then the package's."""
    lines: list[SourceLine] = []
    for number, line in enumerate(text.splitlines(), 1):
        match = re.fullmatch(r"(\s*)#\? include (\S+)\s*", line)
        if match is None:
            lines.append(SourceLine(f"{indent}{line}\n" if line.strip() else "\n", file, number))
            continue
        name, where = match[2], Where(file, number)
        if name in (*above, Path(file).name):
            raise TemplateError(f"{name} includes itself", hint="take the line out", where=where)
        inner, path = own.get(name), f"{Path(file).parent}/{name}"
        if inner is None:
            if not re.fullmatch(r"[A-Za-z0-9_-]+\.nix", name) or not (FOLDER / name).is_file():
                hint = f"a file beside {Path(file).name}, or a template of torchsmith's"
                raise TemplateError(f"there is no template {name}", hint=hint, where=where)
            inner, path = (FOLDER / name).read_text(), name
        lines += with_includes(inner, path, indent + match[1], own, (*above, Path(file).name))
    return lines


def compile_lines(source: Sequence[SourceLine], *, marked: bool = False) -> tuple[Part, ...]:
    """The parts of a template; `marked` begins every line with where it is."""
    parts, stop = _block(_lexed(source, marked=marked))
    if stop is not None:
        message = f"`{stop.text.strip()}` without a beginning"
        raise TemplateError(message, hint="`#? if NAME` begins one", where=stop.where)
    return parts


TemplateLine = tuple[str, list[Part], SourceLine]  # the directive, or the parts of an ordinary line


def _block(lines: Iterator[TemplateLine]) -> tuple[tuple[Part, ...], SourceLine | None]:
    """Parts up to `#? end` or `#? else`, and that line."""
    parts: list[Part] = []
    for directive, content, source in lines:
        if directive in ("end", "else"):
            return merged(parts), source
        parts += [_choice(directive, lines, source)] if directive else content
    return merged(parts), None


def _choice(directive: str, lines: Iterator[TemplateLine], source: SourceLine) -> Choice:
    kind, _, subject = directive.partition(" ")
    if kind not in ("fix", "if", "unless", "each") or not subject:
        hint = "known: fix NAME, if NAME, unless NAME, each NAME, else, end, include FILE"
        raise TemplateError(f"unknown directive `#? {directive}`", hint=hint, where=source.where)
    then, stop = _block(lines)
    otherwise: tuple[Part, ...] = ()
    if stop is not None and stop.text.strip() == "#? else":
        otherwise, stop = _block(lines)
    if stop is None:
        raise TemplateError(f"`#? {directive}` has no end", hint="`#? end` ends it", where=source.where)
    return Choice(kind, subject, then, otherwise, source.where)  # type: ignore[arg-type]


def merged(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Neighbouring texts as one."""
    merged: list[Part] = []
    for part in parts:
        if isinstance(part, str) and merged and isinstance(last := merged[-1], str):
            merged[-1] = last + part
        else:
            merged.append(part)
    return tuple(merged)


def _lexed(source: Sequence[SourceLine], *, marked: bool) -> Iterator[TemplateLine]:
    """Follows Nix through strings, comments and interpolations, to know where each hole is."""
    states: list[State] = ["code"]
    for line in source:
        match = re.fullmatch(r"\s*#\? (.*?)\s*", line.text)
        if match:
            yield match[1], [], line
        else:
            mark: list[Part] = [f"\0{line.file}\0{line.number}\0"] if marked else []
            yield "", mark + _line_parts(line, states), line


def _line_parts(source: SourceLine, states: list[State]) -> list[Part]:
    """The texts and holes of a line that begins in the last of the states, which are kept up to date."""
    line = source.text
    indent = line[: len(line) - len(line.lstrip())]
    parts: list[Part] = []
    at = start = 0
    comment = False
    while at < len(line):
        hole = PLACEHOLDER.match(line, at)
        if hole:
            state = "comment" if comment else states[-1]
            parts += [line[start:at], Hole(hole[1], state, indent, source.where)]
            at = start = hole.end()
            continue
        comment = comment or (states[-1] == "code" and line[at] == "#")
        at += 1 if comment else _step(line, at, states)
    parts.append(line[start:])
    return [part for part in parts if part != ""]


TOKEN = re.compile(r"\$\{|''|.", re.DOTALL)
OPENS: dict[str, State] = {'"': "quotes", "''": "indented", "{": "code", "${": "code"}
CLOSES = {"code": "}", "quotes": '"', "indented": "''"}
# What is plain text inside a string, though it looks like the end of it or of an interpolation.
ESCAPED = {"quotes": re.compile(r"\\.", re.DOTALL), "indented": re.compile(r"''['$\\]")}


def _step(line: str, at: int, states: list[State]) -> int:
    """Move over one token; how many characters it had."""
    state = states[-1]
    escaped = ESCAPED[state].match(line, at) if state in ESCAPED else None
    if escaped:
        return len(escaped[0])
    token = TOKEN.match(line, at)[0]  # type: ignore[index]
    if token == CLOSES[state]:
        if len(states) > 1:
            states.pop()
    elif token == "${" or (state == "code" and token in OPENS):
        states.append(OPENS[token])
    return len(token)


@dataclass(frozen=True, slots=True)
class Expression:
    """A value that is known only to Nix."""

    nix: str


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
MARKS = "_lines"  # a value that makes nested templates mark their lines
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
    texts: list[str] = []
    _render(parts, values, texts)
    return "".join(texts)


def _render(parts: Sequence[Part], values: TemplateValues, texts: list[str]) -> None:
    """Append the filled parts."""
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, Hole):
            if isinstance(value := values.get(part.name), Nested):
                _render(_nested_parts(value, part.indent, MARKS in values), values, texts)
            else:
                texts.append(_fill(part, values))
        elif part.kind == "each":
            for item in _items(part.name, part, values):
                added = item if isinstance(item, Mapping) else {"item": item}
                _render(part.then, {**values, **added}, texts)
        else:
            _render(part.then if _holds(part, values) else part.otherwise, values, texts)


def _holds(choice: Choice, values: TemplateValues) -> bool:
    if choice.kind == "fix":
        return choice.name in _items("fixes", choice, values)
    return bool(values.get(choice.name)) is (choice.kind == "if")


def _items(
    name: str, choice: Choice, values: TemplateValues
) -> Sequence[NixValue] | Sequence[TemplateValues]:
    value = values.get(name, ())
    if isinstance(value, str | Mapping) or not isinstance(value, Sequence):
        raise TemplateError(f"{name} is not a list", where=choice.where)
    return value


def _fill(hole: Hole, values: TemplateValues) -> str:
    value = values.get(hole.name)
    if isinstance(value, str):
        return _escaped(value, hole.state)
    if value is None or isinstance(value, bool):
        known = [name for name, held in values.items() if isinstance(held, str | Expression)]
        hint = did_you_mean(hole.name, sorted(known))
        raise TemplateError(f"there is no value for @{hole.name}@ here", hint=hint, where=hole.where)
    if isinstance(value, Expression):
        return value.nix if hole.state == "code" else f"${{{value.nix}}}"
    if hole.state != "code":
        raise TemplateError(f"@{hole.name}@ is not text, and is allowed only in code", where=hole.where)
    return nix_value(cast("NixValue", value), hole.indent)


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
    """A template filled, and for lines that come from a nested one where they are there."""
    places: dict[int, Where] = {}
    lines = []
    for number, line in enumerate(render(parts, {**values, MARKS: True}).split("\n"), 1):
        match = MARK.search(line)
        if match and match[1]:
            places[number] = Where(match[1], int(match[2]))
        lines.append(MARK.sub("", line))
    return "\n".join(lines), places
