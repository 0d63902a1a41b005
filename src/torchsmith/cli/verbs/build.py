"""`torchsmith build`: the selected cells, built with the fewest compilations."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from torchsmith.cli.nix_options import NixpkgsOption, Recipes, read_trees
from torchsmith.cli.options import JsonOption, WorkspaceOption

EXAMPLE = "torchsmith init b && torchsmith generate -w b && torchsmith build -w b sm120 --simulate"


def run(
    recipes: Recipes = None,
    workspace: WorkspaceOption = None,
    backend: Annotated[str, typer.Option("--backend", help="nix (which it is by default) or flox.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and stop.")] = False,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with the last run; other options given here count as well."),
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", "-j", min=0, help="Jobs side by side here; 0: only other builders."),
    ] = None,
    cores: Annotated[int | None, typer.Option("--cores", min=1, help="Cores for all jobs together.")] = None,
    memory: Annotated[
        float | None, typer.Option("--memory", min=0.01, help="GB for all jobs together.")
    ] = None,
    nixpkgs: NixpkgsOption = None,
    cache: Annotated[str, typer.Option("--cache", help="Binary cache to take from and copy to.")] = "",
    sign: Annotated[Path | None, typer.Option("--sign", help="Secret key that signs what is copied.")] = None,
    local: Annotated[bool, typer.Option("--local", help="Build on this machine alone.")] = False,
    fail_fast: Annotated[
        bool, typer.Option("--fail-fast", help="Start nothing more after a failure.")
    ] = False,
    fix_hashes: Annotated[
        bool, typer.Option("--fix-hashes", help="First learn and write wrong hashes.")
    ] = False,
    timeout: Annotated[int, typer.Option("--timeout", min=0, help="Seconds that a build may take.")] = 0,
    silent_timeout: Annotated[
        int, typer.Option("--silent-timeout", min=0, help="Seconds that a build may say nothing.")
    ] = 0,
    verify: Annotated[
        bool, typer.Option("--verify", help="Look at each result, whoever built it; copy what is right.")
    ] = False,
    simulate: Annotated[
        bool, typer.Option("--simulate", help="Build nothing; compare orders on 1, 4 and 16 builders.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Build the selected cells, each derivation once, the longest chains first.

    What is in the store or in a binary cache is not built again. A run survives being killed:
    [bold]--resume[/bold] goes on with what is left. The exit code is 1 when something failed, 3 when memory,
    disk or builders cannot suffice.
    """
    from torchsmith.build.plan import Means
    from torchsmith.build.start import BuildRequest, resumed, state_folder, workspace_record
    from torchsmith.cli.build_run import carry_out, show_simulation
    from torchsmith.cli.console import say_recovered
    from torchsmith.edge.problem import Problem
    from torchsmith.workspace.journal import finish_stopped

    if backend not in ("", "nix", "flox"):
        raise Problem(f"unknown backend {backend!r}", hint="known: nix, flox")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with workspace_record(workspace, read_only=dry_run or simulate) as (opened, record):
        say_recovered(finish_stopped(state_folder(opened).parent, "build"))
        if resume:
            if recipes:
                raise Problem("--resume goes on with the last run; name no recipe")
            request = resumed(record, workspace)
        else:
            request = BuildRequest(workspace=workspace, selectors=tuple(recipes or ()))
        # What is given counts, also over what the last run was asked for.
        before = request.means
        request = replace(
            request,
            backend="flox" if backend == "flox" else "nix" if backend else request.backend,
            trees={**request.trees, **read_trees(nixpkgs or [])},
            means=Means(
                before.jobs if jobs is None else jobs,
                before.cores if cores is None else cores,
                before.memory_gb if memory is None else memory,
            ),
            cache=cache or request.cache,
            sign=sign or request.sign,
            local=local or request.local,
            keep_going=request.keep_going and not fail_fast,
            timeout=timeout or request.timeout,
            silent_timeout=silent_timeout or request.silent_timeout,
            verify=verify or request.verify,
        )
        if fix_hashes:
            from torchsmith.cli.hash_run import mend

            mend(opened, record, request.selectors, request.trees, accept=False)
        if simulate:
            show_simulation(request, opened, record, as_json=json)
        elif not carry_out(request, opened, record, dry_run=dry_run, as_json=json):
            raise typer.Exit(1)
