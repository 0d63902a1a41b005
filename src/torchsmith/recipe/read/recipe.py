"""What one recipe says: pins, overlays, versions, hashes, targets, flags and names, with positions.

Everything is read when it is first asked for, because most callers want only a part.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, cast

from torchsmith.matrix.variant import package_name
from torchsmith.recipe.read.fold import MAX_DEPTH, OPTIONAL
from torchsmith.recipe.read.located import (
    Export,
    FetchedSource,
    FlagList,
    GpuMention,
    GpuSpelling,
    Located,
    NixpkgsImport,
    Overlay,
    Override,
    OverrideKind,
    RecipePin,
    Value,
    Wrapper,
    as_text,
)
from torchsmith.recipe.read.nixpkgs import ENDS, body_of, nixpkgs_imports, override_kind, package_scope
from torchsmith.recipe.read.scope import formal_nodes, lookup, names_of_all, resolved, unwrapped
from torchsmith.recipe.read.syntax import Span, Syntax, part
from torchsmith.recipe.read.tree import RecipeTree

if TYPE_CHECKING:
    from tree_sitter import Node

FROM_HOSTS = ("fetchFromGitHub", "fetchFromGitLab")
FROM_ADDRESSES = ("fetchgit", "fetchpatch", "fetchpatch2", "fetchurl", "fetchzip", "fetchTarball", "fetchGit")
FETCHERS = frozenset(FROM_HOSTS + FROM_ADDRESSES)
HASHES = ("hash", "sha256", "outputHash")
PHASE = re.compile(r"(pre|post)?(Unpack|Patch|Configure|Build|Check|Install|Fixup|InstallCheck)|\w+Phase")
SPELLINGS: dict[str, GpuSpelling] = {
    "gpuTargets": "gpuTargets",
    "cudaCapabilities": "cudaCapabilities",
    "gpuArchSM": "variable",
    "gpuArch": "variable",
    "gpuArchNum": "variable",
    "TORCH_CUDA_ARCH_LIST": "arch-list",
    "CMAKE_CUDA_ARCHITECTURES": "cmake-list",
    "CUDAARCHS": "cmake-list",
}
WORD = r"(?:\"(?:\\[\s\S]|[^\"\\])*\"|'[^']*'|\\[\s\S]|[^\s;\"'\\])*"
ASSIGNMENT = re.compile(rf"([A-Za-z_]\w*)(\+?)=({WORD})")
BETWEEN = r"(?:[ \t]|\\\n)"
# Assignments of one command line, and the start of the command that they are for alone.
ASSIGNMENTS = re.compile(
    rf"(?:^|(?<=;)){BETWEEN}*(export{BETWEEN}+)?((?:[A-Za-z_]\w*\+?={WORD}{BETWEEN}*)+)([^\s;&|#\"'])?",
    re.MULTILINE,
)
CPU_FLAG = re.compile(r"(?<![\w-])-m")
USED = re.compile(r"\$\{?(\w+)(?::?-[^}]*)?\}?")
GPU_EXPORT = re.compile(rb"(?:TORCH_CUDA_ARCH_LIST|CMAKE_CUDA_ARCHITECTURES|CUDAARCHS)=(?!\$TORCH)")


@dataclass(frozen=True)
class Recipe(RecipeTree):
    """A recipe as it is written. `inner` is the file that a wrapper leads to."""

    inner: Recipe | None = None

    @property
    def name(self) -> str:
        """The package's name for Flox: the file's name, or its folder's for a default.nix."""
        return package_name(self.path)

    @property
    def text(self) -> str:
        return self.syntax.data.decode()

    @property
    def content(self) -> Recipe:
        """The recipe that has the substance: this one, or the one that it wraps."""
        return self.inner.content if self.inner else self

    # ---- arguments and wrappers

    @cached_property
    def arguments(self) -> tuple[Located[str], ...]:
        """The names of the arguments that it takes, each at the place of its declaration."""
        formals = formal_nodes(self.syntax.root)
        return tuple(
            Located(self.syntax.text(part(node, "name")), self.syntax.span(node)) for node in formals
        )

    @cached_property
    def wrapper(self) -> Wrapper | None:
        """What a recipe that is nothing but a call of another file passes to it."""
        body = self.syntax.root
        while body.type in ("function_expression", "let_expression"):
            body = part(body, "body")
        if body.type != "apply_expression":
            return None
        function, arguments = self.folder.call(body)
        if function != "import" or not 1 <= len(arguments) <= 2 or arguments[0].type != "path_expression":
            return None
        attributes = body_of(arguments[1]) if arguments[1:] else None
        passed: Mapping[str, Located[Value]] = self.fields(attributes) if attributes is not None else {}
        return Wrapper(self.syntax.text(arguments[0]), passed, self.syntax.span(body))

    @property
    def files(self) -> tuple[Recipe, ...]:
        """This file and those that it leads to."""
        return (self, *(self.inner.files if self.inner else ()))

    @cached_property
    def paths(self) -> tuple[Located[str], ...]:
        """Path literals, but for defaults that the caller replaces."""
        paths = []
        for node in filter(self.alive, self.syntax.captures.get("path", ())):
            formal = node.parent
            name = self.syntax.text(part(formal, "name")) if formal and formal.type == "formal" else ""
            if name not in self.passed:
                paths.append(Located(self.syntax.text(node), self.syntax.span(node)))
        return tuple(paths)

    # ---- where packages come from

    @cached_property
    def pins(self) -> tuple[RecipePin, ...]:
        pins = []
        for source in self.tarballs:
            url = as_text(source.fields.get("url"))
            if url is None:
                continue
            digits = re.search(r"[0-9a-f]{40}", url.value)
            rev = None
            if digits:
                at = self.syntax.data.find(digits[0].encode(), url.span.start, url.span.end)
                place = self.syntax.span_at(at, at + 40) if at >= 0 else url.span
                rev = Located(digits[0], place)
            pins.append(RecipePin(url, rev, source.hash, source.span))
        return tuple(pins)

    @cached_property
    def imports(self) -> tuple[NixpkgsImport, ...]:
        return tuple(nixpkgs_imports(self))

    @property
    def overlays(self) -> tuple[Overlay, ...]:
        return tuple(overlay for nixpkgs in self.imports for overlay in nixpkgs.overlays)

    @cached_property
    def sources(self) -> tuple[FetchedSource, ...]:
        return tuple(self._fetches(FETCHERS))

    @cached_property
    def tarballs(self) -> tuple[FetchedSource, ...]:
        """The sources that Nix fetches while it evaluates."""
        return tuple(self._fetches(frozenset(["fetchTarball"])))

    def _fetches(self, fetchers: frozenset[str]) -> Iterator[FetchedSource]:
        for node in self.syntax.calls_with(b"fetch"):
            argument = part(node, "argument")
            fetcher = self.syntax.text(part(node, "function")).rpartition(".")[2]
            if fetcher not in fetchers or not self.alive(node):
                continue
            plain = argument.type in ("string_expression", "uri_expression")
            fields: Mapping[str, Located[Value]] = (
                {"url": self.located(argument)} if plain else self.fields(argument)
            )
            hashed = as_text(next((fields[key] for key in HASHES if key in fields), None))
            yield FetchedSource(fetcher, self.owner_of(node), fields, hashed, self.syntax.span(node))

    # ---- what is built

    @cached_property
    def platforms(self) -> tuple[Located[tuple[str, ...]], ...]:
        platforms = []
        for binding in self._named("platforms"):
            value = self.folder.fold(binding.expression)
            if isinstance(value, list) and all(isinstance(element, str) for element in value):
                systems = tuple(str(element) for element in value)
                platforms.append(Located(systems, self.syntax.span(binding.expression)))
        return tuple(platforms)

    @cached_property
    def gpu_targets(self) -> tuple[GpuMention, ...]:
        """Every place that names GPU targets, in the order of the text."""
        mentions = [
            GpuMention(spelling, name, targets_in(value), self.syntax.span(own), self._origin(own))
            for name, spelling in SPELLINGS.items()
            for binding in self._named(name)
            # A passthru of that name is read by nothing of nixpkgs.
            if spelling != "variable" or "passthru" not in self.owner_of(binding.node).split(".")
            if (value := self.folder.fold(own := binding.expression)) is not None
        ]
        # Folding every phase costs more than all the rest; few recipes set one of these there.
        exports = self.exports if GPU_EXPORT.search(self.syntax.data) else ()
        mentions += [
            GpuMention(SPELLINGS[name], name, targets_in(export.value), export.span, export.span)
            for export in exports
            if (name := export.variable) in SPELLINGS
        ]
        named = (mention for mention in mentions if mention.values)
        return tuple(sorted(named, key=lambda mention: mention.span))

    def _origin(self, node: Node) -> Span:
        """Where a value is written: that of a variable, alone or in a list, is at its binding."""
        alone = node.type == "list_expression" and node.named_child_count == 1
        element = node.named_children[0] if alone else node
        return self.syntax.span(
            resolved(self.syntax, element) if element.type == "variable_expression" else node
        )

    @cached_property
    def cpu_flags(self) -> tuple[FlagList, ...]:
        """Lists of flags of which some begin with -m, whatever they are called."""
        flag_lists = []
        for node in filter(self.alive, self.syntax.captures.get("list", ())):
            elements = [child for child in node.named_children if child.type == "string_expression"]
            flags = (
                as_text(Located(self.folder.fold(element), self._inside(element))) for element in elements
            )
            plain = tuple(filter(None, flags))
            flagged = all(flag.value.startswith("-") for flag in plain)
            if flagged and any(flag.value.startswith("-m") for flag in plain):
                name = self.owner_of(node).rpartition(".")[2]
                flag_lists.append(FlagList(name, plain, self.syntax.span(node)))
        return tuple(flag_lists)

    @property
    def selected_flags(self) -> Iterator[FlagList]:
        """CPU flags that are taken from a table, such as `(import ./cpus.nix).avx2`."""
        for binding in self._bindings:
            if binding.expression.type == "select_expression":
                value, span = self.folder.fold(binding.expression), self.syntax.span(binding.expression)
                for flags in value.values() if isinstance(value, dict) else [value]:
                    words = flags if isinstance(flags, list) else []
                    plain = tuple(Located(word, span) for word in words if isinstance(word, str))
                    if any(flag.value.startswith("-m") for flag in plain):
                        yield FlagList(binding.names[-1] or "", plain, span)

    @property
    def override_calls(self) -> Iterator[tuple[Node, Node, OverrideKind]]:
        """Calls of a kind of override, with the function that is called."""
        for node in filter(self.alive, self.syntax.calls_with(b"override")):
            function = part(node, "function")
            if kind := override_kind(self.syntax, function):
                yield node, function, kind

    @cached_property
    def overrides(self) -> tuple[Override, ...]:
        overrides = []
        for node, function, kind in self.override_calls:
            of = part(function, "expression")
            package = self.syntax.text(function).removesuffix(f".{kind}")
            if package == self.syntax.text(of):
                package = self.syntax.text(resolved(self.syntax, of))
            argument = unwrapped(part(node, "argument"))
            body = body_of(argument)
            passed: Mapping[str, Located[Value]] = self.fields(body) if body is not None else {}
            old = (
                argument.child_by_field_name("universal") if argument.type == "function_expression" else None
            )
            called = self.syntax.text(old) if old is not None else ""
            overrides.append(Override(kind, package, passed, self.syntax.span(node), called))
        return tuple(overrides)

    @cached_property
    def scoped(self) -> Mapping[str, Located[Value]]:
        """What a set of Python packages is given for all of it, by overrideScope or packageOverrides."""
        settings: dict[str, Located[Value]] = {}
        for node in filter(self.alive, self.syntax.calls_with(b"override")):
            function = package_scope(self.syntax, node)
            body = body_of(function) if function is not None else None
            settings |= self.fields(body) if body is not None else {}
        return settings

    @cached_property
    def exports(self) -> tuple[Export, ...]:
        """Variables that phases set, with the place of each assignment, and what they are from there on."""
        exports: list[Export] = []
        phases = (binding for binding in self._bindings if PHASE.fullmatch(binding.names[-1] or ""))
        for phase in phases:
            known: dict[str, Export] = {}
            for variable, value, span, certain in self._assignments(phase.expression):
                filled = _filled(value, known)
                if earlier := known.get(variable):
                    exports[exports.index(earlier)] = replace(earlier, last=False)
                    filled = filled if certain else f"{earlier.value} {filled}"
                known[variable] = Export(variable, filled, span)
                exports.append(known[variable])
        return tuple(exports)

    def _assignments(self, phase: Node) -> Iterator[tuple[str, str, Span, bool]]:
        """The assignments in shell code: variable, value, place, and whether nothing of before is left."""
        for node, always in _strings_in(self.syntax, phase):
            if not self.alive(node):
                continue
            quotes = 1 if node.type == "string_expression" else 2
            begin = node.start_byte + quotes
            raw = self.syntax.data[begin : node.end_byte - quotes].decode()
            written, folded = (list(_assigned(text)) for text in (raw, self.folder.text(node)))
            filled = [match[1] for match, _ in written] == [match[1] for match, _ in folded]
            for (match, for_one), (assignment, _) in zip(written, folded if filled else written, strict=True):
                start, end = (begin + len(raw[:at].encode()) for at in match.span())
                open_quote = assignment.string[assignment.end() : assignment.end() + 1] in ('"', "'")
                value = "${" if open_quote else assignment[3].strip("\"'")
                certain = always and filled and not (for_one or assignment[2])
                yield match[1], value, self.syntax.span_at(start, end), certain

    def flagged(self, *names: str) -> list[str]:
        """Those of the names that are bound to CPU flags, or to what only an evaluation could say; each as
        often as it is bound so."""
        return [name for name in names for one in self._named(name) if self._may_flag(one.expression)]

    def _may_flag(self, node: Node, depth: int = 0) -> bool:
        """Whether CPU flags are in an expression or in what its names mean, or may be."""
        node = resolved(self.syntax, node)
        value = self.folder.fold(node)
        if isinstance(value, str) or node.type == "string_fragment" or depth > MAX_DEPTH:
            text = value if isinstance(value, str) else self.syntax.text(node)
            return CPU_FLAG.search(text) is not None
        if node.type == "variable_expression":
            meaning = lookup(self.syntax, node, self.syntax.text(node))
            return meaning.kind != "builtin" and not self._is_old(meaning.home)
        parts = node.named_children
        if node.type == "apply_expression":
            function, parts = self.folder.call(node)
            library, _, name = function.rpartition(".")
            parts = parts[1:] if name in OPTIONAL else parts
            if not library.endswith(("lib", "builtins")) and name not in OPTIONAL:
                parts = [_called(node), *parts]
        elif node.type in ENDS and node.type != "binary_expression":
            parts = [part(node, ENDS[node.type])]
        elif node.type == "if_expression":
            parts = [part(node, "consequence"), part(node, "alternative")]
        return any(self._may_flag(child, depth + 1) for child in parts)

    def _is_old(self, function: Node | None) -> bool:
        """Whether a function is that of an override, whose argument has what was set before."""
        while function is not None and function.type in ("function_expression", "parenthesized_expression"):
            function = function.parent
        applied = function is not None and function.type == "apply_expression"
        return applied and override_kind(self.syntax, part(cast("Node", function), "function")) is not None

    # ---- names

    def search_paths(self, name: str) -> Iterator[Span]:
        """Where `<name>` is written."""
        for node in filter(self.alive, self.syntax.captures.get("spath", ())):
            if self.syntax.text(node) == f"<{name}>":
                yield self.syntax.span(node)

    def nixpkgs_settings(self, pattern: re.Pattern[str]) -> Iterator[tuple[str, Located[Value]]]:
        """The names of a pattern in `config` of nixpkgs, with their values: passed to an import, or set by a
        module as `nixpkgs.config`; `sunshine.cudaSupport` for one in a set there."""
        for nixpkgs in self.imports:
            for name, value in nixpkgs.config.items():
                inner = value.value if isinstance(value.value, dict) else {}
                found = {name: value} | {f"{name}.{key}": Located(inner[key], value.span) for key in inner}
                yield from ((key, found[key]) for key in found if pattern.fullmatch(key))
        for name in filter(pattern.fullmatch, self._by_name):
            for bound in self.bound(name):
                if f".{bound.owner}".endswith(".nixpkgs.config"):
                    yield name, Located(bound.value, bound.span)

    def is_argument(self, span: Span, functions: Collection[str]) -> bool:
        """Whether a place is the default of an argument, or is passed to one of these functions."""
        node = self.syntax.tree.root_node.descendant_for_byte_range(span.start, span.end)
        while node is not None and node.type != "formal":
            if node.type == "apply_expression":
                called = self.syntax.text(part(node, "function")).rpartition(".")[2]
                if called in functions:
                    return True
            node = node.parent
        return node is not None

    def binding_around(self, value: Span, name: str) -> Span | None:
        """The place of the plain binding `name = VALUE;` of the value at a place; None if there is none."""
        node = self.syntax.tree.root_node.descendant_for_byte_range(value.start, value.end)
        while node is not None and node.type != "binding":
            node = node.parent
        if node is None:
            return None
        attribute = part(node, "attrpath").named_children[-1]
        return self.syntax.span(node) if self.syntax.text(attribute) == name else None

    def bound_texts(self, name: str) -> list[str]:
        """What a name is bound to anywhere in the file, as it is written."""
        bindings = (binding for binding in self._named(name) if len(binding.names) == 1)
        return [self.syntax.text(binding.expression) for binding in bindings]

    def names(self, pattern: str) -> list[Located[str]]:
        """The names in code that are all of a pattern, in the order of the text: no words in strings, and
        `pytorch-lightning` is one name."""
        compiled = re.compile(pattern)
        located = [
            Located(name, self.syntax.span(node))
            for name, nodes in self.syntax.identifiers.items()
            if compiled.fullmatch(name)
            for node in nodes
            if self.alive(node)
        ]
        return sorted(located, key=lambda name: name.span)

    def selected(self, name: str) -> Iterator[tuple[str, Span]]:
        """Where an attribute of this name is taken from a set: the selection as written, and its place."""
        for node in filter(self.alive, self.syntax.identifiers.get(name, ())):
            path = node.parent
            selection = path.parent if path is not None and path.type == "attrpath" else None
            if selection is not None and selection.type == "select_expression":
                text = self.syntax.data[selection.start_byte : node.end_byte].decode()
                yield text, self.syntax.span(node)

    @cached_property
    def unbound(self) -> tuple[tuple[str, Span], ...]:
        """Undefined variables, each with the place of its first use."""
        known = names_of_all(self.syntax)
        first: dict[str, Node] = {}
        for node in self.syntax.variables:
            name = self.syntax.text(node)
            if name in known or name in first:
                continue
            if lookup(self.syntax, node, name).kind == "unbound":
                first[name] = node
        return tuple((name, self.syntax.span(node)) for name, node in first.items())


def _called(node: Node) -> Node:
    """The function of a curried call."""
    while node.type == "apply_expression":
        node = part(node, "function")
    return node


def _assigned(shell: str) -> Iterator[tuple[re.Match[str], bool]]:
    """The assignments in shell code, and whether each is for one command alone."""
    for line in ASSIGNMENTS.finditer(shell):
        for assignment in ASSIGNMENT.finditer(shell, *line.span(2)):
            yield assignment, not line[1] and bool(line[3])


def _filled(shell: str, known: Mapping[str, Export]) -> str:
    """Shell text with the values of variables that are known."""
    return USED.sub(lambda used: known[used[1]].value if used[1] in known else used[0], shell)


def _strings_in(syntax: Syntax, node: Node, always: bool = True) -> Iterator[tuple[Node, bool]]:
    """The strings that an expression joins, in order, also by a name, and whether no condition is around
    them."""
    node = resolved(syntax, node)
    if node.type in ("string_expression", "indented_string_expression"):
        for child in node.named_children:
            if child.type == "interpolation":
                yield from _strings_in(syntax, part(child, "expression"), always)
        yield node, always
    elif node.type in ("binary_expression", "if_expression"):
        for child in node.named_children:
            yield from _strings_in(syntax, child, always and node.type != "if_expression")
    elif node.type == "apply_expression":  # lib.optionalString condition TEXT
        yield from _strings_in(syntax, part(node, "argument"), always=False)


def targets_in(value: Value) -> tuple[str, ...]:
    """The GPU targets in a string or a list: `8.6;9.0+PTX` has two."""
    if isinstance(value, str):
        return tuple(filter(None, re.split(r"[;,\s]+", value)))
    if isinstance(value, list):
        return tuple(element for element in value if isinstance(element, str))
    return ()
