"""Reading templates: lines with their places, choices, and holes with where in Nix they stand."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from torchsmith.edge.problem import Problem, Where

FOLDER = Path(__file__).parent / "templates"
State = Literal["code", "quotes", "indented", "comment"]
PLACEHOLDER = re.compile(r"@([A-Za-z][A-Za-z0-9_.-]*)@")


class TemplateError(Problem):
    """A template that cannot be read or filled, with the file and line where."""


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of a template, and where it stands."""

    text: str
    file: str = ""
    number: int = 0

    @property
    def where(self) -> Where | None:
        return Where(self.file, self.number) if self.file else None


@dataclass(frozen=True, slots=True, eq=False)
class Hole:
    """A place to fill, where it stands, and the indentation of its line. One of a kind, so quick to find."""

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
        found = re.fullmatch(r"(\s*)#\? include (\S+)\s*", line)
        if found is None:
            lines.append(SourceLine(f"{indent}{line}\n" if line.strip() else "\n", file, number))
            continue
        name, where = found[2], Where(file, number)
        if name in (*above, Path(file).name):
            raise TemplateError(f"{name} includes itself", hint="take the line out", where=where)
        inner, path = own.get(name), f"{Path(file).parent}/{name}"
        if inner is None:
            if not re.fullmatch(r"[A-Za-z0-9_-]+\.nix", name) or not (FOLDER / name).is_file():
                hint = f"a file beside {Path(file).name}, or a template of torchsmith's"
                raise TemplateError(f"there is no template {name}", hint=hint, where=where)
            inner, path = (FOLDER / name).read_text(), name
        lines += with_includes(inner, path, indent + found[1], own, (*above, Path(file).name))
    return lines


def compile_lines(source: Sequence[SourceLine], *, marked: bool = False) -> tuple[Part, ...]:
    """The parts of a template; `marked` begins every line with where it stands."""
    lines = _Lexer(source, marked=marked).lines()
    parts, rest, stop = _block(lines)
    if stop is not None or rest:
        where = stop.where if stop else None
        word = stop.text.strip() if stop else "#? end"
        raise TemplateError(f"`{word}` without a beginning", hint="`#? if NAME` begins one", where=where)
    return parts


TemplateLine = tuple[str, tuple[Part, ...], SourceLine]  # the directive, or the parts of an ordinary line


def _block(
    lines: Sequence[TemplateLine],
) -> tuple[tuple[Part, ...], Sequence[TemplateLine], SourceLine | None]:
    """Parts up to `#? end` or `#? else` (which is returned), and the lines after it."""
    parts: list[Part] = []
    while lines:
        directive, content, source = lines[0]
        lines = lines[1:]
        if not directive:
            parts.extend(content)
        elif directive in ("end", "else"):
            return merged(parts), lines, source
        else:
            choice, lines = _choice(directive, lines, source)
            parts.append(choice)
    return merged(parts), lines, None


def _choice(
    directive: str, lines: Sequence[TemplateLine], source: SourceLine
) -> tuple[Choice, Sequence[TemplateLine]]:
    kind, _, subject = directive.partition(" ")
    if kind not in ("fix", "if", "unless", "each") or not subject:
        hint = "known: fix NAME, if NAME, unless NAME, each NAME, else, end, include FILE"
        raise TemplateError(f"unknown directive `#? {directive}`", hint=hint, where=source.where)
    then, lines, stop = _block(lines)
    otherwise: tuple[Part, ...] = ()
    if stop is not None and stop.text.strip() == "#? else":
        otherwise, lines, stop = _block(lines)
    if stop is None:
        raise TemplateError(f"`#? {directive}` has no end", hint="`#? end` ends it", where=source.where)
    return Choice(kind, subject, then, otherwise, source.where), lines  # type: ignore[arg-type]


P = TypeVar("P", Part, str | Hole)


def merged(parts: Sequence[P]) -> tuple[P, ...]:
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

    def __init__(self, source: Sequence[SourceLine], *, marked: bool = False) -> None:
        self.source = source
        self.marked = marked
        self.stack: list[State] = ["code"]
        self.depths = [0]

    def lines(self) -> list[TemplateLine]:
        made: list[TemplateLine] = []
        for source in self.source:
            found = re.fullmatch(r"\s*#\? (.*?)\s*", source.text)
            if found:
                made.append((found[1], (), source))
            else:
                mark = (f"\0{source.file}\0{source.number}\0",) if self.marked else ()
                made.append(("", (*mark, *self._line(source)), source))
        return made

    def _line(self, source: SourceLine) -> list[Part]:
        line = source.text
        indent = line[: len(line) - len(line.lstrip())]
        parts: list[Part] = []
        at, start = 0, 0
        comment = False
        while at < len(line):
            hole = PLACEHOLDER.match(line, at)
            if hole:
                state = "comment" if comment else self.stack[-1]
                parts += [line[start:at], Hole(hole[1], state, indent, source.where)]
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
