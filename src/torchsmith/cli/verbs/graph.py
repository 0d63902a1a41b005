"""`torchsmith graph`: what lies below recipes, and what they share."""

from __future__ import annotations

import sys
from typing import Annotated

from torchsmith.cli.nix_options import (
    CacheOption,
    JobsOption,
    MemoryOption,
    NixpkgsOption,
    Recipes,
    TimeoutOption,
)
from torchsmith.cli.options import JsonOption, SvgOption, WorkspaceOption
from torchsmith.cli.params import Option

EXAMPLE = "torchsmith init b && torchsmith generate -w b && torchsmith graph -w b sm120 --nixpkgs sample"


def run(
    recipes: Recipes = None,
    workspace: WorkspaceOption = None,
    nixpkgs: NixpkgsOption = None,
    jobs: JobsOption = None,
    memory: MemoryOption = 2.0,
    timeout: TimeoutOption = 300.0,
    cache: CacheOption = True,
    format: Annotated[
        str, Option("--format", help="Draw it: dot for Graphviz, mermaid for Markdown; else words.")
    ] = "",
    svg: SvgOption = None,
    json: JsonOption = False,
) -> None:
    """Count the builds below recipes, and show or draw which of the long ones they share.

    The derivations are put into the Nix store for it; nothing is built.
    """
    from torchsmith.cli import graph_view as view
    from torchsmith.cli.eval_view import print_failures
    from torchsmith.cli.nix_options import evaluation, open_recipes
    from torchsmith.edge.problem import Problem, did_you_mean
    from torchsmith.nix.graph import graph_of

    if format and format not in view.DRAWINGS:
        raise Problem(f"unknown format {format!r}", hint=did_you_mean(format, view.DRAWINGS))
    opened, chosen = open_recipes(recipes, workspace)
    nix, evaluate = evaluation(nixpkgs, jobs, memory, timeout, cache, workspace=opened, instantiate=True)
    results = evaluate(chosen)
    graph = graph_of(nix, results)
    if format:
        sys.stdout.write(view.DRAWINGS[format](graph))
    else:
        view.print_graph(graph, as_json=json)
    if svg is not None:
        from torchsmith.cli.page_run import write_svg
        from torchsmith.page.pictures import graph_picture

        write_svg(graph_picture(graph), svg)
    print_failures(results)
    if len(graph.recipes) < len(results):
        raise SystemExit(1)
