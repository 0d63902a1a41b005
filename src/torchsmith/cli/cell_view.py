"""One cell for people: what `show` and `explain` print."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from torchsmith.cli.console import out
from torchsmith.matrix.describe import Description, Explanation

STYLES = {"accepted": "green", "accepted with a warning": "yellow", "rejected": "red"}


def print_description(cell: Description) -> None:
    """A cell's facts, a row each."""
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="cyan", no_wrap=True)
    table.add_column()
    for label, value in _rows(cell):
        if value:
            table.add_row(label, value)
    console = out()
    console.print(Text(cell.name, style="bold"))
    console.print(table)
    for warning in cell.warnings:
        console.print(Text(f"▲ {warning}", style="yellow"))
    for text in cell.unproved:
        console.print(Text(f"not proved: {text}", style="dim"))


def _rows(cell: Description) -> list[tuple[str, str]]:
    rows = [
        ("package", f"{cell.package} {cell.versions[cell.package]}"),
        ("pname", cell.pname),
        (
            "line",
            f"{cell.line}: " + ", ".join(f"{name} {version}" for name, version in cell.versions.items()),
        ),
        ("python", cell.python),
    ]
    if cell.gpu:
        gpu = cell.gpu
        rows += [
            ("GPU", f"{gpu.sm}, capability {gpu.capability}, {gpu.generation}"),
            ("GPU parts", ", ".join(gpu.parts)),
            ("GPU hosts", ", ".join(gpu.platforms)),
            ("CUDA", gpu.cuda),
            ("driver", f"{gpu.driver} or newer"),
        ]
    cpu = cell.cpu
    rows += [
        ("CPU", f"{cpu.title}, {cpu.system}"),
        ("CPU flags", " ".join(cpu.flags)),
        ("CPU needs", ", ".join(cpu.features)),
        ("CPUs", ", ".join(cpu.runs_on)),
        ("CPU note", cpu.note),
        ("torch without", ", ".join(cpu.torch_off)),
        ("nixpkgs", cell.pin or "from the Flox catalog"),
        ("pin hash", cell.pin_hash),
        *((f"{name} hash", text) for name, text in cell.source_hashes.items()),
        *((f"fix {name}", why) for name, why in cell.fixes.items()),
    ]
    return rows


def print_explanation(answer: Explanation) -> None:
    """The verdict, its reasons, and where to go instead."""
    console = out()
    console.print(Text.assemble((f"{answer.name}: ", "bold"), (answer.verdict, STYLES[answer.verdict])))
    for reason in answer.reasons:
        console.print(f"  {reason}", markup=False)
    for text in answer.old_spelling:
        console.print(f"  spelling: {text}", markup=False)
    if answer.standing:
        console.print(f"  {answer.standing}", markup=False)
    if answer.nearest:
        console.print("nearest cells that can be built and used:")
        for name in answer.nearest:
            console.print(f"  {name}", markup=False)
