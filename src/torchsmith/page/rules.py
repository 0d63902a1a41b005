"""What "which one is mine?" goes by: facts, patterns and verdicts of the catalog and of host/, as data.

The page's script knows how to walk these tables and nothing about any GPU, CPU, driver or report. Verdicts
and their words are those of the functions that `pick` calls, asked here for every case there is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from torchsmith.catalog import Catalog, Cpu, CudaToolkit, Gpu, Isa, Package
from torchsmith.catalog.axes import ARCHITECTURE, CAPABILITY, DRIVER, DriverVersion, GpuTarget
from torchsmith.catalog.runs import driver_runs, gpu_code_runs, isa_runs
from torchsmith.host import read_apple, read_cpu, read_nvidia, read_pci, read_report
from torchsmith.host.commands import IN_A_WORKSPACE, build_commands
from torchsmith.host.document import FORMAT, MARK
from torchsmith.host.pick import Stack, possible_cells
from torchsmith.host.rank import HARDEST, HARDNESS, place_of_isa
from torchsmith.host.resolve import CATALOG, KINDS, Capability
from torchsmith.matrix import Cell, Flavor
from torchsmith.matrix.cells import UNUSABLE

STAND_IN = 7777  # a part of no driver's version
# What `\s` is in Python; JavaScript's lacks the separators and has the byte order mark.
SPACE = r"\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"


def pick_rules(cells: Iterable[Cell], catalog: Catalog) -> dict[str, Any]:
    """Everything that picking for a machine needs, for one matrix."""
    everything = list(cells)
    having = {cell.variant.package for cell in everything}
    package = min(having, key=lambda one: one.order, default=catalog.torch)
    own = [cell for cell in everything if cell.variant.package == package]
    python = max((cell.variant.python for cell in own), default=max(catalog.pythons))
    every = Capability(sms=tuple(catalog.gpus))
    return {
        "reports": _reports(),
        "catalog": CATALOG,
        "kinds": {system: sorted(marks) for system, marks in KINDS.items()},
        "cpus": [_cpu(cpu) for cpu in catalog.cpus.values()],
        "gpus": {str(sm.number): _gpu(gpu, catalog) for sm, gpu in catalog.gpus.items()},
        "isas": {isa.name: _isa(isa) for isa in catalog.isas.values()},
        "drivers": {str(version): _drivers(toolkit) for version, toolkit in catalog.cuda.items()},
        "workloads": {
            workload.name: {
                "why": workload.why,
                "isas": list(workload.isas),
                "places": {isa: place_of_isa(isa, catalog, workload) for isa in catalog.isas},
            }
            for workload in catalog.workloads.values()
        },
        "hardness": {**HARDNESS, "": HARDEST},
        "flavors": [flavor.value for flavor in Flavor],
        "cells": [_cell(cell) for cell in own],
        "possible": [_cell(cell) for cell in possible_cells(every, python, Stack(package), catalog)],
        "companions": _companions(package, own, everything, catalog),
        "commands": _commands(own),
    }


def _reports() -> dict[str, Any]:
    """How reports are known and read."""
    return {
        "forms": _patterns((form.tool, form.pattern) for form in read_report.FORMS),
        "known": read_report.KNOWN,
        "clusters": [js_pattern(pattern) for pattern in read_report.CLUSTERS],
        "colours": js_pattern(read_report.COLOURS),
        "mark": [MARK, FORMAT],
        "capability": js_pattern(CAPABILITY),
        "architecture": js_pattern(ARCHITECTURE),
        "driver": js_pattern(DRIVER),
        "machines": read_cpu.MACHINES,
        "marks": [sorted(read_cpu.X86_MARKS), sorted(read_cpu.ARM_MARKS)],
        "makers": js_pattern(read_cpu.MAKERS),
        "systems": read_cpu.SYSTEM_MARKS,
        "arm_core": read_cpu.ARM_CORE,
        "lscpu_id": read_cpu.LSCPU_ID,
        "cpuinfo_id": read_cpu.CPUINFO_ID,
        "cpuinfo_part": read_cpu.CPUINFO_PART,
        "no_cpu_names": read_cpu.NO_NAMES,
        "cpu": dict(_patterns(read_cpu.PATTERNS.items())),
        "shapes": _patterns(read_nvidia.SHAPES),
        "nvidia": dict(_patterns(read_nvidia.PATTERNS.items())),
        "cut_table": read_nvidia.CUT_TABLE,
        "failures": read_nvidia.FAILURES,
        "absent_tool": js_pattern(read_nvidia.ABSENT_TOOL),
        "absent": js_pattern(read_nvidia.ABSENT, multiline=False),
        "columns": read_nvidia.COLUMNS,
        "no_names": read_nvidia.NO_NAMES,
        "by_form": _patterns(read_nvidia.BY_FORM),
        "pci": dict(_patterns(read_pci.PATTERNS.items())),
        "other_gpus": read_pci.OTHERS,
        "apple": dict(_patterns(read_apple.PATTERNS.items())),
        "macs": [read_apple.SYSTEMS, read_apple.ARM, read_apple.MAKER],
    }


def _patterns(named: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(name, js_pattern(pattern)) for name, pattern in named]


def _cpu(cpu: Cpu) -> list[Any]:
    ids = [one.split("/") for one in cpu.ids]
    return [cpu.name, cpu.title, cpu.platform, list(cpu.isas), ids, cpu.archspec, cpu.mac]


def _gpu(gpu: Gpu, catalog: Catalog) -> dict[str, Any]:
    """An architecture: its products, where it is found, and what runs there of code for each other."""
    verdicts = {
        str(sm.number): gpu_code_runs("cubin", GpuTarget(sm), other, gpu)
        for sm, other in catalog.gpus.items()
    }
    return {
        "title": gpu.title,
        "generation": gpu.generation,
        "parts": list(gpu.parts),
        "vgpus": list(gpu.vgpus),
        "platforms": list(gpu.platforms),
        "driver": list(gpu.min_driver.parts),
        "runs": {target: [int(bool(verdict)), verdict.reason] for target, verdict in verdicts.items()},
    }


def _isa(isa: Isa) -> dict[str, Any]:
    needs = sorted(isa.needs)
    lacking = isa_runs(isa, ()).reason.replace(", ".join(needs), "{missing}") if needs else ""
    return {
        "platform": isa.platform,
        "level": isa.level,
        "needs": needs,
        "has": isa_runs(isa, isa.needs).reason,
        "lacks": lacking,
    }


def _drivers(toolkit: CudaToolkit) -> dict[str, Any]:
    """What a driver of each age does with a toolkit: from which version on, whether it runs, and words."""
    ages = [(), toolkit.min_driver.parts, *((toolkit.native_driver.parts,) if toolkit.native_driver else ())]
    steps = []
    for parts in sorted(set(ages)):
        stand_in = DriverVersion((*parts, 0, STAND_IN))  # as old as can be from there on
        verdict = driver_runs(toolkit, stand_in)
        words = verdict.reason.replace(str(stand_in), "{driver}")
        steps.append([list(parts), int(bool(verdict)), words])
    return {"least": list(toolkit.min_driver.parts), "steps": steps}


def _cell(cell: Cell) -> list[Any]:
    """Name, Python, CUDA, architecture, instruction set, flavor; what makes it useless, what is unproved."""
    variant = cell.variant
    return [
        cell.name,
        [variant.python.major, variant.python.minor],
        str(variant.cuda) if variant.cuda else "",
        variant.sm.number if variant.sm else 0,
        variant.isa,
        list(Flavor).index(variant.flavor),
        [[one.text, one.hint] for one in cell.warnings if one.code == UNUSABLE],
        [str(one) for one in cell.warnings if one.code == "unproved"],
    ]


def _companions(
    package: Package, own: Iterable[Cell], everything: Iterable[Cell], catalog: Catalog
) -> dict[str, list[str]]:
    """The names of each cell in other packages, where the matrix has them."""
    names = {cell.name for cell in everything}
    others = [other for other in catalog.packages.values() if other != package]
    found = {cell.name: [cell.variant.of(other).name for other in others] for cell in own}
    return {name: kept for name, all_ in found.items() if (kept := [one for one in all_ if one in names])}


def _commands(own: Iterable[Cell]) -> list[str]:
    """How to have a variant, with {name} for its name."""
    cell = next(iter(own), None)
    if cell is None:
        return []
    told = build_commands(cell.variant, IN_A_WORKSPACE).values()
    return [words.replace(cell.name, "{name}") for words in told]


def js_pattern(pattern: str, *, multiline: bool = True) -> str:
    """The same pattern for `new RegExp(..., "u")`; lines end with \\n alone, as in Python."""
    signs = {
        ".": r"[^\n]",
        "^": r"(?<![^\n])" if multiline else r"(?<![^])",
        "$": r"(?![^\n])" if multiline else r"(?=\n?(?![^]))",
    }
    out: list[str] = []
    inside = False  # of a set in brackets
    for sign in re.findall(r"(?s)\\.|.", pattern):
        if len(sign) > 1:
            out.append(_escaped(sign[1], inside))
            continue
        out.append(sign if inside else signs.get(sign, sign))
        inside = sign != "]" if inside else sign == "["
    return "".join(out)


def _escaped(letter: str, inside: bool) -> str:
    if letter == "s":
        return SPACE if inside else f"[{SPACE}]"
    if letter == "S":
        return f"[^{SPACE}]"
    return f"\\{letter}" if letter in "dDwWbBnrt.*+?^$|()[]{}\\/-" else letter
