"""Building recipes, and publishing what was built."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec

from torchsmith.api.build_plan import BuildPlanReport, plan_report
from torchsmith.api.repairing import FixHashesRequest, fix_hashes
from torchsmith.api.verified import look_at, why_unverified
from torchsmith.building.backends import require_flox
from torchsmith.building.report import BuildReport
from torchsmith.building.start import (
    BackendName,
    BuildSpec,
    Prepared,
    prepare,
    resumed,
    workspace_record,
)
from torchsmith.cli.fields import Option
from torchsmith.cli.nix_options import NixpkgsOption, Recipes, read_trees, takes_sample
from torchsmith.cli.options import WorkspaceOption
from torchsmith.cli.reporter import SILENT, Reporter
from torchsmith.core.problem import Conflict, Incomplete, Refused
from torchsmith.core.state import state_folder
from torchsmith.publishing.committed import unpublishable
from torchsmith.publishing.publish import PublishedRow, Publisher
from torchsmith.record import Record
from torchsmith.workspace.checkout import choose
from torchsmith.workspace.journal import finish_stopped
from torchsmith.workspace.load import Workspace


@dataclass(frozen=True, kw_only=True)
class BuildRequest:
    """Which recipes to build, with what, and how far. With `resume` what is given counts over what the last
    run was asked for."""

    recipes: Recipes = ()
    workspace: WorkspaceOption = None
    backend: Annotated[BackendName | None, Option("Build with nix or with flox.")] = None
    resume: Annotated[bool, Option("Continue the last run; options given here override its own.")] = False
    jobs: Annotated[
        int | None, Option("--jobs", "-j", "Parallel jobs on this machine; 0: remote builders only.", min=0)
    ] = None
    cores: Annotated[int | None, Option("Cores, for all jobs together.", min=1)] = None
    memory: Annotated[float | None, Option("Memory in GB, for all jobs together.", min=0.01)] = None
    nixpkgs: NixpkgsOption = ()
    cache: Annotated[str, Option("Binary cache to fetch from and copy to.")] = ""
    sign: Annotated[Path | None, Option("Secret key to sign what is copied.")] = None
    local: Annotated[bool, Option("Build on this machine only.")] = False
    fail_fast: Annotated[bool, Option("Start no new job after a failure.")] = False
    fix_hashes: Annotated[bool, Option("Correct wrong hashes first.")] = False
    timeout: Annotated[int, Option("Stop a build after this many seconds.", min=0)] = 0
    silent_timeout: Annotated[
        int, Option("Stop a build that prints nothing for this many seconds.", min=0)
    ] = 0
    verify: Annotated[bool, Option("Verify each result; copy to the cache only what is right.")] = False

    def spec(self, record: Record) -> BuildSpec:
        """What is to be done, and kept for a later --resume. Raises Conflict for `resume` with recipes."""
        if not self.resume:
            before = BuildSpec(selectors=tuple(self.recipes))
        elif self.recipes:
            raise Conflict("--resume continues the last run and takes no recipes")
        else:
            before = resumed(record)
        return replace(
            before,
            backend=self.backend or before.backend,
            trees={**before.trees, **read_trees(self.nixpkgs)},
            small=takes_sample(self.nixpkgs) or before.small,
            resources=before.resources.over(self.jobs, self.cores, self.memory),
            cache=self.cache or before.cache,
            sign=self.sign or before.sign,
            local=self.local or before.local,
            keep_going=before.keep_going and not self.fail_fast,
            timeout=self.timeout or before.timeout,
            silent_timeout=self.silent_timeout or before.silent_timeout,
            verify=self.verify or before.verify,
        )


def plan_build(request: BuildRequest, reporter: Reporter = SILENT) -> BuildPlanReport:
    """What a build would do: the jobs, what each takes, and what is there already. Nothing is built."""
    with _prepared(request, reporter, read_only=True) as ready:
        return plan_report(ready)


def build(request: BuildRequest, reporter: Reporter = SILENT) -> BuildReport:
    """Build recipes, each derivation once; `reporter` gets every event. Raises MissingRequirement if memory,
    disk or builders cannot suffice."""
    with _prepared(request, reporter) as ready:
        return run_prepared(ready, reporter)


def run_prepared(ready: Prepared, reporter: Reporter) -> BuildReport:
    """Show the plan, and carry it out where it can be."""
    plan = plan_report(ready)
    reporter.planned(plan, ready.limits().total)
    if plan.problem is not None:
        raise plan.problem
    return ready.run(reporter.event)


@contextmanager
def _prepared(request: BuildRequest, reporter: Reporter, *, read_only: bool = False) -> Iterator[Prepared]:
    with workspace_record(request.workspace, read_only=read_only) as (opened, record):
        reporter.note("" if read_only else finish_stopped(opened.home, "build"))
        spec = request.spec(record)
        if request.fix_hashes:
            trees, selectors = request.nixpkgs, spec.selectors
            hashes = FixHashesRequest(recipes=selectors, workspace=request.workspace, nixpkgs=trees)
            mended = fix_hashes(hashes, reporter)
            for row in mended.written:
                reporter.note(f"{row.where}: {row.got} written")
            if mended.suspicious:
                raise Refused("changed hashes may be tampering", hint="torchsmith fix-hashes shows them")
        yield prepared(spec, opened, record, reporter)


def prepared(spec: BuildSpec, workspace: Workspace, record: Record, reporter: Reporter) -> Prepared:
    """The plan of a run; `reporter` is told of each recipe as it is evaluated."""
    with reporter.status("evaluating recipes") as update:
        return prepare(
            spec,
            workspace,
            record,
            tell=lambda result: update(f"evaluated {result.name}"),
            verifier=partial(look_at, workspace.catalog) if spec.verify else None,
        )


@dataclass(frozen=True, kw_only=True)
class PublishRequest:
    """Which builds to publish, and under which organisation."""

    recipes: Recipes = ()
    org: Annotated[
        str, Option("--org", "-o", "The organisation to publish under; by default org of torchsmith.toml.")
    ] = ""
    workspace: WorkspaceOption = None
    push: Annotated[bool, Option("Commit what changed, and push what is verified.")] = False
    checkout_credentials: Annotated[
        bool, Option("Push with the credentials in the checkout's .git/config, as CI jobs need.")
    ] = False
    force: Annotated[bool, Option("Also publish what is not verified.")] = False
    dry_run: Annotated[bool, Option("Run all checks; publish nothing.")] = False
    nixpkgs: NixpkgsOption = ()


class PublishReport(msgspec.Struct, frozen=True):
    """How each package stands."""

    packages: Sequence[PublishedRow]

    @property
    def ok(self) -> bool:
        return not any(row.standing in ("failed", "not verified") for row in self.packages)


def publish(request: PublishRequest, reporter: Reporter = SILENT) -> PublishReport:
    """Publish built and verified packages with Flox; `reporter` is told what a stopped run had left. Raises
    Incomplete where no organisation is known, MissingRequirement without Flox."""
    with workspace_record(request.workspace, read_only=request.dry_run) as (opened, record):
        org = request.org or opened.settings.org
        if not org:
            hint = 'give --org, or write org = "..." into torchsmith.toml'
            raise Incomplete("no organisation to publish under", hint=hint)
        reporter.note("" if request.dry_run else finish_stopped(opened.home, "publish"))
        chosen = choose(request.recipes, opened, opened.home).recipes
        logs = state_folder(opened.home) / "logs" / "publish"
        check = partial(
            unpublishable,
            record=record,
            workspace=opened,
            trees=read_trees(request.nixpkgs),
            why_unverified=partial(why_unverified, record, opened.catalog),
        )
        publisher = Publisher(
            require_flox(),
            org,
            record,
            logs,
            check,
            force=request.force,
            push=request.push,
            credentials=request.checkout_credentials,
        )
        return PublishReport(publisher.publish(chosen, dry_run=request.dry_run))
