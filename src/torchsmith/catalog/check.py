"""Whether the catalog hangs together: every name that an entry refers to exists and applies."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torchsmith.catalog.axes import BadValue, CudaVersion
from torchsmith.catalog.facts import Line, LineBuild
from torchsmith.catalog.load import Catalog
from torchsmith.catalog.ranges import in_range
from torchsmith.edge.problem import Problem


def check(catalog: Catalog) -> None:
    """Raise a Problem that lists everything that does not hang together."""
    faults = list(faults_of(catalog))
    if faults:
        raise Problem("the catalog contradicts itself:\n  " + "\n  ".join(faults))


def faults_of(catalog: Catalog) -> Iterator[str]:
    """Every broken reference and every fact that contradicts another, in words."""
    for cpu in catalog.cpus.values():
        for name in cpu.isas:
            if name not in catalog.isas:
                yield f"cpus: {cpu.name} names an unknown instruction set {name}"
            elif catalog.isas[name].platform != cpu.platform:
                yield f"cpus: {cpu.name} is {cpu.platform}, but {name} is {catalog.isas[name].platform}"
    for isa in catalog.isas.values():
        if not re.fullmatch(r"[a-z][a-z0-9_]*", isa.name):
            yield f"isas: {isa.name!r} cannot be part of a file name"
        for feature in sorted(isa.features - set(catalog.features)):
            yield f"isas: {isa.name} names an unknown feature {feature}"
    for workload in catalog.workloads.values():
        for name in workload.isas:
            if name not in catalog.isas:
                yield f"workloads: {workload.name} names an unknown instruction set {name}"
    for gpu in catalog.gpus.values():
        for name in gpu.cpus:
            if name not in catalog.cpus:
                yield f"gpus: {gpu.name} names an unknown CPU {name}"
    for pin in catalog.pins.values():
        if not re.fullmatch(r"[0-9a-f]{40}", pin.rev):
            yield f"pins: {pin.name} has no full revision"
    for line in catalog.lines.values():
        yield from _line_faults(line, catalog)
    for error in catalog.errors.values():
        try:
            re.compile(error.pattern)
        except re.error as fault:
            yield f"errors: {error.name} has a pattern that cannot be read: {fault}"


def _line_faults(line: Line, catalog: Catalog) -> Iterator[str]:
    builds: list[tuple[CudaVersion | None, LineBuild]] = [(None, line.cpu)] if line.cpu else []
    for text, build in line.cuda.items():
        try:
            cuda = CudaVersion.parse(text)
        except BadValue as fault:
            yield f"lines: {line.name}: {fault}"
            continue
        if cuda not in catalog.cuda:
            yield f"lines: {line.name} names CUDA {cuda}, which cuda.toml does not have"
        builds.append((cuda, build))
    for target, build in builds:
        yield from _build_faults(line, target, build, catalog)


def _build_faults(line: Line, cuda: CudaVersion | None, build: LineBuild, catalog: Catalog) -> Iterator[str]:
    what = f"lines: {line.name} on {f'CUDA {cuda}' if cuda else 'the CPU'}"
    if build.style == "pinned":
        pin = catalog.pins.get(build.pin)
        if pin is None:
            yield f"{what} names an unknown pin {build.pin!r}"
        elif cuda and cuda not in pin.cudas:
            yield f"{what}: pin {pin.name} has no CUDA {cuda}"
    for name in build.fixes:
        fix = catalog.fixes.get(name)
        if fix is None:
            yield f"{what} names an unknown fix {name}"
            continue
        try:
            applies = in_range(line.torch, fix.torch) and (cuda is None or in_range(str(cuda), fix.cuda))
        except BadValue as fault:
            yield f"fixes: {name}: {fault}"
            continue
        if (
            not applies
            or (fix.cuda and cuda is None)
            or (fix.pins and build.pin and build.pin not in fix.pins)
        ):
            yield f"{what}: the fix {name} does not apply there"
