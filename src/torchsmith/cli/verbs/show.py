"""`torchsmith show NAME`: everything known about a cell."""

from __future__ import annotations

from torchsmith.api.options import JsonOption, Name, WorkspaceOption
from torchsmith.cli.console import answer, columns, write
from torchsmith.matrix.describe import Description, describe

EXAMPLE = "torchsmith show pytorch-python313-cuda13_0-sm120-avx512"


def run(name: Name, workspace: WorkspaceOption = None, json: JsonOption = False) -> None:
    """Show everything known about a cell: flags, GPUs, CPUs, drivers, pins, versions, warnings.

    A GPU's architecture or a product's name (sm89, 'RTX 4090') shows what is known of that.
    """
    from torchsmith.cli.gpu_view import print_gpu, report_gpu
    from torchsmith.matrix import Variant
    from torchsmith.workspace.load import open_workspace

    opened = open_workspace(workspace)
    if gpu := report_gpu(name, opened.catalog):
        answer(gpu, print_gpu, as_json=json)
        return
    variant = Variant.parse(name, opened.catalog)
    description = describe(variant, opened.catalog, opened.line_of(variant))
    answer(description, _print_cell, as_json=json)


def _print_cell(cell: Description) -> None:
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
