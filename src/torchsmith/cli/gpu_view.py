"""A GPU instead of a cell: what `show` and `explain` answer to an architecture or a product's name."""

from __future__ import annotations

import msgspec

from torchsmith.catalog import Catalog, Gpu
from torchsmith.catalog.axes import BadValue, Sm
from torchsmith.cli.console import columns, write
from torchsmith.host.products import instance_of, retired_gpus, retired_of_name, site_name
from torchsmith.host.resolve import gpu_of_name
from torchsmith.matrix import Accepted, Cuda, Variant, assess


class GpuReport(msgspec.Struct, frozen=True):
    """An architecture: who has it, what it needs, and for which CUDA releases builds exist."""

    sm: Sm
    capability: str
    generation: str
    parts: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()
    driver: str = ""  # the first that knows it
    cuda: dict[str, str] = {}  # by release: a cell, or why there is none
    ended: str = ""  # what ended its support
    note: str = ""


def report_gpu(words: str, catalog: Catalog) -> GpuReport | None:
    """What is known of the GPU that some words name; None where they name none."""
    try:
        sm: Sm | None = Sm.parse(words.strip().lower())
    except BadValue:
        sm = None
    rented = instance_of(words)
    name = rented.gpu if rented else words
    gpu = catalog.gpus.get(sm) if sm else gpu_of_name(name, catalog) or gpu_of_name(site_name(name), catalog)
    if gpu is not None:
        told = (gpu.sm, gpu.sm.capability, gpu.generation, gpu.parts, gpu.platforms, str(gpu.min_driver))
        return GpuReport(*told, cuda=_builds(gpu, catalog), note=gpu.note)
    old = retired_gpus().get(sm) if sm else retired_of_name(name)
    return GpuReport(old.sm, old.sm.capability, old.generation, ended=old.ended) if old else None


def _builds(gpu: Gpu, catalog: Catalog) -> dict[str, str]:
    """For each CUDA release the torch that is built with it, or the first reason that there is none."""
    isas = [isa.name for isa in catalog.isas.values() if isa.platform in gpu.platforms]
    found: dict[str, str] = {}
    for cuda in catalog.cuda:
        variants = [
            Variant(catalog.torch, python, Cuda(cuda, gpu.sm), isa)
            for python in catalog.pythons
            for isa in isas
        ]
        lines = [None, *(name for name, line in catalog.lines.items() if line.torch and not line.flavor)]
        decisions = [assess(variant, catalog, line) for line in lines for variant in variants]
        able = next((one.line for one in decisions if isinstance(one, Accepted) and one.usable), None)
        build = able.build_for(cuda) if able else None
        if able and build and build.style != "catalog":
            found[str(cuda)] = f"torch {able.torch}"
        elif build:
            found[str(cuda)] = "no nixpkgs here has it: an older Flox catalog may"
        else:
            reasons = getattr(decisions[0], "reasons", ())
            found[str(cuda)] = f"no: {reasons[0].text}" if reasons else "no"
    return found


def print_gpu(found: GpuReport) -> None:
    """The facts, a row each."""
    write(f"{found.sm}, capability {found.capability}, {found.generation}", "bold")
    rows = [
        ("products", ", ".join(found.parts)),
        ("found on", ", ".join(found.systems)),
        ("driver", f"{found.driver} or newer" if found.driver else ""),
        ("no builds", found.ended),
        ("note", found.note),
        *((f"CUDA {cuda}", text) for cuda, text in found.cuda.items()),
    ]
    columns([row for row in rows if row[1]], ("cyan",))
