"""Plain values without an evaluator: literals, variables that hold literals, and what joins them."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING

from torchsmith.recipe.read.said import Unknown, Value
from torchsmith.recipe.read.scope import attr_names, lookup, statements, static_name
from torchsmith.recipe.read.syntax import Syntax

if TYPE_CHECKING:
    from tree_sitter import Node

DEPTH = 24  # chains of variables longer than this are left to an evaluator
ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


class Folder:
    """Folds expressions of one file; `given` are values that a wrapper passes to it."""

    def __init__(self, syntax: Syntax, given: Mapping[str, Value] | None = None) -> None:
        self.syntax = syntax
        self.given = dict(given or {})
        self._known: dict[int, Value] = {}

    def fold(self, node: Node, depth: int = 0) -> Value:
        """The value of an expression, or Unknown."""
        if depth > DEPTH:
            return Unknown(self.syntax.text(node))
        if node.id not in self._known:
            step = getattr(self, f"_{node.type.removesuffix('_expression')}", None)
            self._known[node.id] = step(node, depth + 1) if step else Unknown(self.syntax.text(node))
        return self._known[node.id]

    def text(self, node: Node) -> str:
        """A string's text with unknown interpolations left as they are written."""
        return self._joined(node, 0, strict=False) or ""

    def _parenthesized(self, node: Node, depth: int) -> Value:
        inner = node.child_by_field_name("expression")
        return self.fold(inner, depth) if inner is not None else Unknown(self.syntax.text(node))

    def _integer(self, node: Node, depth: int) -> Value:
        return int(self.syntax.text(node))

    def _float(self, node: Node, depth: int) -> Value:
        return float(self.syntax.text(node))

    def _uri(self, node: Node, depth: int) -> Value:
        return self.syntax.text(node)

    def _string(self, node: Node, depth: int) -> Value:
        joined = self._joined(node, depth, strict=True)
        return Unknown(self.syntax.text(node)) if joined is None else joined

    _indented_string = _string

    def _joined(self, node: Node, depth: int, *, strict: bool) -> str | None:
        parts: list[str] = []
        filled: list[str] = []  # kept apart, because indentation is counted without what is interpolated
        for child in node.children:
            if child.type == "string_fragment":
                parts.append(self.syntax.text(child))
            elif child.type == "escape_sequence":
                parts.append(_escape(self.syntax.text(child)))
            elif child.type == "interpolation":
                inner = child.child_by_field_name("expression")
                value = self.fold(inner, depth) if inner is not None else None
                if strict and not isinstance(value, str):
                    return None
                filled.append(value if isinstance(value, str) else self.syntax.text(child))
                parts.append("\0")
        text = "".join(parts)
        if node.type == "indented_string_expression":
            text = textwrap.dedent(text.removeprefix("\n"))
        for one in filled:
            text = text.replace("\0", one, 1)
        return text

    def _variable(self, node: Node, depth: int) -> Value:
        name = self.syntax.text(node)
        if name in ("true", "false", "null"):
            return {"true": True, "false": False, "null": None}[name]
        meaning = lookup(self.syntax, node, name)
        top = meaning.kind == "formal" and meaning.home == self.syntax.root
        if top and name in self.given:
            return self.given[name]
        bound = meaning.expression
        if meaning.kind in ("let", "rec", "formal") and bound is not None:
            return self.fold(bound, depth)
        return Unknown(name)

    def _list(self, node: Node, depth: int) -> Value:
        return [self.fold(one, depth) for one in node.named_children if one.type != "comment"]

    def _attrset(self, node: Node, depth: int) -> Value:
        found: dict[str, Value] = {}
        for one in statements(node):
            if one.type != "binding":
                return Unknown(self.syntax.text(node))
            path, bound = one.child_by_field_name("attrpath"), one.child_by_field_name("expression")
            names = attr_names(self.syntax, path) if path is not None else [None]
            if bound is None or len(names) != 1 or names[0] is None:
                return Unknown(self.syntax.text(node))
            found[names[0]] = self.fold(bound, depth)
        return found

    _rec_attrset = _attrset

    def _select(self, node: Node, depth: int) -> Value:
        inner, path = node.child_by_field_name("expression"), node.child_by_field_name("attrpath")
        value = self.fold(inner, depth) if inner is not None else None
        for name in self._attributes(path, depth) if path is not None else [None]:
            if not isinstance(value, dict) or name is None or name not in value:
                default = node.child_by_field_name("default")
                known = isinstance(value, dict) and name is not None
                return (
                    self.fold(default, depth)
                    if default is not None and known
                    else Unknown(self.syntax.text(node))
                )
            value = value[name]
        return value

    def _attributes(self, path: Node, depth: int) -> list[str | None]:
        """The parts of an attribute path, `${name}` filled in where it is plain."""
        found: list[str | None] = []
        for part in path.named_children:
            inner = part.child_by_field_name("expression") if part.type == "interpolation" else None
            value = self.fold(inner, depth) if inner is not None else None
            if part.type != "comment":
                found.append(value if isinstance(value, str) else static_name(self.syntax, part))
        return found

    def _if(self, node: Node, depth: int) -> Value:
        condition = node.child_by_field_name("condition")
        value = self.fold(condition, depth) if condition is not None else None
        branch = node.child_by_field_name("consequence" if value is True else "alternative")
        if not isinstance(value, bool) or branch is None:
            return Unknown(self.syntax.text(node))
        return self.fold(branch, depth)

    def _binary(self, node: Node, depth: int) -> Value:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        operator = node.child_by_field_name("operator")
        if left is None or right is None or operator is None:
            return Unknown(self.syntax.text(node))
        a, b = self.fold(left, depth), self.fold(right, depth)
        sign = self.syntax.text(operator)
        if sign == "+" and isinstance(a, str) and isinstance(b, str):
            return a + b
        if sign == "++" and isinstance(a, list) and isinstance(b, list):
            return a + b
        if sign == "//" and isinstance(a, dict) and isinstance(b, dict):
            return a | b
        if sign == "==" and not isinstance(a, Unknown) and not isinstance(b, Unknown):
            return a == b
        return Unknown(self.syntax.text(node))

    def _apply(self, node: Node, depth: int) -> Value:
        words, arguments = self.call(node)
        folded = [self.fold(one, depth) for one in arguments]
        name = words.rpartition(".")[2]
        if name == "toString" and len(folded) == 1:
            return _to_string(folded[0], self.syntax.text(node))
        if name == "concatStringsSep" and len(folded) == 2:
            separator, parts = folded
            if isinstance(separator, str) and isinstance(parts, list):
                texts = [part for part in parts if isinstance(part, str)]
                if len(texts) == len(parts):
                    return separator.join(texts)
        if name in ("removePrefix", "removeSuffix") and len(folded) == 2:
            affix, word = folded
            if isinstance(affix, str) and isinstance(word, str):
                return word.removeprefix(affix) if name == "removePrefix" else word.removesuffix(affix)
        return Unknown(self.syntax.text(node))

    def call(self, node: Node) -> tuple[str, list[Node]]:
        """The function's text and its arguments, of a curried call."""
        arguments: list[Node] = []
        function: Node | None = node
        while function is not None and function.type == "apply_expression":
            argument = function.child_by_field_name("argument")
            if argument is not None:
                arguments.insert(0, argument)
            function = function.child_by_field_name("function")
        return (self.syntax.text(function) if function is not None else "", arguments)


def _to_string(value: Value, text: str) -> Value:
    if isinstance(value, bool):
        return "1" if value else ""
    if isinstance(value, str | int):
        return str(value)
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return " ".join(str(one) for one in value)
    return Unknown(text)


def _escape(text: str) -> str:
    """`\\n` in a plain string, `''${` and `'''` in an indented one."""
    plain = re.fullmatch(r"(?:''\\|\\)(.)", text, re.DOTALL)
    if plain:
        return ESCAPES.get(plain[1], plain[1])
    return text.removeprefix("''") if text != "'''" else "''"
