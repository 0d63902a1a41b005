"""Expressions that set torch or CUDA: package sets with their settings, and changes of single packages.

A file may hold many, under any name. What one of them says is said of its own package set: the import of
nixpkgs that it is in, else its overlay, else the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from torchsmith.catalog.axes import CudaVersion
from torchsmith.recipe.read.located import (
    FlagList,
    GpuMention,
    Located,
    NixpkgsImport,
    OverrideKind,
    Unknown,
    Value,
)
from torchsmith.recipe.read.nixpkgs import OVERRIDES, body_of, override_kind
from torchsmith.recipe.read.recipe import SPELLINGS, Recipe, targets_in
from torchsmith.recipe.read.scope import attr_names, formal_nodes, names_of, resolved, statements, unwrapped
from torchsmith.recipe.read.syntax import Span, Syntax, part

if TYPE_CHECKING:
    from tree_sitter import Node

CUDA_SET = re.compile(r"(?:^|\.)cudaPackages_(\d+)(?:_(\d+))?$")
CMAKE_LIST = re.compile(r"CMAKE_CUDA_ARCHITECTURES(?::STRING)?=([\w.;+-]+)")
CONFIG = ("cudaSupport", "rocmSupport", "cudaCapabilities", "cudaForwardCompat")
SYSTEMS = ("system", "hostPlatform", "localSystem")
SYSTEM = re.compile(r"(?:x86_64|aarch64)-(?:linux|darwin)")
# Names of bindings that are looked at: settings, targets, systems, and packages that others follow.
RELEVANT_NAME = re.compile(
    rf"(?i:(?:enable)?(?:cuda|rocm|cudnn)\w*)|{'|'.join((*SPELLINGS, *SYSTEMS))}|torch|magma"
)
FLAG = re.compile(r"(?<![\w-])-m[a-z][\w.=+-]*")


@dataclass(frozen=True, slots=True)
class CudaSet:
    """A CUDA package set by its name: 12.8, or 12 for whichever 12 a nixpkgs prefers."""

    major: int
    minor: int | None

    def __str__(self) -> str:
        return f"{self.major}" if self.minor is None else f"{self.major}.{self.minor}"

    def has(self, version: CudaVersion) -> bool:
        return version.major == self.major and self.minor in (None, version.minor)


@dataclass(frozen=True, eq=False)
class ChangedPackage:
    """An override of a package: what it passes, each as it is written too, and where."""

    package: str
    root: str  # where the package is taken from: `prev`, `pkgs`
    kind: OverrideKind
    recipe: Recipe
    body: Node  # the set of what it passes
    old: str  # the name of what was there before, where its function has one
    span: Span
    node: Node

    @cached_property
    def arguments(self) -> Mapping[str, Located[Value]]:
        """What it passes, read on demand: a file may override hundreds of other packages."""
        return self.recipe.fields(self.body)

    @cached_property
    def texts(self) -> Mapping[str, str]:
        """What each argument is, as it is written."""
        return dict(_texts(self.recipe.syntax, self.body))

    @cached_property
    def cuda(self) -> CudaSet | None:
        return cuda_set(self.texts.get("cudaPackages", ""))


@dataclass(frozen=True, eq=False)
class PackageSet:
    """A package set and all that an expression says of it, filled while its file is read."""

    span: Span
    nixpkgs: NixpkgsImport | None  # where it is one
    settings: dict[str, Located[Value]] = field(default_factory=dict)
    systems: list[Located[str]] = field(default_factory=list)
    cudas: list[Located[CudaSet | None]] = field(default_factory=list)  # None if that is not plain
    targets: list[GpuMention] = field(default_factory=list)
    changes: list[ChangedPackage] = field(default_factory=list)
    flags: list[FlagList] = field(default_factory=list)
    bound: dict[str, Span] = field(default_factory=dict)  # packages that are given to all of it

    @property
    def imported(self) -> bool:
        """Whether nixpkgs is imported here, so that all of its configuration is seen."""
        return self.nixpkgs is not None and self.nixpkgs.complete

    @cached_property
    def config(self) -> Mapping[str, Located[Value]]:
        return {**self.settings, **(self.nixpkgs.config if self.nixpkgs else {})}

    @property
    def system(self) -> Located[str] | None:
        stated = self.nixpkgs.system if self.nixpkgs else None
        return stated or (self.systems[0] if len(self.systems) == 1 else None)

    @property
    def cuda(self) -> CudaSet | None:
        """Its CUDA, if one and no other is named."""
        named = {cuda.value for cuda in self.cudas}
        return named.pop() if len(named) == 1 else None

    def of(self, *packages: str) -> list[ChangedPackage]:
        return [change for change in self.changes if change.package in packages]


def cuda_set(text: str) -> CudaSet | None:
    """`final.cudaPackages_12_8` as 12.8."""
    plain = re.split(r"\.(?:overrideScope'?|extend)\b", text.strip().strip("()"))[0].strip()
    match = CUDA_SET.search(plain) if re.fullmatch(r"[\w.'-]+", plain) else None
    return CudaSet(int(match[1]), int(match[2]) if match[2] else None) if match else None


def expressions(recipe: Recipe) -> tuple[PackageSet, ...]:
    """The package sets of a file, each with what is said of it."""
    return _ExpressionReader(recipe).sets()


class _ExpressionReader:
    """Sorts the settings of a file by the package set that they are for."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe, self.syntax = recipe, recipe.syntax
        self.imports = {nixpkgs.span: nixpkgs for nixpkgs in recipe.imports}
        self.package_sets: dict[int, PackageSet] = {}
        self.homes: dict[int, Node] = {}

    def home(self, node: Node) -> Node:
        """The import of nixpkgs that a node is in, else the outermost overlay, else the file."""
        known = self.homes.get(node.id)
        if known is None:
            root = self.syntax.root
            above = self.home(node.parent) if node.parent is not None else root
            imported = node.type == "apply_expression" and self.syntax.span(node) in self.imports
            outermost = above == root and not is_overlay(root) and is_overlay(node)
            known = node if imported or outermost else above
            self.homes[node.id] = known
        return known

    def home_at(self, span: Span) -> Node:
        node = self.syntax.tree.root_node.descendant_for_byte_range(span.start, span.end)
        return self.home(node) if node is not None else self.syntax.root

    def package_set(self, home: Node) -> PackageSet:
        if home.id not in self.package_sets:
            span = self.syntax.span(home)
            self.package_sets[home.id] = PackageSet(span, self.imports.get(span))
        return self.package_sets[home.id]

    def sets(self) -> tuple[PackageSet, ...]:
        """The file itself, its imports of nixpkgs and its overlays, as far as they say something."""
        for call in self.syntax.calls_with(b"import"):
            if self.syntax.span(call) in self.imports:
                self.package_set(call)
        for name, value, node in self._bindings():
            self._note(self.package_set(self.home(node)), name, value, node)
        for mention in self._in_text():
            self.package_set(self.home_at(mention.span)).targets.append(mention)
        for change in self._changes():
            self.package_set(self.home(change.node)).changes.append(change)
        for flags in self._flags():
            self.package_set(self.home_at(flags.span)).flags.append(flags)
        return tuple(self.package_sets.values())

    def _note(self, package_set: PackageSet, name: str, value: Located[Value], node: Node) -> None:
        """Add what a binding sets to its package set."""
        if not self._is_argument(node):
            package_set.bound[name] = value.span
        owner = self.recipe.owner_of(node).split(".")[:-1]
        if (name in CONFIG and "config" in owner) or owner[-2:] == ["nixpkgs", "config"]:
            package_set.settings[name] = value
        elif name == "cudaPackages" and not self._is_argument(node):
            text = self.syntax.text(resolved(self.syntax, node))
            package_set.cudas.append(Located(cuda_set(text), value.span))
        elif name in SYSTEMS and isinstance(value.value, str) and SYSTEM.fullmatch(value.value):
            package_set.systems.append(Located(value.value, value.span))
        spelling = SPELLINGS.get(name, "variable")
        if spelling != "variable" and (targets := targets_in(value.value)):
            package_set.targets.append(GpuMention(spelling, name, targets, value.span))

    def _bindings(self) -> Iterator[tuple[str, Located[Value], Node]]:
        """Bindings that say something here: the last name, the value and its node."""
        for node, path in self.syntax.bindings:
            name = attr_names(self.syntax, path)[-1]
            if name is not None and RELEVANT_NAME.fullmatch(name) and self.recipe.alive(node):
                expression = part(node, "expression")
                yield name, self.recipe.located(expression), expression

    def _is_argument(self, node: Node) -> bool:
        """Whether a binding is what an override or another function is called with."""
        binding = node.parent
        body = binding.parent.parent if binding is not None and binding.parent is not None else None
        home = body.parent if body is not None else None
        functions = 0
        while home is not None and home.type in ("parenthesized_expression", "function_expression"):
            functions += home.type == "function_expression"
            home = home.parent
        # A function of two arguments is an overlay, as overrideScope takes it.
        return home is not None and home.type in ("apply_expression", "formal") and functions < 2

    def _in_text(self) -> Iterator[GpuMention]:
        """Targets in shell code and CMake flags."""
        for export in self.recipe.exports:
            if SPELLINGS.get(export.variable) in ("arch-list", "cmake-list"):
                targets = targets_in(export.value)
                if targets and "$" not in export.value:
                    yield GpuMention(SPELLINGS[export.variable], export.variable, targets, export.span)
        data = self.syntax.data.decode(errors="replace")
        if data.isascii():
            for match in CMAKE_LIST.finditer(data):
                node = self.syntax.tree.root_node.descendant_for_byte_range(*match.span())
                if node is not None and node.type == "string_fragment" and self.recipe.alive(node):
                    at = self.syntax.span_at(*match.span(1))
                    yield GpuMention("cmake-list", "CMAKE_CUDA_ARCHITECTURES", targets_in(match[1]), at)

    def _changes(self) -> Iterator[ChangedPackage]:
        for node, function, kind in self.recipe.override_calls:
            if kind == "overrideScope":
                continue
            package, root = self._package(function)
            argument = unwrapped(part(node, "argument"))
            body = body_of(argument)
            if not package or body is None:
                continue
            yield ChangedPackage(
                package=package,
                root=root,
                kind=kind,
                recipe=self.recipe,
                body=body,
                old=self._old(argument),
                span=self.syntax.span(node),
                node=node,
            )

    def _package(self, node: Node) -> tuple[str, str]:
        """The package that an expression is, or is an override of, and where that is taken from."""
        node = unwrapped(node)
        if node.type == "select_expression":
            source, names = part(node, "expression"), attr_names(self.syntax, part(node, "attrpath"))
            if names[-1] in OVERRIDES:
                names = names[:-1]
            if not names:
                return self._package(source)
            root = ".".join([self.syntax.text(source), *(name or "?" for name in names[:-1])])
            return names[-1] or "", root
        if node.type == "apply_expression":
            function = part(node, "function")
            return self._package(function) if override_kind(self.syntax, function) else ("", "")
        if node.type == "variable_expression":
            target = resolved(self.syntax, node)
            if target.type in ("select_expression", "apply_expression"):
                return self._package(target)
            return self.syntax.text(node), ""
        return "", ""

    def _old(self, argument: Node) -> str:
        """`old` of `old: { ... }`, the last argument of a function before its body."""
        name = ""
        while argument.type == "function_expression":
            universal = argument.child_by_field_name("universal")
            name = self.syntax.text(universal) if universal is not None else name
            argument = unwrapped(part(argument, "body"))
        return name

    def _flags(self) -> Iterator[FlagList]:
        yield from self.recipe.cpu_flags
        exports = (export for export in self.recipe.exports if "FLAGS" in export.variable)
        texts = [(export.variable, export.value, export.span) for export in exports]
        bound = self.recipe.strings("NIX_CFLAGS_COMPILE", "CFLAGS", "CXXFLAGS")
        texts += [("CFLAGS", text.value, text.span) for text in bound]
        for name, text, span in texts:
            if flags := FLAG.findall(text):
                yield FlagList(name, tuple(Located(word, span) for word in flags), span)


def _texts(syntax: Syntax, body: Node) -> Iterator[tuple[str, str]]:
    """What each argument is, as it is written; a variable by what it stands for."""
    for statement in statements(body):
        if statement.type == "binding":
            name = ".".join(word or "?" for word in attr_names(syntax, part(statement, "attrpath")))
            expression = part(statement, "expression")
            target = resolved(syntax, expression)
            plain = target.type in ("select_expression", "variable_expression")
            yield name, syntax.text(target if plain else expression)
        elif statement.type == "inherit_from":
            source = syntax.text(part(statement, "expression"))
            yield from ((name, f"{source}.{name}") for name in names_of(syntax, statement) if name)
        else:
            yield from ((name, name) for name in names_of(syntax, statement) if name)


def is_overlay(node: Node) -> bool:
    """`final: prev: ...`"""
    return _one_argument(node) and _one_argument(part(node, "body"))


def _one_argument(node: Node) -> bool:
    """`prev: ...`, with a name for all of its argument and nothing else."""
    plain = node.type == "function_expression" and node.child_by_field_name("universal") is not None
    return plain and not any(True for _ in formal_nodes(node))


def is_known(value: Value) -> bool:
    """Whether the text alone gives all of a value."""
    if isinstance(value, list):
        return all(is_known(element) for element in value)
    return not isinstance(value, Unknown)
