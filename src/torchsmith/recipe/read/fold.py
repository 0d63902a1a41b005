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
from torchsmith.recipe.read.syntax import Syntax, parse, part

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
        return self.fold(part(node, "expression"), depth)

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
                value = self.fold(part(child, "expression"), depth)
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
        if len(bound) != 1 or bound[0].type != "inherit_from":
            return Unknown(name)
        value = self.fold(part(bound[0], "expression"), depth)
        return value[name] if isinstance(value, dict) and name in value else Unknown(name)

    def _let(self, node: Node, depth: int) -> Value:
        return self.fold(part(node, "body"), depth)

    def _unary(self, node: Node, depth: int) -> Value:
        value = self.fold(part(node, "argument"), depth)
        text = self.syntax.text(node)
        if isinstance(value, bool) and text.startswith("!"):
            return not value
        if isinstance(value, int | float) and not isinstance(value, bool) and text.startswith("-"):
            return -value
        return Unknown(text)

    def _has_attr(self, node: Node, depth: int) -> Value:
        value = self.fold(part(node, "expression"), depth)
        for name in self._attributes(part(node, "attrpath"), depth):
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
            names = self._attributes(part(one, "attrpath"), depth)
            home: Value = found
            for name in names[:-1]:
                home = home.setdefault(name, {}) if isinstance(home, dict) and name else None
            if not isinstance(home, dict) or names[-1] is None:
                return Unknown(self.syntax.text(node))
            home[names[-1]] = self.fold(part(one, "expression"), depth)
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
        value = self.fold(part(node, "expression"), depth)
        for name in self._attributes(part(node, "attrpath"), depth):
            if not isinstance(value, dict) or name is None:
                return Unknown(self.syntax.text(node))
            if name not in value:
                default = node.child_by_field_name("default")
                return self.fold(default, depth) if default is not None else Unknown(self.syntax.text(node))
            value = value[name]
        return value

    def _attributes(self, path: Node, depth: int) -> list[str | None]:
        """The parts of an attribute path, `${name}` filled in where it is plain."""
        found: list[str | None] = []
        for one in path.named_children:
            value = self.fold(part(one, "expression"), depth) if one.type == "interpolation" else None
            if one.type != "comment":
                found.append(value if isinstance(value, str) else static_name(self.syntax, one))
        return found

    def _if(self, node: Node, depth: int) -> Value:
        value = self.fold(part(node, "condition"), depth)
        if not isinstance(value, bool):
            return Unknown(self.syntax.text(node))
        return self.fold(part(node, "consequence" if value else "alternative"), depth)

    def _binary(self, node: Node, depth: int) -> Value:
        a, b = self.fold(part(node, "left"), depth), self.fold(part(node, "right"), depth)
        sign = self.syntax.text(part(node, "operator"))
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
            texts = _strings(parts)
            if isinstance(separator, str) and texts is not None:
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
        function = other.root.type == "function_expression"
        if not arguments[1:]:
            return text if function else _table(other, target, self.imports + 1)
        given = self.fold(arguments[1], depth)
        if not isinstance(given, dict) or not function:
            return text
        known = {name: value for name, value in given.items() if not isinstance(value, Unknown)}
        return ConstantFolder(other, known, target, self.imports + 1).fold(part(other.root, "body"))

    def call(self, node: Node) -> tuple[str, list[Node]]:
        """The function's text and its arguments, of a curried call."""
        arguments: list[Node] = []
        while node.type == "apply_expression":
            arguments.insert(0, part(node, "argument"))
            node = part(node, "function")
        return self.syntax.text(node), arguments


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
    words, others = _strings(old), _strings(new)
    if not isinstance(word, str) or not words or others is None or len(words) > len(others) or "" in words:
        return Unknown(text)
    table = dict(reversed(list(zip(words, others, strict=False))))
    return re.sub("|".join(map(re.escape, words)), lambda found: table[found[0]], word)


def _to_string(value: Value, text: str) -> Value:
    if isinstance(value, bool):
        return "1" if value else ""
    if isinstance(value, str | int):
        return str(value)
    texts = _strings(value)
    return Unknown(text) if texts is None else " ".join(texts)


def _strings(value: Value) -> list[str] | None:
    """A list of nothing but strings."""
    texts = [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
    return texts if isinstance(value, list) and len(texts) == len(value) else None


def _escape(text: str) -> str:
    """`\\n` in a plain string, `''${` and `'''` in an indented one."""
    plain = re.fullmatch(r"(?:''\\|\\)(.)", text, re.DOTALL)
    if plain:
        return ESCAPES.get(plain[1], plain[1])
    return text.removeprefix("''") if text != "'''" else "''"
