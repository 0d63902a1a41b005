"""The wheels that PyTorch publishes: which of them run on a machine, and what they lack against a build."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import combinations

import msgspec

from torchsmith.catalog import Catalog, CudaVersion, DriverVersion, GpuTarget, PythonVersion, Sm
from torchsmith.catalog.facts import CudaToolkit, Wheel
from torchsmith.catalog.gpu_names import gfx_of_name, product_of_name
from torchsmith.catalog.ranges import version_key
from torchsmith.catalog.runs import (
    NvidiaGpu,
    Runs,
    RunsNot,
    driver_ended,
    driver_reaches,
    driver_runs,
    drivers_of,
    gpu_code_runs,
)
from torchsmith.core.text import listed
from torchsmith.host.rank import driver_condition
from torchsmith.host.resolve import Capability
from torchsmith.host.tokens import words
from torchsmith.host.wheel_needs import WheelWish, cpu_needs, releases, suitable, unconfirmed, versions_beside


class OtherWheel(msgspec.Struct, frozen=True):
    """A wheel that another driver would run, or that uses a GPU which the wanted release leaves idle."""

    torch: str
    cuda: str
    pip: str
    driver: str = ""  # it needs this one or a newer one; empty: it runs

    @property
    def when(self) -> str:
        """When it is the one to install."""
        return f"driver {self.driver} or newer" if self.driver else "the newest that uses it"


class WheelOffer(msgspec.Struct, frozen=True, kw_only=True):
    """A wheel that runs on a machine, what must be true for it, and what it lacks against a build."""

    publisher: str
    torch: str
    cuda: str
    rocm: str
    gpu: str  # what it runs on besides CUDA and ROCm
    needs: tuple[str, ...]  # that the facts of the machine do not confirm, besides GPUs and drivers
    pip: str
    uv: str
    installed_mb: int  # without NVIDIA's own packages; 0: not known
    assumptions: tuple[str, ...]
    drawbacks: tuple[str, ...]
    idle: tuple[str, ...]  # GPUs that it does not use
    other: OtherWheel | None
    unused: int  # GPU architectures that it has code for and the machine does not use
    unproved: str

    @property
    def title(self) -> str:
        """Whose it is, and for what."""
        on = f"CUDA {self.cuda}" if self.cuda else f"ROCm {self.rocm}" if self.rocm else self.gpu or "the CPU"
        whose = "PyTorch's own" if self.publisher == "PyTorch" else f"{self.publisher}'s"
        return f"{whose} wheel: torch {self.torch} for {on}"

    @property
    def about(self) -> list[str]:
        """What it lacks, what must be true for it, and that its code was not read if so."""
        conditions = [f"provided that {'; '.join(self.assumptions)}"] if self.assumptions else []
        needs = [f"needs {', '.join(self.needs)}"] if self.needs else []
        return [*self.drawbacks, *conditions, *needs, *(["from release notes"] if self.unproved else [])]

    @property
    def uses_no_gpu(self) -> bool:
        """Whether it is for the CPU alone, and the machine has a GPU."""
        return bool(self.idle) and not (self.cuda or self.rocm or self.gpu)

    def uses_gpus_of(self, host: Capability) -> bool:
        """Whether it uses the GPUs of a machine, or the machine has none."""
        for_gpu = self.cuda or self.rocm or self.gpu or not host.gpu_names
        return bool(for_gpu) and not (self.idle or host.unknown_gpus)


class _Offer(msgspec.Struct, frozen=True):
    wheel: Wheel
    needs: tuple[str, ...]
    conditions: tuple[str, ...] = ()
    drawbacks: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()
    unused: int = 0
    sms: tuple[Sm, ...] = ()  # NVIDIA's GPUs that it uses

    def leaving(self, idle: tuple[str, ...], condition: str = "") -> _Offer:
        """The same on a machine that has GPUs which it does not use."""
        why = f"no known wheel uses all of these GPUs{condition}"
        lost = [f"leaves {', '.join(idle)} idle: {why}"] if idle else []
        return msgspec.structs.replace(self, idle=idle, drawbacks=(*lost, *self.drawbacks))

    def report(self, wish: WheelWish, catalog: Catalog, other: OtherWheel | None) -> WheelOffer:
        index, torch = self.wheel.index, self.wheel.torch
        install = _install(self.wheel, wish, catalog)
        drawbacks = []
        known = [name for name, release in catalog.wheel_releases.items() if wish.python in release.pythons]
        if wish.python and torch == max(known, key=version_key) != max(
            catalog.wheel_releases, key=version_key
        ):
            drawbacks.append(f"the last for Python {wish.python}")
        return WheelOffer(
            publisher=index.publisher,
            torch=torch,
            cuda=str(index.cuda or ""),
            rocm=index.rocm,
            gpu=index.gpu,
            needs=self.needs,
            pip=f"pip {install}",
            uv=f"uv pip {install}",
            installed_mb=self.wheel.sizes_mb[1],
            assumptions=self.conditions,
            drawbacks=(*self.drawbacks, *drawbacks),
            idle=self.idle,
            other=other,
            unused=self.unused,
            unproved=self.wheel.unproved,
        )


def _install(wheel: Wheel, wish: WheelWish, catalog: Catalog) -> str:
    """The arguments of pip: the wheel, and the packages beside it."""
    torch, versions = f"torch=={wheel.torch}", versions_beside(wheel, catalog)
    pairs = [f" {name}=={versions[name]}" for name in wish.packages]
    return wheel.install.replace(torch, f"{torch}{''.join(pairs)}", 1)


def wheels_for(host: Capability, catalog: Catalog, wish: WheelWish | None = None) -> list[WheelOffer]:
    """The newest wheels that run: one for each maker of the machine's GPUs, else the one for the CPU.

    None if the machine has a GPU and it is not known which."""
    if host.conflict or (host.unknown_gpus and not any(sm in catalog.gpus for sm in host.sms or ())):
        return []
    wish = wish or WheelWish()
    bare = Capability(
        system=host.system,
        features=host.features,
        glibc=host.glibc,
        macos=host.macos,
        release=host.release,
    )
    candidates = _candidates(bare, wish, catalog)
    found = [*_on_most_gpus(candidates, host, catalog)]
    other_makers = (_on_amd(one, host, catalog) or _on_intel(one, host, catalog) for one in candidates)
    found += sorted((offer for offer in other_makers if offer), key=_other_key)[:1]
    wheels = [one.wheel for one in candidates]
    if found:
        others = [_with_newer_driver(one, wheels, host, wish, catalog) for one in found]
    else:
        cpu = sorted(filter(_for_cpu, candidates), key=lambda one: bool(_macos_for_gpu(one.wheel, host)))
        found = [_on_cpu(one, wheels, host, wish, catalog) for one in cpu[:1]]
        others = [
            _that_uses_gpus(one, host, wish, catalog) or _with_newer_driver(one, wheels, host, wish, catalog)
            for one in found
        ]
    return [one.report(wish, catalog, other) for one, other in zip(found, others, strict=True)]


@lru_cache(1024)  # the page asks for every GPU and driver
def _candidates(host: Capability, wish: WheelWish, catalog: Catalog) -> list[_Offer]:
    """Of each index the newest wheel that suits, and an older one only if less of what it needs is unknown:
    GPU code and driver are the same for all wheels of an index."""
    least: dict[str, int] = {}
    found = []
    for wheel in suitable(host, wish, catalog):
        own = tuple(unconfirmed(wheel, host, wish, catalog))
        number = len(own) + bool(_macos_for_gpu(wheel, host))
        if number < least.get(wheel.index.name, number + 1):
            least[wheel.index.name] = number
            found.append(_Offer(wheel, own))
    return found


def features_asked(
    systems: Iterable[str], pythons: Iterable[PythonVersion], catalog: Catalog
) -> frozenset[str]:
    """The features of a CPU that decide which wheels are compared; a list for an unknown CPU has them all."""
    wishes = [WheelWish(), *map(WheelWish, pythons)]
    hosts = [Capability(system=system) for system in systems]
    offers = (offer for host in hosts for wish in wishes for offer in _candidates(host, wish, catalog))
    return frozenset(need for offer in offers for need in cpu_needs(offer.wheel))


def _on_most_gpus(candidates: Sequence[_Offer], host: Capability, catalog: Catalog) -> Iterator[_Offer]:
    """Yield the best wheel that uses all NVIDIA GPUs, else most of them, and rather the newest."""
    sms = (host.sms or ())[::-1]
    for some in (some for count in range(len(sms), 0, -1) for some in combinations(sms, count)):
        own = msgspec.structs.replace(host, sms=some)
        if offers := [offer for one in candidates if (offer := _on_nvidia(one, own, catalog))]:
            best = min(offers, key=lambda offer: _nvidia_key(offer, own, catalog))
            idle = tuple(host.called(sm) for sm in sms if sm not in some)
            yield best.leaving(idle, " with this driver" if host.driver else "")
            return


def _on_nvidia(offer: _Offer, host: Capability, catalog: Catalog) -> _Offer | None:
    """The offer if the wheel uses every NVIDIA GPU with this driver."""
    wheel = offer.wheel
    toolkit = catalog.cuda.get(wheel.index.cuda) if wheel.index.cuda else None
    used = _code_used(wheel, host, catalog)
    if toolkit is None or not used:
        return None
    gpus = [gpu for gpu, _ in used]
    needed = _least_driver(toolkit, gpus, host)
    drawbacks = [f"your {host.called(gpu.sm)} runs its code for {sm}" for gpu, sm in used if gpu.sm != sm]
    if host.driver is not None:
        verdict = driver_runs(toolkit, host.driver, windows=host.windows)
        too_old = driver_reaches(host.driver, needed) is False
        too_new = any(driver_ended(host.driver, gpu) for gpu in gpus)
        if isinstance(verdict, RunsNot) or too_old or too_new:
            return None
        own = any(gpu.tegra for gpu in gpus) and toolkit.version <= _cuda_of_jetpack(host.driver, catalog)
        drawbacks += [verdict.reason] if verdict.how == "compatible" and not own else []
    conditions = [text for _, text in host.spoken]
    if host.driver is None or driver_reaches(host.driver, needed) is None:
        conditions.append(driver_condition(needed, gpus, catalog)[1])
    unused = len(set(wheel.index.sms) - {sm for _, sm in used})
    return msgspec.structs.replace(
        offer,
        conditions=tuple(conditions),
        drawbacks=tuple(drawbacks),
        unused=unused,
        sms=host.sms or (),
    )


def _code_used(wheel: Wheel, host: Capability, catalog: Catalog) -> list[tuple[NvidiaGpu, Sm]]:
    """Every NVIDIA GPU with the architecture whose code it runs; empty if the wheel lacks code for one."""
    used = [_code_for(sm, wheel.index.name, catalog) for sm in host.sms or ()]
    found = [one for one in used if one]
    return found if len(found) == len(used) else []


def _least_driver(toolkit: CudaToolkit, gpus: Iterable[NvidiaGpu], host: Capability) -> DriverVersion:
    """The oldest driver that runs a CUDA release on these GPUs."""
    return max(
        (drivers_of(toolkit, windows=host.windows)[0], *(gpu.min_driver for gpu in gpus if gpu.min_driver))
    )


def _cuda_of_jetpack(driver: DriverVersion, catalog: Catalog) -> CudaVersion:
    """The CUDA release that a Jetson's driver came with; 0.0 if the catalog does not know it."""
    packs = [pack for pack in catalog.jetpacks.values() if pack.cuda]
    own = [pack for pack in packs if driver_reaches(driver, DriverVersion.parse(pack.driver)) is not False]
    return max((CudaVersion.parse(pack.cuda) for pack in own), default=CudaVersion.parse("0.0"))


def _drivers_needed(
    wheels: Iterable[Wheel], host: Capability, catalog: Catalog
) -> Iterator[tuple[DriverVersion, Wheel]]:
    """The wheels with code for all of a machine's NVIDIA GPUs, each with the oldest driver that runs it."""
    for wheel in wheels:
        gpus = [gpu for gpu, _ in _code_used(wheel, host, catalog) if not gpu.tegra]
        if gpus and wheel.index.cuda:
            yield _least_driver(catalog.cuda[wheel.index.cuda], gpus, host), wheel


def _with_newer_driver(
    offered: _Offer, wheels: Iterable[Wheel], host: Capability, wish: WheelWish, catalog: Catalog
) -> OtherWheel | None:
    """The wheel for all GPUs that needs the oldest driver, if the driver leaves some idle; else the newest
    release, if it is newer than what is offered."""

    def needed(host: Capability) -> list[tuple[DriverVersion, list[int], Wheel]]:
        return [
            (driver, [-number for number in version_key(wheel.torch)], wheel)
            for driver, wheel in _drivers_needed(wheels, host, catalog)
            if host.driver is None or driver_reaches(host.driver, driver) is False
        ]

    own = [-number for number in version_key(offered.wheel.torch)]
    newer = [one for one in needed(msgspec.structs.replace(host, sms=offered.sms)) if one[1] < own]
    if offered.idle and (able := needed(host)):
        driver, _, wheel = min(able, key=lambda one: one[:2])
    elif newer:
        driver, _, wheel = min(newer, key=lambda one: (one[1], one[0], one[2].index.cuda))
    else:
        return None
    pip = f"pip {_install(wheel, wish, catalog)}"
    return OtherWheel(wheel.torch, str(wheel.index.cuda), pip, str(driver))


def _that_uses_gpus(
    offered: _Offer, host: Capability, wish: WheelWish, catalog: Catalog
) -> OtherWheel | None:
    """The newest wheel that uses the GPUs, if that of the wanted release leaves them idle."""
    if not (offered.idle and wish.torch):
        return None
    first = next(iter(wheels_for(host, catalog, msgspec.structs.replace(wish, torch=""))), None)
    return OtherWheel(first.torch, first.cuda, first.pip) if first and not first.idle else None


def _nvidia_key(offer: _Offer, host: Capability, catalog: Catalog) -> tuple[object, ...]:
    """The best first: fewest conditions, and of an unknown driver the least; then the newest release, with
    the newest CUDA that the driver knows, else the oldest that it runs by compatibility."""
    cuda = offer.wheel.index.cuda
    assert cuda is not None
    toolkit, newest = catalog.cuda[cuda], [-number for number in version_key(offer.wheel.torch)]
    if host.driver is None:
        return len(offer.conditions), toolkit.min_driver.parts, newest, cuda
    verdict = driver_runs(toolkit, host.driver, windows=host.windows)
    native = isinstance(verdict, Runs) and verdict.how == "native"
    sign = -1 if native else 1
    return len(offer.conditions), (), newest, not native, sign * cuda.major, sign * cuda.minor


@lru_cache(4096)  # asked for every wheel and driver
def _code_for(own: Sm, index: str, catalog: Catalog) -> tuple[NvidiaGpu, Sm] | None:
    """A GPU and the architecture whose code it runs; None if an index's wheels have none for it."""
    known, sms = catalog.gpus, catalog.wheels[index].sms
    gpu = known.get(own) or catalog.retired.get(own)
    if gpu is None or gpu.min_driver is None or own in sms or gpu.tegra:
        return (gpu, own) if gpu and own in sms else None
    able = [sm for sm in sms if gpu_code_runs("cubin", GpuTarget(sm), known.get(sm), gpu)]
    return (gpu, max(able)) if able else None


def _other_key(offer: _Offer) -> tuple[object, ...]:
    """The best of other makers than NVIDIA first: it uses most GPUs, and without a person's doing."""
    return len(offer.idle), len(offer.conditions), not offer.wheel.index.rocm


def _on_amd(offer: _Offer, host: Capability, catalog: Catalog) -> _Offer | None:
    """The offer if the wheel has code for AMD GPUs, otherwise if it has code for a related target that a
    variable selects, which then applies to all GPUs of a process."""
    index = offer.wheel.index
    if not index.rocm or not host.non_nvidia_gpus:
        return None
    targets = {name: gfx_of_name(name, catalog) for name in host.non_nvidia_gpus}
    conditions = []
    used = {name: gfx.name for name, gfx in targets.items() if gfx and gfx.name in index.gfx}
    others = {name: gfx.override for name, gfx in targets.items() if gfx and not used}
    able = (override for override in others.values() if override and override[1] in index.gfx)
    for value, target in [*able][:1]:
        for name in (name for name, override in others.items() if override == (value, target)):
            used[name] = target
            conditions.append(
                f"HSA_OVERRIDE_GFX_VERSION={value} is set, at your own risk: {name} then runs code for"
                f" {target}, which AMD does not support"
            )
    if not used:
        return None
    conditions += [text for _, text in host.spoken]
    conditions.append(catalog.backends["rocm"].condition(index.rocm))
    unused = len({*index.gfx} - {*used.values()})
    whole = msgspec.structs.replace(offer, conditions=tuple(conditions), unused=unused)
    return whole.leaving(tuple(name for name in targets if name not in used))


def _on_intel(offer: _Offer, host: Capability, catalog: Catalog) -> _Offer | None:
    """The offer if the wheel is for GPUs of Intel, and the machine has one."""
    known = {name: product_of_name(name, catalog) for name in host.non_nvidia_gpus}
    names = [name for name, gpu in known.items() if gpu and gpu.name in offer.wheel.index.intel]
    if not names:
        return None
    condition = f"Intel's driver for {', '.join(names)} is installed"
    whole = msgspec.structs.replace(offer, conditions=(condition,))
    return whole.leaving(tuple(name for name in host.non_nvidia_gpus if name not in names))


def _for_cpu(offer: _Offer) -> bool:
    """Whether a wheel needs no GPU; those for Macs use theirs without anything else."""
    index = offer.wheel.index
    return not (index.cuda or index.rocm or index.intel)


def _macos_for_gpu(wheel: Wheel, host: Capability) -> str:
    """The macOS with which the wheel would use a Mac's GPU; empty if that of the machine does, or may."""
    least = wheel.index.gpu_macos.get(wheel.torch, "")
    return least if least and host.macos and version_key(host.macos) < version_key(least) else ""


def _on_cpu(
    offer: _Offer, wheels: Iterable[Wheel], host: Capability, wish: WheelWish, catalog: Catalog
) -> _Offer:
    """The offer of a wheel for the CPU, and why GPUs stay idle."""
    idle = () if (host.system or "").endswith("-darwin") else host.gpu_names
    unknown = [name for name in idle if words("amd_gpu").search(name) and not gfx_of_name(name, catalog)]
    if macos := _macos_for_gpu(offer.wheel, host):
        index, why = offer.wheel.index, f"torch {offer.wheel.torch} uses the GPU on macOS {macos} or newer"
        bare = msgspec.structs.replace(offer.wheel, index=msgspec.structs.replace(index, gpu=""))
        return msgspec.structs.replace(offer, wheel=bare, drawbacks=(f"runs on the CPU only: {why}",))
    if not idle:
        return offer
    needed = min((driver for driver, _ in _drivers_needed(wheels, host, catalog)), default=None)
    whose = releases(host, wish, catalog)
    why = f"no wheel of {whose} uses it" + (f" with {host.driver.title}" if host.driver else "")
    if unknown:
        why = f"{listed(unknown)} is not known: --gpu with its target, such as gfx1100, decides"
    elif host.driver and needed and driver_reaches(host.driver, needed) is False:
        why = f"{host.driver.title} is too old, every wheel of {whose} for it needs {needed} or newer"
    elif wish.python:
        others = wheels_for(host, catalog, msgspec.structs.replace(wish, python=None))
        why = why if any(wheel.idle for wheel in others) else f"{why} for Python {wish.python}"
    drawbacks = (f"leaves {', '.join(idle)} idle: {why}",)
    return msgspec.structs.replace(offer, drawbacks=drawbacks, idle=idle)
