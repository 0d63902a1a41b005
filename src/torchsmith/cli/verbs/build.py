"""`torchsmith build`: the selected cells, built with the fewest compilations."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from torchsmith.api.fields import Option
from torchsmith.api.nix_options import NixpkgsOption, Recipes, read_trees
from torchsmith.api.options import JsonOption, SvgOption, WorkspaceOption
from torchsmith.cli.console import exit_if, say_recovered
from torchsmith.core.problem import by_name

EXAMPLE = (
    "torchsmith init b && torchsmith generate -w b && torchsmith build -w b sm120 --simulate --nixpkgs sample"
)
RESUME = "Go on with the last run; other options given here count as well."
JOBS = "Jobs side by side here; 0: only other builders."


def run(
    recipes: Recipes = None,
    workspace: WorkspaceOption = None,
    backend: Annotated[str, Option("nix (which it is by default) or flox.")] = "",
    dry_run: Annotated[bool, Option("Print the plan and stop.")] = False,
    resume: Annotated[bool, Option(RESUME)] = False,
    jobs: Annotated[int | None, Option("--jobs", "-j", JOBS, min=0)] = None,
    cores: Annotated[int | None, Option("Cores for all jobs together.", min=1)] = None,
    memory: Annotated[float | None, Option("GB for all jobs together.", min=0.01)] = None,
    nixpkgs: NixpkgsOption = None,
    cache: Annotated[str, Option("Binary cache to take from and copy to.")] = "",
    sign: Annotated[Path | None, Option("Secret key that signs what is copied.")] = None,
    local: Annotated[bool, Option("Build on this machine alone.")] = False,
    fail_fast: Annotated[bool, Option("Start nothing more after a failure.")] = False,
    fix_hashes: Annotated[bool, Option("First learn and write wrong hashes.")] = False,
    timeout: Annotated[int, Option("Seconds that a build may take.", min=0)] = 0,
    silent_timeout: Annotated[int, Option("Seconds that a build may say nothing.", min=0)] = 0,
    verify: Annotated[bool, Option("Look at each result, whoever built it; copy what is right.")] = False,
    simulate: Annotated[bool, Option("Build nothing; compare orders on 1, 4 and 16 builders.")] = False,
    svg: SvgOption = None,
    json: JsonOption = False,
) -> None:
    """Build the selected cells, each derivation once, the longest chains first.

    What is in the store or in a binary cache is not built again. A run survives being killed:
    [bold]--resume[/bold] goes on with what is left. The exit code is 1 when something failed, 3 when memory,
    disk or builders cannot suffice, or all that failed are downloads.
    """
    from torchsmith.building.start import BACKENDS, workspace_record
    from torchsmith.cli.build_run import asked_before, carry_out, drawable, show_simulation
    from torchsmith.cli.hash_run import mend
    from torchsmith.workspace.journal import finish_stopped

    drawable(svg, simulate=simulate)
    with workspace_record(workspace, read_only=dry_run or simulate) as (opened, record):
        say_recovered(finish_stopped(opened.home, "build"))
        before = asked_before(record, workspace, recipes or (), resume=resume)
        # What is given counts, also over what the last run was asked for.
        request = replace(
            before,
            backend=by_name("backend", backend, BACKENDS) if backend else before.backend,
            trees={**before.trees, **read_trees(nixpkgs or [])},
            means=before.means.over(jobs, cores, memory),
            cache=cache or before.cache,
            sign=sign or before.sign,
            local=local or before.local,
            keep_going=before.keep_going and not fail_fast,
            timeout=timeout or before.timeout,
            silent_timeout=silent_timeout or before.silent_timeout,
            verify=verify or before.verify,
        )
        if fix_hashes:
            mend(opened, record, request.selectors, request.trees, accept=False)
        if simulate:
            show_simulation(request, opened, record, as_json=json, svg=svg)
        else:
            exit_if(carry_out(request, opened, record, dry_run=dry_run, as_json=json))
