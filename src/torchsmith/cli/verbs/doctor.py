"""`torchsmith doctor`: what works on this machine, and what to do about the rest."""

from __future__ import annotations

from torchsmith.cli.options import JsonOption, WorkspaceOption

EXAMPLE = "torchsmith doctor"


def run(workspace: WorkspaceOption = None, json: JsonOption = False) -> None:
    """Say what works here, what does not and what to do: Python, git, Nix, Flox, room, builders, GPU.

    Nothing is changed, every question has a limit of ten seconds, and what is not here is no failure. The
    exit code is 1 when something that is here does not work.
    """
    from torchsmith.cli.console import print_json
    from torchsmith.cli.health import DoctorDocument, examine
    from torchsmith.cli.next_step import next_step
    from torchsmith.cli.paint import columns, write
    from torchsmith.workspace.load import open_workspace

    marks = {"works": "green", "could be better": "yellow", "does not work": "red", "not here": "dim"}
    opened = open_workspace(workspace)
    checks = list(examine(opened))
    if json:
        print_json(DoctorDocument(checks))
    else:
        columns([[one.name, (one.health, marks[one.health]), one.found] for one in checks], ("bold",))
        for one in checks:
            if one.todo and one.health != "works":
                write(f"{one.name}: {one.todo}", "cyan")
    if any(one.health == "does not work" for one in checks):
        raise SystemExit(1)
    if not json:
        next_step("pick" if opened.root is None else "list", workspace=workspace)
