"""`torchsmith host`: what this machine, or one that reports describe, is."""

from __future__ import annotations

from torchsmith.cli.host_options import MachineOptions
from torchsmith.cli.options import JsonOption, WorkspaceOption

EXAMPLE = "torchsmith host --json"


def run(*, machine: MachineOptions, workspace: WorkspaceOption = None, json: JsonOption = False) -> None:
    """Show CPU, GPUs and driver of this machine, where each fact came from, and what was not used.

    The JSON can be carried to another machine and read there: torchsmith pick --from FILE.
    """
    from torchsmith.cli.console import print_json
    from torchsmith.cli.host_view import print_host
    from torchsmith.cli.next_step import next_step
    from torchsmith.host.document import to_document
    from torchsmith.workspace.load import open_workspace

    catalog = open_workspace(workspace).catalog
    facts = machine.facts(catalog)
    if json:
        print_json(to_document(facts))
    else:
        print_host(facts, catalog)
        next_step("pick", *machine.words(), workspace=workspace)
