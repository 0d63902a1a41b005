"""The wheels that PyTorch publishes: which of them run on a machine, and what they lack against a build."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from torchsmith.catalog import Catalog, Gpu, GpuTarget, PythonVersion, Sm
from torchsmith.catalog.facts import Wheel
from torchsmith.catalog.gpu_names import gfx_of_name
from torchsmith.catalog.ranges import is_release, version_key
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


class WheelWish(msgspec.Struct, frozen=True):
    """What a wheel must be besides running on the machine; empty: anything."""

    python: PythonVersion | None = None
    torch: str = ""  # a release, or the beginning of one: 2.12
    glibc: str = ""  # the machine's own


class WheelOffer(msgspec.Struct, frozen=True, kw_only=True):
    """A wheel that runs on a machine, what must be true for it, and what it lacks against a build."""

    torch: str
    cuda: str
    rocm: str
    gpu: str  # what it runs on besides CUDA and ROCm
    pip: str
    uv: str
    pythons: tuple[PythonVersion, ...]
    download_mb: int  # 0: not known
    installed_mb: int  # without NVIDIA's own packages
    assumptions: tuple[str, ...]
    drawbacks: tuple[str, ...]
    unused: int  # GPU architectures that it has code for and the machine does not use
    unproved: str
    source: str


class _Offer(msgspec.Struct, frozen=True):
    wheel: Wheel
    conditions: tuple[str, ...] = ()
    drawbacks: tuple[str, ...] = ()
    unused: int = 0

    def report(self) -> WheelOffer:
        index, (download, installed) = self.wheel.index, self.wheel.sizes_mb
        return WheelOffer(
            torch=self.wheel.torch,
            cuda=str(index.cuda or ""),
            rocm=index.rocm,
            gpu=index.gpu,
            pip=f"pip {self.wheel.install}",
            uv=f"uv pip {self.wheel.install}",
            pythons=self.wheel.pythons,
            download_mb=download,
            installed_mb=installed,
            assumptions=self.conditions,
            drawbacks=self.drawbacks,
            unused=self.unused,
            unproved=self.wheel.unproved,
            source=index.source,
        )


def wheels_for(host: Capability, catalog: Catalog, wish: WheelWish | None = None) -> list[WheelOffer]:
    """The newest wheels that run: one for each maker of the machine's GPUs, else the one for the CPU.

    None if the machine has a GPU and it is not known which."""
    if host.conflict or (host.unknown_gpus and not any(sm in catalog.gpus for sm in host.sms or ())):
        return []
    likely = LIKELY.get(host.system)
    assumed = [f"the machine is {likely}"] if likely else []
    candidates = [
        _Offer(wheel, (*assumed, *conditions))
        for wheel in catalog.published_wheels.values()
        if wheel.index.system == (likely or host.system)
        and (conditions := _conditions(wheel, host, wish or WheelWish())) is not None
    ]
    nvidia = [offer for offer in (_on_nvidia(one, host, catalog) for one in candidates) if offer]
    found = [min(nvidia, key=lambda offer: _nvidia_key(offer, host, catalog))] if nvidia else []
    others = (_on_amd(one, host, catalog) or _on_intel(one, host) for one in candidates)
    found += [offer for offer in others if offer][:1]
    found = found or [_on_cpu(one, host) for one in candidates if _for_cpu(one.wheel)][:1]
    return [offer.report() for offer in found]


def _conditions(wheel: Wheel, host: Capability, wish: WheelWish) -> list[str] | None:
    """What must be true of the machine besides its GPUs; None if the wheel does not run on it."""
    if wish.python is not None and wish.python not in wheel.pythons:
        return None
    if wish.torch and not is_release(wheel.torch, wish.torch):
        return None
    linux = wheel.index.system.endswith("-linux")
    if linux and wish.glibc and version_key(wish.glibc) < version_key(wheel.release.glibc):
        return None
    missing = set(wheel.release.needs.get(wheel.index.system, ())) - (host.features or set())
    if missing and host.features is not None and not host.cut:
        return None
    return [f"the CPU has {', '.join(sorted(missing))}"] if missing else []


def _on_nvidia(offer: _Offer, host: Capability, catalog: Catalog) -> _Offer | None:
    """The offer if the wheel uses every NVIDIA GPU with this driver."""
    wheel, sms = offer.wheel, host.sms or ()
    toolkit = catalog.cuda.get(wheel.index.cuda) if wheel.index.cuda else None
    if toolkit is None or not sms:
        return None
    gpus = [gpu for sm in sms if (gpu := catalog.gpus.get(sm) or _retired(sm, catalog))]
    used = [_code_for(gpu, wheel, catalog) for gpu in gpus]
    if len(gpus) < len(sms) or None in used:
        return None
    drawbacks = [
        f"{gpu.name} runs code that was compiled for {sm}"
        for gpu, sm in zip(gpus, used, strict=True)
        if gpu.sm != sm
    ]
    least, _ = drivers_of(toolkit, windows=host.windows)
    needed, text = driver_condition(max((least, *(gpu.min_driver for gpu in gpus))), gpus, catalog)
    if host.driver is not None:
        verdict = driver_runs(toolkit, host.driver, windows=host.windows)
        too_old = any(driver_reaches(host.driver, gpu.min_driver) is False for gpu in gpus)
        too_new = any(driver_ended(host.driver, gpu) for gpu in gpus)
        if isinstance(verdict, RunsNot) or too_old or too_new:
            return None
        drawbacks += [verdict.reason] if verdict.how == "compatible" else []
    conditions = [text for _, text in host.spoken]
    conditions += [text] if host.driver is None or driver_reaches(host.driver, needed) is None else []
    unused = len(set(wheel.index.sms) - set(used))
    return _Offer(wheel, (*offer.conditions, *conditions), tuple(drawbacks), unused)


def _nvidia_key(offer: _Offer, host: Capability, catalog: Catalog) -> tuple[object, ...]:
    """The best first: fewest conditions, and of an unknown driver the least; then the newest release, with
    the newest CUDA that the driver knows, else the oldest that it runs by compatibility."""
    cuda = offer.wheel.index.cuda
    assert cuda is not None
    toolkit, newest = catalog.cuda[cuda], [-number for number in version_key(offer.wheel.torch)]
    if host.driver is None:
        proved = not offer.wheel.unproved
        return len(offer.conditions), toolkit.min_driver.parts, newest, not proved, cuda
    verdict = driver_runs(toolkit, host.driver, windows=host.windows)
    native = isinstance(verdict, Runs) and verdict.how == "native"
    sign = -1 if native else 1
    return len(offer.conditions), (), newest, not native, sign * cuda.major, sign * cuda.minor


def _code_for(gpu: Gpu, wheel: Wheel, catalog: Catalog) -> Sm | None:
    """The architecture whose code a GPU runs; None if the wheel has none for it."""
    if gpu.sm in wheel.index.sms:
        return gpu.sm
    known = catalog.gpus
    near = [sm for sm in wheel.index.sms if gpu_code_runs("cubin", GpuTarget(sm), known.get(sm), gpu)]
    return max(near) if near and not gpu.tegra else None


def _retired(sm: Sm, catalog: Catalog) -> Gpu | None:
    """A GPU that builds no longer support, as far as wheels of PyTorch may still run on it."""
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


def _on_amd(offer: _Offer, host: Capability, catalog: Catalog) -> _Offer | None:
    """The offer if the wheel has code for every AMD GPU, or for a target as which people run it."""
    index = offer.wheel.index
    if not index.rocm or not host.non_nvidia_gpus:
        return None
    targets = {name: gfx_of_name(name, catalog) for name in host.non_nvidia_gpus}
    unknown = [name for name, gfx in targets.items() if gfx is None]
    if not all(words("amd_gpu").search(name) for name in unknown):
        return None
    conditions = [f"{', '.join(unknown)} is one of {', '.join(index.gfx)}"] if unknown else []
    used = set()
    for name, gfx in targets.items():
        if gfx is None or gfx.name in index.gfx:
            used |= {gfx.name} if gfx else set()
        elif gfx.override and gfx.override[1] in index.gfx:
            value, target = gfx.override
            used.add(target)
            conditions.append(
                f"HSA_OVERRIDE_GFX_VERSION={value} is set, at your own risk: {name} ({gfx.name}) then runs"
                f" code for {target}, which AMD does not support"
            )
        else:
            return None
    conditions += [text for _, text in host.spoken]
    conditions.append(catalog.backends["rocm"].condition(index.rocm))
    return _Offer(offer.wheel, (*offer.conditions, *conditions), unused=len(set(index.gfx) - used))


def _on_intel(offer: _Offer, host: Capability) -> _Offer | None:
    """The offer if the wheel is for GPUs of Intel, and the machine has one."""
    parts = "|".join(offer.wheel.index.parts)
    names = [name for name in host.non_nvidia_gpus if parts and re.search(parts, name, re.IGNORECASE)]
    if not names:
        return None
    return _Offer(offer.wheel, (*offer.conditions, f"Intel's driver for {', '.join(names)} is installed"))


def _for_cpu(wheel: Wheel) -> bool:
    """Whether a wheel needs no GPU; those for Macs use theirs without anything else."""
    return not (wheel.index.cuda or wheel.index.rocm or wheel.index.parts)


def _on_cpu(offer: _Offer, host: Capability) -> _Offer:
    idle = ", ".join(_idle(host))
    by = f" with driver {host.driver}" if host.driver else ""
    drawbacks = (f"{idle} stays idle: no wheel uses it{by}",) if idle else ()
    return _Offer(offer.wheel, offer.conditions, drawbacks)


def _idle(host: Capability) -> Iterator[str]:
    yield from map(str, host.sms or ())
    if not (host.system or "").endswith("-darwin"):
        yield from host.non_nvidia_gpus
