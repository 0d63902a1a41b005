"""`torchsmith verify`: read a build, and check it against its name."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, NamedTuple

import msgspec

from torchsmith.artifact import report as artifact
from torchsmith.artifact.check import Check, megabytes
from torchsmith.artifact.gpu import AnyGpu, GpuVerdict, Service, of_maker, target_name
from torchsmith.artifact.report import Report
from torchsmith.artifact.verdict import promised
from torchsmith.building.by_name import find_build
from torchsmith.catalog import Catalog
from torchsmith.catalog.facts import IntelGpu
from torchsmith.catalog.gpu_names import (
    BETWEEN,
    gpu_by_name,
    host_of_name,
    instance_of,
    mac_chip,
    system_of_instance,
)
from torchsmith.catalog.suggest import unknown_gpu
from torchsmith.cli.console import answer, columns, exit_if, next_step, paint, table, write
from torchsmith.cli.nix_options import takes_sample
from torchsmith.cli.options import JsonOption, VariantOption, WorkspaceOption, complete_gpus
from torchsmith.cli.reporter import SILENT, Reporter, Terminal
from torchsmith.cli.request import Argument, Option, Request
from torchsmith.cli.samples import or_sample
from torchsmith.core.problem import Invalid, Problem
from torchsmith.core.text import counted, grouped, shell_word
from torchsmith.nix.tool import in_own_store, stored
from torchsmith.publishing.verified import verdict_of
from torchsmith.record import open_record
from torchsmith.workspace.load import open_workspace

EXAMPLE = "torchsmith verify sample --variant pytorch-python313-cuda13_0-sm120-avx512"
MOST_LIBRARIES = 40  # rows; JSON has all
MARKS = {"right": ("✓", "green"), "wrong": ("✗", "red"), "note": ("▲", "yellow"), "unjudged": ("?", "yellow")}
ANSWERS = {True: ("yes,", "green"), False: ("no:", "red"), None: ("not applicable:", "yellow")}
WAYS: dict[GpuVerdict, str] = {
    "native": "native code for",
    "compatible": "compatible code for",
    "jit": "compiled at first start for",
    "partly": "in part for",
    "no": "no code for",
}


@dataclass(frozen=True, kw_only=True)
class VerifyRequest(Request):
    """Which build to read, and what it should be."""

    path: Annotated[
        Path,
        Argument(
            "A build's name (REPO/NAME if two repositories have it) or a selector of one build, a result"
            " link, a store path, a wheel, a site-packages folder, one .so, or the word sample.",
            metavar="PATH",
        ),
    ]
    variant: VariantOption = None
    gpu: Annotated[
        Sequence[str],
        Option(
            "Answer whether it has code for this GPU, by name or architecture: 'RTX 4090', sm90, gfx942.",
            complete=complete_gpus,
        ),
    ] = ()
    no_cpu: Annotated[bool, Option("Skip the CPU code (faster).")] = False
    workspace: WorkspaceOption = None


class GpuAnswer(msgspec.Struct, frozen=True):
    """Whether a build runs on a GPU."""

    gpu: str  # as it was asked for
    sm: str  # or another maker's architecture
    runs: bool | None  # null: not applicable, as it brings no GPU code
    why: str


class VerifyReport(msgspec.Struct, frozen=True):
    """What a build contains, checked against its name; with `--gpu`, whether it runs on these GPUs."""

    FORMAT: ClassVar[int] = 4
    report: Report
    gpus: Sequence[GpuAnswer] = ()


def verify(request: VerifyRequest, reporter: Reporter = SILENT) -> VerifyReport:
    """Return which GPUs and CPUs a build serves, and whether it is what its name promises.

    The verdict on the last build of a recipe is recorded for `publish` and the page.
    """
    opened = open_workspace(request.workspace)
    # A name of a build has dashes and may hold one of a GPU.
    if request.variant and "-" not in request.variant and gpu_by_name(request.variant, opened.catalog):
        hint = f"--gpu {shell_word(request.variant)} answers whether it runs there"
        raise Invalid(f"{request.variant} is a GPU, not the name of a build", hint=hint)
    found = find_build(or_sample(request.path, "torch.whl"), opened)
    path = found.path
    promise = promised(request.variant or found.cell, path, opened.catalog)
    catalog = opened.catalog
    asked = _asked(request.gpu, catalog) if request.gpu else []
    cpu = not request.no_cpu and (promise is not None or not asked)
    name = opened.line_of(promise) if promise is not None and opened.root is not None else None
    line = catalog.lines[name] if name else None
    with reporter.progress() as progress:
        report = artifact.verify(
            path,
            promise,
            catalog,
            progress,
            cpu=cpu,
            line=line,
            gpus=[gpu.arch for gpu in asked if gpu.arch],
        )
    complete = found.name and not (request.variant or request.no_cpu or asked)
    if complete and opened.root is not None:
        try:
            _record(report, found.name, opened.root)
        except Problem as problem:
            reporter.note(f"the verdict was not recorded: {problem.message}")
    services = iter(report.services)
    # An unknown package, or one without compiled code, may need no GPU code of its own.
    built = report.kind == "library" or any(
        catalog.packages[name].cpu_flags for name in report.versions if name in catalog.packages
    )
    answers = [
        _answer(gpu, next(services), report, built=built) if gpu.arch else _of_mac(gpu, report)
        for gpu in asked
    ]
    return VerifyReport(report, answers)


class AskedGpu(NamedTuple):
    """A GPU that a person names."""

    name: str
    arch: AnyGpu | None  # None: of a Mac, whose GPUs all run the same code
    system: str  # of its machine, if that is the only one; empty: any


def _asked(names: Sequence[str], catalog: Catalog) -> list[AskedGpu]:
    """The GPUs that are named. Raises NotKnown."""
    asked = []
    for name in (part.strip() for word in names for part in BETWEEN.split(word)):
        arch = gpu_by_name(name, catalog)
        if isinstance(arch, IntelGpu) or (arch is None and not mac_chip(name, catalog)):
            raise unknown_gpu(name, catalog)
        asked.append(AskedGpu(name, arch, _system_of(name, catalog)))
    return asked


def _system_of(name: str, catalog: Catalog) -> str:
    """The system of the machine of a GPU or a machine type; empty if it may be any."""
    if instance := instance_of(name, catalog):
        return system_of_instance(instance, catalog)
    cpu = catalog.cpus.get(host_of_name(name, catalog))
    return cpu.platform if cpu else ""


def _of_mac(gpu: AskedGpu, report: Report) -> GpuAnswer:
    """Whether the GPU of a Mac runs the code of a build, which depends on the release of macOS alone."""
    metal = [row.target.arch for row in report.gpu if row.target.arch.startswith("macos")]
    runs: bool | None = report.system.startswith("macos") and report.machine == "aarch64"
    if not runs:
        why = "its libraries are not for macOS on Apple silicon"
    elif metal:
        why = f"Metal code for macOS {metal[0].removeprefix('macos')} or newer"
    elif runs := "pytorch" in report.versions:
        why = "without a Metal library, its shaders are compiled when it runs"
    else:
        runs, why = None, "it has no Metal library, and shaders that it may compile when it runs are not read"
    return GpuAnswer(gpu.name, "mps", runs, why)


def _answer(gpu: AskedGpu, service: Service, report: Report, *, built: bool) -> GpuAnswer:
    """Whether a GPU runs all GPU code of a build; of one without, no if it is `built` for GPUs or the CPU."""
    code = ", ".join(service.by)
    runs: bool | None = service.verdict not in ("partly", "no")
    machine = gpu.system.partition("-")[0]
    if machine and report.machine and machine != report.machine:
        runs, why = False, f"its libraries are for {report.machine}, the GPU's machine is {machine}"
    elif not report.gpu:
        runs, why = (False, "it has no GPU code") if built else (None, "it brings no GPU code")
    elif service.verdict == "no":
        same = [row.target for row in report.gpu if gpu.arch and of_maker(row.target, gpu.arch)]
        targets = dict.fromkeys(map(target_name, same or [row.target for row in report.gpu]))
        why = f"its code is for {', '.join(targets)}"
    elif not runs:
        why = f"{service.none} of {service.total} compiled files have no code for it"
    elif service.verdict == "jit":
        why = f"compiled by the driver at the first start from code for {code}"
    else:
        why = f"by code for {code}" if service.compatible > service.native else "native code"
    return GpuAnswer(gpu.name, service.sm, runs, why + _releases(service))


def _releases(service: Service) -> str:
    """The releases whose libraries alone an answer is about, if there are others."""
    title = "ROCm" if service.sm.startswith("gfx") else "CUDA"
    return f" in the libraries for {title} {', '.join(service.releases)} alone" if service.releases else ""


def _special(services: Sequence[Service]) -> str:
    """The compiled files that are for other GPUs alone, which no answer is about."""
    counts = {(row.extra, row.total + row.extra, row.extra_for) for row in services if row.extra}
    return "; ".join(
        f"{extra} of {total} compiled files are for {', '.join(targets)} alone"
        for extra, total, targets in sorted(counts)
    )


def _record(report: Report, name: str, root: Path) -> None:
    """Record the verdict on the last build of a recipe, unless something could not be judged."""
    if report.ok and not report.verified:
        return
    with closing(open_record(root)) as record:
        built = record.built(name)
        if built and built.outputs and stored(built.outputs[0]).resolve() == Path(report.path).resolve():
            record.note_verdict(verdict_of(report, name, built.outputs[0], built.derivation))


def run(*, request: VerifyRequest, json: JsonOption = False) -> None:
    """Read a build: which GPUs and CPUs it serves, and whether it is what its name promises.

    The name is taken from the path if the path has one. Nothing is run and no GPU is needed:
    libraries of either CPU architecture are read on any machine. The exit code is 1 if something is wrong.
    """
    verified = verify(request, Terminal())
    report = verified.report
    answer(verified, _print_gpus if verified.gpus else _print_verified, as_json=json)
    folder = Path(report.path)
    sample = takes_sample(os.environ.get("TORCHSMITH_NIXPKGS", "").split())  # of it nothing computes
    if report.ok and not verified.gpus and folder.is_dir() and not (sample or in_own_store(folder)):
        alone = "pytorch" not in report.versions and not (folder / "nix-support").is_dir()
        why = "run it on this machine" + (", with a torch beside it" if alone else "")
        next_step("test", str(request.path), workspace=request.workspace, why=why)
    exit_if(not (report.ok and all(gpu.runs is not False for gpu in verified.gpus)))


def _print_gpus(verified: VerifyReport) -> None:
    """Print a line for each GPU that was asked for, and what is wrong."""
    for gpu in verified.gpus:
        name = gpu.gpu if gpu.gpu == gpu.sm else f"{gpu.gpu} ({gpu.sm})"
        said, style = ANSWERS[gpu.runs]
        write(f"{name}: {said} {gpu.why}", style)
    if special := _special(verified.report.services):
        write(special, "dim")
    print_checks([check for check in verified.report.checks if check.status == "wrong"])


def _print_verified(verified: VerifyReport) -> None:
    report = verified.report
    write(f"{report.path} ({report.kind}, {megabytes(report.sizes.total)})", "bold")
    columns([row for row in _rows(report) if row[1]], ("cyan",))
    if report.gpu:
        rows = [(f"{row.kind} {row.target}", megabytes(row.size)) for row in report.gpu]
        table(("GPU code", "size"), rows, right=("size",))
    if len(report.gpu_by_library) > 1:
        libraries = [(name, ", ".join(code)) for name, code in report.gpu_by_library.items()]
        shown = libraries[:MOST_LIBRARIES]
        if more := len(libraries) - len(shown):
            shown.append((f"and {more} more", ""))
        table(("library", "GPU code"), shown, broken=("GPU code",))
    print_checks(report.checks)
    write(*_verdict(report))


def _rows(report: Report) -> list[tuple[str, str]]:
    elsewhere = [need.name for need in report.needs if need.found == "elsewhere"]
    return [
        ("versions", ", ".join(f"{package} {version}" for package, version in report.versions.items())),
        *report.releases.items(),
        ("Python", report.python),
        ("architecture", report.machine),
        ("system", report.system),
        ("size", _sizes(report)),
        *_gpu_rows(report.services),
        ("other GPUs", _special(report.services)),
        ("GPU code", "" if report.gpu else "none"),
        ("CPU", report.cpu.text if report.cpu else ""),
        ("from other packages", ", ".join(elsewhere)),
    ]


def _gpu_rows(services: Sequence[Service]) -> Iterator[tuple[str, str]]:
    """A row for each way in which GPUs of one maker are served."""
    for verdict, title in WAYS.items():
        for amd in (False, True):
            row = [
                service
                for service in services
                if service.verdict == verdict and service.sm.startswith("gfx") is amd
            ]
            names = [
                (_manner(gpu), gpu.sm if amd else f"{gpu.sm} ({gpu.title.partition(',')[0]})") for gpu in row
            ]
            yield title, "; ".join(f"{', '.join(alike)}{how}" for how, alike in grouped(names).items())


def _manner(service: Service) -> str:
    """By which code, or in how many containers, a GPU is served."""
    if service.verdict == "partly":
        return f" in {service.total - service.none} of {service.total} compiled files"
    by = f" by code for {', '.join(service.by)}" if service.verdict in ("compatible", "jit") else ""
    return by + _releases(service)


def _sizes(report: Report) -> str:
    sizes = report.sizes
    parts = {
        "GPU code": sizes.gpu_code,
        "rest of its libraries": sizes.own_libraries,
        "bundled libraries": sizes.bundled_libraries,
        "other files": sizes.other_files,
    }
    return ", ".join(f"{name} {megabytes(size)}" for name, size in parts.items() if size)


def print_checks(checks: Sequence[Check], indent: str = "") -> None:
    """Print each check, and its hint on the next line."""
    for check in checks:
        mark, style = MARKS[check.status]
        write(f"{indent}{paint(mark, style)} {paint(f'{check.id}:', 'bold')} {check.text}")
        if check.hint:
            write(f"{indent}    {check.hint}", "cyan")


def _verdict(report: Report) -> tuple[str, str]:
    if not report.ok:
        faults = counted(sum(check.status == "wrong" for check in report.checks), "fault")
        return f"{faults} found" + (f": it is not {report.variant}" if report.variant else ""), "bold red"
    if report.variant and not report.verified:
        unjudged = ", ".join(check.id for check in report.checks if check.status == "unjudged")
        return f"not verified: no fault found, but not everything could be checked ({unjudged})", "yellow"
    if report.variant:
        return f"it is what {report.variant} promises", "bold green"
    return "no fault found; --variant NAME checks it against a name", "green"
