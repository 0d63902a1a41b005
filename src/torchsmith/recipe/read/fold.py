"""Plain values without an evaluator: literals, variables that hold literals, and what joins them."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping
from functools import lru_cache
from operator import ge, gt, le, lt
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

from torchsmith.core.files import read_text
from torchsmith.core.problem import Problem
from torchsmith.recipe.read.located import Unknown, Value
from torchsmith.recipe.read.scope import lookup, names_of, statements, static_name
from torchsmith.recipe.read.syntax import Syntax, parse, part

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_DEPTH = 24  # chains of variables longer than this are left to an evaluator
MAX_IMPORTS = 4  # files that import each other deeper than this are left to an evaluator
ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
CONSTANTS: dict[str, Value] = {"true": True, "false": False, "null": None}
ORDERED: dict[str, Callable[[str | int, str | int], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}
LOGICAL = {"&&": False, "||": True}  # the value that decides alone
# What lib's helpers return if their condition does not hold.
OPTIONAL: dict[str, Callable[[], Value]] = {
    "optional": list, "optionals": list, "optionalString": str, "optionalAttrs": dict
}  # fmt: skip


class ConstantFolder:
    """Folds expressions of one file; `arguments` are values that a wrapper passes to it, `path` is where it
    is, for the tables that it imports."""

    def __init__(
        self,
        syntax: Syntax,
        arguments: Mapping[str, Value] | None = None,
        path: Path | None = None,
        imports: int = 0,
    ) -> None:
        self.syntax = syntax
        self.arguments = dict(arguments or {})
        self.path, self.imports = path, imports
        self._known: dict[int, Value] = {}

    def fold(self, node: Node, depth: int = 0) -> Value:
        """The value of an expression, or Unknown."""
        if depth > MAX_DEPTH:
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
        for piece in filled:
            text = text.replace("\0", piece, 1)
        return text

    def _variable(self, node: Node, depth: int) -> Value:
        name = self.syntax.text(node)
        return CONSTANTS[name] if name in CONSTANTS else self._value_of(node, name, depth)

    def _value_of(self, node: Node, name: str, depth: int) -> Value:
        """The value of a name where a node is."""
        meaning = lookup(self.syntax, node, name)
        if meaning.kind == "formal" and meaning.home == self.syntax.root and name in self.arguments:
            return self.arguments[name]
        if meaning.expression is not None:
            return self.fold(meaning.expression, depth)
        bound = meaning.statements
        return self.inherited(bound[0], name, depth) if len(bound) == 1 else Unknown(name)

    def inherited(self, statement: Node, name: str, depth: int = 0) -> Value:
        """What `inherit name;` or `inherit (x) name;` brings."""
        if statement.type == "inherit":
            return self._value_of(statement, name, depth)
        inherits = statement.type == "inherit_from"
        value = self.fold(part(statement, "expression"), depth) if inherits else None
        return value[name] if isinstance(value, dict) and name in value else Unknown(name)

    def _let(self, node: Node, depth: int) -> Value:
        return self.fold(part(node, "body"), depth)

    def _unary(self, node: Node, depth: int) -> Value:
        value = self.fold(part(node, "argument"), depth)
        match self.syntax.text(node)[0], value:
            case "!", bool(condition):
                return not condition
            case "-", int(number) | float(number) if not isinstance(value, bool):
                return -number
        return Unknown(self.syntax.text(node))

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
        return [self.fold(child, depth) for child in node.named_children if child.type != "comment"]

    def _attrset(self, node: Node, depth: int) -> Value:
        attributes: dict[str, Value] = {}
        for statement in statements(node):
            if statement.type != "binding":
                names = filter(None, names_of(self.syntax, statement))
                attributes |= {name: self.inherited(statement, name, depth) for name in names}
                continue
            *outer, last = self._attributes(part(statement, "attrpath"), depth)
            home: Value = attributes
            for name in outer:
                home = home.setdefault(name, {}) if isinstance(home, dict) and name else None
            if not isinstance(home, dict) or last is None:
                return Unknown(self.syntax.text(node))
            home[last] = self.fold(part(statement, "expression"), depth)
        return attributes

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
        """The parts of an attribute path, `${name}` filled in if it is plain."""
        names: list[str | None] = []
        for child in path.named_children:
            value = self.fold(part(child, "expression"), depth) if child.type == "interpolation" else None
            if child.type != "comment":
                names.append(value if isinstance(value, str) else static_name(self.syntax, child))
        return names

    def _if(self, node: Node, depth: int) -> Value:
        value = self.fold(part(node, "condition"), depth)
        if not isinstance(value, bool):
            return Unknown(self.syntax.text(node))
        return self.fold(part(node, "consequence" if value else "alternative"), depth)

    def _binary(self, node: Node, depth: int) -> Value:
        sign = self.syntax.text(part(node, "operator"))
        match self.fold(part(node, "left"), depth), sign, self.fold(part(node, "right"), depth):
            case str(left), "+", str(right):
                return left + right
            case list(left), "++", list(right):
                return left + right
            case dict(left), "//", dict(right):
                return left | right
            case left, "&&" | "||", right if left is LOGICAL[sign] or right is LOGICAL[sign]:
                return LOGICAL[sign]
            case bool(), "&&" | "||", bool(right):
                return right
            case left, "==" | "!=", right if not isinstance(left, Unknown) and not isinstance(right, Unknown):
                return (left == right) is (sign == "==")
            case (str(left), _, str(right)) | (int(left), _, int(right)) if sign in ORDERED:
                return ORDERED[sign](left, right)
        return Unknown(self.syntax.text(node))

    def _apply(self, node: Node, depth: int) -> Value:
        function, arguments = self.call(node)
        if function == "import":
            return self._import(node, arguments, depth)
        name = function.rpartition(".")[2]
        match name, *(self.fold(argument, depth) for argument in arguments):
            case str(), bool(condition), value if name in OPTIONAL:
                enabled: Value = [value] if name == "optional" else value
                return enabled if condition else OPTIONAL[name]()
            case "fromJSON", str(digits), *_ if digits.isdigit():
                return int(digits)
            case "toString", bool(value):
                return "1" if value else ""
            case "toString", str() | int() as value:
                return str(value)
            case "toString", list(parts) if _all_text(parts):
                return " ".join(parts)
            case "concatStringsSep", str(separator), list(parts) if _all_text(parts):
                return separator.join(parts)
            case "replaceStrings", list(old), list(new), str(word) if _all_text(old) and _all_text(new):
                if 0 < len(old) <= len(new) and "" not in old:
                    table = dict(reversed(list(zip(old, new, strict=False))))
                    return re.sub("|".join(map(re.escape, old)), lambda match: table[match[0]], word)
            case "removePrefix", str(affix), str(word):
                return word.removeprefix(affix)
            case "removeSuffix", str(affix), str(word):
                return word.removesuffix(affix)
        return Unknown(self.syntax.text(node))

    def _import(self, node: Node, arguments: list[Node], depth: int) -> Value:
        """A table in a file of its own, or what a function in one makes of plain arguments."""
        text = Unknown(self.syntax.text(node))
        plain = arguments and arguments[0].type == "path_expression" and self.path is not None
        if not plain or len(arguments) > 2 or self.imports >= MAX_IMPORTS:
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
        passed = self.fold(arguments[1], depth)
        if not isinstance(passed, dict) or not function:
            return text
        known = {name: value for name, value in passed.items() if not isinstance(value, Unknown)}
        return ConstantFolder(other, known, target, self.imports + 1).fold(part(other.root, "body"))

    def call(self, node: Node) -> tuple[str, list[Node]]:
        """The function's text and its arguments, of a curried call."""
        arguments: list[Node] = []
        while node.type == "apply_expression":
            arguments.insert(0, part(node, "argument"))
            node = part(node, "function")
        return self.syntax.text(node), arguments


def parsed_file(path: Path) -> Syntax | None:
    """A file that others import, read once as long as it stays the same; None if it cannot be read."""
    try:
        about = path.stat()
        return _parsed(path, about.st_mtime_ns, about.st_size)
    except (OSError, Problem):
        return None


@lru_cache(maxsize=64)
def _parsed(path: Path, changed: int, size: int) -> Syntax:
    return parse(read_text(path).encode(), str(path))


@lru_cache(maxsize=32)
def _table(syntax: Syntax, path: Path, imports: int) -> Value:
    """What a file without arguments has, folded once for all that import it."""
    return ConstantFolder(syntax, {}, path, imports).fold(syntax.root)


def _all_text(values: list[Value]) -> TypeGuard[list[str]]:
    return all(isinstance(value, str) for value in values)


def _escape(text: str) -> str:
    """`\\n` in a plain string, `''${` and `'''` in an indented one."""
    plain = re.fullmatch(r"(?:''\\|\\)(.)", text, re.DOTALL)
    if plain:
        return ESCAPES.get(plain[1], plain[1])
    return text.removeprefix("''") if text != "'''" else "''"
