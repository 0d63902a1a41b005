"""`torchsmith publish`: verified builds, to Flox."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, ClassVar

import msgspec

from torchsmith.building.backends import require_flox
from torchsmith.building.by_name import workspace_record
from torchsmith.cli.console import answer, exit_if, next_step, paint, write, write_stderr
from torchsmith.cli.nix_options import Recipes
from torchsmith.cli.options import JsonOption, WorkspaceOption
from torchsmith.cli.reporter import SILENT, Reporter, Terminal
from torchsmith.cli.request import Option, Request
from torchsmith.core.problem import Incomplete
from torchsmith.core.process import find
from torchsmith.core.state import state_folder
from torchsmith.publishing.committed import unpublishable
from torchsmith.publishing.publish import PublishedRow, Publisher
from torchsmith.publishing.verified import why_unverified
from torchsmith.workspace.checkout import choose
from torchsmith.workspace.journal import finish_stopped

EXAMPLE = "torchsmith init b && torchsmith apply -w b && torchsmith publish -w b sm120 -o myorg --dry-run"
# NVIDIA's CUDA EULA, section 1.1 and Attachment A; cuDNN's and others of its libraries have their own.
CUDA_TERMS = (
    "CUDA's EULA lets you redistribute the runtime and math libraries that its Attachment A names, as part of"
    " an application and under its terms; not the compiler, the driver or the toolkit as such"
)
STYLES = {"published": "green", "published before": "dim", "failed": "bold red", "not verified": "yellow"}


@dataclass(frozen=True, kw_only=True)
class PublishRequest(Request):
    """Which builds to publish, and under which organisation."""

    recipes: Recipes = ()
    org: Annotated[
        str, Option("--org", "-o", "The organisation to publish under; by default org of torchsmith.toml.")
    ] = ""
    workspace: WorkspaceOption = None
    push: Annotated[bool, Option("Push the commits with something that is verified.")] = False
    checkout_credentials: Annotated[
        bool, Option("Push with the credentials in the checkout's .git/config, as CI jobs need.")
    ] = False
    unrecorded: Annotated[
        bool, Option("Also publish builds that only lack the record of their compiler flags.")
    ] = False
    force: Annotated[bool, Option("Also publish what is not verified.")] = False
    dry_run: Annotated[bool, Option("Run all checks; publish nothing.")] = False


class PublishReport(msgspec.Struct, frozen=True):
    """The packages, and which of them were published."""

    FORMAT: ClassVar = 2
    packages: Sequence[PublishedRow]

    @property
    def ok(self) -> bool:
        return not any(row.state in ("failed", "not verified") for row in self.packages)


def publish(request: PublishRequest = PublishRequest(), reporter: Reporter = SILENT) -> PublishReport:
    """Publish built and verified packages with Flox; `reporter` gets what a stopped run had left. Raises
    Incomplete if no organisation is known, MissingRequirement without Flox, which a dry run does not need."""
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
            why_unverified=partial(why_unverified, record, opened, unrecorded=request.unrecorded),
        )
        publisher = Publisher(
            find("flox") or Path("flox") if request.dry_run else require_flox(),
            org,
            record,
            logs,
            check,
            force=request.force,
            push=request.push,
            credentials=request.checkout_credentials,
        )
        return PublishReport(publisher.publish(chosen, dry_run=request.dry_run))


def run(*, request: PublishRequest, json: JsonOption = False) -> None:
    """Publish built and verified packages with Flox, all from one commit.

    Everything that Flox needs is checked first. Each commit is cloned and its recipes are evaluated in the
    clone, with the nixpkgs of their pins: only a derivation that was built and verified under that name is
    published, from the clone. Packages that were published from the same commit are skipped, so an
    interrupted run can be repeated. Flox takes its token from the environment; torchsmith does not store it.
    The exit code is 1 when a package was not published.
    """
    report = publish(request, Terminal())
    answer(report, _print_rows, as_json=json)
    exit_if(not report.ok)
    if request.dry_run and find("flox") is None:
        write_stderr("Flox is not installed here; publishing needs it")
    if report.packages and request.dry_run:
        org = ("--org", request.org) if request.org else ()
        next_step("publish", *request.recipes, *org, workspace=request.workspace)
    elif report.packages:
        org = ("--org", report.packages[0].org)
        next_step("pick", *org, workspace=request.workspace, why="for those who install")


def _print_rows(report: PublishReport) -> None:
    """A line a package, then the counts."""
    for row in report.packages:
        place = f"  {row.repo} at {row.revision[:12]}{f': {row.detail}' if row.detail else ''}"
        state = paint(f"{row.state:18}  ", STYLES.get(row.state, ""))
        write(f"{state}{row.org}/{row.name}{paint(place, 'dim')}")
    counts = Counter(row.state for row in report.packages)
    write(", ".join(f"{count} {state}" for state, count in counts.items()) or "nothing to publish")
    if any(row.cuda and row.state in ("published", "would be published") for row in report.packages):
        write_stderr(CUDA_TERMS)
