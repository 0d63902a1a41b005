"""Plain values without an evaluator: literals, variables that hold literals, and what joins them."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping
from functools import lru_cache
from operator import eq, ge, gt, le, lt, ne
from pathlib import Path
from typing import TYPE_CHECKING

from torchsmith.edge.files import read_text
from torchsmith.edge.problem import Problem
from torchsmith.recipe.read.said import Unknown, Value
from torchsmith.recipe.read.scope import lookup, names_of, statements, static_name
from torchsmith.recipe.read.syntax import Syntax, parse

if TYPE_CHECKING:
    from tree_sitter import Node

DEPTH = 24  # chains of variables longer than this are left to an evaluator
IMPORTS = 4  # files that import each other deeper than this are left to an evaluator
ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
COMPARED: dict[str, Callable[[Value, Value], bool]] = {"==": eq, "!=": ne}
ORDERED: dict[str, Callable[[str | int, str | int], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}


class ConstantFolder:
    """Folds expressions of one file; `given` are values that a wrapper passes to it, `path` is where it
    stands, for the tables that it imports."""

    def __init__(
        self,
        syntax: Syntax,
        given: Mapping[str, Value] | None = None,
        path: Path | None = None,
        imports: int = 0,
    ) -> None:
        self.syntax = syntax
        self.given = dict(given or {})
        self.path, self.imports = path, imports
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
        return self._inherited(meaning.statements, name, depth)

    def _inherited(self, bound: tuple[Node, ...], name: str, depth: int) -> Value:
        """`inherit (x) name;`"""
        inner = bound[0].child_by_field_name("expression") if len(bound) == 1 else None
        if inner is None or bound[0].type != "inherit_from":
            return Unknown(name)
        value = self.fold(inner, depth)
        return value[name] if isinstance(value, dict) and name in value else Unknown(name)

    def _let(self, node: Node, depth: int) -> Value:
        body = node.child_by_field_name("body")
        return self.fold(body, depth) if body is not None else Unknown(self.syntax.text(node))

    def _unary(self, node: Node, depth: int) -> Value:
        inner = node.child_by_field_name("argument")
        value = self.fold(inner, depth) if inner is not None else None
        text = self.syntax.text(node)
        if isinstance(value, bool) and text.startswith("!"):
            return not value
        if isinstance(value, int | float) and not isinstance(value, bool) and text.startswith("-"):
            return -value
        return Unknown(text)

    def _has_attr(self, node: Node, depth: int) -> Value:
        inner, path = node.child_by_field_name("expression"), node.child_by_field_name("attrpath")
        value = self.fold(inner, depth) if inner is not None else None
        for name in self._attributes(path, depth) if path is not None else [None]:
            if isinstance(value, Unknown) or name is None:
                return Unknown(self.syntax.text(node))
            if not isinstance(value, dict) or name not in value:
                return False
            value = value[name]
        return True

    def _list(self, node: Node, depth: int) -> Value:
        return [self.fold(one, depth) for one in node.named_children if one.type != "comment"]

    def _attrset(self, node: Node, depth: int) -> Value:
        found: dict[str, Value] = {}
        for one in statements(node):
            if one.type != "binding":
                for name in names_of(self.syntax, one):
                    if name is not None:
                        found[name] = self.inherited(one, name, depth)
                continue
            path, bound = one.child_by_field_name("attrpath"), one.child_by_field_name("expression")
            names = self._attributes(path, depth) if path is not None else [None]
            home: Value = found
            for name in names[:-1]:
                home = home.setdefault(name, {}) if isinstance(home, dict) and name else None
            if bound is None or not isinstance(home, dict) or names[-1] is None:
                return Unknown(self.syntax.text(node))
            home[names[-1]] = self.fold(bound, depth)
        return found

    def inherited(self, statement: Node, name: str, depth: int = 0) -> Value:
        """What `inherit name;` or `inherit (x) name;` brings."""
        if statement.type == "inherit_from":
            return self._inherited((statement,), name, depth)
        meaning = lookup(self.syntax, statement, name)
        if meaning.kind == "formal" and meaning.home == self.syntax.root and name in self.given:
            return self.given[name]
        bound = meaning.expression
        return self.fold(bound, depth) if bound is not None else Unknown(name)

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
        known = not isinstance(a, Unknown) and not isinstance(b, Unknown)
        if sign in COMPARED and known:
            return COMPARED[sign](a, b)
        if sign in ORDERED and type(a) is type(b) and isinstance(a, str | int) and isinstance(b, str | int):
            return ORDERED[sign](a, b)
        if sign in LOGICAL:
            return _logical(sign, a, b, self.syntax.text(node))
        return Unknown(self.syntax.text(node))

    def _apply(self, node: Node, depth: int) -> Value:
        words, arguments = self.call(node)
        if words == "import":
            return self._import(node, arguments, depth)
        folded = [self.fold(one, depth) for one in arguments]
        name = words.rpartition(".")[2]
        if name in OPTIONAL and len(folded) == 2:
            return _optional(name, folded[0], folded[1], self.syntax.text(node))
        if name == "fromJSON" and folded and isinstance(folded[0], str) and folded[0].isdigit():
            return int(folded[0])
        if name == "toString" and len(folded) == 1:
            return _to_string(folded[0], self.syntax.text(node))
        if name == "concatStringsSep" and len(folded) == 2:
            separator, parts = folded
            if isinstance(separator, str) and isinstance(parts, list):
                texts = [part for part in parts if isinstance(part, str)]
                if len(texts) == len(parts):
                    return separator.join(texts)
        if name == "replaceStrings" and len(folded) == 3:
            return _replaced(folded[0], folded[1], folded[2], self.syntax.text(node))
        if name in ("removePrefix", "removeSuffix") and len(folded) == 2:
            affix, word = folded
            if isinstance(affix, str) and isinstance(word, str):
                return word.removeprefix(affix) if name == "removePrefix" else word.removesuffix(affix)
        return Unknown(self.syntax.text(node))

    def _import(self, node: Node, arguments: list[Node], depth: int) -> Value:
        """A table in a file of its own, or what a function in one makes of plain arguments."""
        text = Unknown(self.syntax.text(node))
        plain = arguments and arguments[0].type == "path_expression" and self.path is not None
        if not plain or len(arguments) > 2 or self.imports >= IMPORTS:
            return text
        assert self.path is not None
        target = self.path.parent / self.syntax.text(arguments[0])
        target = target / "default.nix" if target.is_dir() else target
        other = parsed_file(target)
        if other is None:
            return text
        if not arguments[1:]:
            return (
                text if other.root.type == "function_expression" else _table(other, target, self.imports + 1)
            )
        given = self.fold(arguments[1], depth)
        body: Node | None = other.root
        if not isinstance(given, dict) or body is None or body.type != "function_expression":
            return text
        body = body.child_by_field_name("body")
        known = {name: value for name, value in given.items() if not isinstance(value, Unknown)}
        folder = ConstantFolder(other, known, target, self.imports + 1)
        return folder.fold(body) if body is not None else text

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


def parsed_file(path: Path) -> Syntax | None:
    """A file that others import, read once as long as it stays the same; None where it cannot be read."""
    try:
        about = path.stat()
        return _parsed(path, about.st_mtime_ns, about.st_size)
    except (OSError, Problem):
        return None


@lru_cache(maxsize=64)
def _parsed(path: Path, changed: int, size: int) -> Syntax:
    return parse(read_text(path).encode(), str(path))


def _table(syntax: Syntax, path: Path, imports: int) -> Value:
    """What a file without arguments holds, folded once for all that import it."""
    for known, value in _tables:
        if known is syntax:
            return value
    value = ConstantFolder(syntax, {}, path, imports).fold(syntax.root)
    _tables.append((syntax, value))
    del _tables[:-TABLES]
    return value


_tables: list[tuple[Syntax, Value]] = []
TABLES = 32  # files that are remembered

LOGICAL = {"&&": False, "||": True}  # the value that decides alone
# What lib's helpers give where their condition does not hold.
OPTIONAL: dict[str, Callable[[], Value]] = {
    "optional": list, "optionals": list, "optionalString": str, "optionalAttrs": dict
}  # fmt: skip


def _logical(sign: str, a: Value, b: Value, text: str) -> Value:
    if a is LOGICAL[sign] or b is LOGICAL[sign]:
        return LOGICAL[sign]
    return b if isinstance(a, bool) and isinstance(b, bool) else Unknown(text)


def _optional(name: str, condition: Value, value: Value, text: str) -> Value:
    if not isinstance(condition, bool):
        return Unknown(text)
    if not condition:
        return OPTIONAL[name]()
    return [value] if name == "optional" else value


def _replaced(old: Value, new: Value, word: Value, text: str) -> Value:
    if not isinstance(word, str) or not isinstance(old, list) or not isinstance(new, list):
        return Unknown(text)
    pairs = [(a, b) for a, b in zip(old, new, strict=False) if isinstance(a, str) and isinstance(b, str)]
    if len(pairs) != len(old) or not all(a for a, _ in pairs):
        return Unknown(text)
    table = dict(reversed(pairs))
    return re.sub("|".join(re.escape(a) for a, _ in pairs), lambda found: table[found[0]], word)


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
