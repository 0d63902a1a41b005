"""What runs on what: GPU code on GPUs, instruction sets on CPUs, CUDA on drivers, with reasons."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

import msgspec

from torchsmith.catalog.axes import DriverVersion, GpuTarget, NamedTarget
from torchsmith.catalog.facts import CudaToolkit, Gfx, Gpu, Isa, RetiredGpu
from torchsmith.core.text import listed, some_of

Code = Literal["cubin", "ptx"]
NvidiaGpu = Gpu | RetiredGpu


class Runs(msgspec.Struct, frozen=True):
    """It runs; `how` says whether at once, by compiling first, or within limits."""

    how: Literal["native", "jit", "compatible"]
    reason: str

    def __bool__(self) -> bool:
        return True


class RunsNot(msgspec.Struct, frozen=True):
    """It does not run, and why."""

    reason: str

    def __bool__(self) -> bool:
        return False


Verdict = Runs | RunsNot


def gpu_code_runs(kind: Code, target: GpuTarget, built_for: Gpu | None, gpu: NvidiaGpu) -> Verdict:
    """Whether code for `target` runs on `gpu`; `built_for` is the catalog's entry of the target's SM."""
    name, needed, older = f"sm{target}", target.sm.capability, f"{gpu.name} is older"
    if target.form == "a":
        if target.sm == gpu.sm:
            return _native(kind, f"{name} is exactly {gpu.name}")
        return RunsNot(f"{name} code runs only on sm{target.sm.number} GPUs, not on {gpu.name}")
    if target.form == "" and kind == "ptx":
        if gpu.sm >= target.sm:
            return Runs("jit", f"PTX for {name} is compiled by the driver for {gpu.name}")
        return RunsNot(f"PTX for {name} needs capability {needed} or newer; {older}")
    if gpu.sm.major != target.sm.major:
        only = f"{name} code runs only on {target.sm.major}.x GPUs"
        return RunsNot(f"{only}; {gpu.name} is {gpu.sm.capability}")
    if gpu.sm.minor < target.sm.minor:
        return RunsNot(f"{name} code needs capability {needed} or newer; {older}")
    if gpu.sm != target.sm and built_for is not None and built_for.tegra != gpu.tegra:
        return RunsNot(f"{name} and {gpu.name} are not compatible: one of them is a Tegra part")
    word = "its own" if gpu.sm == target.sm else f"compatible {name}"
    return _native(kind, f"{gpu.name} runs {word} code")


def _native(kind: Code, reason: str) -> Runs:
    return Runs("native" if kind == "cubin" else "jit", reason)


# Modes that AMD's GPUs are not in unless they are switched: retried page faults are off, ECC is on.
UNUSUAL = {"xnack+": "HSA_XNACK=1", "sramecc-": "a GPU whose ECC is off"}


def gfx_code_runs(target: NamedTarget, gpu: Gfx) -> Verdict:
    """Whether machine code for `target` runs on one of AMD's GPUs as it is started by default."""
    if target.arch not in (gpu.name, gpu.generic):
        return RunsNot(f"{target.arch} code does not run on {gpu.name}")
    if unusual := [needs for mode, needs in UNUSUAL.items() if mode in target.modes]:
        return RunsNot(f"{target} code needs {listed(unusual)}")
    word = "its own" if target.arch == gpu.name else f"the generic {target.arch}"
    return Runs("native", f"{gpu.name} runs {word} code")


def isa_runs(isa: Isa, features: Collection[str]) -> Verdict:
    """Whether a CPU with these features runs code of an instruction set."""
    missing = sorted(isa.needs.difference(features))
    if missing:
        return RunsNot(f"{isa.name} needs {some_of(missing, 3)}, which the CPU lacks")
    return Runs("native", f"the CPU supports {isa.title}")


def driver_reaches(driver: DriverVersion, needed: DriverVersion) -> bool | None:
    """Whether a driver is at least another; None if only its branch is known, and the branch has both."""
    if driver < needed and len(driver.parts) == 1 and driver.parts[0] == needed.parts[0]:
        return None
    return driver >= needed


def driver_ended(driver: DriverVersion, gpu: NvidiaGpu) -> bool:
    """Whether a driver is of a newer series than the last that knows a GPU.

    Linux numbers a series by its first number (580.95.05); Windows counts up within it (581.80)."""
    return gpu.last_driver is not None and driver.parts[0] >= gpu.last_driver.parts[0] + 10


def drivers_of(toolkit: CudaToolkit, *, windows: bool) -> tuple[DriverVersion, DriverVersion | None]:
    """The oldest driver that runs a CUDA release, and the one that it came with: Windows numbers its own."""
    if windows and toolkit.windows_min_driver is not None:
        return toolkit.windows_min_driver, toolkit.windows_driver
    return toolkit.min_driver, toolkit.native_driver


def driver_runs(toolkit: CudaToolkit, driver: DriverVersion, *, windows: bool = False) -> Verdict:
    """Whether a driver runs programs of a CUDA release; a branch counts as its newest driver."""
    oldest, native = drivers_of(toolkit, windows=windows)
    if native is not None and driver_reaches(driver, native) is not False:
        return Runs("native", f"driver {driver} supports CUDA {toolkit.version}")
    if driver_reaches(driver, oldest) is not False:
        why = f"driver {driver} runs CUDA {toolkit.version} by minor-version compatibility"
        ptx = "PTX does not" if native else "PTX: the driver that came with it is not known"
        return Runs("compatible", f"{why} (compiled kernels work, {ptx})")
    whose = " of Windows" if windows else ""
    return RunsNot(f"CUDA {toolkit.version} needs driver {oldest}{whose} or newer; this one is {driver}")
