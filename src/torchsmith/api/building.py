"""Building recipes, and publishing what was built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from torchsmith.api.fields import Option
from torchsmith.api.nix_options import NixpkgsOption, Recipes, read_trees
from torchsmith.api.options import WorkspaceOption
from torchsmith.api.verified import look_at, why_unverified
from torchsmith.building.backends import require_flox
from torchsmith.building.job import Tell
from torchsmith.building.plan import BuildPlan
from torchsmith.building.run import RunSummary
from torchsmith.building.start import BuildRequest, prepare, state_folder, workspace_record
from torchsmith.core.problem import Incomplete
from torchsmith.publishing.committed import differences
from torchsmith.publishing.publish import PublishedRow, Publisher
from torchsmith.workspace.checkout import choose
from torchsmith.workspace.journal import finish_stopped


def plan_build(request: BuildRequest) -> BuildPlan:
    """What a build would do: the jobs, what each takes, and what is there already. Nothing is built."""
    with workspace_record(request.workspace, read_only=True) as (opened, record):
        return prepare(request, opened, record).plan


def build(request: BuildRequest, watch: Tell = lambda event: None) -> RunSummary:
    """Build recipes, each derivation once; `watch` is told of every event. Raises Lacking where memory, disk
    or builders cannot suffice."""
    with workspace_record(request.workspace) as (opened, record):
        finish_stopped(opened.home, "build")
        look = partial(look_at, opened.catalog) if request.verify else None
        ready = prepare(request, opened, record, look=look)
        ready.check()
        return ready.run(watch)


@dataclass(frozen=True, kw_only=True)
class PublishRequest:
    """Which builds to publish, and under which organisation."""

    recipes: Recipes = ()
    org: Annotated[
        str, Option("--org", "-o", "The organisation to publish under; else torchsmith.toml's.")
    ] = ""
    workspace: WorkspaceOption = None
    push: Annotated[bool, Option("First commit and push, once a repository.")] = False
    force: Annotated[bool, Option("Also publish what is not verified.")] = False
    dry_run: Annotated[bool, Option("Check everything, publish nothing.")] = False
    nixpkgs: NixpkgsOption = ()


def publish(
    request: PublishRequest, recovered: Callable[[str], None] = lambda words: None
) -> list[PublishedRow]:
    """Publish built and verified packages with Flox; each row says how a package stands. `recovered` is told
    what a stopped run had left."""
    with workspace_record(request.workspace) as (opened, record):
        org = request.org or opened.settings.org
        if not org:
            hint = 'give --org, or write org = "..." into torchsmith.toml'
            raise Incomplete("no organisation is named to publish under", hint=hint)
        recovered(finish_stopped(opened.home, "publish"))
        chosen = choose(request.recipes or (), opened, opened.home).recipes
        verified = partial(why_unverified, record, opened.catalog)
        logs = state_folder(opened) / "logs" / "publish"
        trees = read_trees(request.nixpkgs or ())
        changed = partial(differences, record=record, workspace=opened, trees=trees)
        flox = require_flox()
        publisher = Publisher(flox, org, record, logs, verified, changed, request.force, request.push)
        return list(publisher.publish(chosen, dry_run=request.dry_run))
