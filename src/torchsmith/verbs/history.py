"""`torchsmith history`: builds that ended, newest first."""

from __future__ import annotations

from torchsmith.api.recording import HistoryReport, HistoryRequest, history
from torchsmith.cli.console import answer, paint, write
from torchsmith.cli.options import JsonOption
from torchsmith.core.text import counted, duration
from torchsmith.verbs.status import joined, state_of, when

EXAMPLE = "torchsmith init builds && torchsmith history -w builds --limit 5"


def run(*, request: HistoryRequest, json: JsonOption = False) -> None:
    """Show finished builds: how long they took, where, and why they failed.

    Estimates of later runs are based on them.
    """
    answer(history(request), _print_history, as_json=json)


def _print_history(report: HistoryReport) -> None:
    """A line a build."""
    if not report.builds:
        write("no build has finished here yet")
    for job in report.builds:
        facts = [
            job.builder and f"on {job.builder}",
            counted(job.cores, "core") if job.cores else "",
            job.error,
        ]
        ended = paint(f"{when(job.ended or 0)}  ", "dim")
        write(f"{ended}{state_of(job)}{duration(job.seconds):>12}  {job.name}{joined(facts)}")
