"""`torchsmith eval`: the derivations that recipes become, and with --graph what is below them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import msgspec

from torchsmith.cli.console import (
    answer,
    columns,
    exit_if,
    next_build,
    paint,
    print_problem,
    warn,
    write_stderr,
)
from torchsmith.cli.nix_options import NixOptions, Recipes, evaluation, open_recipes, takes_sample
from torchsmith.cli.options import JsonOption, WorkspaceOption
from torchsmith.cli.reporter import SILENT, Reporter, Terminal
from torchsmith.cli.request import Option, Request
from torchsmith.core.problem import Exit, Problem
from torchsmith.core.text import counted, grouped, some_of
from torchsmith.matrix import Variant
from torchsmith.nix.errors import Cause
from torchsmith.nix.evaluate import TREE_HINT, EvalResult, exit_of, failures_of, needs_tree
from torchsmith.nix.graph import LongBuild, graph_of
from torchsmith.nix.targets import ForeignTargets, foreign_targets
from torchsmith.workspace.load import Workspace
from torchsmith.workspace.proved import remember

EXAMPLE = "torchsmith init b && torchsmith apply -w b && torchsmith eval -w b sm120 --nixpkgs sample"
RECIPES_NAMED = 3  # more are counted


@dataclass(frozen=True, kw_only=True)
class EvaluateRequest(Request):
    """The recipes to evaluate, and how."""

    recipes: Recipes = ()
    workspace: WorkspaceOption = None
    nix: NixOptions = field(default_factory=NixOptions)
    graph: Annotated[bool, Option("Count the builds below recipes, and show the long ones they share.")] = (
        False
    )


class GraphSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The derivations below recipes."""

    recipes: Mapping[str, str]  # the derivation of each
    derivations: int
    downloads: int
    long_builds: Sequence[LongBuild]
    gpu_recipes: int  # recipes for one GPU
    foreign_targets: Sequence[ForeignTargets]  # code for other GPUs than the recipe's own


class EvaluateReport(msgspec.Struct, frozen=True, kw_only=True):
    """Recipes as Nix evaluates them."""

    FORMAT: ClassVar[int] = 4
    recipes: Sequence[EvalResult]
    proved: int = 0  # builds that only this workspace claimed, and that evaluate
    other_releases: Mapping[str, str] = {}  # recipes that are of another release than their line, and how
    graph: GraphSummary | None = None  # with --graph

    @property
    def exit(self) -> Exit:
        return exit_of(failures_of(self.recipes).values())


def evaluate(request: EvaluateRequest = EvaluateRequest(), reporter: Reporter = SILENT) -> EvaluateReport:
    """Each recipe's derivation, or the cause of its failure; `reporter` gets the name of each."""
    opened, chosen = open_recipes(request.recipes, request.workspace)
    nix, ask = evaluation(request.nix, workspace=opened, instantiate=request.graph, reporter=reporter)
    results = ask(chosen)
    other = other_releases(results, opened)
    report = EvaluateReport(recipes=results, other_releases=other)
    if takes_sample(request.nix.nixpkgs):
        reporter.note("evaluated with the sample, which proves nothing of the real nixpkgs")
    elif opened.root is not None:
        good = {result.name for result in results if result.ok} - other.keys()
        proved = remember(opened.root, opened.matrix.cells, opened.catalog, good)
        report = msgspec.structs.replace(report, proved=proved)
    if not request.graph:
        return report
    below = graph_of(nix, results)
    own = {recipe.name: recipe.variant.arch for recipe in chosen if recipe.variant and recipe.variant.arch}
    graph = GraphSummary(
        recipes=below.recipes,
        derivations=len(below.users),
        downloads=below.downloads,
        long_builds=below.long_builds(opened.catalog),
        gpu_recipes=len(own.keys() & below.recipes.keys()),
        foreign_targets=foreign_targets(below, own, opened.catalog),
    )
    return msgspec.structs.replace(report, graph=graph)


def other_releases(results: Sequence[EvalResult], workspace: Workspace) -> dict[str, str]:
    """The recipes that evaluate to another release than that of their line, which they state or, if they were
    written by hand, torchsmith.toml."""
    catalog, lines, other = workspace.catalog, workspace.lines if workspace.root else {}, {}
    for result in results:
        name = result.name.rpartition("/")[2]
        facts = result.evaluated.facts if result.evaluated else None
        line = catalog.lines.get(facts.line or lines.get(name, "")) if facts else None
        variant = Variant.try_parse(facts.variant or name, catalog) if facts else None
        expected = line.version_of(variant.package.name) if line and variant else ""
        if facts and line and facts.version and expected not in ("", facts.version):
            is_not = f"not {expected} of line {line.name}"
            other[result.name] = f"release {facts.version} with this nixpkgs, {is_not}"
    return other


def run(*, request: EvaluateRequest, json: JsonOption = False) -> None:
    """Evaluate recipes to derivations, with the pinned nixpkgs or a tree of your own.

    A failing recipe does not stop the others; its error is cut to the cause, with file and line. Evaluation
    reads only nixpkgs and files that git tracks, downloads only pinned tarballs, and builds nothing. The exit
    code is 1 when a recipe fails, 3 when only downloads failed or a nixpkgs cannot be used for a system.

    [bold]eval --graph[/bold] counts the builds below recipes, shows which long ones they share, and which
    dependencies are compiled for more GPUs than the recipe's own. It adds the derivations to the store.
    """
    report = evaluate(request, Terminal())
    answer(report, _print_graph if request.graph else _print_results, as_json=json)
    for text in release_warnings(report.other_releases):
        warn(text)
    print_failed(failures_of(report.recipes))
    exit_if(report.exit)
    next_build(*request.recipes, workspace=request.workspace, nixpkgs=request.nix.nixpkgs)


def _print_results(report: EvaluateReport) -> None:
    """Name, time and derivation of each recipe, then the counts."""
    good = [(result, result.evaluated.drv_path) for result in report.recipes if result.evaluated]
    times = ["cached" if result.cached else f"{result.seconds:.2f} s" for result, _ in good]
    rows = [(result.name, time, path) for (result, path), time in zip(good, times, strict=True)]
    columns(rows, ("", "dim"), right={1})
    builds = len({path for _, path in good})
    counts = [f"{len(good)} of {len(report.recipes)} recipes evaluate to {counted(builds, 'derivation')}"]
    if cached := sum(result.cached for result, _ in good):
        counts.append(f"{cached} cached")
    causes = failures_of(report.recipes).values()
    unread = sum(map(needs_tree, causes))
    if failed := len(causes) - unread:
        counts.append(f"{failed} failed")
    if unread:
        counts.append(f"{unread} not evaluated")
    write_stderr(", ".join(counts))
    if report.proved:
        write_stderr(
            f"proved to evaluate: {counted(report.proved, 'build')} that only this workspace claimed"
        )


def release_warnings(other: Mapping[str, str]) -> list[str]:
    """A warning for each of the reasons, with its recipes."""
    alike = grouped((why, name) for name, why in other.items())
    return [f"{some_of(names, RECIPES_NAMED)}: {why}" for why, names in alike.items()]


def print_failed(failed: Mapping[str, Cause]) -> None:
    """The recipes that do not evaluate, by cause: one that several share is printed once."""
    for cause, names in grouped((cause, name) for name, cause in failed.items()).items():
        recipes = paint(f" ({some_of(names, RECIPES_NAMED)})", "dim", sys.stderr)
        hint = TREE_HINT if needs_tree(cause) else ""
        print_problem(Problem(cause.message + recipes, where=cause.where, hint=hint))


def _print_graph(report: EvaluateReport) -> None:
    """The long builds, each with the recipes above it, the sum of everything, and what is compiled for other
    GPUs than the recipe's."""
    graph = report.graph
    assert graph is not None
    rows = []
    for build in graph.long_builds:
        count = len(build.recipes)
        users = ", ".join(build.recipes) if count <= RECIPES_NAMED else f"{count} recipes"
        rows.append((build.kind, build.name, f"below {users}"))
    columns(rows, ("bold", "", "dim"))
    counts = Counter(build.kind for build in graph.long_builds)
    listed = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    below = f"{counted(graph.derivations, 'derivation')} below {counted(len(graph.recipes), 'recipe')}"
    write_stderr(f"{below}, {counted(graph.downloads, 'download')}; long builds: {listed or 'none'}")
    for row in graph.foreign_targets:
        below = counted(len(row.recipes), "recipe")
        write_stderr(f"{row.name} is compiled for {', '.join(row.gpus)} too, below {below}")
    if gpu_recipes := graph.gpu_recipes:
        alone = gpu_recipes - len({name for row in graph.foreign_targets for name in row.recipes})
        write_stderr(
            f"{alone} of {counted(gpu_recipes, 'GPU recipe')}: nothing below is compiled for another GPU"
        )
