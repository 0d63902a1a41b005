"""Builders that were tried, for people."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from rich.text import Text

from torchsmith.build.farm_check import Checked
from torchsmith.cli.console import out


def print_checked(checked: Sequence[Checked]) -> None:
    """A line a builder, and a line a fault."""
    console = out()
    for one in checked:
        mark = Text("✗ ", style="bold red") if one.faults else Text("✓ ", style="green")
        facts = ""
        if one.system:
            runs = ", ".join(sorted(one.isas)) or "no instruction set of the catalog"
            facts = f"  {one.system}, {one.free_gb:.0f} GB free, {one.memory_gb:.0f} GB memory, runs {runs}"
        console.print(
            mark.append(one.builder.name, style="default").append(facts, style="dim"), soft_wrap=True
        )
        for fault in one.faults:
            console.print(Text(f"    {fault}", style="red"), soft_wrap=True)


class BuilderRow(msgspec.Struct, frozen=True):
    """A builder as it answered."""

    builder: str
    ok: bool
    faults: tuple[str, ...]
    system: str
    nix: str
    free_gb: float
    memory_gb: float
    isas: list[str]


class FarmDocument(msgspec.Struct, frozen=True):
    """The builders that were tried."""

    builders: list[BuilderRow]


def farm_document(checked: Sequence[Checked]) -> FarmDocument:
    """The same as data."""
    return FarmDocument(
        [
            BuilderRow(
                one.builder.name,
                not one.faults,
                one.faults,
                one.system,
                one.nix,
                one.free_gb,
                one.memory_gb,
                sorted(one.isas),
            )
            for one in checked
        ]
    )
