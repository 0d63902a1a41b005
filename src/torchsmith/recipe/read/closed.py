"""Expressions made self-contained: what an import of nixpkgs needs, so that recipes can share it.

A closed expression means the same everywhere, so two recipes whose imports close to the same tokens
import the same package set. Whatever cannot be closed with certainty is left alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from torchsmith.recipe.read.scope import Free, free_names, lookup
from torchsmith.recipe.read.syntax import Edit, Meaning, Span, Syntax, edited, parse, part

if TYPE_CHECKING:
    from tree_sitter import Node

PLAIN_PATH = re.compile(r"[A-Za-z0-9._+/-]+")
UNSAFE = ("__curPos", "scopedImport")  # their value depends on their place


class Open(Exception):
    """An expression that depends on more than its text."""


@dataclass(frozen=True, slots=True)
class Closed:
    """An expression and the bindings it needs; equal tokens mean equal values."""

    body: str
    bindings: tuple[tuple[str, str], ...]
    tokens: tuple[str, ...]
    span: Span  # of the body in its file

    @property
    def text(self) -> str:
        """One expression. The body comes first, so that its lines keep their numbers."""
        if not self.bindings:
            return self.body
        names = [name for name, _ in self.bindings]
        texts = "\n".join(f"{name} = {text};" for name, text in self.bindings)
        return f"({{ {', '.join(names)} }}: {self.body}) (let\n{texts}\nin {{ inherit {' '.join(names)}; }})"


def shared_imports(syntax: Syntax, path: Path, *, defaulted: bool) -> list[Closed]:
    """The outermost imports of a file that close, so that they can be taken out of it; one that needs an
    argument of the file only if all of these are `defaulted`."""
    imports: list[Closed] = []
    for node in syntax.calls_with(b"import"):
        inside = imports and node.end_byte <= imports[-1].span.end
        if not inside and _is_import(syntax, node):
            with suppress(Open):
                imports.append(close(syntax, node, path, defaulted=defaulted))
    return imports


def _is_import(syntax: Syntax, node: Node) -> bool:
    """Whether it is `import X { ... }` and X is not a file of the workspace."""
    inner = part(node, "function")
    if inner.type != "apply_expression":
        return False
    imports = syntax.text(part(inner, "function")) in ("import", "builtins.import")
    return imports and part(inner, "argument").type != "path_expression"


def close(syntax: Syntax, node: Node, path: Path, *, defaulted: bool) -> Closed:
    """`node` with the bindings it needs around it; Open if one is not certain."""
    bindings = _Bindings(syntax, path, defaulted)
    bindings.need(node)
    body = _with_absolute_paths(syntax, node, path)
    needed = (f"{name}={token}" for name, token in sorted(bindings.tokens.items()))
    tokens = (*needed, *_tokens(syntax, node, path))
    return Closed(body, tuple(sorted(bindings.texts.items())), tokens, syntax.span(node))


class _Bindings:
    """Collects the bindings that an expression needs; one name may mean one thing only."""

    def __init__(self, syntax: Syntax, path: Path, defaulted: bool) -> None:
        self.syntax, self.path, self.defaulted = syntax, path, defaulted
        self.texts: dict[str, str] = {}
        self.tokens: dict[str, str] = {}
        self.meanings: dict[str, int] = {}

    def need(self, node: Node) -> None:
        """Collect what the free names of an expression mean."""
        free = _anatomy(_text(self.syntax, node)).free
        for name in sorted(free.certain | free.under_with):
            if name in UNSAFE:
                raise Open(name)
            meaning = lookup(self.syntax, node, name)
            if meaning.kind in ("with", "unbound") and name in free.under_with and name not in free.certain:
                continue  # a `with` inside the expression brings it
            self._add(name, meaning)

    def _add(self, name: str, meaning: Meaning) -> None:
        if meaning.kind in ("with", "unbound", "rec", "argument"):
            raise Open(name)
        identity = meaning.statements[0].id if meaning.statements else 0
        known = self.meanings.setdefault(name, identity)
        if known != identity:
            raise Open(f"{name} means two things")
        if meaning.kind == "builtin" or name in self.texts:
            return
        if meaning.kind == "formal" and not (self.defaulted and meaning.home == self.syntax.root):
            raise Open(name)
        expression = meaning.expression
        if expression is None:
            raise Open(name)
        self.texts[name] = ""  # seen, in case that it needs itself
        self.texts[name] = _with_absolute_paths(self.syntax, expression, self.path)
        self.tokens[name] = "\0".join(_tokens(self.syntax, expression, self.path))
        self.need(expression)


def relative_paths(syntax: Syntax) -> Iterator[Node]:
    """Path literals that depend on where the file is."""
    return (node for node in syntax.captures.get("path", ()) if syntax.text(node).startswith("."))


def absolute(syntax: Syntax, node: Node, path: Path) -> str:
    """The same path from the root; Open if its folder has a name that no literal can hold."""
    text, first = syntax.text(node), node.children[0]
    head = syntax.text(first)
    interpolated = len(node.children) > 1
    start = os.path.normpath(path.parent.resolve() / head)
    start += "/" if interpolated and head.endswith("/") else ""
    if first.type != "path_fragment" or not PLAIN_PATH.fullmatch(start):
        raise Open(f"{text} cannot be written as a path from the root")
    return start + text[len(head) :]


def _absolute_paths(syntax: Syntax, node: Node, path: Path) -> list[Edit]:
    return [
        Edit(literal.start_byte, literal.end_byte, absolute(syntax, literal, path))
        for literal in relative_paths(syntax)
        if node.start_byte <= literal.start_byte and literal.end_byte <= node.end_byte
    ]


def _with_absolute_paths(syntax: Syntax, node: Node, path: Path) -> str:
    return rewritten(syntax, node.start_byte, node.end_byte, _absolute_paths(syntax, node, path))


def rewritten(syntax: Syntax, start: int, end: int, edits: list[Edit]) -> str:
    """A part of a file with edits made; line breaks are kept, so that later lines keep their numbers."""
    padded = []
    for edit in edits:
        lost = syntax.data.count(b"\n", edit.start, edit.end) - edit.text.count("\n")
        padded.append(Edit(edit.start, edit.end, edit.text + "\n" * max(lost, 0)))
    return edited(syntax.data, padded, start, end)


@dataclass(frozen=True, slots=True)
class _Anatomy:
    """What the text of an expression says by itself, wherever it is."""

    free: Free
    tokens: tuple[str, ...]  # without comments and layout, which mean nothing


@lru_cache(maxsize=1024)
def _anatomy(text: bytes) -> _Anatomy:
    """Taken apart once for all recipes that hold the same text, as those of a line do."""
    syntax = parse(text, "")
    return _Anatomy(free_names(syntax), tuple(_leaves(syntax, syntax.root)))


def _text(syntax: Syntax, node: Node) -> bytes:
    return syntax.data[node.start_byte : node.end_byte]


def _tokens(syntax: Syntax, node: Node, path: Path) -> tuple[str, ...]:
    """The tokens of an expression; their place counts only for relative paths."""
    paths = _absolute_paths(syntax, node, path)
    places = tuple(f"{edit.start - node.start_byte}:{edit.text}" for edit in paths)
    return (*_anatomy(_text(syntax, node)).tokens, *places)


def _leaves(syntax: Syntax, node: Node) -> Iterator[str]:
    if not node.children:
        yield syntax.text(node)
    for child in node.children:
        if child.type != "comment":
            yield from _leaves(syntax, child)
