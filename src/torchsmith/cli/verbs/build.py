"""`torchsmith build`: the selected cells, built with the fewest compilations."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from torchsmith.cli.nix_options import NixpkgsOption, Recipes, read_trees
from torchsmith.cli.options import JsonOption, SvgOption, WorkspaceOption
from torchsmith.cli.params import Option

EXAMPLE = (
    "torchsmith init b && torchsmith generate -w b && torchsmith build -w b sm120 --simulate --nixpkgs sample"
)

BackendOption = Annotated[str, Option("--backend", help="nix (which it is by default) or flox.")]
BuildDryRunOption = Annotated[bool, Option("--dry-run", help="Print the plan and stop.")]
ResumeOption = Annotated[
    bool, Option("--resume", help="Go on with the last run; other options given here count as well.")
]
SideBySideOption = Annotated[
    int | None, Option("--jobs", "-j", min=0, help="Jobs side by side here; 0: only other builders.")
]
CoresOption = Annotated[int | None, Option("--cores", min=1, help="Cores for all jobs together.")]
BuildMemoryOption = Annotated[float | None, Option("--memory", min=0.01, help="GB for all jobs together.")]
BuildCacheOption = Annotated[str, Option("--cache", help="Binary cache to take from and copy to.")]
SignOption = Annotated[Path | None, Option("--sign", help="Secret key that signs what is copied.")]
LocalOption = Annotated[bool, Option("--local", help="Build on this machine alone.")]
FailFastOption = Annotated[bool, Option("--fail-fast", help="Start nothing more after a failure.")]
MendOption = Annotated[bool, Option("--fix-hashes", help="First learn and write wrong hashes.")]
BuildTimeoutOption = Annotated[int, Option("--timeout", min=0, help="Seconds that a build may take.")]
SilenceOption = Annotated[
    int, Option("--silent-timeout", min=0, help="Seconds that a build may say nothing.")
]
LookOption = Annotated[
    bool, Option("--verify", help="Look at each result, whoever built it; copy what is right.")
]
SimulateOption = Annotated[
    bool, Option("--simulate", help="Build nothing; compare orders on 1, 4 and 16 builders.")
]


def run(
    recipes: Recipes = None,
    workspace: WorkspaceOption = None,
    backend: BackendOption = "",
    dry_run: BuildDryRunOption = False,
    resume: ResumeOption = False,
    jobs: SideBySideOption = None,
    cores: CoresOption = None,
    memory: BuildMemoryOption = None,
    nixpkgs: NixpkgsOption = None,
    cache: BuildCacheOption = "",
    sign: SignOption = None,
    local: LocalOption = False,
    fail_fast: FailFastOption = False,
    fix_hashes: MendOption = False,
    timeout: BuildTimeoutOption = 0,
    silent_timeout: SilenceOption = 0,
    verify: LookOption = False,
    simulate: SimulateOption = False,
    svg: SvgOption = None,
    json: JsonOption = False,
) -> None:
    """Build the selected cells, each derivation once, the longest chains first.

    What is in the store or in a binary cache is not built again. A run survives being killed:
    [bold]--resume[/bold] goes on with what is left. The exit code is 1 when something failed, 3 when memory,
    disk or builders cannot suffice, or all that failed are downloads.
    """
    from torchsmith.build.start import state_folder, workspace_record
    from torchsmith.cli.build_run import asked_before, backend_name, carry_out, drawable, show_simulation
    from torchsmith.cli.console import say_recovered
    from torchsmith.cli.hash_run import mend
    from torchsmith.workspace.journal import finish_stopped

    drawable(svg, simulate=simulate)
    with workspace_record(workspace, read_only=dry_run or simulate) as (opened, record):
        say_recovered(finish_stopped(state_folder(opened).parent, "build"))
        before = asked_before(record, workspace, recipes or (), resume=resume)
        # What is given counts, also over what the last run was asked for.
        request = replace(
            before,
            backend=backend_name(backend) or before.backend,
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
        elif code := carry_out(request, opened, record, dry_run=dry_run, as_json=json):
            raise SystemExit(int(code))
