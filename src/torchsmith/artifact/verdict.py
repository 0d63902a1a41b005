"""Whether an artifact is what its name promises: one check per promise, each with its evidence."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from torchsmith.artifact import iced
from torchsmith.artifact.check import Check, Status, megabytes
from torchsmith.artifact.cpu_promise import cpu_promise
from torchsmith.artifact.gpu import (
    Service,
    alike,
    gpu_code,
    launched,
    promised_containers,
    service_of,
    services,
    target_name,
    waste,
)
from torchsmith.artifact.identity import PythonBuild, StatedToolkit
from torchsmith.artifact.inspect import Inspection
from torchsmith.artifact.known import known
from torchsmith.artifact.readers import is_read
from torchsmith.catalog import Catalog, Gpu, Line
from torchsmith.catalog.facts import Gfx, GpuBackend
from torchsmith.core.problem import NotKnown, did_you_mean
from torchsmith.core.text import counted, grouped, some_of
from torchsmith.matrix.variant import CpuOnly, Variant

MOST_FAULTS = 20  # lines about what cannot be read; the rest is counted
NAME = re.compile(r"[a-z][a-z0-9_-]*?-python3\d{1,2}-[a-z0-9_-]+")


def variant_in(path: Path, catalog: Catalog) -> Variant | None:
    """The variant that a path's own name, or a folder of its resolved path, promises."""
    named = _named_in(path, catalog)
    # torch's pname states its release, whatever its recipe is called
    return named.changed(release=None) if named is not None and named.package.is_torch else named


def line_in(path: Path, catalog: Catalog) -> Line | None:
    """The line whose release the name of a path states."""
    named = _named_in(path, catalog)
    return catalog.lines.get(named.release.line) if named is not None and named.release else None


def _named_in(path: Path, catalog: Catalog) -> Variant | None:
    for text in (path.name, *reversed(Path(os.path.realpath(path)).parts)):
        match = NAME.search(text)
        parts = match[0].split("-") if match else []
        while len(parts) > 3:  # a hash or `result` may come before the name, outputs and versions after it
            starts = ("-".join(parts[start:]) for start in range(len(parts) - 3))
            named = next(filter(None, (Variant.try_parse(text, catalog) for text in starts)), None)
            if named is not None:
                return named
            parts.pop()
    return None


def promised(name: str | None, path: Path, catalog: Catalog) -> Variant | None:
    """The variant of that name, or the one that a path's name promises. Raises NotKnown if the catalog
    lacks its instruction set or GPU."""
    variant = Variant.parse(name, catalog) if name else variant_in(path, catalog)
    if variant is not None and variant.isa not in catalog.isas:
        raise NotKnown(f"unknown instruction set {variant.isa}", hint=did_you_mean(variant.isa, catalog.isas))
    if variant is not None and variant.sm is not None and variant.sm not in catalog.gpus:
        known = [str(sm) for sm in catalog.gpus]
        raise NotKnown(f"unknown GPU {variant.sm}", hint=did_you_mean(str(variant.sm), known))
    return variant


def check_build(
    build: Inspection, variant: Variant | None, catalog: Catalog, line: Line | None = None
) -> list[Check]:
    """All checks that apply; the promises of a name only if there is one. `line` is the one that it is built
    with, if that is known."""
    checks = [*_intact(build), *_whole(build, variant), *_one_release(build, catalog)]
    if variant is not None:
        checks += _system(build, variant, catalog)
        checks += [*_identity(build, variant, catalog), *_release(build, variant, catalog, line)]
        checks += [*_gpu_code(build, variant, catalog), *_unread(build)]
        isa = catalog.isas.get(variant.isa)
        # The name of a build for a Mac promises no instruction set beyond the CPU's own.
        mac = _for_mac(variant, catalog)
        if isa is not None and not mac:
            checks += cpu_promise(build, isa, variant, catalog)
        if not mac and not any(library.cpu for library in build.own):
            text = f"whether its CPU code is {variant.isa} was not judged"
            unreadable = build.machine == "x86_64" and not iced.INSTALLED
            checks.append(Check("cpu", "unjudged", text, iced.MISSING if unreadable else ""))
    return checks


def _intact(build: Inspection) -> Iterator[Check]:
    faults: list[tuple[Status, str]] = [("wrong", text) for text in build.faults]
    for library in build.libraries:
        if library.fault:
            own = library.role == "own" or build.kind == "wheel"
            faults.append(("wrong" if own else "note", f"{library.name}: {library.fault}"))
    faults.sort(key=lambda fault: fault[0] != "wrong")
    for status, text in faults[:MOST_FAULTS]:
        yield Check("intact", status, text)
    if len(faults) > MOST_FAULTS:
        yield Check("intact", faults[MOST_FAULTS][0], f"and {len(faults) - MOST_FAULTS} more")
    for text in build.remarks:
        yield Check("contents", "unjudged", text)
    machines = {library.machine for library in build.own if library.machine}
    if len(machines) > 1:
        foreign = min(machines, key=lambda machine: sum(library.machine == machine for library in build.own))
        names = [library.name for library in build.own if library.machine == foreign]
        yield Check("architecture", "wrong", f"{', '.join(names[:3])} is for {foreign}, the rest is not")


def _for_mac(variant: Variant, catalog: Catalog) -> bool:
    isa = catalog.isas.get(variant.isa)
    return isa is not None and isa.platform.endswith("-darwin")


def _system(build: Inspection, variant: Variant, catalog: Catalog) -> Iterator[Check]:
    """Whether its libraries are of the system that the name promises: macOS, or Linux."""
    libraries = [library for library in build.own if library.machine]
    mac = _for_mac(variant, catalog)
    foreign = [library.name for library in libraries if library.system.startswith("macos") is not mac]
    wanted = "macOS" if mac else "Linux"
    if foreign:
        yield Check("system", "wrong", f"{some_of(foreign, 3)} is not for {wanted}, which the name promises")
    elif mac and libraries:
        other = [library.name for library in libraries if library.machine != "aarch64"]
        if other:
            yield Check("system", "wrong", f"{some_of(other, 3)} is not for Apple silicon")
        else:
            oldest = ", ".join(sorted({library.system for library in libraries}))
            yield Check("system", "right", f"{len(libraries)} libraries for Apple silicon ({oldest})")


def _metal(build: Inspection) -> Iterator[Check]:
    """Metal's libraries in a build for a Mac; a build may have none and compile its shaders when it runs."""
    targets = {entry.target.arch for container in build.containers for entry in container.entries}
    foreign = sorted(name for name in targets if not name.startswith("macos"))
    if foreign:
        yield Check("gpu", "wrong", f"it holds GPU code for {', '.join(foreign)}, the name says a Mac")
    elif targets:
        yield Check("gpu", "right", f"Metal libraries for {', '.join(sorted(targets))}")
    else:
        yield Check("gpu", "right", "no Metal library: its shaders are compiled when it runs")


def _whole(build: Inspection, variant: Variant | None) -> Iterator[Check]:
    """That no part is missing without which the package cannot be imported; and what it is, if not ours."""
    if not build.known:
        names = " and ".join(f"{name} {release}" for name, release in build.foreign.items()) or "this"
        what = "" if build.libraries else ", and it holds no compiled code"
        verb = "are" if len(build.foreign) > 1 else "is"
        yield Check("package", "note", f"{names} {verb} listed, not judged: no package of the catalog{what}")
        return
    torch = next((package for package in build.versions if package.is_torch), None)
    if build.kind == "library" or torch is None or (variant and not variant.package.is_torch):
        return
    stems = [_stem(library.name) for library in build.libraries]
    missing = [
        name for name in known().names.required if not any(f"/{stem}".endswith(f"/{name}") for stem in stems)
    ]
    missing += [
        need.name
        for need in build.needs
        if need.found == "elsewhere" and need.name.startswith(known().names.own)
    ]
    if missing:
        yield Check("intact", "wrong", f"{torch.title} without {', '.join(missing)} cannot be imported")


def _stem(name: str) -> str:
    """A library's place without the endings of its name, such as torch/_C."""
    folder, slash, file = name.rpartition("/")
    return f"{folder}{slash}{file.partition('.')[0]}"


def _unread(build: Inspection) -> Iterator[Check]:
    """Libraries that were not read, because no package is known to own them."""
    if build.unknown:
        text = f"no package owns {some_of(build.unknown, 3)}, so its CPU code was not judged"
        yield Check("library", "unjudged", text)


def _release(build: Inspection, variant: Variant, catalog: Catalog, line: Line | None) -> Iterator[Check]:
    """Whether its release is that of the line that the name states or that it is built with; else of any line
    that builds the cell."""
    package, stated = variant.package, build.versions.get(variant.package, "")
    if variant.flavor or build.kind == "library":
        return
    if not stated:
        yield Check("release", "unjudged", f"it does not state its release of {package.title}")
        return
    if variant.release and (line := catalog.lines.get(variant.release.line)) is None:
        digits = "".join(stated.split(".")[:2])
        right = variant.release.of(package.name) == digits
        wanted = [f"the one that {variant.stem} states"]
    else:
        lines = [line] if line else [row for row in catalog.lines.values() if _builds(row, variant)]
        releases = (row.version_of(package.name) or package.versions.get(row.name, "") for row in lines)
        wanted = list(filter(None, releases))  # some lines build whatever their source has
        right = not wanted or _numbers(stated) in map(_numbers, wanted)
    text = f"{package.title} {stated}"
    text += "" if right else f", the name says {' or '.join(dict.fromkeys(wanted))}"
    yield Check("release", "right" if right else "wrong", text)


def _builds(line: Line, variant: Variant) -> bool:
    return (
        not line.flavor
        and line.build_for(variant.toolkit) is not None
        and line.builds(variant.package)
        and variant.python in line.pythons
    )


def _numbers(release: str) -> str:
    """A release without what follows its numbers: 2.10.0 for 2.10.0a0+git1234."""
    match = re.match(r"\d+(\.\d+)*", release)
    return match[0] if match else release


def _one_release(build: Inspection, catalog: Catalog) -> Iterator[Check]:
    """That all that names a release of a backend agrees with what states it exactly."""
    for name, (first, *others) in grouped((toolkit.backend, toolkit) for toolkit in build.toolkits).items():
        for other in others if build.known and not isinstance(first.release, int) else ():
            if not other.agrees(first.release):
                text = f"{first.by} says {first.release}, {other.by} says {other.release}"
                title = catalog.backends[name].title
                yield Check(name, "wrong", f"it is built with two releases of {title}: {text}")


def _identity(build: Inspection, variant: Variant, catalog: Catalog) -> Iterator[Check]:
    if build.versions and variant.package not in {*build.versions, *build.packages}:
        having = ", ".join(f"{package} {version}" for package, version in build.versions.items())
        yield Check("package", "wrong", f"there is no {variant.package.title} in it, but {having}")
    if build.pythons:
        same = build.pythons == [PythonBuild(variant.python, free_threaded=False)]
        text = f"for Python {' and '.join(map(str, build.pythons))}"
        text += "" if same else f", the name says {variant.python}"
        yield Check("python", "right" if same else "wrong", text)
    yield from _toolkit(build.toolkits, variant, catalog)


def _toolkit(stated: list[StatedToolkit], variant: Variant, catalog: Catalog) -> Iterator[Check]:
    """Whether it is built with the release of the backend that the name promises, and with no other."""
    wanted, name = variant.toolkit, variant.backend
    titles = {backend.name: backend.title for backend in catalog.backends.values()}
    foreign = next((toolkit for toolkit in stated if toolkit.backend != name), None)
    if foreign is not None:
        what = f"{titles[foreign.backend]} {foreign.release}"
        yield Check(foreign.backend, "wrong", f"it is built with {what}, the name says {variant.target}")
    if wanted is None or name not in known().releases:
        return
    own = [toolkit for toolkit in stated if toolkit.backend == name]
    if not own:
        # Only torch states its release; others may have the run time linked in, as nvcc does by default.
        status: Status = "wrong" if variant.package.is_torch else "note"
        yield Check(name, status, f"it names no {titles[name]}, the name says {wanted}")
        return
    other = next((toolkit for toolkit in own if not toolkit.agrees(wanted)), None)
    if other is not None:
        text = f"{titles[name]} {other.release} by {other.by}, the name says {wanted}"
        yield Check(name, "wrong", text)
    elif isinstance(own[0].release, int):
        text = f"linked to {titles[name]} {own[0].release}.x ({own[0].by}); the minor release is not stated"
        yield Check(name, "right", text)
    else:
        yield Check(name, "right", f"{titles[name]} {wanted}")


def _gpu_code(build: Inspection, variant: Variant, catalog: Catalog) -> Iterator[Check]:
    """The target of the name is there, throughout, and how much is there for others."""
    code = gpu_code(library.containers for library in build.own)
    backend = catalog.backends[variant.backend]
    if isinstance(variant.target, CpuOnly):
        if code.size:
            yield Check("gpu", "wrong", f"{megabytes(code.size)} of GPU code, the name says cpu")
        else:
            yield Check("gpu", "right", "no GPU code, as the name says")
        return
    if _for_mac(variant, catalog):
        yield from _metal(build)
        return
    if not is_read(backend.code):
        yield Check("gpu", "unjudged", f"nothing here reads code of {backend.title} for {variant.arch}")
        return
    gpu = catalog.gpus.get(variant.sm) if variant.sm else catalog.gfx.get(variant.arch)
    if gpu is None:
        text = f"{variant.arch} is not in the catalog: it cannot be judged"
        yield Check("gpu", "wrong", text)
        return
    if not code.containers:
        yield Check("gpu", "wrong", f"no GPU code at all, the name says {gpu.name}")
        return
    yield from _empty_gpu_code(build)
    yield from _by_library(build, gpu, backend, catalog)
    if variant.sm is None:
        yield from _bundled_gpu_code(build, gpu, catalog)
    [service] = services(((library.name, library.containers) for library in build.own), [gpu], catalog)
    if spare := waste(code, service):
        others = dict.fromkeys(target_name(row.target) for row in spare)
        size = megabytes(sum(row.size for row in spare))
        text = f"{size} of {megabytes(code.size)} of GPU code are for others: {', '.join(others)}"
        yield Check("waste", "note", text, f"a build for {gpu.name} alone leaves them out")


def _empty_gpu_code(build: Inspection) -> Iterator[Check]:
    """Libraries that must have GPU code and have none, and entries of it without bytes."""
    for library in build.own:
        main = _stem(library.name).rpartition("/")[2] in known().names.gpu_code
        if main and not launched(library.containers):
            yield Check("gpu", "wrong", f"{library.name} has no GPU code")
        empty = sum(entry.empty for container in library.containers for entry in container.entries)
        if empty:
            entries = counted(empty, "entry", "entries")
            yield Check("gpu", "wrong", f"{library.name}: {entries} of GPU code without bytes")


def _by_library(build: Inspection, gpu: Gpu | Gfx, backend: GpuBackend, catalog: Catalog) -> Iterator[Check]:
    """One check for each library that does not hold the target throughout, or one for all that do."""
    right = total = 0
    wrong = []
    for library in build.own:
        containers = promised_containers(library.containers)
        if not containers:
            continue
        service = service_of(alike(containers), gpu, catalog)
        check = _served(service, library.name, backend)
        if check is None:
            right, total = right + service.native, total + service.total
        else:
            wrong.append(check)
    yield from wrong
    if not wrong:
        yield Check("gpu", "right", f"{gpu.name} code in {right} of {total} compiled files")


def _bundled_gpu_code(build: Inspection, gpu: Gpu | Gfx, catalog: Catalog) -> Iterator[Check]:
    """The libraries of others beside the package's own that lack code for the GPU: CUDA's have it for all,
    but ROCm's may be loaded and of no use."""
    for library in build.libraries:
        containers = launched(library.containers) if library.role != "own" else []
        if containers and service_of(alike(containers), gpu, catalog).verdict not in ("native", "compatible"):
            text = f"bundled {library.name} lacks code for {gpu.name}; whether it is used is not known"
            yield Check("gpu", "unjudged", text)


def _served(service: Service, library: str, backend: GpuBackend) -> Check | None:
    """What is wrong with a library's code for a GPU."""
    if service.exact:
        return None
    if service.verdict in ("native", "compatible"):
        text = f"{service.native} of {service.total} compiled files have native code for {service.sm},"
        text += f" which runs the others by code for {', '.join(service.by)}"
        hint = f"{backend.variable or 'TORCH_CUDA_ARCH_LIST'} did not arrive, or named another target"
    elif service.verdict == "jit":
        only = f"{service.jit} of {service.total} compiled files have only code to be compiled"
        text = f"{only} for {service.sm}, as PTX or SPIR-V: slow first start"
        hint = "build with the target's own machine code"
    elif service.verdict == "partly":
        text = f"{service.none} of {service.total} compiled files hold nothing that runs on {service.sm}"
        hint = "calls into them fail with `no kernel image`"
    else:
        text, hint = f"nothing in it runs on {service.sm}: `no kernel image` on every call", ""
    return Check("gpu", "wrong", f"{library}: {text}", hint)
