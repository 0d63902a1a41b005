"""The wheel that PyTorch itself publishes for a machine, and what one loses with it."""

from __future__ import annotations

import msgspec

from torchsmith.catalog import Catalog, GpuTarget, Sm
from torchsmith.catalog.facts import Wheel
from torchsmith.catalog.runs import driver_runs, gpu_code_runs
from torchsmith.host.resolve import Capability


class Stock(msgspec.Struct, frozen=True):
    """A wheel that runs here, and what it lacks against a build made for the machine."""

    wheel: Wheel
    losses: tuple[str, ...]


def stock_wheel(host: Capability, catalog: Catalog) -> Stock | None:
    """The newest release's wheel that uses every GPU here with this driver, else the one for the CPU."""
    mine = [wheel for wheel in catalog.wheels.values() if host.system in (None, wheel.system)]
    if host.system is None:
        mine = [wheel for wheel in mine if wheel.system == "x86_64-linux"]
    sms = host.sms or ()
    for wheel in mine:
        if wheel.cuda is not None and sms:
            losses = _gpu_losses(wheel, sms, host, catalog)
            if losses is not None:
                return Stock(wheel, (*losses, *_other_losses(wheel)))
    for wheel in mine:
        if wheel.cuda is None:
            idle = (f"{', '.join(map(str, sms))} stays idle: no stock wheel uses it with this driver",)
            return Stock(wheel, (*(idle if sms else ()), *_other_losses(wheel)))
    return None


def _gpu_losses(
    wheel: Wheel, sms: tuple[Sm, ...], host: Capability, catalog: Catalog
) -> tuple[str, ...] | None:
    """What the GPUs lose; None where one of them, or the driver, does not run it."""
    assert wheel.cuda is not None
    toolkit = catalog.cuda.get(wheel.cuda)
    if toolkit is None or (host.driver is not None and not driver_runs(toolkit, host.driver)):
        return None
    losses = []
    for sm in sms:
        gpu = catalog.gpus.get(sm)
        if gpu is None or (host.driver is not None and host.driver < gpu.min_driver):
            return None
        if sm in wheel.sms:
            continue
        known = catalog.gpus
        near = [one for one in wheel.sms if gpu_code_runs("cubin", GpuTarget(one), known.get(one), gpu)]
        if near:
            losses.append(f"{sm} runs code that was compiled for {max(near)}")
        elif wheel.ptx is not None and gpu_code_runs("ptx", GpuTarget(wheel.ptx), None, gpu):
            losses.append(f"the driver compiles code of {wheel.ptx} for {sm} at the first start")
        else:
            return None
    return tuple(losses)


def _other_losses(wheel: Wheel) -> tuple[str, ...]:
    rest = "outside of dispatched kernels the CPU code is for any x86_64, without AVX"
    if wheel.system == "aarch64-linux":
        rest = "outside of dispatched kernels the CPU code is for any ARMv8-A"
    many = f"it carries code for {len(wheel.sms)} GPU architectures" if len(wheel.sms) > 1 else ""
    return tuple(filter(None, (many, rest)))
