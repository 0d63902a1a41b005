"""`torchsmith graph`: what lies below recipes, and what they share."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Annotated

import msgspec

from torchsmith.api.fields import Option
from torchsmith.api.nix_options import NixOptions, Recipes, open_recipes
from torchsmith.api.options import JsonOption, SvgOption, WorkspaceOption
from torchsmith.cli.console import exit_if, next_step, paint, print_json, tell, write
from torchsmith.cli.evaluation import evaluation, print_failures
from torchsmith.cli.svg import check_svg, write_svg
from torchsmith.core.problem import Conflict, NotKnown, did_you_mean
from torchsmith.core.words import counted, grouped
from torchsmith.nix.graph import Graph, graph_of
from torchsmith.nix.targets import Stranger, strangers

EXAMPLE = "torchsmith init b && torchsmith generate -w b && torchsmith graph -w b sm120 --nixpkgs sample"
NAMED = 3  # recipes that are named; more are counted


class HeavyRow(msgspec.Struct, frozen=True):
    """A long build and the recipes above it."""

    kind: str
    name: str
    drvPath: str
    shared: bool
    recipes: tuple[str, ...]


class StrangerRow(msgspec.Struct, frozen=True):
    """A derivation that compiles for GPUs besides the own one of recipes above it."""

    name: str
    gpus: tuple[int, ...]
    recipes: tuple[str, ...]


class GraphDocument(msgspec.Struct, frozen=True):
    """What lies below recipes."""

    recipes: Mapping[str, str]  # the derivation of each
    derivations: int
    downloads: int
    heavy: list[HeavyRow]
    other_gpus: list[StrangerRow]  # code for other GPUs than the recipe's own


def run(
    recipes: Recipes = None,
    workspace: WorkspaceOption = None,
    *,
    nix: NixOptions,
    format: Annotated[str, Option("Draw it: dot for Graphviz, mermaid for Markdown; else words.")] = "",
    svg: SvgOption = None,
    json: JsonOption = False,
) -> None:
    """Count the builds below recipes, and show or draw which of the long ones they share.

    The derivations are put into the Nix store for it; nothing is built.
    """
    if format and json:
        raise Conflict("--format draws and --json does not", hint="leave one of them out")
    if format and format not in DRAWINGS:
        raise NotKnown(f"unknown format {format!r}", hint=did_you_mean(format, DRAWINGS))
    check_svg(svg)
    opened, chosen = open_recipes(recipes, workspace)
    tool, evaluate = evaluation(nix, workspace=opened, instantiate=True)
    results = evaluate(chosen)
    graph = graph_of(tool, results)
    own = {one.name: one.variant.sm for one in chosen if one.variant and one.variant.sm}
    others = _rows(strangers(graph, own))
    if format:
        sys.stdout.write(DRAWINGS[format](graph))
    elif json:
        print_json(_document(graph, others))
    else:
        _print_graph(graph, others, gpu_recipes=len(own.keys() & graph.recipes.keys()))
    if svg is not None:
        from torchsmith.page.pictures import graph_picture

        write_svg(graph_picture(graph), svg)
    exit_if(print_failures(results))
    if not format:
        next_step("build", "--dry-run", *(recipes or ()), workspace=workspace, nixpkgs=nix.nixpkgs)


def _rows(found: tuple[Stranger, ...]) -> list[StrangerRow]:
    by_build = grouped(((one.derivation, one.others), one.recipe) for one in found)
    return [StrangerRow(name, gpus, tuple(recipes)) for (name, gpus), recipes in by_build.items()]


def _document(graph: Graph, others: list[StrangerRow]) -> GraphDocument:
    heavy = [
        HeavyRow(one.kind, one.derivation.name, one.derivation.path, one.shared, one.users)
        for one in graph.heavy
    ]
    return GraphDocument(graph.recipes, len(graph.users), graph.downloads, heavy, others)


def _print_graph(graph: Graph, others: list[StrangerRow], *, gpu_recipes: int) -> None:
    """The long builds, each with the recipes above it, and the sum of everything."""
    width = max((len(one.derivation.name) for one in graph.heavy), default=0)
    for one in graph.heavy:
        users = ", ".join(one.users) if len(one.users) <= NAMED else f"{len(one.users)} recipes"
        kind = paint(f"{one.kind:7}", "bold")
        write(f"{kind}{one.derivation.name:{width}}  {paint(f'below {users}', 'dim')}", hang=9)
    counts = Counter(one.kind for one in graph.heavy)
    kinds = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    below = f"{counted(len(graph.users), 'derivation')} below {counted(len(graph.recipes), 'recipe')}"
    tell(f"{below}, {counted(graph.downloads, 'download')}; long builds: {kinds or 'none'}")
    for row in others:
        gpus = ", ".join(f"sm{number}" for number in row.gpus)
        tell(f"{row.name} is compiled for {gpus} too, below {counted(len(row.recipes), 'recipe')}")
    if gpu_recipes:
        alone = gpu_recipes - len({name for row in others for name in row.recipes})
        tell(f"{alone} of {counted(gpu_recipes, 'GPU recipe')}: nothing below is compiled for another GPU")


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
