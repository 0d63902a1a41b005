"""`torchsmith fix-hashes`: the hashes that sources really have, written where they belong."""

from __future__ import annotations

import sys

from torchsmith.api.repairing import FixHashesRequest, HashReport, fix_hashes
from torchsmith.cli.console import answer, exit_if, next_build, tell, warn
from torchsmith.cli.options import JsonOption
from torchsmith.core.problem import Refused
from torchsmith.core.text import counted
from torchsmith.verbs.progress import Terminal

EXAMPLE = "torchsmith init b && torchsmith apply -w b && torchsmith fix-hashes -w b sm120 --nixpkgs sample"


def run(*, request: FixHashesRequest, json: JsonOption = False) -> None:
    """Fetch the sources of recipes and correct their hashes.

    All mismatches are found in one pass and corrected together: for generated recipes in torchsmith.toml or
    the catalog folder of the workspace, in your own files in place. Only sources are fetched; nothing is
    compiled. A source whose hash cannot be located, for example because a function computes it, is named. The
    exit code is 1 when something is left for you to do, 3 when only downloads failed.
    """
    report = fix_hashes(request, Terminal())
    answer(report, lambda report: _print(report, written=not request.dry_run), as_json=json)
    if report.suspicious:
        raise Refused(
            f"{len(report.suspicious)} changed hashes may be tampering and were not written",
            hint="find out why the source changed; --accept writes them all the same",
        )
    exit_if(report.exit)
    next_build(*request.recipes, workspace=request.workspace, nixpkgs=request.nixpkgs)


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
    hashes, sources = counted(len(report.written), "hash", "hashes"), counted(len(report.proved), "source")
    tell(f"{hashes} corrected, {sources} proved{unseen}")
