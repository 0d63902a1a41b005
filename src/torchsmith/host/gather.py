"""Facts for a question: this machine's, or those of reports about another, then what a person overrides."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from torchsmith.catalog import Catalog
from torchsmith.host.facts import HostFacts, merge
from torchsmith.host.given import Given, replace_facts
from torchsmith.host.resolve import resolve

if TYPE_CHECKING:
    from torchsmith.host.detect import MachineAccess

OPTIONS = "the command line"


def gather(
    reports: Sequence[Path],
    given: Given,
    catalog: Catalog,
    machine: MachineAccess | None = None,
    limit: float | None = None,
) -> HostFacts:
    """The resolved facts. A CPU or system given without a report describes another machine than this one."""
    stated = given.facts(catalog, OPTIONS)
    if reports:
        from torchsmith.host.read_report import read_report_file

        known = merge(read_report_file(path) for path in reports)
    elif given.cpu or given.system or given.isa:
        known = HostFacts()
    else:
        from torchsmith.host.detect import TIME_LIMIT, ThisMachine, detect

        known = detect(machine or ThisMachine(), limit or TIME_LIMIT)
    return resolve(replace_facts(known, stated), catalog)
