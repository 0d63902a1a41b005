"""Whether a variant runs on a machine (its CPU, its GPUs, its driver), and which of those that do is best."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from torchsmith.catalog import Catalog, DriverVersion, GpuTarget, Sm, Workload
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
    isa_runs,
)
from torchsmith.core.text import listed
from torchsmith.host.resolve import Capability, GpuArch, may_be
from torchsmith.matrix import Accelerator, Cell, Cuda, Flavor, Reason, Variant
from torchsmith.matrix.cells import UNUSABLE

BY_KIND = "cpu-kind"  # assumed of a CPU whose kind is known


class Compatible(msgspec.Struct, frozen=True):
    """A candidate that runs here: on which GPUs, and what must be true and is not known."""

    cell: Cell
    exact: tuple[GpuArch, ...] = ()  # GPUs it was compiled for
    compatible: tuple[Sm, ...] = ()  # GPUs that run it, though it was compiled for a sibling
    idle: tuple[GpuArch, ...] = ()  # GPUs that it cannot use
    reasons: tuple[str, ...] = ()
    assumptions: tuple[Reason, ...] = ()
    native: bool = True  # the driver knows its CUDA; otherwise it runs by minor-version compatibility
    driver: DriverVersion | None = None  # the oldest that runs it here, if the machine's is unknown

    @property
    def variant(self) -> Variant:
        return self.cell.variant

    @property
    def used(self) -> tuple[GpuArch, ...]:
        return self.exact + self.compatible

    @property
    def unproved(self) -> tuple[Reason, ...]:
        return tuple(warning for warning in self.cell.warnings if warning.code == "unproved")

    def assumes(self, code: str) -> bool:
        """Whether something of this kind is unknown and must be true."""
        return any(reason.code == code for reason in self.assumptions)


class Incompatible(msgspec.Struct, frozen=True):
    """A candidate that does not run here, and everything that prevents it."""

    cell: Cell
    reasons: tuple[Reason, ...]

    @property
    def variant(self) -> Variant:
        return self.cell.variant


@dataclass(slots=True)
class _Case:
    """What is in favour of a cell, what against it, and what would have to be true."""

    pro: list[str] = field(default_factory=list)
    contra: list[Reason] = field(default_factory=list)
    assumptions: list[Reason] = field(default_factory=list)
    native: bool = True
    driver: DriverVersion | None = None


def check_cell(host: Capability, cell: Cell, catalog: Catalog) -> Compatible | Incompatible:
    """Whether a cell runs on a machine, and why or why not."""
    if host.conflict:
        return Incompatible(cell, (Reason("conflict", host.conflict),))
    case = _Case(contra=[warning for warning in cell.warnings if warning.code == UNUSABLE])
    exact: tuple[GpuArch, ...] = ()
    compatible: tuple[Sm, ...] = ()
    target = cell.variant.target
    if isinstance(target, Cuda):
        own, compatible = _check_gpus(host, target, catalog, case)
        _check_driver(host, target, own + compatible, catalog, case)
        exact = own
        if host.release and (condition := catalog.systems[host.release].cuda):
            case.assumptions.append(Reason("libcuda", condition))
    elif isinstance(target, Accelerator):
        exact = tuple(arch for arch in host.archs if arch == target.arch)
        backend = catalog.backends[target.version.backend]
        if not exact:
            text = f"it needs a {target.arch} GPU, which the machine does not have"
            case.contra.append(Reason("gpu", text))
        case.pro.extend(map(host.code_for, exact))
        if backend.macos and host.macos:
            if version_key(host.macos) < version_key(backend.macos):
                text = f"it needs macOS {backend.macos} or newer, the machine has {host.macos}"
                case.contra.append(Reason("driver", text))
        elif backend.driver:
            case.assumptions.append(Reason("driver", backend.condition(str(target.version))))
    uses_gpu = bool(exact + compatible)
    case.assumptions += [Reason(code, text) for code, text in host.spoken if uses_gpu or code == "system"]
    _check_cpu(host, cell, catalog, case)
    if case.contra:
        return Incompatible(cell, tuple(case.contra))
    idle = tuple(arch for arch in host.archs if arch not in exact + compatible)
    return Compatible(
        cell, exact, compatible, idle, tuple(case.pro), tuple(case.assumptions), case.native, case.driver
    )


def _check_cpu(host: Capability, cell: Cell, catalog: Catalog, case: _Case) -> None:
    isa = catalog.isas[cell.variant.isa]
    if not may_be(host.system, isa.platform):
        own = "a Mac" if host.system == "any-darwin" else host.system
        case.contra.append(Reason("system", f"it is for {isa.platform}, the machine is {own}"))
        return
    if host.system != isa.platform:
        machine, _, kernel = isa.platform.partition("-")
        says = f" (`uname -m` says {machine})" if kernel == "linux" else ""
        case.assumptions.append(Reason("system", f"the machine is {isa.platform}{says}"))
    missing = isa.needs - (host.features or frozenset())
    kind = catalog.cpus.get(host.kind)
    if not missing:
        case.pro += [f"your CPU supports {isa.title}"] if host.system == isa.platform else []
    elif host.features is not None:
        case.contra.append(Reason("isa", isa_runs(isa, host.features).reason))
    elif kind is None:
        case.assumptions.append(Reason("isa", f"the CPU has {', '.join(sorted(missing))}"))
    elif isa.name in kind.isas:
        text = f"the CPU shows {', '.join(sorted(missing))}, as CPUs of its kind ({kind.title}) do"
        case.assumptions.append(Reason(BY_KIND, text))
    else:
        case.contra.append(Reason("isa", f"{kind.title} does not run {isa.name}"))


def _check_gpus(
    host: Capability, target: Cuda, catalog: Catalog, case: _Case
) -> tuple[tuple[Sm, ...], tuple[Sm, ...]]:
    """The GPUs that the cell was compiled for, and those that run it all the same."""
    if not host.sms:
        case.contra.append(_no_gpu(host, target))
        return (), ()
    exact = tuple(sm for sm in host.sms if sm == target.sm)
    compatible: list[Sm] = []
    refused: list[str] = []
    case.pro.extend(map(host.code_for, exact))
    for sm in host.sms:
        if sm in exact:
            continue
        gpu = catalog.gpus.get(sm)
        if gpu is None:
            refused.append(f"{sm} is not in the catalog, so only code for {sm} itself is known to run there")
            continue
        verdict = gpu_code_runs("cubin", GpuTarget(target.sm), catalog.gpus.get(target.sm), gpu)
        if verdict:
            compatible.append(sm)
            case.pro.append(f"your {host.called(sm)} runs code for {target.sm}")
        else:
            refused.append(verdict.reason)
    if not exact and not compatible:
        case.contra.append(Reason("gpu", "; ".join(refused)))
    return exact, tuple(compatible)


def _no_gpu(host: Capability, target: Cuda) -> Reason:
    if host.sms is None:
        return Reason("no-gpu-facts", f"it needs a GPU that runs {target.sm}, and no GPU is known here")
    if host.unknown_gpus:
        text = f"the architecture of {', '.join(host.unknown_gpus)} is unknown: no GPU build can be promised"
        return Reason("gpu-unknown", text)
    return Reason("no-gpu", f"it needs a GPU that runs {target.sm}, and the machine has no NVIDIA GPU")


def _check_driver(host: Capability, target: Cuda, used: Sequence[Sm], catalog: Catalog, case: _Case) -> None:
    toolkit = catalog.cuda[target.version]
    gpus = [catalog.gpus[sm] for sm in used if sm in catalog.gpus]
    oldest, _ = drivers_of(toolkit, windows=host.windows)
    needed = max((oldest, *(gpu.min_driver for gpu in gpus)))
    if host.driver is None:
        # Checked with the oldest driver that runs it: that driver then leads to the same answer.
        if host.sms:
            case.driver, text = driver_condition(needed, gpus, catalog)
            verdict = driver_runs(toolkit, case.driver.first, windows=host.windows)
            case.native = isinstance(verdict, Runs) and verdict.how == "native"
            case.assumptions.append(Reason("driver", text))
        return
    ended = [gpu for gpu in gpus if driver_ended(host.driver, gpu)]
    for gpu in ended:
        last = f"series {gpu.last_driver} is NVIDIA's last for {gpu.generation}"
        text = f"driver {host.driver} no longer supports {gpu.name}: {last}"
        case.contra.append(Reason("driver", text, f"install a driver of series {gpu.last_driver}"))
    if ended:
        return
    fix = f"update the driver to {needed} or newer"
    verdict = driver_runs(toolkit, host.driver, windows=host.windows)
    case.native = not isinstance(verdict, Runs) or verdict.how == "native"
    reached = driver_reaches(host.driver, needed)
    if reached is False:
        on = f" on {', '.join(gpu.name for gpu in gpus)}" if gpus else ""
        _, condition = driver_condition(needed, gpus, catalog)
        text = f"CUDA {toolkit.version}{on} runs only if {condition}; it has {host.driver.title}"
        tegra = any(gpu.tegra for gpu in gpus)
        packs = (pack for pack in catalog.jetpacks.values() if pack.driver == str(host.driver))
        pack = next((f" (JetPack {pack.jetpack})" for pack in packs if tegra), "")
        case.contra.append(Reason("driver", text + pack, "" if tegra else fix))
    elif isinstance(verdict, RunsNot):
        case.contra.append(Reason("driver", verdict.reason, fix))
    elif verdict.how == "compatible":
        case.pro.append(verdict.reason)
    if reached is None:
        _, condition = driver_condition(needed, gpus, catalog)
        text = f"{condition} ({host.driver} is a branch, whose first releases are older)"
        case.assumptions.append(Reason("driver", text))


def driver_condition(
    needed: DriverVersion, gpus: Iterable[NvidiaGpu], catalog: Catalog
) -> tuple[DriverVersion, str]:
    """What must be true of an unknown driver: its release, or on a Jetson the JetPack that brings one."""
    gpus = tuple(gpus)
    parts = {part for gpu in gpus if gpu.tegra for part in gpu.parts}
    packs = [pack for pack in catalog.jetpacks.values() if pack.part in parts and pack.driver]
    for pack in packs:
        driver = DriverVersion.parse(pack.driver)
        if driver >= needed:
            return driver, f"the machine has JetPack {pack.jetpack} or newer (driver {driver})"
    last = min((gpu.last_driver for gpu in gpus if gpu.last_driver), default=None)
    ended = f", and of series {last} or older" if last else ""
    return needed, f"the driver is {needed} or newer{ended}"


class Ranking(msgspec.Struct, frozen=True):
    """All candidates: those that run, the best first, and the others, the nearest first."""

    fits: tuple[Compatible, ...] = ()
    misses: tuple[Incompatible, ...] = ()


def rank(
    host: Capability, cells: Iterable[Cell], catalog: Catalog, workload: Workload, *, able: bool = False
) -> Ranking:
    """Check every cell for a machine and order the answers; `able`: those that run alone."""
    checked = possible(host, cells, catalog) if able else cells
    verdicts = [check_cell(host, cell, catalog) for cell in checked]
    fits = [verdict for verdict in verdicts if isinstance(verdict, Compatible)]
    misses = [] if able else [verdict for verdict in verdicts if isinstance(verdict, Incompatible)]
    fits.sort(key=order(catalog, workload))
    misses.sort(key=lambda miss: _distance(miss, host, catalog, workload))
    return Ranking(tuple(fits), tuple(misses))


def possible(host: Capability, cells: Iterable[Cell], catalog: Catalog) -> Iterator[Cell]:
    """The cells worth checking: of another system, or for GPUs of another major, none ever runs."""
    majors = {sm.major for sm in host.sms or ()}
    for cell in cells:
        target = cell.variant.target
        if isinstance(target, Cuda) and target.sm.major not in majors:
            continue
        if isinstance(target, Accelerator) and target.arch not in host.archs:
            continue
        if may_be(host.system, catalog.isas[cell.variant.isa].platform):
            yield cell


FLAVORS = [*Flavor]
HARDEST = 20
# How hard each obstacle is: a driver can be updated, a CPU cannot be changed.
HARDNESS = {
    "driver": 1,
    "isa": 3,
    "gpu": 5,
    "no-gpu-facts": 6,
    "gpu-unknown": 6,
    "no-gpu": 8,
    "conflict": HARDEST,
    "system": HARDEST,
}


def _distance(
    miss: Incompatible, host: Capability, catalog: Catalog, workload: Workload
) -> tuple[int, int, int, int, str]:
    """How far a candidate is from running here."""
    hardness = sum(HARDNESS.get(code, HARDEST) for code in {reason.code for reason in miss.reasons})
    sm = miss.variant.sm
    gap = min((abs(sm.number - other.number) for other in host.sms), default=0) if sm and host.sms else 0
    missing = len(catalog.isas[miss.variant.isa].needs - (host.features or frozenset()))
    return hardness, gap, missing, place_of_isa(miss.variant.isa, catalog, workload), miss.variant.name


class Criterion(msgspec.Struct, frozen=True):
    """One thing that makes a candidate better than another, and how to say so of the worse one."""

    key: Callable[[Compatible], Any]  # smaller is better
    say: Callable[[Compatible, Compatible], str]  # of the worse one, beside the better one


def criteria(catalog: Catalog, workload: Workload) -> tuple[Criterion, ...]:
    """What decides between candidates that all run, the weightiest first."""
    return (
        Criterion(
            lambda fit: len(fit.idle),
            lambda fit, best: f"it leaves {', '.join(map(str, fit.idle))} idle",
        ),
        Criterion(
            lambda fit: len(fit.assumptions),
            lambda fit, best: f"it runs only if {listed(reason.text for reason in fit.assumptions)}",
        ),
        Criterion(  # decides if the system is unknown
            lambda fit: catalog.isas[fit.variant.isa].platform != "x86_64-linux",
            lambda fit, best: f"{catalog.isas[best.variant.isa].platform} is the more common system",
        ),
        Criterion(
            lambda fit: (-len(fit.exact), _gap(fit)),
            lambda fit, best: f"it runs as compatible code, and {best.variant.sm} is nearer to the GPU",
        ),
        Criterion(
            lambda fit: _isa_key(fit, catalog, workload),
            lambda fit, best: f"{best.variant.isa} comes before {fit.variant.isa} for {workload.name} use",
        ),
        Criterion(
            lambda fit: bool(fit.unproved),
            lambda fit, best: f"untested: {fit.unproved[0]}",
        ),
        Criterion(
            _cuda_key,
            lambda fit, best: f"CUDA {best.variant.cuda} {_why_cuda(fit, best)}",
        ),
        Criterion(
            lambda fit: FLAVORS.index(fit.variant.flavor),
            lambda fit, best: f"it is a {fit.variant.flavor} build",
        ),
        Criterion(
            lambda fit: (-fit.variant.python.major, -fit.variant.python.minor),
            lambda fit, best: f"Python {best.variant.python} is newer",
        ),
    )


def _gap(fit: Compatible) -> int:
    """How far the GPUs are above the architecture that the code was compiled for."""
    sm = fit.variant.sm
    return sum(gpu.number - sm.number for gpu in fit.compatible) if sm else 0


def _isa_key(fit: Compatible, catalog: Catalog, workload: Workload) -> tuple[int, int]:
    """The workload's order; the least demanding first if nothing is known of the CPU."""
    place = place_of_isa(fit.variant.isa, catalog, workload)
    return (catalog.isas[fit.variant.isa].level if fit.assumes("isa") else 0), place


def place_of_isa(isa: str, catalog: Catalog, workload: Workload) -> int:
    """The rank of an instruction set for a workload, the best at 0; one that it does not list comes last."""
    if isa in workload.isas:
        return workload.isas.index(isa)
    return len(workload.isas) + 100 - catalog.isas[isa].level


def _cuda_key(fit: Compatible) -> tuple[Any, ...]:
    """The newest CUDA that the driver knows, then the oldest of those that it runs by compatibility.

    If the driver is unknown, those that need the oldest first.
    """
    if not isinstance(fit.variant.target, Cuda):
        return ()
    version = fit.variant.target.version
    needed = fit.driver.parts if fit.driver else ()
    sign = -1 if fit.native else 1
    return needed, not fit.native, sign * version.major, sign * version.minor


def _why_cuda(fit: Compatible, best: Compatible) -> str:
    if fit.driver != best.driver:
        return "asks less of a driver that is not known"
    if fit.native:
        return "is newer and runs too"
    whose = f"driver {fit.driver}" if fit.driver else "the driver"
    return f"is {whose}'s own" if best.native else f"is nearer to {whose}'s own"


def order(catalog: Catalog, workload: Workload) -> Callable[[Compatible], tuple[Any, ...]]:
    """The sort key of candidates that run."""
    keys = [criterion.key for criterion in criteria(catalog, workload)]
    return lambda fit: (*[key(fit) for key in keys], fit.variant.name)


def asks_no_more(fit: Compatible, other: Compatible, catalog: Catalog) -> bool:
    """Whether all that a candidate assumes of a machine is assumed by another one as well."""
    own, theirs = catalog.isas[fit.variant.isa], catalog.isas[other.variant.isa]
    if fit.assumes("system") and not (other.assumes("system") and own.platform == theirs.platform):
        return False
    cpu = other.assumes("isa") or other.assumes(BY_KIND)
    if (fit.assumes("isa") or fit.assumes(BY_KIND)) and not (cpu and own.needs <= theirs.needs):
        return False
    if not fit.assumes("driver"):
        return True
    if not other.assumes("driver") or fit.variant.backend != other.variant.backend:
        return False
    # Another backend's condition is the same for all of its cells.
    candidates = [(each.driver, each.variant.cuda) for each in (fit, other)]
    needed = [driver or catalog.cuda[cuda].min_driver for driver, cuda in candidates if cuda]
    return needed == sorted(needed)


def why_after(fit: Compatible, best: Compatible, catalog: Catalog, workload: Workload) -> str:
    """What puts a candidate behind a better one."""
    for criterion in criteria(catalog, workload):
        if criterion.key(fit) != criterion.key(best):
            return criterion.say(fit, best)
    return "it is as good"
