"""`torchsmith host`: what this machine, or one that reports describe, is."""

from __future__ import annotations

from torchsmith.cli.host_options import (
    CpuOption,
    DriverOption,
    FeaturesOption,
    FromOption,
    GpuOption,
    IsaOption,
    LimitOption,
    SystemOption,
)
from torchsmith.cli.options import JsonOption, WorkspaceOption

EXAMPLE = "torchsmith host --json"


def run(
    from_: FromOption = None,
    system: SystemOption = "",
    cpu: CpuOption = "",
    isa: IsaOption = "",
    features: FeaturesOption = "",
    gpu: GpuOption = None,
    driver: DriverOption = "",
    time_limit: LimitOption = 10.0,
    workspace: WorkspaceOption = None,
    json: JsonOption = False,
) -> None:
    """Show CPU, GPUs and driver of this machine, where each fact came from, and what was not used.

    The JSON can be carried to another machine and read there: torchsmith pick --from FILE.
    """
    from torchsmith.cli.console import print_json
    from torchsmith.cli.host_view import print_host
    from torchsmith.cli.next_step import next_step
    from torchsmith.host.detect import ThisMachine
    from torchsmith.host.document import to_document
    from torchsmith.host.gather import gather
    from torchsmith.host.given import Given
    from torchsmith.workspace.load import open_workspace

    catalog = open_workspace(workspace).catalog
    given = Given(system, cpu, isa, features, "; ".join(gpu or []), "", driver)
    facts = gather(from_ or [], given, catalog, ThisMachine(), time_limit)
    if json:
        print_json(to_document(facts))
    else:
        print_host(facts, catalog)
        next_step("pick", *(word for file in from_ or () for word in ("--from", str(file))))
