"""Running a built package in a child process, and what its results mean for a variant."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec.structs import asdict

from torchsmith.artifact.interpreter import Interpreter, packages_at
from torchsmith.catalog import Catalog, GpuTarget, Package, Sm
from torchsmith.catalog.runs import Runs, gpu_code_runs
from torchsmith.core import driver
from torchsmith.core.process import Finished, run, signal_name
from torchsmith.core.text import printable
from torchsmith.matrix.variant import Accelerator, Cuda, Variant

PROBE = Path(__file__).with_name("probe.py")
START = "import sys; path = sys.argv[1]; exec(compile(open(path).read(), path, 'exec'))"
MOST_STDOUT = 8 << 20  # bytes that are kept from the beginning
MOST_STDERR = 64 << 10  # bytes that are kept from the end
STDERR_TAIL = 2000  # characters

StepOutcome = Literal["passed", "failed", "skipped"]


class Start(msgspec.Struct, tag_field="event", tag="start"):
    """A step that begins."""

    step: str


class End(msgspec.Struct, tag_field="event", tag="end"):
    """A step that ended."""

    step: str
    status: StepOutcome
    detail: str
    seconds: float


class ImportedModule(msgspec.Struct, tag_field="event", tag="module"):
    """A package that was imported."""

    file: str


class BuildFacts(msgspec.Struct, tag_field="event", tag="facts"):
    """The facts that a build reports about itself."""

    torch: str
    python: str
    machine: str
    cuda: str
    arch_list: list[str]
    cpu_capability: str
    free_threaded: bool = False
    hip: str = ""  # of a build for AMD GPUs
    metal: bool = False


class Device(msgspec.Struct, tag_field="event", tag="gpu"):
    """A GPU of this machine."""

    device: str
    name: str
    capability: tuple[int, int]
    arch: str = ""  # of another maker than NVIDIA


class LoadedDriver(msgspec.Struct, tag_field="event", tag="driver"):
    """The driver's library that a build for CUDA loaded; empty if it found none."""

    file: str


class Done(msgspec.Struct, tag_field="event", tag="done"):
    """The probe ended."""


ProbeMessage = Start | End | ImportedModule | BuildFacts | Device | LoadedDriver | Done


@dataclass(frozen=True, slots=True)
class StepResult:
    """One step: three different outcomes, and why."""

    step: str
    outcome: StepOutcome
    detail: str = ""
    hint: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class SmokeTest:
    """A package that was run."""

    path: str
    variant: str
    python: str
    ok: bool
    results: tuple[StepResult, ...]
    facts: dict[str, Any]
    gpus: tuple[dict[str, Any], ...]
    command: str


def smoke_test(
    path: Path, interpreter: Interpreter, variant: Variant | None, catalog: Catalog, limit: float
) -> SmokeTest:
    """Run the variant's package, or all that are there, in a child process, which may crash."""
    requests = [_probe_request(package) for package in _under_test(interpreter, variant, catalog)]
    argv = [str(interpreter.python), "-s", "-c", START, str(PROBE), json.dumps(requests)]
    environment = interpreter.environment(dict(os.environ))
    done = run(
        argv,
        timeout=limit,
        env=environment,
        cwd="/",
        max_stdout=MOST_STDOUT,
        max_stderr=MOST_STDERR,
        ends_with_us=True,
    )
    here = [file for file in driver.DRIVER_LIBRARIES if os.path.exists(file)]
    return interpret(path, interpreter, done, variant, catalog, here)


def _under_test(interpreter: Interpreter, variant: Variant | None, catalog: Catalog) -> list[Package]:
    return [variant.package] if variant else packages_at(interpreter.folders, catalog)


def _probe_request(package: Package) -> dict[str, Any]:
    """What the probe needs to know of a package."""
    torch = package.is_torch or package.needs_torch
    return {"name": package.name, "module": _module(package), "trial": package.trial, "torch": torch}


def _module(package: Package) -> str:
    return package.modules[0] if package.modules else package.attr.rpartition(".")[2].replace("-", "_")


def interpret(
    path: Path,
    interpreter: Interpreter,
    done: Finished,
    variant: Variant | None,
    catalog: Catalog,
    here: Sequence[str] = (),
) -> SmokeTest:
    """Results from the probe's messages and its exit; `here` are this machine's driver libraries."""
    events = list(_events(done.stdout))
    facts = next((event for event in events if isinstance(event, BuildFacts)), None)
    files = [event.file for event in events if isinstance(event, ImportedModule)]
    gpus = [event for event in events if isinstance(event, Device)]
    packages = _under_test(interpreter, variant, catalog)
    results = [_result(event, packages, catalog) for event in events if isinstance(event, End)]
    if not events or not isinstance(events[-1], Done):
        results.append(_ending(events, done, catalog))
    own = {_module(package) for package in packages}
    drivers = [_driver(event.file, here) for event in events if isinstance(event, LoadedDriver)]
    results += [*drivers, *_place(path, files, own), *_promises(facts, gpus, variant, catalog)]
    return SmokeTest(
        path=str(path),
        variant=variant.name if variant else "",
        python=str(interpreter.python),
        ok=all(result.outcome != "failed" for result in results),
        results=tuple(results),
        facts=asdict(facts) if facts else {},
        gpus=tuple(map(msgspec.to_builtins, gpus)),
        command=done.line,
    )


def _events(text: str) -> Iterator[ProbeMessage]:
    for line in text.splitlines():
        try:
            yield msgspec.convert(_readable(json.loads(line)), ProbeMessage)
        except (ValueError, RecursionError):
            continue  # a line that the crash cut off, or that no probe wrote


def _readable(value: Any) -> Any:
    """A probe's output without control characters; lines stay lines."""
    if isinstance(value, str):
        return "\n".join(printable(line) for line in value.splitlines())
    if isinstance(value, list):
        return [_readable(item) for item in value]
    if isinstance(value, dict):
        return {printable(str(name)): _readable(item) for name, item in value.items()}
    return value


def _result(event: End, packages: Sequence[Package], catalog: Catalog) -> StepResult:
    hint = explain(event.detail, catalog) if event.status == "failed" else ""
    if hint and event.step == "import torch" and not any(package.is_torch for package in packages):
        names = " and ".join(package.title for package in packages)
        hint = f"{names} needs a torch beside it: --python names a Python that has one"
    return StepResult(event.step, event.status, event.detail, hint, event.seconds)


def explain(text: str, catalog: Catalog) -> str:
    """What is known about a failure that a message shows: its cause and its fix."""
    for error in catalog.errors.values():
        if error.pattern and re.search(error.pattern, text):
            return f"{error.cause} {error.fix}"
    return ""


def _ending(events: list[ProbeMessage], done: Finished, catalog: Catalog) -> StepResult:
    """A child that did not come to its end: in which step, and how."""
    started = [event.step for event in events if isinstance(event, Start)]
    ended = {event.step for event in events if isinstance(event, End)}
    step = next((name for name in reversed(started) if name not in ended), "the run as a whole")
    stderr = _readable(done.stderr.strip()[-STDERR_TAIL:])
    if done.timed_out:
        late = f"still running after {done.seconds:.0f} s, and ended"
        return StepResult(step, "failed", late, "raise --timeout")
    name = signal_name(done.code)
    how = f"crashed: {name}" if name else f"ended with exit code {done.code}"
    last = stderr.splitlines()[-1] if "Traceback (most recent call last)" in stderr else stderr
    return StepResult(step, "failed", f"{how}. {last}".strip(), explain(name or stderr, catalog))


def _driver(loaded: str, here: Sequence[str]) -> StepResult:
    """Whether a build finds the driver of this machine: only NixOS has it where builds of Nix look."""
    step = f"find the driver's {driver.LIBRARY}"
    if loaded:
        return StepResult(step, "passed", loaded)
    if not here:
        return StepResult(step, "skipped", "no NVIDIA driver is installed here")
    folder = os.path.dirname(here[0])
    command = driver.driver_link_command(folder)
    hint = f"{command}   # until a restart; or name links of your own in LD_LIBRARY_PATH"
    return StepResult(step, "failed", f"it is in {folder}, where this build does not look", hint)


def _place(path: Path, files: list[str], modules: set[str]) -> Iterator[StepResult]:
    """That the package under test was run, and not another one of the same name."""
    for file in map(Path, files):
        name = file.parent.name if file.name == "__init__.py" else file.name.partition(".")[0]
        if name not in modules:
            continue  # the torch that it runs with may be anywhere
        inside = file.is_relative_to(path) or file.resolve().is_relative_to(path.resolve())
        yield StepResult(
            f"{name} is the one under test",
            "passed" if inside else "failed",
            str(file),
            "" if inside else "another of that name comes first: try --python with a bare interpreter",
        )


def _promises(
    facts: BuildFacts | None, gpus: list[Device], variant: Variant | None, catalog: Catalog
) -> Iterator[StepResult]:
    """The facts of the run against the variant's name."""
    if variant is None or facts is None:
        return
    python = ".".join(facts.python.split(".")[:2]) + ("t" if facts.free_threaded else "")
    isa = catalog.isas.get(variant.isa)
    if isa is not None:
        machine = {"arm64": "aarch64"}.get(facts.machine, facts.machine)  # as macOS calls it
        yield _same("CPU architecture", machine, isa.platform.partition("-")[0])
    yield _same("Python release", python, str(variant.python))
    yield _same("CUDA release", facts.cuda or "none", str(variant.cuda or "none"))
    target = variant.target
    other = target.version if isinstance(target, Accelerator) else None
    if facts.hip or (other and other.number):
        release = ".".join(facts.hip.split(".")[:2]) or "none"
        yield _same("ROCm release", release, str(other or "none"))
    if other and not other.number:
        yield _same("GPU backend", "Metal" if facts.metal else "none", "Metal")
    if variant.package.is_torch and variant.arch and (variant.sm or facts.hip):
        yield _arch_list(facts.arch_list, f"sm_{variant.sm.number}" if variant.sm else variant.arch)
    for gpu in gpus:
        if isinstance(target, Cuda):
            yield _right_gpu(gpu, variant, target, catalog)
        elif isinstance(target, Accelerator):
            right = gpu.arch == target.arch
            text = f"{gpu.name} is {gpu.arch or 'of another maker'}"
            text += "" if right else f", the build is for {target.arch}"
            yield StepResult(f"{gpu.device} is the build's GPU", "passed" if right else "failed", text)


def _same(what: str, actual: str, wanted: str) -> StepResult:
    if actual == wanted:
        return StepResult(what, "passed", actual)
    return StepResult(what, "failed", f"{actual}, the name says {wanted}")


def _arch_list(names: list[str], wanted: str) -> StepResult:
    names = [name.partition(":")[0] for name in names]
    if wanted in names:
        return StepResult("list of GPU targets", "passed", " ".join(names))
    if not names:
        return StepResult("list of GPU targets", "failed", f"torch was compiled for no GPU, not for {wanted}")
    return StepResult("list of GPU targets", "failed", f"{wanted} is not among {' '.join(names)}")


def _right_gpu(gpu: Device, variant: Variant, target: Cuda, catalog: Catalog) -> StepResult:
    """Whether a GPU of this machine is one that the variant is for; which variant is, otherwise."""
    here = Sm.of_capability(*gpu.capability)
    step, what = f"{gpu.device} is the build's GPU", f"{gpu.name} is {here}"
    if here == target.sm:
        return StepResult(step, "passed", what)
    better = variant.changed(target=Cuda(target.version, here)).name
    entry = catalog.gpus.get(here)
    built_for = catalog.gpus.get(target.sm)
    if entry and isinstance(gpu_code_runs("cubin", GpuTarget(target.sm), built_for, entry), Runs):
        return StepResult(step, "passed", f"{what}, which runs {target.sm} code; {better} is made for it")
    return StepResult(step, "failed", f"{what}, the build is for {target.sm}", f"use {better}")
