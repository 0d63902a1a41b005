"""Recipes with what each word is, and many recipes as few lines: neighbours differ in almost nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from torchsmith.recipe.read.syntax import parse_tree

if TYPE_CHECKING:
    from tree_sitter import Node

MOST_LINES = 2000
MOST_TRIED = 50
MOST_BYTES = 200_000  # a longer recipe is shown without colours
# What a leaf of the grammar is on the page; words of the grammar itself are keywords.
KINDS = {
    "comment": "c",
    "string_fragment": "s",
    "indented_string_fragment": "s",
    "escape_sequence": "s",
    "dollar_escape": "s",
    '"': "s",
    "''": "s",
    "integer_expression": "n",
    "float_expression": "n",
    "path_fragment": "p",
    "path_expression": "p",
    "spath_expression": "p",
    "uri_expression": "p",
}
CodeLine = tuple[str, ...]  # kind, text, kind, text ...; an empty kind is plain text


def highlighted(text: str) -> list[CodeLine]:
    """The lines of a recipe."""
    plain = text.split("\n")[:MOST_LINES]
    if len(text) > MOST_BYTES:
        return [("", line) for line in plain]
    data = text.encode(errors="replace")
    lines: list[list[str]] = [[]]
    at = 0
    for start, end, kind in _leaves(parse_tree(data).root_node):
        _put(lines, "", data[at:start].decode(errors="replace"))
        _put(lines, kind, data[max(at, start) : end].decode(errors="replace"))
        at = max(at, end)
    _put(lines, "", data[at:].decode(errors="replace"))
    return [tuple(line) for line in lines[:MOST_LINES]]


def _leaves(root: Node) -> Iterator[tuple[int, int, str]]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.type in KINDS or not node.child_count:
            yield node.start_byte, node.end_byte, _kind(node)
        else:
            waiting.extend(reversed(node.children))


def _kind(node: Node) -> str:
    if node.type in KINDS:
        return KINDS[node.type]
    if node.type == "identifier":
        parent = node.parent
        return "a" if parent is not None and parent.type in ("attrpath", "formal") else ""
    return "k" if not node.is_named and node.type.isalpha() else ""


def _put(lines: list[list[str]], kind: str, text: str) -> None:
    for number, part in enumerate(text.split("\n")):
        if number:
            lines.append([])
        line = lines[-1]
        if part and line and line[-2] == kind:
            line[-1] += part
        elif part:
            line += (kind, part)


class PackedRecipes:
    """Stretches of lines that were met before, by place; a recipe is a few of those."""

    def __init__(self) -> None:
        self.lines: list[CodeLine] = []
        self._places: dict[CodeLine, list[int]] = {}
        self._texts: dict[str, list[int]] = {}

    def add(self, text: str) -> list[int]:
        """A recipe as first line, count, first line, count ..."""
        if text not in self._texts:
            self._texts[text] = list(self._stretches(highlighted(text)))
        return self._texts[text]

    def _stretches(self, lines: Sequence[CodeLine]) -> Iterator[int]:
        start = count = 0
        for number, line in enumerate(lines):
            following = lines[number + 1] if number + 1 < len(lines) else None
            place = self._place(line, following, start + count if count else -1)
            if count and place == start + count:
                count += 1
                continue
            if count:
                yield from (start, count)
            start, count = place, 1
        if count:
            yield from (start, count)

    def _place(self, line: CodeLine, following: CodeLine | None, here: int) -> int:
        """Where a line is: right here, where the next one follows it too, else at the end as a new one."""
        lines = self.lines
        if 0 <= here < len(lines) and lines[here] == line:
            return here
        for place in self._places.get(line, ())[:MOST_TRIED]:
            if following is None or (place + 1 < len(lines) and lines[place + 1] == following):
                return place
        lines.append(line)
        self._places.setdefault(line, []).append(len(lines) - 1)
        return len(lines) - 1
