"""`torchsmith show NAME`: everything known about a cell."""

from __future__ import annotations

from itertools import groupby

from torchsmith.api.describing import CellRequest, GpuReport, show
from torchsmith.cli.console import columns, print_json, write
from torchsmith.cli.options import JsonOption
from torchsmith.matrix.describe import Description

EXAMPLE = "torchsmith show pytorch-python313-cuda13_0-sm120-avx512"


def run(*, request: CellRequest, json: JsonOption = False) -> None:
    """Show everything known about a cell: flags, GPUs, CPUs, drivers, pins, versions, warnings.

    A GPU architecture or a product (sm89, 'RTX 4090') works too. The exit code is 1 for a cell that cannot be
    built.
    """
    report = show(request)
    if json:
        print_json(report)
    elif isinstance(report, GpuReport):
        print_gpu(report, whole=True)
    else:
        _print_cell(report)


def print_gpu(gpu: GpuReport, *, whole: bool = False) -> None:
    """Which releases have builds for a GPU, a row for those alike; `whole`: and all that is known of it."""
    capability = f"capability {gpu.capability}, " if gpu.capability else ""
    write(f"{gpu.sm}, {capability}{gpu.generation}", "bold")
    facts = [
        ("products", ", ".join(gpu.parts)),
        ("found on", ", ".join(gpu.systems)),
        ("driver", f"{gpu.driver} or newer" if gpu.driver else ""),
        ("note", gpu.note),
    ]
    rows = [*(facts if whole else ()), ("no builds", gpu.ended)]
    for text, alike in groupby(gpu.cuda, key=lambda release: gpu.cuda[release]):
        first, *others = alike
        span = f"{first} to {others[-1]}" if others else first
        rows.append((f"CUDA {span}" if gpu.capability else span, text))
    columns([row for row in rows if row[1]], ("cyan",))


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
            (
                "GPU",
                ", ".join(
                    [gpu.sm, *([f"capability {gpu.capability}"] * bool(gpu.capability)), gpu.generation]
                ),
            ),
            ("GPU parts", ", ".join(gpu.parts)),
            ("GPU hosts", ", ".join(gpu.platforms)),
            ("CUDA" if gpu.capability else "backend", gpu.cuda),
            ("driver", f"{gpu.driver} or newer" if gpu.capability else gpu.driver),
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
