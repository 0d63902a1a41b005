"""The report of `verify` about an artifact, for a terminal and JSON; and the comparison with another one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torchsmith.artifact.check import Check, passed, proved
from torchsmith.artifact.container import CodeKind
from torchsmith.artifact.cpu import CpuCode
from torchsmith.artifact.cpu_promise import combined
from torchsmith.artifact.gpu import AnyGpu, Service, TargetRow, gpu_code, services, target_names
from torchsmith.artifact.inspect import Inspection, Need, Progress, inspect, silent
from torchsmith.artifact.recorded import Mark
from torchsmith.artifact.verdict import check_build, line_in
from torchsmith.catalog import Catalog, Line
from torchsmith.catalog.axes import NamedTarget
from torchsmith.catalog.ranges import version_key
from torchsmith.core.text import some_of
from torchsmith.matrix.variant import Variant

MOST_FEATURES = 6  # of a CPU in a sentence


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes by part."""

    gpu_code: int
    own_libraries: int  # without their GPU code
    bundled_libraries: int
    other_files: int

    @property
    def total(self) -> int:
        return self.gpu_code + self.own_libraries + self.bundled_libraries + self.other_files


@dataclass(frozen=True, slots=True)
class CpuSummary:
    """The features that the CPU code needs, and how much of it was read."""

    text: str  # which CPUs run it, in a sentence
    complete: bool  # all of its code outside dispatch is known, and was read
    features: tuple[str, ...]  # of its own functions, beyond the oldest CPU
    dispatched: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RecordedRow:
    """A command line of the compiler that own libraries record."""

    line: str
    mark: Mark
    libraries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """All that is known about an artifact, and the verdict."""

    path: str
    kind: str
    variant: str
    ok: bool  # nothing is wrong
    verified: bool  # a variant was named, nothing is wrong, and every promise was judged
    checks: tuple[Check, ...]
    machine: str
    versions: dict[str, str]
    python: str
    gpu: tuple[TargetRow, ...]
    containers: int
    services: tuple[Service, ...]
    cpu: CpuSummary | None
    sizes: Sizes
    libraries: dict[str, int]
    gpu_by_library: dict[str, list[str]]  # kinds and targets
    needs: tuple[Need, ...]
    system: str = ""  # the oldest macOS that its libraries run on; empty: Linux
    releases: dict[str, str] = field(default_factory=dict)  # of CUDA and other backends, by their titles
    recorded: tuple[RecordedRow, ...] = ()  # the compiler's command lines; none: it does not record its flags
    unrecorded_only: bool = False  # verified, if it recorded its flags: nothing else is wrong or not judged


def verify(
    path: Path,
    variant: Variant | None,
    catalog: Catalog,
    progress: Progress = silent,
    *,
    cpu: bool = True,
    line: Line | None = None,
    gpus: Sequence[AnyGpu] = (),
) -> Report:
    """Read an artifact and check it; `line` is the one that it is built with, if that is known. How it
    serves `gpus` is reported, by default all of its platform."""
    package = variant.package if variant else None
    build = inspect(path, progress, package, catalog, cpu=cpu)
    return report_of(build, variant, catalog, line or line_in(path, catalog), gpus)


def report_of(
    build: Inspection,
    variant: Variant | None,
    catalog: Catalog,
    line: Line | None = None,
    gpus: Sequence[AnyGpu] = (),
) -> Report:
    """An inspection and its verdict, put together."""
    checks = check_build(build, variant, catalog, line)
    code = gpu_code(library.containers for library in build.own)
    own = sum(library.size for library in build.own)
    bundled = sum(library.size for library in build.libraries if library.role != "own")
    return Report(
        path=build.path,
        kind=build.kind,
        variant=variant.name if variant else "",
        ok=passed(checks),
        verified=variant is not None and proved(checks),
        checks=tuple(checks),
        machine=build.machine or "",
        system=", ".join(sorted({library.system for library in build.own if library.system})),
        versions={str(package): version for package, version in build.versions.items()} | build.foreign,
        releases={
            backend.title: stated
            for name, backend in catalog.backends.items()
            if (stated := _releases(build, name))
        },
        python=", ".join(map(str, build.pythons)),
        gpu=code.rows,
        containers=code.containers,
        services=tuple(_services(build, code.rows, gpus, catalog)),
        cpu=_cpu_summary(build),
        sizes=Sizes(code.size, own - code.size, bundled, build.other_bytes),
        libraries={library.name: library.size for library in build.libraries},
        gpu_by_library={
            part.name: target_names(gpu_code([part.containers]).rows) for part in build.own if part.containers
        },
        needs=tuple(build.needs),
        recorded=tuple(
            RecordedRow(line.text, line.mark, tuple(part.name for part in build.own if line in part.recorded))
            for line in build.recorded
        ),
        unrecorded_only=variant is not None
        and not build.recorded
        and not proved(checks)
        and proved(check for check in checks if check.id != "flags"),
    )


def _services(
    build: Inspection, rows: Iterable[TargetRow], gpus: Sequence[AnyGpu], catalog: Catalog
) -> list[Service]:
    """How some GPUs are served, or those of its platform and of makers for which there is code."""
    makers = {isinstance(row.target, NamedTarget) for row in rows if row.kind != CodeKind.METALLIB}
    here = [
        gpu
        for gpu in catalog.gpus.values()
        if False in makers and any(place.startswith(build.machine or "") for place in gpu.platforms)
    ]
    listed = gpus or [*here, *(catalog.gfx.values() if True in makers else ())]
    return services(((library.name, library.containers) for library in build.own), listed, catalog)


def _releases(build: Inspection, backend: str) -> str:
    """The releases of a backend that are stated, without major numbers of those that are stated exactly."""
    stated = [toolkit for toolkit in build.toolkits if toolkit.backend == backend]
    exact = [toolkit for toolkit in stated if not isinstance(toolkit.release, int)]
    named = [one for one in stated if one in exact or not any(one.agrees(other.release) for other in exact)]
    return ", ".join(sorted((str(toolkit.release) for toolkit in named), key=version_key))


def _cpu_summary(build: Inspection) -> CpuSummary | None:
    code = combined(build)
    if code is None:
        return None
    return CpuSummary(
        text="; ".join(_cpu_text(build, code)),
        complete=code.complete and not (code.unnamed.features or code.undecoded),
        features=tuple(sorted(code.own.features)),
        dispatched=code.dispatched,
    )


def _cpu_text(build: Inspection, code: CpuCode) -> Iterator[str]:
    """Which CPUs run its code, and what of it is not known."""
    used = some_of(sorted(code.own.features), MOST_FEATURES)
    either = some_of(sorted(code.own.features | code.unnamed.features), MOST_FEATURES)
    complete = code.complete and not code.undecoded
    if used and any(library.package and library.package.chooses for library in build.own):
        yield f"unknown: some of its code uses {either}, and it asks the CPU at run time which code to use"
    elif used and used == either:
        yield f"needs {used}"
    elif either:
        least = f"needs {used} at least" if used else "unknown"
        yield f"{least}: some of its code uses {either}, perhaps only if the CPU has it"
    elif complete:
        yield f"runs on any {code.machine}"
    if code.dispatched:
        kernels = (name.replace("AVX512", "AVX-512").replace("_", " ") for name in code.dispatched)
        yield f"faster kernels for {' and '.join(kernels)}"
    if not complete:
        yield "not all of its code could be read"
