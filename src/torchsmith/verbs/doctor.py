"""`torchsmith doctor`: what works on this machine, and what to do about the rest."""

from __future__ import annotations

from torchsmith.api.health import DoctorReport, DoctorRequest, doctor
from torchsmith.cli.console import Painted, answer, columns, exit_if, next_step
from torchsmith.cli.options import JsonOption

EXAMPLE = "torchsmith doctor"
STYLES = {"works": "green", "warning": "yellow", "does not work": "red", "missing": "dim"}


def run(*, request: DoctorRequest, json: JsonOption = False) -> None:
    """Check Python, git, Nix, Flox, disk, memory, builders and GPU, and say how to fix what does not work.

    Nothing is changed without --accept-state, and every check ends within ten seconds. A missing program is
    not a failure. The exit code is 1 when something that is installed does not work.
    """
    report = doctor(request)
    answer(report, _print_checks, as_json=json)
    exit_if(not report.ok)
    here = any(check.name == "workspace" and check.health == "works" for check in report.checks)
    next_step("list" if here else "pick", workspace=request.workspace)


def _print_checks(report: DoctorReport) -> None:
    rows: list[list[Painted]] = []
    for check in report.checks:
        todo = f"; {check.todo}" if check.todo and check.health != "works" else ""
        rows.append([check.name, (check.health, STYLES[check.health]), f"{check.found}{todo}"])
    columns(rows, ("bold",))
