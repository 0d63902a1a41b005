"""The catalog proved against tools that nobody here wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec

from torchsmith.catalog.proof.checks import FactCheck, check_catalog, not_looked_at
from torchsmith.cli.fields import Option
from torchsmith.cli.options import WorkspaceOption
from torchsmith.cli.reporter import SILENT, Reporter
from torchsmith.workspace.load import open_workspace


@dataclass(frozen=True, kw_only=True)
class FactsRequest:
    """Which toolkits' facts to prove."""

    cuda: Annotated[tuple[str, ...], Option("Check this CUDA release.")] = ()
    offline: Annotated[bool, Option("Download nothing; use the cache.")] = False
    workspace: WorkspaceOption = None


class FactsReport(msgspec.Struct, frozen=True):
    """Every fact that a tool can see, and how many of each kind no tool was asked about."""

    checks: Sequence[FactCheck]
    not_looked_at: Mapping[str, int]

    @property
    def ok(self) -> bool:
        return all(check.outcome != "wrong" for check in self.checks)


def facts(request: FactsRequest, reporter: Reporter = SILENT) -> FactsReport:
    """Ask ptxas, gcc, archspec and LLVM; `reporter` is told which."""
    from torchsmith.catalog.proof.readings import chosen_toolkits, read_tools

    catalog = open_workspace(request.workspace).catalog
    toolkits = chosen_toolkits(catalog, list(request.cuda) or None)
    with reporter.status("reading tools") as tell:
        download = not request.offline
        readings = read_tools(toolkits, download=download, watch=lambda tool: tell(f"asking {tool}"))
    return FactsReport(check_catalog(catalog, readings), not_looked_at(catalog))
