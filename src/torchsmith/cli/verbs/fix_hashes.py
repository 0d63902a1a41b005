"""`torchsmith fix-hashes`: the hashes that sources really have, written where they belong."""

from __future__ import annotations

import sys

from torchsmith.api.options import JsonOption
from torchsmith.api.repairing import FixHashesRequest, HashReport, fix_hashes
from torchsmith.cli.console import answer, exit_if, next_step, tell, warn
from torchsmith.cli.progress import Terminal
from torchsmith.core.problem import Refused

EXAMPLE = "torchsmith init b && torchsmith generate -w b && torchsmith fix-hashes -w b sm120 --nixpkgs sample"


def run(*, request: FixHashesRequest, json: JsonOption = False) -> None:
    """Fetch the sources of recipes, and write the hashes that they really have.

    All mismatches are found in one pass and written at once: for generated recipes into torchsmith.toml or
    the workspace's catalog folder, and generated again; in files of yours in place. Only sources are fetched,
    nothing is compiled. A source that is not nixpkgs' own and whose hash is stated where it cannot be seen,
    such as through a function, is named. The exit code is 1 when something is left for you, 3 when all that
    failed are downloads.
    """
    report = fix_hashes(request, Terminal())
    answer(report, lambda report: _print(report, written=not request.dry_run), as_json=json)
    if report.suspicious:
        raise Refused(
            f"{len(report.suspicious)} changed hashes may be tampering and were not written",
            hint="find out why the source changed; --accept writes them all the same",
        )
    exit_if(report.exit)
    recipes = request.recipes or ()
    next_step("build", "--dry-run", *recipes, workspace=request.workspace, nixpkgs=request.nixpkgs)


def _print(report: HashReport, *, written: bool) -> None:
    sys.stdout.write(report.diff)
    for row in report.written:
        whose = row.recipes[0] if len(row.recipes) == 1 else f"{len(row.recipes)} recipes"
        tell(f"{row.where}: {row.got} {'written' if written else 'would be written'}, for {whose}")
    for row in report.suspicious:
        warn(f"▲ {row.where}: {row.source} now has {row.got}; {row.suspicion}")
    for text in (*report.unplaced, *report.unchecked, *report.unseen):
        tell(f"✗ {text}", "red")
    unseen = f", {len(report.unseen)} not seen" if report.unseen else ""
    tell(f"{len(report.written)} hashes corrected, {len(report.proved)} sources proved{unseen}")
