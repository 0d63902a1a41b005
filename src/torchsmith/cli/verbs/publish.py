"""`torchsmith publish`: verified builds, to Flox."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from torchsmith.api.building import PublishRequest, publish
from torchsmith.api.options import JsonOption
from torchsmith.cli.console import answer, exit_if, next_step, paint, say_recovered, tell, write
from torchsmith.publishing.publish import PublishedRow
from torchsmith.publishing.sbom import CUDA_TERMS

EXAMPLE = "torchsmith init b && torchsmith generate -w b && torchsmith publish -w b sm120 -o myorg --dry-run"
STYLES = {"published": "green", "published before": "dim", "failed": "bold red", "not verified": "yellow"}


class PublishDocument(msgspec.Struct, frozen=True):
    """How each package stands."""

    packages: Sequence[PublishedRow]


def run(*, request: PublishRequest, json: JsonOption = False) -> None:
    """Publish built and verified packages with Flox, all from one commit.

    What Flox needs is checked first, and everything that is missing is told. The commit's own recipes are
    evaluated: one that is another derivation there than the one built and verified is refused, and so is one
    whose result the store no longer has. A nixpkgs given by hand counts where it is the pin's own. A package
    that was published from the same commit is not published again, so a run that was cut off is simply
    repeated. Flox takes its token from the environment; it is written nowhere.
    """
    rows = publish(request, say_recovered)
    answer(PublishDocument(rows), _print_rows, as_json=json)
    exit_if(any(row.standing in ("failed", "not verified") for row in rows))
    if rows and request.dry_run:
        next_step("publish", *(request.recipes or ()), workspace=request.workspace)
    elif rows:
        why = "for those who install"
        next_step("pick", "--org", rows[0].org, "--manifest", workspace=request.workspace, why=why)


def _print_rows(document: PublishDocument) -> None:
    """A line a package, then the counts."""
    for row in document.packages:
        words = f"  {row.repo} at {row.revision[:12]}{f': {row.words}' if row.words else ''}"
        standing = paint(f"{row.standing:18}  ", STYLES.get(row.standing, ""))
        write(f"{standing}{row.org}/{row.name}{paint(words, 'dim')}")
    counts = Counter(row.standing for row in document.packages)
    write(", ".join(f"{count} {standing}" for standing, count in counts.items()) or "nothing to publish")
    if any("-cuda" in row.name for row in document.packages if row.standing.endswith("published")):
        tell(CUDA_TERMS)
    if counts["published"]:
        tell(
            "builds stay in the store while .torchsmith/results links them, and in a cache (build --cache)"
            " until somebody deletes them; Flox keeps what was published as the organisation's plan says"
        )
