"""Nix text as a tree with positions: tree-sitter's grammar, and the one thing nixfmt writes that it lacks."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Literal

from torchsmith.core.problem import Problem, Where
from torchsmith.core.text import grouped

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Parser, Query, Tree

# Captured in one pass over the tree, in C: a walk in Python costs five times as much.
CAPTURES = """
(binding) @binding
(binding (attrpath) @attrpath)
(apply_expression) @apply
(comment) @comment
(path_expression) @path
(list_expression) @list
(if_expression) @if
(variable_expression) @variable
(identifier) @identifier
(inherit) @inherit
(inherit (inherited_attrs (identifier) @inherited))
(string_expression . (string_fragment) @plain .)
(spath_expression) @spath
[
  (let_expression) (let_attrset_expression) (rec_attrset_expression)
  (function_expression) (with_expression)
] @scope
"""

MIN_DEEP_NODES = 4000  # fewer are not a deep tree
MAX_LEVELS = 1000  # of expressions within expressions; finding what a node is in takes a step for each
BindingKind = Literal["let", "rec", "formal", "argument", "builtin", "with", "unbound"]
MERGED = ("attrset_expression", "rec_attrset_expression")
START = attrgetter("start_byte")
CONFLICT = re.compile(rb"^<{7} ", re.MULTILINE)  # the mark by which git begins one
BLANK = rb"(?:\s|#[^\n]*\n|/\*.*?\*/)*"
END_OF_FORMALS = re.compile(BLANK + rb"\}" + BLANK + rb"[:@]", re.DOTALL)


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A stretch of a file in bytes, and where it starts, counted from 1 as editors do."""

    start: int
    end: int
    line: int
    column: int


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """A replacement of some bytes of a file."""

    start: int
    end: int
    text: str


def edited(data: bytes, edits: Iterable[Edit], start: int = 0, end: int | None = None) -> str:
    """A part of a text with edits made; of two that overlap, the first counts."""
    parts: list[bytes] = []
    for edit in sorted(set(edits)):
        if edit.start >= start:
            parts += [data[start : edit.start], edit.text.encode()]
            start = edit.end
    return b"".join([*parts, data[start:end]]).decode()


class Unreadable(Problem):
    """Text that cannot be parsed."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a name means at some place: the kind of binding, the statements that bind it, their scope."""

    kind: BindingKind
    home: Node | None = None
    statements: tuple[Node, ...] = ()

    @property
    def expression(self) -> Node | None:
        """The bound expression, if one plain statement binds the name."""
        if len(self.statements) != 1:
            return None
        statement = self.statements[0]
        if self.kind == "formal":
            return statement.child_by_field_name("default")
        plain = statement.type == "binding" and part(statement, "attrpath").named_child_count == 1
        return part(statement, "expression") if plain else None


@dataclass(eq=False, slots=True)
class Scope:
    """An expression that binds names, or a `with`, and the scope around it. `names` are those that it binds
    and `meanings` what names mean in it, as far as either was asked for."""

    node: Node
    start: int
    end: int
    outer: Scope | None
    environment: int = 0  # the end of what a `with` opens, which is outside of it
    names: dict[str, tuple[Node, ...]] | None = None
    meanings: dict[str, Meaning] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Syntax:
    """A parsed file. `exact` is False if positions are not those of the file itself."""

    data: bytes
    tree: Tree
    file: str
    exact: bool = True

    @property
    def root(self) -> Node:
        """The expression that the file is."""
        expression = self.tree.root_node.child_by_field_name("expression")
        if expression is None:
            raise Unreadable("the file holds no expression", where=Where(self.file, 1, 1))
        return expression

    @cached_property
    def captures(self) -> dict[str, list[Node]]:
        """Nodes by kind."""
        return captured(self.tree, CAPTURES)

    def calls_with(self, word: bytes) -> Iterator[Node]:
        """Calls in whose text a word is, which is much cheaper to ask than what the call is."""
        for node in self.captures.get("apply", ()):
            if self.data.find(word, node.start_byte, node.end_byte) >= 0:
                yield node

    @cached_property
    def bindings(self) -> list[tuple[Node, Node]]:
        """Every binding and its attribute path; they begin at the same byte."""
        captures = self.captures
        return list(zip(captures.get("binding", ()), captures.get("attrpath", ()), strict=True))

    @property
    def variables(self) -> list[Node]:
        """Every place that reads a variable."""
        return self.captures.get("variable", [])

    @cached_property
    def identifiers(self) -> dict[str, list[Node]]:
        """The names in code, whatever they mean, each with its places. `-` belongs to a name."""
        return grouped((self.text(node), node) for node in self.captures.get("identifier", ()))

    @property
    def named_files(self) -> set[str]:
        """What files and folders that paths lead to are called, without an ending."""
        paths = (self.text(node) for node in self.captures.get("path", ()))
        return {path.rstrip("/").rpartition("/")[2].removesuffix(".nix") for path in paths}

    @property
    def plain_strings(self) -> set[str]:
        """What strings say that nothing is put together in."""
        return {self.text(node) for node in self.captures.get("plain", ())}

    @cached_property
    def inherited_names(self) -> set[str]:
        """Names that are passed on by `inherit`."""
        return {self.text(node) for node in self.captures.get("inherited", ())}

    @cached_property
    def _scopes(self) -> tuple[list[int], list[Scope]]:
        """Where each scope of the file starts, and the scopes, in the order of the text."""
        scopes: list[Scope] = []
        for node in self.captures.get("scope", ()):
            start, end = node.start_byte, node.end_byte
            outer = _around(scopes[-1] if scopes else None, start, end)
            opens = part(node, "environment").end_byte if node.type == "with_expression" else 0
            scopes.append(Scope(node, start, end, outer, opens))
        return [scope.start for scope in scopes], scopes

    def scope_of(self, node: Node) -> Scope | None:
        """The innermost scope that a node is in."""
        (starts, scopes), start = self._scopes, node.start_byte
        index = bisect_right(starts, start) - 1
        return _around(scopes[index] if index >= 0 else None, start, node.end_byte)

    @cached_property
    def _ascii(self) -> bool:
        return self.data.isascii()

    def text(self, node: Node) -> str:
        return self.data[node.start_byte : node.end_byte].decode()

    def span(self, node: Node) -> Span:
        row, column = node.start_point
        if not self._ascii:
            start = node.start_byte
            column = len(self.data[start - column : start].decode(errors="replace"))
        return Span(node.start_byte, node.end_byte, row + 1, column + 1)

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(newline.end() for newline in re.finditer(rb"\n", self.data))]

    def line(self, number: int) -> str:
        """A line of the text, counted from 1."""
        starts = self._line_starts
        if not 1 <= number <= len(starts):
            return ""
        end = starts[number] if number < len(starts) else len(self.data)
        return self.data[starts[number - 1] : end].decode(errors="replace").rstrip()

    def span_at(self, start: int, end: int) -> Span:
        """A span by its bytes; columns count characters, whatever their width."""
        row = bisect_right(self._line_starts, start)
        begin = self._line_starts[row - 1]
        column = start - begin if self._ascii else len(self.data[begin:start].decode(errors="replace"))
        return Span(start, end, row, column + 1)

    def where(self, node: Node) -> Where:
        span = self.span(node)
        return Where(self.file, span.line, span.column)


def _around(scope: Scope | None, start: int, end: int) -> Scope | None:
    """The first of a scope and those around it that a shorter stretch of the text is in."""
    while scope and not (
        scope.environment <= start and end <= scope.end and end - start < scope.end - scope.start
    ):
        scope = scope.outer
    return scope


def part(node: Node, field: str) -> Node:
    """A part that the grammar asks of every such node: a tree without errors has it."""
    child = node.child_by_field_name(field)
    assert child is not None, f"{node.type} without {field}"
    return child


@cache
def _language() -> Language:
    import tree_sitter_nix
    from tree_sitter import Language

    return Language(tree_sitter_nix.language())


@cache
def _parser() -> Parser:
    from tree_sitter import Parser

    return Parser(_language())


@cache
def _query(text: str) -> Query:
    from tree_sitter import Query

    return Query(_language(), text)


def captured(tree: Tree, query: str) -> dict[str, list[Node]]:
    """The nodes that a query finds, by the names that it gives them, in the order of the text."""
    from tree_sitter import QueryCursor

    captures = QueryCursor(_query(query)).captures(tree.root_node)
    return {name: sorted(nodes, key=START) for name, nodes in captures.items()}


def parse(data: bytes, file: str) -> Syntax:
    """The tree of a file, or Unreadable with the place of the first thing that is not understood."""
    tree = _parser().parse(data)
    _check_levels(tree, file)
    if tree.root_node.has_error:
        repaired = _without_trailing_commas(data, tree)
        if repaired != data:
            tree = _parser().parse(repaired)
    if tree.root_node.has_error:
        raise _fault(data, tree, file)
    syntax = Syntax(data, tree, file)
    twice = next(_duplicates(syntax), None)
    if twice is not None:
        raise Unreadable(f"attribute {syntax.text(twice)} is set twice", where=syntax.where(twice))
    return syntax


def _check_levels(tree: Tree, file: str) -> None:
    """Raise Unreadable for a tree that is too deep to be read in a short time."""
    nodes = [tree.root_node] if tree.root_node.descendant_count > MIN_DEEP_NODES else []
    level = 0
    while nodes:
        nodes = [child for node in nodes for child in node.children]
        level += 1
        if level > MAX_LEVELS:
            row, column = nodes[0].start_point
            where = Where(file, row + 1, column + 1)
            raise Unreadable(f"more than {MAX_LEVELS} expressions within each other", where=where)


def errors(node: Node) -> Iterator[Node]:
    """The places that the grammar did not understand, from the start of the text."""
    if node.type == "ERROR" or node.is_missing:
        yield node
    elif node.has_error:
        for child in node.children:
            yield from errors(child)


def _without_trailing_commas(data: bytes, tree: Tree) -> bytes:
    """`{ a, b, }:` is Nix but not this grammar's: blank the comma, so that every position stays."""
    text = bytearray(data)
    for comma in captured(tree, '"," @comma').get("comma", ()):
        if END_OF_FORMALS.match(data, comma.end_byte):
            text[comma.start_byte] = ord(" ")
    return bytes(text)


def _fault(data: bytes, tree: Tree, file: str) -> Unreadable:
    syntax = Syntax(data, tree, file)
    if conflict := CONFLICT.search(data):
        row = data.count(b"\n", 0, conflict.start()) + 1
        return Unreadable("a merge conflict is not resolved", where=Where(file, row, 1))
    node = next(errors(tree.root_node), tree.root_node)
    first = next(iter(syntax.text(node).strip().splitlines()), "end of file")
    detail = f"{node.type!r} is missing" if node.is_missing else f"unexpected {first[:40]!r}"
    return Unreadable(f"not valid Nix: syntax error, {detail}", where=syntax.where(node))


def _duplicates(syntax: Syntax) -> Iterator[Node]:
    """Attributes that one set has twice, which this grammar takes and Nix does not; sets it merges."""
    named = ((syntax.data[pair[1].start_byte : pair[1].end_byte], pair) for pair in syntax.bindings)
    for text, same in grouped(named).items():
        homes: dict[Node | None, bool] = {}  # whether what was bound there is a set
        for binding, path in same if len(same) > 1 and b"$" not in text else ():
            is_set = part(binding, "expression").type in MERGED
            if binding.parent in homes and not (is_set and homes[binding.parent]):
                yield path
            homes[binding.parent] = is_set
