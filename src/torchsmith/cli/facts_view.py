"""The proof of the catalog for people: a table of fact, tool and verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from rich.table import Table
from rich.text import Text

from torchsmith.catalog import Catalog, CudaToolkit, CudaVersion
from torchsmith.catalog.axes import BadValue
from torchsmith.catalog.proof.checks import FactCheck
from torchsmith.cli.console import out
from torchsmith.edge.problem import Problem, did_you_mean

STYLES = {"holds": "green", "wrong": "bold red", "not checked": "yellow"}


class FactsDocument(msgspec.Struct, frozen=True):
    """Every fact that a tool can see, and how many of each kind no tool was asked about."""

    checks: Sequence[FactCheck]
    not_looked_at: Mapping[str, int]


def chosen_toolkits(catalog: Catalog, words: Sequence[str] | None) -> list[CudaToolkit]:
    """The toolkits that words name; all of them without words."""
    if not words:
        return list(catalog.cuda.values())
    chosen = []
    for word in words:
        try:
            chosen.append(catalog.cuda[CudaVersion.parse(word)])
        except (BadValue, KeyError):
            hint = did_you_mean(word, [str(version) for version in catalog.cuda])
            raise Problem(f"unknown CUDA {word!r}", hint=hint) from None
    return chosen


def print_checks(checks: Sequence[FactCheck], unlooked: Mapping[str, int]) -> None:
    """Every fact with its verdict, then the count, and what no tool was asked about."""
    table = Table(box=None, pad_edge=False, header_style="cyan")
    table.add_column("fact", max_width=60)
    table.add_column("source")
    table.add_column("verdict", no_wrap=True)
    table.add_column("detail")
    for check in checks:
        verdict = Text(check.outcome, style=STYLES[check.outcome])
        table.add_row(Text(check.fact), Text(check.tool), verdict, Text(check.detail))
    console = out()
    console.print(table)
    counts = {name: sum(check.outcome == name for check in checks) for name in STYLES}
    console.print(", ".join(f"{count} {name}" for name, count in counts.items()))
    kinds = ", ".join(f"{count} {kind}" for kind, count in unlooked.items())
    console.print(f"not looked at: {sum(unlooked.values())} facts ({kinds})", soft_wrap=True)
