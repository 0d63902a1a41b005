"""`torchsmith graph`: what lies below recipes, and what they share."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Annotated, Literal

from torchsmith.api.derivations import GraphReport, GraphRequest, graph
from torchsmith.cli.console import answer, exit_if, next_build, paint, tell, write
from torchsmith.cli.fields import Option
from torchsmith.cli.options import JsonOption, SvgOption
from torchsmith.core.problem import Conflict
from torchsmith.core.text import counted
from torchsmith.verbs.evaluation import print_failed
from torchsmith.verbs.progress import Terminal
from torchsmith.verbs.svg import check_svg, write_svg

EXAMPLE = "torchsmith init b && torchsmith apply -w b && torchsmith graph -w b sm120 --nixpkgs sample"
RECIPES_NAMED = 3  # more are counted
Drawing = Literal["dot", "mermaid"]


def run(
    *,
    request: GraphRequest,
    format: Annotated[
        Drawing | None, Option("Draw it: dot for Graphviz, mermaid for Markdown; by default text.")
    ] = None,
    svg: SvgOption = None,
    json: JsonOption = False,
) -> None:
    """Count the builds below recipes, and show which long ones they share.

    The derivations are added to the Nix store; nothing is built. The exit code is 1 when a recipe fails, 3
    when only downloads failed.
    """
    if format and json:
        raise Conflict("--format and --json cannot be combined", hint="leave one of them out")
    check_svg(svg)
    report = graph(request, Terminal())
    if format:
        sys.stdout.write(DRAWINGS[format](report))
    else:
        answer(report, _print_graph, as_json=json)
    if svg is not None:
        from torchsmith.page.document import SharedBuild
        from torchsmith.page.pictures import shared_picture

        shared = [SharedBuild(build.kind, build.name, build.recipes, True) for build in report.heavy]
        write_svg(shared_picture(shared), svg)
    print_failed(report.failed)
    exit_if(report.exit)
    if not format:
        next_build(*request.recipes, workspace=request.workspace, nixpkgs=request.nix.nixpkgs)


def _print_graph(report: GraphReport) -> None:
    """The long builds, each with the recipes above it, and the sum of everything."""
    width = max((len(build.name) for build in report.heavy), default=0)
    for build in report.heavy:
        count = len(build.recipes)
        users = ", ".join(build.recipes) if count <= RECIPES_NAMED else f"{count} recipes"
        kind = paint(f"{build.kind:7}", "bold")
        write(f"{kind}{build.name:{width}}  {paint(f'below {users}', 'dim')}", hang=9)
    counts = Counter(build.kind for build in report.heavy)
    kinds = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    below = f"{counted(report.derivations, 'derivation')} below {counted(len(report.recipes), 'recipe')}"
    tell(f"{below}, {counted(report.downloads, 'download')}; long builds: {kinds or 'none'}")
    print_other_gpus(report)


def print_other_gpus(report: GraphReport) -> None:
    """What below recipes for a GPU is compiled for others, and how many recipes have nothing of it."""
    for row in report.other_gpus:
        below = counted(len(row.recipes), "recipe")
        tell(f"{row.name} is compiled for {', '.join(row.gpus)} too, below {below}")
    if gpu_recipes := report.gpu_recipes:
        alone = gpu_recipes - len({name for row in report.other_gpus for name in row.recipes})
        tell(f"{alone} of {counted(gpu_recipes, 'GPU recipe')}: nothing below is compiled for another GPU")


def dot(report: GraphReport) -> str:
    """The recipes and the long builds below them, for Graphviz."""
    lines = ["digraph torchsmith {", "  rankdir=LR;", "  node [shape=box];"]
    lines += [f'  "{build.drvPath}" [label="{build.name}", style=filled];' for build in report.heavy]
    lines += [f'  "{name}" -> "{build.drvPath}";' for build in report.heavy for name in build.recipes]
    return "\n".join([*lines, "}"]) + "\n"


def mermaid(report: GraphReport) -> str:
    """The same for a page of Markdown."""
    numbers = {name: f"r{at}" for at, name in enumerate(report.recipes)}
    lines = ["graph LR", *(f'  {number}["{name}"]' for name, number in numbers.items())]
    for at, build in enumerate(report.heavy):
        lines.append(f'  h{at}[("{build.name}")]')
        lines += [f"  {numbers[name]} --> h{at}" for name in build.recipes]
    return "\n".join(lines) + "\n"


DRAWINGS: Mapping[str, Callable[[GraphReport], str]] = {"dot": dot, "mermaid": mermaid}
