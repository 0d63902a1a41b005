"""`torchsmith build`: the selected recipes, built with the fewest compilations."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

from torchsmith.building.by_name import workspace_record
from torchsmith.building.plan import BuildPlan, Resources
from torchsmith.building.report import BuildReport
from torchsmith.building.start import BackendName, BuildSpec, Prepared, prepare
from torchsmith.cli.build_screen import BuildTerminal
from torchsmith.cli.console import (
    JSON_LINES,
    Printer,
    command,
    exit_if,
    next_step,
    paint,
    print_json,
    write,
    write_stderr,
)
from torchsmith.cli.nix_options import NixpkgsOption, Recipes, read_trees, takes_sample
from torchsmith.cli.options import JsonOption, WorkspaceOption
from torchsmith.cli.reporter import SILENT, Reporter, Terminal
from torchsmith.cli.request import Option, Request
from torchsmith.core.text import counted, duration, some_of
from torchsmith.nix.evaluate import EvalResult
from torchsmith.publishing.verified import verify_recipe
from torchsmith.record import Record
from torchsmith.record.estimate import Basis
from torchsmith.verbs.diagnose import print_diagnosis
from torchsmith.verbs.eval import other_releases, print_failed, release_warnings
from torchsmith.workspace.journal import finish_stopped
from torchsmith.workspace.load import Workspace, open_workspace

EXAMPLE = (
    "torchsmith init b && torchsmith apply -w b"
    " && torchsmith build -w b sm120 avx2 --dry-run --nixpkgs sample"
)
MAX_JOBS_LISTED = 40  # jobs of a plan
BASES: dict[Basis, str] = {
    "own_build": "by this build",
    "own_rehearsal": "by its rehearsal",
    "kind_build": "by its kind",
    "kind_rehearsal": "by a rehearsal of its kind",
    "catalog_measured": "by a measured build elsewhere",
    "guess": "",
    "unknown": "not estimated",
}
MAX_SHOWN = 6  # results, and recipes above a job that failed


@dataclass(frozen=True, kw_only=True)
class RunRequest(Request):
    """Which recipes to build or rehearse, and with what."""

    recipes: Recipes = ()
    workspace: WorkspaceOption = None
    jobs: Annotated[
        int | None, Option("--jobs", "-j", "Parallel jobs on this machine; 0: remote builders only.", min=0)
    ] = None
    cores: Annotated[int | None, Option("Cores, for all jobs together.", min=1)] = None
    nixpkgs: NixpkgsOption = ()
    local: Annotated[bool, Option("Build on this machine only.")] = False
    timeout: Annotated[int, Option("Stop a build after this many seconds.", min=0)] = 0

    @property
    def spec(self) -> BuildSpec:
        """What is to be done."""
        return BuildSpec(
            selectors=tuple(self.recipes),
            trees=read_trees(self.nixpkgs),
            small=takes_sample(self.nixpkgs),
            resources=Resources(self.jobs, self.cores),
            local=self.local,
            timeout=self.timeout,
        )


@dataclass(frozen=True, kw_only=True)
class BuildRequest(RunRequest):
    """Which recipes to build, with what, and how far."""

    backend: Annotated[BackendName, Option("Build with nix or with flox.")] = "nix"
    memory: Annotated[float | None, Option("Memory in GB, for all jobs together.", min=0.01)] = None
    cache: Annotated[str, Option("Binary cache to fetch from and copy to.")] = ""
    sign: Annotated[Path | None, Option("Secret key to sign what is copied.")] = None
    fail_fast: Annotated[bool, Option("Start no new job after a failure.")] = False
    silent_timeout: Annotated[
        int, Option("Stop a build that prints nothing for this many seconds.", min=0)
    ] = 0
    verify: Annotated[bool, Option("Verify each result; copy to the cache only what is right.")] = False

    @property
    def spec(self) -> BuildSpec:
        return replace(
            super().spec,
            backend=self.backend,
            resources=Resources(self.jobs, self.cores, self.memory),
            cache=self.cache,
            sign=self.sign,
            keep_going=not self.fail_fast,
            silent_timeout=self.silent_timeout,
            verify=self.verify,
        )


def plan_build(request: BuildRequest = BuildRequest(), reporter: Reporter = SILENT) -> BuildPlan:
    """What a build would do: its jobs, their costs, and what needs no build. Builds nothing."""
    with _prepared(request, reporter, read_only=True) as ready:
        return ready.plan


def build(request: BuildRequest = BuildRequest(), reporter: Reporter = SILENT) -> BuildReport:
    """Build recipes, each derivation once; `reporter` gets every event. Raises MissingRequirement if memory,
    disk or builders do not suffice."""
    with _prepared(request, reporter) as ready:
        return run_prepared(ready, reporter)


def run_prepared(ready: Prepared, reporter: Reporter) -> BuildReport:
    """Run a plan. Raises its problem if it has one."""
    reporter.planned(ready.plan)
    if ready.plan.problem is not None:
        raise ready.plan.problem
    return ready.run(reporter.event)


@contextmanager
def _prepared(request: BuildRequest, reporter: Reporter, *, read_only: bool = False) -> Iterator[Prepared]:
    with workspace_record(request.workspace, read_only=read_only) as (opened, record):
        reporter.note("" if read_only else finish_stopped(opened.home, "build"))
        with closing(prepare_build(request.spec, opened, record, reporter)) as ready:
            yield ready


def prepare_build(spec: BuildSpec, workspace: Workspace, record: Record, reporter: Reporter) -> Prepared:
    """Evaluate and plan a run."""
    results: list[EvalResult] = []
    with reporter.status("evaluating recipes") as update:

        def evaluated(result: EvalResult) -> None:
            results.append(result)
            update(f"evaluated {result.name}")

        verifier = partial(verify_recipe, workspace) if spec.verify else None
        ready = prepare(spec, workspace, record, on_event=evaluated, verifier=verifier)
    for text in release_warnings(other_releases(results, workspace)):
        reporter.note(text)
    return ready


def run(
    *,
    request: BuildRequest,
    dry_run: Annotated[bool, Option("Print the plan and stop.")] = False,
    json: JsonOption = False,
) -> None:
    """Build the selected recipes, each derivation once, the longest chains first.

    What is in the store or in a binary cache is not built again: after a kill or a failure, call it again to
    build what remains. The exit code is 1 when something failed, 3 when memory, disk or builders do not
    suffice or only downloads failed.
    """
    if dry_run:
        _print_dry_run(request, as_json=json)
        return
    JSON_LINES.set(json)
    report = build(request, BuildTerminal(as_json=json, print_plan=partial(print_plan, line=write_stderr)))
    if not json:
        print_end(report, request)
    if report.state == "stopped":
        raise KeyboardInterrupt
    exit_if(report.exit)


def _print_dry_run(request: BuildRequest, *, as_json: bool) -> None:
    plan = plan_build(request, Terminal())
    if as_json:
        print_json(plan)
    else:
        print_plan(plan)
    if plan.problem is not None:
        raise plan.problem
    if plan.recipes:
        next_step("build", *request.recipes, workspace=request.workspace, nixpkgs=request.nixpkgs)
    exit_if(plan.exit)


def print_plan(plan: BuildPlan, line: Printer = write) -> None:
    """A row a job, then the sums."""
    stream = sys.stdout if line is write else sys.stderr
    users = Counter(need for job in plan.jobs for need in job.needs)
    costs = plan.expected
    if plan.jobs:
        line("   hours   memory     disk  job (~: a guess)", "cyan")
    # What was requested comes first, and of the rest what takes longest.
    jobs = sorted(plan.jobs, key=lambda job: (not job.recipes, 0 if job.recipes else -costs[job.key].seconds))
    for job in jobs[:MAX_JOBS_LISTED]:
        cost = costs[job.key]
        hours, memory, disk = (
            f"{'~' if name in cost.guesses else ''}{figure}"
            for name, figure in (
                ("seconds", f"{cost.seconds / 3600:.2f}"),
                ("memory_gb", f"{max(cost.memory_gb, 1):.0f}"),
                ("build_gb", f"{max(cost.build_gb, 1):.0f}"),
            )
        )
        hours = "?" if cost.basis == "unknown" else hours
        facts = [
            f"{job.size} builds" if job.size > 1 else "",
            counted(cost.steps, "step") if cost.steps else "",
            job.system,
            f"needed by {users[job.key]} jobs" if users[job.key] > 1 else "",
            BASES[cost.basis],
        ]
        about = paint(f"  {', '.join(filter(None, facts))}", "dim", stream)
        line(f"{hours:>8} {memory:>5} GB {disk:>5} GB  {job.name}{about}")
    if len(plan.jobs) > MAX_JOBS_LISTED:
        line(f"… and {counted(len(plan.jobs) - MAX_JOBS_LISTED, 'more job')}", "dim")
    to_build = sum(len(job.recipes) for job in plan.jobs)
    to_fetch = f" ({plan.download_mib:.0f} MiB to fetch)" if plan.fetched else ""
    failed = counted(len(plan.broken), "does not evaluate", "do not evaluate")
    recipes = counted(len(plan.recipes) + len(plan.broken), "recipe")
    line(
        f"{recipes}: {to_build} to build, {len(plan.present)} in the store, "
        f"{len(plan.fetched)} in a binary cache{to_fetch}{f', {failed}' if plan.broken else ''}"
    )
    print_failed(plan.broken)
    if plan.jobs:
        _print_sums(plan, line)
    if plan.own_store:
        line(
            f"you may not use the machine's Nix store: results go to {plan.own_store}, where verify can read"
            " them, but Python cannot import them (torchsmith doctor says what to change)",
            "yellow",
        )


def _print_sums(plan: BuildPlan, line: Printer) -> None:
    costs = list(plan.expected.values())
    if cached := sum(cost.cached_seconds for cost in costs):
        line(f"a compile cache saves {duration(cached)} of that, if all builders share one")
    if guessed := sum(bool(cost.guesses) for cost in costs):
        line(
            f"figures marked ~ of {counted(guessed, 'job')} are guesses; finished builds replace them", "dim"
        )
    scratch = sum(sorted((cost.build_gb for cost in costs), reverse=True)[: plan.share.jobs])
    known = [cost.seconds for cost in costs if cost.basis != "unknown"]
    without = f" without the {len(costs) - len(known)} not estimated" if len(known) < len(costs) else ""
    line(
        f"{counted(len(plan.jobs), 'job')}, {duration(sum(known))} of work one after the other{without};"
        f" {plan.share.jobs} at once with {counted(plan.share.cores, 'core')} each; "
        f"{sum(cost.store_gb for cost in costs):.0f} GB of store, {scratch:.0f} GB to build in, "
        f"{plan.largest_gb:.1f} GB of memory for the largest compile unit"
    )


def print_end(report: BuildReport, request: BuildRequest) -> None:
    """Failures with their causes, what is there now, and what to do with it."""
    for name, diagnosis in report.failed.items():
        print_diagnosis(diagnosis, name, write_stderr)
        if users := report.above.get(name):
            write_stderr(paint("  for    ", "cyan", sys.stderr) + some_of(users, MAX_SHOWN))
        write_stderr(f"  {command('runs', 'log', name, workspace=request.workspace)}", "dim", wrap=False)
    if report.skipped:
        write_stderr(f"skipped, because a dependency failed: {', '.join(report.skipped)}")
    if report.broken:
        write_stderr(f"left out, because it does not evaluate: {some_of([*report.broken], MAX_SHOWN)}")
    for name, why in report.wrong.items():
        write_stderr(f"{name} is built, but verify does not accept it: {why}", "red")
    settled = counted(len(report.settled), "recipe")
    there = f"; {settled} there already or fetched" if report.settled else ""
    write_stderr(f"{len(report.done)} of {counted(report.jobs, 'job')} done{there}")
    if report.results:
        _print_results(report.results, request)
    if report.state == "stopped":
        write_stderr("stopped; the same command builds what remains")


def _print_results(results: Mapping[str, Path], request: BuildRequest) -> None:
    """Where builds are, and what is done with them next."""
    write_stderr("results, kept from garbage collection:")
    for path in list(results.values())[:MAX_SHOWN]:
        write_stderr(f"  {path} -> {path.readlink()}" if path.is_symlink() else f"  {path}", wrap=False)
    first, place = next(iter(results.items()))
    if len(results) > MAX_SHOWN:
        write_stderr(f"  and {len(results) - MAX_SHOWN} more in {place.parent}", wrap=False)
    if not request.verify:
        next_step("verify", first, workspace=request.workspace)
    if open_workspace(request.workspace).settings.org:  # of several, publish finds out which are ready
        next_step("publish", *(results if len(results) == 1 else ()), workspace=request.workspace)
    # In a store of torchsmith's own nothing runs, and of the sample nothing computes.
    elif place.is_symlink() and not takes_sample(request.nixpkgs):
        next_step("test", first, workspace=request.workspace)
