"""Facts for a question: this machine's, or those of reports about another, then what a person overrides."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torchsmith.catalog import Catalog
from torchsmith.host.detect import TIME_LIMIT, MachineAccess, detect
from torchsmith.host.facts import HostFacts, merge
from torchsmith.host.given import Given, replace_facts
from torchsmith.host.read_report import read_report_file
from torchsmith.host.resolve import resolve

OPTIONS = "the command line"


def gather(
    reports: Sequence[Path], given: Given, catalog: Catalog, machine: MachineAccess, limit: float = TIME_LIMIT
) -> HostFacts:
    """The resolved facts. A CPU or system given without a report describes another machine than this one."""
    stated = given.facts(catalog, OPTIONS)
    if reports:
        known = merge(read_report_file(path) for path in reports)
    elif given.cpu or given.system or given.isa:
        known = HostFacts()
    else:
        known = detect(machine, limit)
    return resolve(replace_facts(known, stated), catalog)
