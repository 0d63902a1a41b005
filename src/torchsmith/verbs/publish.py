"""`torchsmith publish`: verified builds, to Flox."""

from __future__ import annotations

from collections import Counter

from torchsmith.api.building import PublishReport, PublishRequest, publish
from torchsmith.cli.console import answer, exit_if, next_step, paint, tell, write
from torchsmith.cli.options import JsonOption
from torchsmith.verbs.progress import Terminal

EXAMPLE = "torchsmith init b && torchsmith apply -w b && torchsmith publish -w b sm120 -o myorg --dry-run"
# NVIDIA's CUDA EULA, section 1.1 and Attachment A; cuDNN's and others of its libraries have their own.
CUDA_TERMS = (
    "CUDA's EULA lets you hand on the runtime and math libraries that its Attachment A names, as part of an"
    " application and under its terms; not the compiler, the driver or the toolkit as such"
)
STYLES = {"published": "green", "published before": "dim", "failed": "bold red", "not verified": "yellow"}


def run(*, request: PublishRequest, json: JsonOption = False) -> None:
    """Publish built and verified packages with Flox, all from one commit.

    Everything that Flox needs is checked first. Each commit is cloned and its recipes are evaluated in the
    clone: only a derivation that was built and verified under that name is published, from the clone. A
    nixpkgs given with --nixpkgs counts only if its hash is the pin's. Packages that were published from the
    same commit are skipped, so an interrupted run can be repeated. Flox takes its token from the environment;
    torchsmith does not store it. The exit code is 1 when a package was not published.
    """
    report = publish(request, Terminal())
    answer(report, _print_rows, as_json=json)
    exit_if(not report.ok)
    if report.packages and request.dry_run:
        next_step("publish", *request.recipes, workspace=request.workspace)
    elif report.packages:
        org, why = report.packages[0].org, "for those who install"
        next_step("pick", "--org", org, "--manifest", workspace=request.workspace, why=why)


def _print_rows(report: PublishReport) -> None:
    """A line a package, then the counts."""
    for row in report.packages:
        place = f"  {row.repo} at {row.revision[:12]}{f': {row.words}' if row.words else ''}"
        standing = paint(f"{row.standing:18}  ", STYLES.get(row.standing, ""))
        write(f"{standing}{row.org}/{row.name}{paint(place, 'dim')}")
    counts = Counter(row.standing for row in report.packages)
    write(", ".join(f"{count} {standing}" for standing, count in counts.items()) or "nothing to publish")
    if any("-cuda" in row.name for row in report.packages if row.standing.endswith("published")):
        tell(CUDA_TERMS)
    if counts["published"]:
        tell(
            "builds stay in the store while the state folder links them, and in a cache (build --cache)"
            " until somebody deletes them; Flox keeps what was published as the organisation's plan says"
        )
