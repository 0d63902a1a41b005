"""Mistakes without a story: any binding, flag, list element or catalog word deleted, swapped or replaced."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from tools.mutations.mistake import Mistake, Right, config_decides
from torchsmith.catalog import builtin_catalog
from torchsmith.matrix import Variant
from torchsmith.recipe.read import read_text_as_recipe

if TYPE_CHECKING:
    from tree_sitter import Node

CATALOG = builtin_catalog()


def _values() -> dict[str, list[str]]:
    """The catalog's values by kind: a value is replaced by another one of its kind."""
    releases = sorted({line.torch for line in CATALOG.lines.values() if line.torch})
    return {
        "rev": [pin.rev for pin in CATALOG.pins.values()],
        "capability": [f'"{sm.capability}"' for sm in CATALOG.gpus],
        "SM": [f"SM{sm.number}" for sm in CATALOG.gpus],
        "title": [gpu.title for gpu in CATALOG.gpus.values()],
        "generation": sorted({gpu.generation for gpu in CATALOG.gpus.values()}),
        "flag": sorted({f'"{flag}"' for isa in CATALOG.isas.values() for flag in isa.flags}),
        "ISA": [f"{isa.title} CPUs" for isa in CATALOG.isas.values()],
        "platform": ["x86_64-linux", "aarch64-linux"],
        "cuda": [f"CUDA {cuda}" for cuda in CATALOG.cuda],
        "cuda set": [toolkit.attr for toolkit in CATALOG.cuda.values()],
        "release": [f"PyTorch {torch}" for torch in releases],
        "version": [f'"{torch}"' for torch in releases],
        "python set": [python.attr for python in CATALOG.pythons.values()],
        "python": [f"Python {python}" for python in CATALOG.pythons],
        "hash": sorted({text for line in CATALOG.lines.values() for text in line.hashes.values()}
                       | {patch.hash for fix in CATALOG.fixes.values() for patch in fix.patches.values()}),
        "boolean": ["true", "false"],
        "cpu": sorted({cpu for isa in CATALOG.isas.values() for cpu in isa.first_cpus}),
        "feature": sorted(CATALOG.features),
    }  # fmt: skip


VALUES = _values()


def generic(right: Right, chosen: random.Random) -> Iterator[Mistake]:
    """Every deletion and swap, and one replacement for every value of the catalog that the text holds."""
    recipe = read_text_as_recipe(right.text.encode(), Path(f"{right.name}.nix"))
    root = recipe.syntax.tree.root_node
    yield from _deletions(right, root)
    yield from _swaps(right, root)
    yield from _replacements(right, root, chosen)


def _walk(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from _walk(child)


def _made(
    right: Right, kind: str, what: str, parts: Sequence[tuple[int, int, str]], words: Sequence[str]
) -> Mistake:
    data = right.text.encode()
    at, out = 0, []
    for start, end, new in sorted(parts):
        out += [data[at:start], new.encode()]
        at = end
    text = b"".join([*out, data[at:]]).decode()
    first = data.count(b"\n", 0, parts[0][0]) + 1
    last = first + parts[0][2].count("\n")
    lines = (first, last + 1)
    return Mistake(kind, what, right, right.name, text, frozenset(), lines, tuple(words))


def _deletions(right: Right, root: Node) -> Iterator[Mistake]:
    data = right.text.encode()
    for node in _walk(root):
        parts = [node] if node.type == "binding" else []
        if node.type == "list_expression":
            parts = [one for one in node.named_children if one.type != "comment"]
        for part in parts:
            text = data[part.start_byte : part.end_byte].decode()
            if _reaches_nothing(right, _owners(part, data), text):
                continue
            kind = "delete a binding" if part.type == "binding" else "delete a list element"
            what = text.split("=")[0].strip() if part.type == "binding" else text[:40]
            words = [*re.findall(r"[A-Za-z_][\w-]{3,}", text), *_owners(part, data)[-1:]]
            yield _made(right, kind, what, [(part.start_byte, part.end_byte, "")], words)


def _owners(node: Node, data: bytes) -> list[str]:
    """The names of the bindings that a node is or stands in, outermost first."""
    names: list[str] = []
    at: Node | None = node
    while at is not None:
        if at.type == "binding":
            names.insert(0, data[at.start_byte : at.end_byte].decode().split("=")[0].strip())
        at = at.parent
    return names


def _reaches_nothing(right: Right, owners: Sequence[str], text: str) -> bool:
    """What can go without a change of what is built or claimed, and why."""
    if {"cmakeFlags", "ninjaFlags"} & set(owners):
        return True  # nixpkgs skips CMake's own configure phase
    if owners[-1:] == ["torchsmith"] or ("passthru" in owners and "cudaCapabilities" not in text):
        return True  # labels for tools, which a recipe of others need not have
    own_list = {"gpuTargets", "passthru"} & set(owners)
    if own_list and config_decides(right.text, Variant.parse(right.name, CATALOG)):
        return True  # the same architectures come from the import's config
    if owners[-1:] in (["description"], ["longDescription"], ["changelog"]):
        return True  # nixpkgs' own remains
    if "requiredSystemFeatures" in owners:
        return True  # where it is built, not what
    if len(owners) == 1 and len(re.findall(rf"(?<![\w.-]){re.escape(owners[0])}(?![\w-])", right.text)) == 1:
        return True  # it is not read
    variant = Variant.parse(right.name, CATALOG)
    pins = [pin for pin in CATALOG.pins.values() if pin.rev in right.text]
    natural = any(pin.default_cuda == variant.cuda for pin in pins) and variant.cuda is not None
    overlay = owners[-1:] == ["cudaPackages"] or "(final: prev: { cudaPackages" in text.split("magma")[0]
    return natural and overlay and "torch" not in text  # the pin's own default


def _swaps(right: Right, root: Node) -> Iterator[Mistake]:
    """The values of two neighbours exchanged, if they differ."""
    data = right.text.encode()

    def text(node: Node) -> str:
        return data[node.start_byte : node.end_byte].decode()

    for node in _walk(root):
        if node.type != "binding_set":
            continue
        bindings = [one for one in node.children if one.type == "binding"]
        for one, other in pairwise(bindings):
            a, b = one.child_by_field_name("expression"), other.child_by_field_name("expression")
            plain = a is not None and b is not None and a.type == b.type == "string_expression"
            if _owners(one, data)[-2:-1] == ["torchsmith"]:
                continue  # labels, which nothing reads
            if plain and a is not None and b is not None and text(a) != text(b):
                names = [text(x).split("=")[0].strip() for x in (one, other)]
                parts = [(a.start_byte, a.end_byte, text(b)), (b.start_byte, b.end_byte, text(a))]
                yield _made(right, "swap two values", " and ".join(names), parts, [*names, text(a), text(b)])


def _prose(right: Right, root: Node) -> list[tuple[int, int]]:
    """Where text reaches neither the build nor what is shown of a package: comments, long descriptions, and
    what a build prints."""
    data = right.text.encode()
    places = []
    for node in _walk(root):
        long = node.type == "binding" and _owners(node, data)[-1] == "longDescription"
        if node.type == "comment" or long:
            places.append((node.start_byte, node.end_byte))
    return places + [found.span() for found in re.finditer(rb"\becho [^\n]*", data)]


def _replacements(right: Right, root: Node, chosen: random.Random) -> Iterator[Mistake]:
    prose = _prose(right, root)
    for kind, values in VALUES.items():
        ordered = sorted(values, key=len, reverse=True)
        pattern = re.compile(r"(?<![\w-])(?:" + "|".join(map(re.escape, ordered)) + r")(?![\w.-]*\w)")
        for found in pattern.finditer(right.text):
            others = [value for value in values if value != found[0] and value not in found[0]]
            new = chosen.choice(others)
            start, end = (len(right.text[:at].encode()) for at in found.span())
            if any(first <= start < last for first, last in prose):
                continue
            words = [word for text in (found[0], new) for word in re.split(r'[,"]+ ?', text) if word]
            words += re.findall(r"(\w+) = $", right.text[: found.start()])
            yield _made(right, f"replace a {kind}", f"{found[0]} by {new}", [(start, end, new)], words)
