"""`torchsmith publish`: verified builds, to Flox."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Annotated

import msgspec

from torchsmith.cli.console import answer, exit_if, next_step, paint, say_recovered, tell, write
from torchsmith.cli.nix_options import NixpkgsOption, Recipes, read_trees
from torchsmith.cli.options import JsonOption, WorkspaceOption
from torchsmith.cli.params import Option
from torchsmith.edge.problem import Incomplete
from torchsmith.publish.publish import PublishedRow, Publisher

EXAMPLE = "torchsmith init b && torchsmith generate -w b && torchsmith publish -w b sm120 -o myorg --dry-run"
STYLES = {"published": "green", "published before": "dim", "failed": "bold red", "not verified": "yellow"}


class PublishDocument(msgspec.Struct, frozen=True):
    """How each package stands."""

    packages: Sequence[PublishedRow]


def run(
    recipes: Recipes = None,
    org: Annotated[
        str, Option("--org", "-o", "The organisation to publish under; else torchsmith.toml's.")
    ] = "",
    workspace: WorkspaceOption = None,
    push: Annotated[bool, Option("First commit and push, once a repository.")] = False,
    force: Annotated[bool, Option("Also publish what is not verified.")] = False,
    dry_run: Annotated[bool, Option("Check everything, publish nothing.")] = False,
    nixpkgs: NixpkgsOption = None,
    json: JsonOption = False,
) -> None:
    """Publish built and verified packages with Flox, all from one commit.

    What Flox needs is checked first, and everything that is missing is told. The commit's own recipes are
    evaluated: one that is another derivation there than the one built and verified is refused, and so is one
    whose result the store no longer has. A nixpkgs given by hand counts where it is the pin's own. A package
    that was published from the same commit is not published again, so a run that was cut off is simply
    repeated. Flox takes its token from the environment; it is written nowhere.
    """
    from torchsmith.build.backends import require_flox
    from torchsmith.build.start import state_folder, workspace_record
    from torchsmith.cli.verified import why_unverified
    from torchsmith.publish.committed import differences
    from torchsmith.workspace.checkout import choose
    from torchsmith.workspace.journal import finish_stopped

    with workspace_record(workspace) as (opened, record):
        org = org or opened.settings.org
        if not org:
            hint = 'give --org, or write org = "..." into torchsmith.toml'
            raise Incomplete("no organisation is named to publish under", hint=hint)
        say_recovered(finish_stopped(opened.home, "publish"))
        chosen = choose(recipes or [], opened, opened.home).recipes
        verified = partial(why_unverified, record, opened.catalog)
        logs = state_folder(opened) / "logs" / "publish"
        trees = read_trees(nixpkgs or [])
        changed = partial(differences, record=record, workspace=opened, trees=trees)
        publisher = Publisher(require_flox(), org, record, logs, verified, changed, force, push)
        rows = publisher.publish(chosen, dry_run=dry_run)
    answer(PublishDocument(rows), _print_rows, as_json=json)
    exit_if(any(row.standing in ("failed", "not verified") for row in rows))
    if rows and dry_run:
        next_step("publish", *(recipes or ()), workspace=workspace)
    elif rows:
        next_step("pick", "--org", org, "--manifest", workspace=workspace, why="for those who install")


def _print_rows(document: PublishDocument) -> None:
    """A line a package, then the counts."""
    for row in document.packages:
        words = f"  {row.repo} at {row.revision[:12]}{f': {row.words}' if row.words else ''}"
        standing = paint(f"{row.standing:18}  ", STYLES.get(row.standing, ""))
        write(f"{standing}{row.org}/{row.name}{paint(words, 'dim')}")
    counts = Counter(row.standing for row in document.packages)
    write(", ".join(f"{count} {standing}" for standing, count in counts.items()) or "nothing to publish")
    if counts["published"]:
        tell(
            "builds stay in the store while .torchsmith/results links them, and in a cache (build --cache)"
            " until somebody deletes them; Flox keeps what was published as the organisation's plan says"
        )
