"""A recipe's tree: its bindings, what is in them, where it is, and what known values switch off."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, cast

from torchsmith.core.text import grouped
from torchsmith.recipe.read.fold import OPTIONAL, ConstantFolder
from torchsmith.recipe.read.located import Bound, Located, Value, as_text
from torchsmith.recipe.read.scope import attr_names, lookup, names_of, resolved, statements
from torchsmith.recipe.read.syntax import Span, Syntax, part

if TYPE_CHECKING:
    from tree_sitter import Node


@dataclass(frozen=True)
class Binding:
    names: tuple[str | None, ...]
    node: Node
    expression: Node


@dataclass(frozen=True)
class RecipeTree:
    """The text of a recipe as a tree; `passed` are the values that a wrapper gives to its arguments."""

    path: Path
    syntax: Syntax
    passed: Mapping[str, Value] = field(default_factory=dict)

    @cached_property
    def folder(self) -> ConstantFolder:
        return ConstantFolder(self.syntax, self.passed, self.path)

    @cached_property
    def dead(self) -> tuple[tuple[int, int], ...]:
        """Stretches that known values switch off: the other branch of an `if`, an optional part."""
        return tuple(self._dead_parts())

    def _dead_parts(self) -> Iterator[tuple[int, int]]:
        for node in self.syntax.captures.get("if", ()):
            value = self.folder.fold(part(node, "condition"))
            if isinstance(value, bool):
                other = part(node, "alternative" if value else "consequence")
                yield other.start_byte, other.end_byte
        for node in self.syntax.calls_with(b"optional"):
            function, arguments = self.folder.call(node)
            known = function.rpartition(".")[2] in OPTIONAL and len(arguments) == 2
            if known and self.folder.fold(arguments[0]) is False:
                yield arguments[1].start_byte, arguments[1].end_byte

    def alive(self, node: Node) -> bool:
        return not self.dead or not any(start <= node.start_byte < end for start, end in self.dead)

    @cached_property
    def _bindings(self) -> tuple[Binding, ...]:
        bindings = []
        for node, path in self.syntax.bindings:
            if self.alive(node):
                names = tuple(attr_names(self.syntax, path))
                bindings.append(Binding(names, node, part(node, "expression")))
        return tuple(bindings)

    @cached_property
    def _by_name(self) -> Mapping[str, list[Binding]]:
        return grouped(
            (name, binding) for binding in self._bindings if (name := binding.names[-1]) is not None
        )

    def _named(self, name: str) -> list[Binding]:
        return self._by_name.get(name, [])

    def bound(self, name: str) -> tuple[Bound, ...]:
        """Every binding of a name, in the order of the text."""
        bound = []
        for binding in self._named(name):
            located = self.located(binding.expression)
            prefix = [name or "?" for name in binding.names[:-1]]
            owner = ".".join(filter(None, [self.owner_of(binding.node), *prefix]))
            bound.append(Bound(owner, located.value, located.span))
        return tuple(bound)

    @property
    def innermost(self) -> Mapping[str, list[str]]:
        """What is bound to each name, as it is written; of bindings that contain others the inner ones."""
        next_starts = [*(binding.node.start_byte for binding in self._bindings[1:]), len(self.syntax.data)]
        return grouped(
            (binding.names[-1] or "?", self.syntax.text(binding.expression))
            for binding, start in zip(self._bindings, next_starts, strict=False)
            if start >= binding.node.end_byte
        )

    def strings(self, *names: str) -> tuple[Located[str], ...]:
        """What is bound to these names and is a string, in the order of the text."""
        bindings = (binding for name in names for binding in self._named(name))
        values = (as_text(self.located(binding.expression)) for binding in bindings)
        return tuple(sorted(filter(None, values), key=lambda value: value.span))

    def fields(self, node: Node) -> dict[str, Located[Value]]:
        """The statements of a set, by name."""
        statements_by_name: dict[str, Node] = {}
        for statement in statements(node):
            if statement.type == "binding":
                names = attr_names(self.syntax, part(statement, "attrpath"))
                if None not in names:
                    statements_by_name[".".join(cast("list[str]", names))] = statement
            else:
                named = filter(None, names_of(self.syntax, statement))
                statements_by_name |= dict.fromkeys(named, statement)
        return {name: self.located_in(node, name) for name, node in statements_by_name.items()}

    def located_in(self, statement: Node, name: str) -> Located[Value]:
        """What a statement of a set gives a name; an inherited name is looked up."""
        if statement.type == "binding":
            return self.located(part(statement, "expression"))
        bound = lookup(self.syntax, statement, name).expression if statement.type == "inherit" else None
        if bound is not None:
            return self.located(bound)
        return Located(self.folder.inherited(statement, name), self.syntax.span(statement))

    def located(self, node: Node) -> Located[Value]:
        """A value and the place of its literal, which may be another one's: `hash = torchHash;`."""
        value = self.folder.fold(node)
        return Located(value, self._inside(resolved(self.syntax, node)))

    def _inside(self, node: Node) -> Span:
        """The span of a literal; without its quotes if it is a plain string."""
        span = self.syntax.span(node)
        if node.type != "string_expression":
            return span
        return Span(span.start + 1, span.end - 1, span.line, span.column + 1)

    def text_at(self, span: Span) -> str:
        """What is written at a place."""
        return self.syntax.data[span.start : span.end].decode()

    def owner_at(self, span: Span) -> str:
        """The attributes that a place is in."""
        node = self.syntax.tree.root_node.descendant_for_byte_range(span.start, span.end)
        return self.owner_of(node) if node is not None else ""

    def owner_of(self, node: Node) -> str:
        """The attributes that a node is in, outermost first: python3Packages.overrides.torch.src."""
        names: list[str] = []
        parent = node.parent if node.type == "binding" else node
        while parent is not None:
            if parent.type == "binding":
                names[:0] = [name or "?" for name in attr_names(self.syntax, part(parent, "attrpath"))]
            parent = parent.parent
        return ".".join(names)
