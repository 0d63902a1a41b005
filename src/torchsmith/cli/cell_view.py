"""One cell for people: what `show` and `explain` print."""

from __future__ import annotations

from torchsmith.cli.paint import columns, paint, write
from torchsmith.matrix.describe import Description, Explanation

STYLES = {"accepted": "green", "accepted with a warning": "yellow", "rejected": "red"}


def print_description(cell: Description) -> None:
    """A cell's facts, a row each."""
    write(cell.name, "bold")
    columns([row for row in _rows(cell) if row[1]], ("cyan",))
    for warning in cell.warnings:
        write(f"▲ {warning}", "yellow")
    for text in cell.unproved:
        write(f"not proved: {text}", "dim")


def _rows(cell: Description) -> list[tuple[str, str]]:
    releases = [f"{name} {version}" for name, version in cell.versions.items() if version]
    rows = [
        ("package", f"{cell.package} {cell.versions[cell.package]}"),
        ("pname", cell.pname),
        ("line", f"{cell.line}: {', '.join(releases)}"),
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
    write(paint(f"{answer.name}: ", "bold") + paint(answer.verdict, STYLES[answer.verdict]))
    for reason in answer.reasons:
        write(f"  {reason}")
    for text in answer.old_spelling:
        write(f"  spelling: {text}")
    if answer.standing:
        write(f"  {answer.standing}")
    if answer.nearest:
        write("nearest cells that can be built and used:")
        for name in answer.nearest:
            write(f"  {name}")
