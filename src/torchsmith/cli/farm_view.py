"""Builders that were tried, for people."""

from __future__ import annotations

from collections.abc import Sequence

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


def checked_json(one: Checked) -> dict[str, object]:
    return {
        "builder": one.builder.name,
        "ok": not one.faults,
        "faults": one.faults,
        "system": one.system,
        "nix": one.nix,
        "free_gb": one.free_gb,
        "memory_gb": one.memory_gb,
        "isas": sorted(one.isas),
    }
