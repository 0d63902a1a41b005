"""The wheel that PyTorch itself publishes for a machine, and what one loses with it."""

from __future__ import annotations

import msgspec

from torchsmith.catalog import Catalog, Gpu, GpuTarget, Sm
from torchsmith.catalog.facts import Wheel
from torchsmith.catalog.gpu_names import gfx_of_name
from torchsmith.catalog.runs import (
    Runs,
    RunsNot,
    driver_ended,
    driver_reaches,
    driver_runs,
    drivers_of,
    gpu_code_runs,
)
from torchsmith.host.rank import driver_condition
from torchsmith.host.resolve import Capability
from torchsmith.host.tokens import words

# What a machine most likely is, of which nothing is known or that it is a Mac.
LIKELY = {None: "x86_64-linux", "any-darwin": "aarch64-darwin"}


class Stock(msgspec.Struct, frozen=True):
    """A wheel that runs here, what it lacks against a build for the machine, and what must be true."""

    wheel: Wheel
    losses: tuple[str, ...]
    provided: tuple[str, ...] = ()


def stock_wheel(host: Capability, catalog: Catalog) -> Stock | None:
    """The newest release's wheel that uses every GPU here with this driver, else the one for the CPU.

    The least demanding one where the driver is unknown; None where a GPU is there and nobody knows which.
    """
    if host.conflict or (host.unknown_gpus and not any(sm in catalog.gpus for sm in host.sms or ())):
        return None
    likely = LIKELY.get(host.system)
    system = likely or host.system
    mine = [wheel for wheel in catalog.wheels.values() if not wheel.rocm and wheel.system == system]
    assumed = (f"the machine is {likely}",) if likely else ()
    sms = host.sms or ()
    able = []
    for wheel in mine:
        if wheel.cuda is not None and sms:
            losses = _gpu_losses(wheel, sms, host, catalog)
            if losses is not None:
                conditions = tuple(text for _, text in host.spoken)
                provided = (*assumed, *conditions, *_driver_condition(wheel, sms, host, catalog))
                able.append(Stock(wheel, (*losses, *_other_losses(wheel, sms)), provided))
    if able:

        def rank(stock: Stock) -> tuple[int, tuple[int, ...]]:
            # Of an unknown driver, less is required where the CUDA release is older.
            cuda = stock.wheel.cuda if host.driver is None else None
            return len(stock.provided), catalog.cuda[cuda].min_driver.parts if cuda else ()

        return min(able, key=rank)
    for wheel in mine:
        if wheel.cuda is None:
            by = f" with driver {host.driver}" if host.driver else ""
            idle = (f"{', '.join(map(str, sms))} stays idle: no wheel of torch {wheel.torch} uses it{by}",)
            return Stock(wheel, (*(idle if sms else ()), *_other_losses(wheel, sms)), assumed)
    return None


def rocm_wheel(host: Capability, catalog: Catalog) -> Stock | None:
    """The wheel for AMD's GPUs of a machine; None where it has none, or one that no wheel has code for."""
    if not host.non_nvidia_gpus or host.conflict or host.system not in (None, "x86_64-linux"):
        return None
    targets = {name: gfx_of_name(name, catalog) for name in host.non_nvidia_gpus}
    unknown = [name for name, gfx in targets.items() if gfx is None]
    if not all(words("amd_gpu").search(name) for name in unknown):
        return None
    for wheel in catalog.wheels.values():
        if wheel.rocm and all(gfx is None or gfx.name in wheel.gfx for gfx in targets.values()):
            conditions = [f"{', '.join(unknown)} is one of {', '.join(wheel.gfx)}"] if unknown else []
            conditions += [text for _, text in host.spoken]
            if host.system is None:
                conditions.append("the machine is x86_64-linux")
            conditions.append(catalog.backends["rocm"].condition(wheel.rocm))
            own = {gfx.name for gfx in targets.values() if gfx}
            losses = (f"code for {len(set(wheel.gfx) - own)} other GPUs comes along",)
            return Stock(wheel, losses, tuple(conditions))
    return None


def _driver_condition(
    wheel: Wheel, sms: tuple[Sm, ...], host: Capability, catalog: Catalog
) -> tuple[str, ...]:
    """What the driver must be, where that is not known; pick says the same of a build for that CUDA."""
    assert wheel.cuda is not None
    least, _ = drivers_of(catalog.cuda[wheel.cuda], windows=host.windows)
    gpus = [gpu for sm in sms if (gpu := catalog.gpus.get(sm) or _retired(sm, catalog))]
    needed, text = driver_condition(max((least, *(gpu.min_driver for gpu in gpus))), gpus, catalog)
    return (text,) if host.driver is None or driver_reaches(host.driver, needed) is None else ()


def _gpu_losses(
    wheel: Wheel, sms: tuple[Sm, ...], host: Capability, catalog: Catalog
) -> tuple[str, ...] | None:
    """What the GPUs lose; None where one of them, or the driver, does not run it."""
    assert wheel.cuda is not None
    toolkit = catalog.cuda.get(wheel.cuda)
    if toolkit is None:
        return None
    runs = driver_runs(toolkit, host.driver, windows=host.windows) if host.driver is not None else None
    if isinstance(runs, RunsNot):
        return None
    losses = []
    for sm in sms:
        gpu = catalog.gpus.get(sm) or _retired(sm, catalog)
        if gpu is None:
            return None
        if host.driver is not None and (
            driver_reaches(host.driver, gpu.min_driver) is False or driver_ended(host.driver, gpu)
        ):
            return None
        if sm in wheel.sms:
            continue
        known = catalog.gpus
        near = [sm for sm in wheel.sms if gpu_code_runs("cubin", GpuTarget(sm), known.get(sm), gpu)]
        if near and not gpu.tegra:
            losses.append(f"{sm} runs code that was compiled for {max(near)}")
        elif wheel.ptx is not None and gpu_code_runs("ptx", GpuTarget(wheel.ptx), None, gpu):
            if isinstance(runs, Runs) and runs.how == "compatible":
                return None  # a driver compiles PTX of its own CUDA and older ones alone
            losses.append(f"the driver compiles code of {wheel.ptx} for {sm} at the first start")
        else:
            return None
    return tuple(losses)


def _retired(sm: Sm, catalog: Catalog) -> Gpu | None:
    """A GPU that builds here have left behind, as far as wheels of PyTorch may still run on it."""
    known = catalog.retired.get(sm)
    if known is None or known.min_driver is None:
        return None
    return Gpu(
        sm=sm,
        generation=known.generation,
        title=known.generation,
        parts=(),
        platforms=("x86_64-linux",),
        min_driver=known.min_driver,
        last_driver=known.last_driver,
        tegra=known.tegra,
        source=known.source,
    )


def _other_losses(wheel: Wheel, sms: tuple[Sm, ...]) -> tuple[str, ...]:
    rest = {
        "x86_64-linux": "outside of dispatched kernels the CPU code is for any x86_64, without AVX",
        "aarch64-linux": "outside of dispatched kernels the CPU code is for any ARMv8-A",
    }.get(wheel.system, "")
    others = len(set(wheel.sms) - set(sms))
    many = f"code for {others} other GPU architectures comes along" if others > 1 else ""
    return tuple(filter(None, (many, rest)))
