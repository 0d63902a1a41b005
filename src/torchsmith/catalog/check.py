"""Whether a catalog hangs together: every name that an entry refers to exists and applies."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from torchsmith.catalog.axes import BadValue, CudaVersion
from torchsmith.catalog.facts import Line, LineBuild, Pin
from torchsmith.catalog.load import DATA, Catalog, Layer, builtin_catalog
from torchsmith.catalog.package import TORCH, Package
from torchsmith.catalog.ranges import in_range
from torchsmith.edge.problem import Problem, did_you_mean

ATTRIBUTE = re.compile(r"[A-Za-z_][A-Za-z0-9_'-]*(\.[A-Za-z_][A-Za-z0-9_'-]*)*")
PACKAGE_NAME = re.compile(r"[a-z][a-z0-9_]*(-[a-z0-9_]+)*")


def load_catalog(folder: Path | None, texts: Mapping[str, str] | None = None) -> Catalog:
    """The built-in catalog with a workspace's own files laid over it, checked as a whole; `texts` by file
    name stand for files as they would read."""
    layer = Layer.folder(folder) if folder is not None and folder.is_dir() else Layer({})
    if texts:
        paths = {**layer.paths, **{name: f"catalog/{name}.toml" for name in texts}}
        layer = Layer({**layer.texts, **texts}, paths)
    elif not layer.texts:
        return builtin_catalog()
    catalog = Catalog([Layer.folder(DATA), layer])
    check(catalog)
    return catalog


def check(catalog: Catalog) -> None:
    """Raise a Problem: a package's fault with its place, or everything that does not hang together."""
    for problem in package_faults(catalog):
        raise problem
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
        yield from _limit_faults(pin, catalog)
    for line in catalog.lines.values():
        yield from _line_faults(line, catalog)
    for error in catalog.errors.values():
        try:
            re.compile(error.pattern)
        except re.error as fault:
            yield f"errors: {error.name} has a pattern that cannot be read: {fault}"
        if error.gives_way_to and error.gives_way_to not in catalog.errors:
            yield f"errors: {error.name} gives way to an unknown {error.gives_way_to}"
        if error.policy == "retry" and error.sure != "certain":
            yield f"errors: {error.name} is tried again, and nobody is certain that it passes"


def package_faults(catalog: Catalog) -> Iterator[Problem]:
    """Whatever is wrong with the packages, each with its place and what to do."""
    folders = Counter(package.folder.lower() for package in catalog.packages.values())
    for package in reversed(catalog.packages.values()):  # what a workspace adds comes last, and is to blame
        for field, message, hint in _package_faults(package, catalog, folders):
            yield Problem(message, hint=hint, where=catalog.place("packages", (package.name, *field)))
    try:
        TopologicalSorter({one.name: one.needs for one in catalog.packages.values()}).prepare()
    except CycleError as fault:
        circle = list(reversed(fault.args[1]))
        message = f"packages need each other in a circle: {' -> '.join(circle)}"
        where = catalog.place("packages", (circle[0], "needs"))
        yield Problem(message, hint="a package is built before what needs it: take one need out", where=where)


def _package_faults(
    package: Package, catalog: Catalog, folders: Counter[str]
) -> Iterator[tuple[tuple[str | int, ...], str, str]]:
    """Faults of one package: the value, what is wrong, what to do."""
    name = package.name
    if not PACKAGE_NAME.fullmatch(name) or "-python" in name:
        yield (), f"{name!r} cannot begin a recipe's name", "small letters and digits, such as flash-attn"
    if not ATTRIBUTE.fullmatch(package.attr):
        hint = "as nixpkgs' Python packages spell it: torchvision, flash-attn"
        yield ("attr",), f"{name}: {package.attr!r} is no attribute of Nix", hint
    for other in catalog.packages:
        if other != name and other.replace("-", "_") == name.replace("-", "_"):
            yield (), f"{name} and {other} are one name for Flox", "rename one of them"
        if other != name and re.fullmatch(rf"{re.escape(other)}\d{{2,4}}", name):
            yield (), f"{name} reads as a release of {other}", "rename it"
    if folders[package.folder.lower()] > 1:
        yield ("repo",), f"two packages lie in {package.folder}", "give each a repo of its own"
    for index, need in enumerate(package.needs):
        if need not in catalog.packages:
            yield (
                ("needs", index),
                f"{name} needs an unknown package {need}",
                did_you_mean(need, catalog.packages),
            )
    for field, lines in (
        ("lines", package.lines),
        ("versions", package.versions),
        ("hashes", package.hashes),
    ):
        for line in lines:
            if line not in catalog.lines:
                hint = did_you_mean(line, catalog.lines)
                yield (field,), f"{name} names an unknown line {line!r}", hint
    if package.gpu_list.by != "torch" and not package.gpu_list.name:
        yield ("gpu_list",), f"{name}: a GPU list by {package.gpu_list.by} needs its name", 'name = "..."'
    if package.gpu_list.by == "torch" and not package.needs_torch and name != TORCH:
        hint = 'gpu_list = { by = "variable", name = "TORCH_CUDA_ARCH_LIST" }'
        yield ("gpu_list",), f"{name} does not need torch, which could tell it its GPU", hint
    try:
        in_range("12.0", package.cuda)
    except BadValue as fault:
        yield ("cuda",), f"{name}: {fault}", 'such as ">=12.6,<13"'


def _limit_faults(pin: Pin, catalog: Catalog) -> Iterator[str]:
    for name, limit in pin.limits.items():
        what = f"pins: {pin.name}: the limit {name}"
        for sm in limit.sms:
            if sm not in catalog.gpus:
                yield f"{what} names an unknown GPU {sm}"
        try:
            if not any(in_range(str(cuda), limit.cuda) for cuda in pin.cudas):
                yield f"{what} is about no CUDA of that pin"
        except BadValue as fault:
            yield f"{what}: {fault}"


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
        if build.lacks_pin:
            if not build.unproved:
                yield f"{what} names no pin"
        elif pin is None:
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
