"""The graph below recipes, for people and for programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
from rich.text import Text

from torchsmith.cli.console import err, out, print_json
from torchsmith.nix.graph import HEAVY, Graph, Heavy

NAMED = 3  # recipes that are named; more are counted


class HeavyRow(msgspec.Struct, frozen=True):
    """A long build and the recipes above it."""

    kind: str
    name: str
    drvPath: str
    shared: bool
    recipes: tuple[str, ...]


class GraphDocument(msgspec.Struct, frozen=True):
    """What lies below recipes."""

    recipes: Mapping[str, str]  # the derivation of each
    derivations: int
    downloads: int
    heavy: list[HeavyRow]


def print_graph(graph: Graph, *, as_json: bool) -> None:
    """The long builds, each with the recipes above it, and the sum of everything."""
    if as_json:
        print_json(_document(graph))
        return
    width = max((len(one.derivation.name) for one in graph.heavy), default=0)
    for one in graph.heavy:
        line = Text(f"{one.kind:7}", style="bold").append(f"{one.derivation.name:{width}}  ", style="default")
        out().print(line.append(f"below {_users(one)}", style="dim"), soft_wrap=True)
    counts = [f"{_count(graph, kind)} {kind}" for kind in HEAVY if _count(graph, kind)]
    total = f"{len(graph.users)} derivations below {len(graph.recipes)} recipes, {graph.downloads} downloads"
    err().print(f"{total}; long builds: {', '.join(counts) or 'none'}", soft_wrap=True)


def _count(graph: Graph, kind: str) -> int:
    return sum(one.kind == kind for one in graph.heavy)


def _users(one: Heavy) -> str:
    """Few recipes by name, many by their number."""
    return ", ".join(one.users) if len(one.users) <= NAMED else f"{len(one.users)} recipes"


def _document(graph: Graph) -> GraphDocument:
    heavy = [
        HeavyRow(one.kind, one.derivation.name, one.derivation.path, one.shared, one.users)
        for one in graph.heavy
    ]
    return GraphDocument(graph.recipes, len(graph.users), graph.downloads, heavy)


def dot(graph: Graph) -> str:
    """The recipes and the long builds below them, for Graphviz."""
    lines = ["digraph torchsmith {", "  rankdir=LR;", "  node [shape=box];"]
    filled = 'label="{}", style=filled'
    lines += [f'  "{one.derivation.path}" [{filled.format(one.derivation.name)}];' for one in graph.heavy]
    lines += [f'  "{name}" -> "{one.derivation.path}";' for one in graph.heavy for name in one.users]
    return "\n".join([*lines, "}"]) + "\n"


def mermaid(graph: Graph) -> str:
    """The same for a page of Markdown."""
    numbers = {name: f"r{at}" for at, name in enumerate(graph.recipes)}
    lines = ["graph LR", *(f'  {number}["{name}"]' for name, number in numbers.items())]
    for at, one in enumerate(graph.heavy):
        lines.append(f'  h{at}[("{one.derivation.name}")]')
        lines += [f"  {numbers[name]} --> h{at}" for name in one.users]
    return "\n".join(lines) + "\n"


DRAWINGS: Mapping[str, Callable[[Graph], str]] = {"dot": dot, "mermaid": mermaid}
