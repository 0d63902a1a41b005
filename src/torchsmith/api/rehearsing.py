"""Rehearsing builds: a sample of the objects compiled, and what that shows of the whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import msgspec

from torchsmith.api.building import prepared, run_prepared
from torchsmith.artifact.check import Check, passed
from torchsmith.artifact.commands import CompilerUse, read_commands, uses
from torchsmith.artifact.objects import check_objects
from torchsmith.building.jobs import outputs_of
from torchsmith.building.plan import Resources
from torchsmith.building.rehearsal import PREFIX, RehearsalFigures, WholeBuild, read_figures, whole_build
from torchsmith.building.start import BuildSpec, Prepared, workspace_record
from torchsmith.cli.fields import Option
from torchsmith.cli.nix_options import NixpkgsOption, Recipes, read_trees, takes_sample
from torchsmith.cli.options import WorkspaceOption
from torchsmith.cli.reporter import SILENT, Reporter
from torchsmith.core.problem import Exit, Incomplete, MissingRequirement
from torchsmith.matrix import Variant
from torchsmith.nix.evaluate import exit_of
from torchsmith.record import Past
from torchsmith.repair.diagnose import Diagnosis


@dataclass(frozen=True, kw_only=True)
class RehearseRequest:
    """Which recipes to rehearse, and with what."""

    recipes: Recipes = ()
    workspace: WorkspaceOption = None
    every: Annotated[
        bool, Option("--all", "Rehearse all recipes of the workspace; those that configure alike once.")
    ] = False
    dry_run: Annotated[bool, Option("Show what would be rehearsed and stop.")] = False
    jobs: Annotated[
        int | None,
        Option("--jobs", "-j", "Parallel rehearsals on this machine; 0: remote builders only.", min=0),
    ] = None
    cores: Annotated[int | None, Option("Cores, for all rehearsals together.", min=1)] = None
    nixpkgs: NixpkgsOption = ()
    local: Annotated[bool, Option("Use this machine only.")] = False
    timeout: Annotated[int, Option("Stop a rehearsal after this many seconds.", min=0)] = 0


class Rehearsed(msgspec.Struct, frozen=True, kw_only=True):
    """One rehearsal: what was compiled, what it shows, and what the whole would take."""

    name: str
    stands_for: tuple[str, ...]  # all recipes that configure alike, this one among them
    derivation: str
    output: str
    figures: RehearsalFigures
    whole: WholeBuild
    compilers: tuple[CompilerUse, ...]
    checks: tuple[Check, ...]


class RehearseReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was rehearsed, what failed and why, what waits for its torch, and what does not evaluate."""

    rehearsals: list[Rehearsed]
    failed: dict[str, Diagnosis]
    waiting: dict[str, str]
    broken: dict[str, str]
    planned: dict[str, str]  # with --dry-run: names and their derivations
    alike: dict[str, tuple[str, ...]]  # all that each name stands for
    exit: Exit
    stopped: bool = False


def rehearse(request: RehearseRequest, reporter: Reporter = SILENT) -> RehearseReport:
    """Configure builds as they are, compile a sample of each, and write down what the whole would take.
    Raises MissingRequirement for a companion whose torch is not built, unless `every` is asked for."""
    if not request.recipes and not request.every:
        raise Incomplete("name what to rehearse", hint="names, selectors such as sm120, or --all")
    spec = BuildSpec(
        selectors=tuple(request.recipes),
        trees=read_trees(request.nixpkgs),
        small=takes_sample(request.nixpkgs),
        resources=Resources(request.jobs, request.cores, None),
        local=request.local,
        timeout=request.timeout,
        rehearse=True,
    )
    with workspace_record(request.workspace, read_only=request.dry_run) as (opened, record):
        ready = prepared(spec, opened, record, reporter)
        chosen, graph = ready.rehearsals, ready.plan.graph
        assert chosen is not None
        assert graph is not None
        if chosen.waiting and not request.every:
            name, torch = next(iter(chosen.waiting.items()))
            raise MissingRequirement(
                f"{name} is compiled against {torch}, which is not built yet and would be built first",
                hint=f"rehearse pytorch-{name.rpartition('/')[2].partition('-')[2]}, which compiles a sample;"
                " build it; then this",
            )
        planned = {name.removeprefix(PREFIX): path for name, path in graph.recipes.items()}
        broken = {recipe.name: recipe.why for recipe in ready.plan.broken}
        report = RehearseReport(
            rehearsals=[],
            failed={},
            waiting=dict(chosen.waiting),
            broken=broken,
            planned=planned,
            alike=dict(chosen.alike),
            exit=exit_of(broken.values()),
        )
        if request.dry_run:
            return report
        finished = run_prepared(ready, reporter)
        failed = {name.removeprefix(PREFIX): why for name, why in finished.failed.items()}
        stopped = finished.state == "stopped"
        ended = [name for name in planned if name not in failed and PREFIX + name not in finished.skipped]
        rehearsals = [] if stopped else [_rehearsed(name, ready) for name in ended]
        for rehearsal in rehearsals:
            _write_down(rehearsal, ready)
    right = all(passed(rehearsal.checks) for rehearsal in rehearsals)
    return msgspec.structs.replace(
        report,
        rehearsals=rehearsals,
        failed=failed,
        planned={},
        exit=finished.exit if right else Exit.CHECK_FAILED,
        stopped=stopped,
    )


def _rehearsed(name: str, ready: Prepared) -> Rehearsed:
    graph, nix, chosen = ready.plan.graph, ready.nix, ready.rehearsals
    assert graph is not None
    assert nix is not None
    assert chosen is not None
    path = graph.recipes[PREFIX + name]
    output = nix.store_file(outputs_of(graph.derivations[path])[0])
    figures = read_figures(output)
    commands = read_commands(output / "compile_commands.json")
    catalog = ready.workspace.catalog
    variant = Variant.parse(name.rpartition("/")[2], catalog)
    return Rehearsed(
        name=name,
        stands_for=chosen.alike[name],
        derivation=path,
        output=str(output),
        figures=figures,
        whole=whole_build(figures, ready.plan.share.cores),
        compilers=tuple(uses(commands)),
        checks=tuple(check_objects(output / "objects", commands, variant, catalog)),
    )


def _write_down(rehearsal: Rehearsed, ready: Prepared) -> None:
    """What the builds would take, for every recipe that this one stands for."""
    catalog = ready.workspace.catalog
    for name in rehearsal.stands_for:
        variant = Variant.parse(name.rpartition("/")[2], catalog)
        past = Past(
            name=name,
            package=variant.package.name,
            gpu=variant.toolkit is not None,
            system=catalog.isas[variant.isa].platform,
            cores=rehearsal.whole.cores,
            seconds=rehearsal.whole.seconds,
            rehearsed=True,
        )
        ready.record.note_rehearsed(rehearsal.derivation, past)
