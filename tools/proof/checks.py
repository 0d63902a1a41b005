"""The catalog held against what the tools said: pure functions of the two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from tools.proof.readings import Absent, Readings
from torchsmith.catalog.axes import Platform
from torchsmith.catalog.facts import Cpu, CudaToolkit, Feature, Gfx, Isa
from torchsmith.catalog.load import Catalog
from torchsmith.catalog.runs import isa_runs

ALL_GENERIC = 20  # the first release of LLVM that has every generic target of AMD's
CheckOutcome = Literal["holds", "wrong", "not checked"]
OUTCOMES: tuple[CheckOutcome, ...] = ("holds", "wrong", "not checked")


@dataclass(frozen=True, slots=True)
class FactCheck:
    """One fact, the tool that knows, and what came of asking it."""

    fact: str
    tool: str
    outcome: CheckOutcome
    detail: str = ""


def check_catalog(catalog: Catalog, readings: Readings) -> list[FactCheck]:
    """Every fact that a tool can see."""
    return [
        *(check_targets(toolkit, readings) for toolkit in catalog.cuda.values()),
        *(check for isa in catalog.isas.values() for check in check_isa(isa, catalog, readings)),
        *(check for cpu in catalog.cpus.values() for check in check_cpu(cpu, catalog, readings)),
        *(
            check
            for feature in catalog.features.values()
            for check in check_feature(feature, catalog, readings)
        ),
        *(check for gfx in catalog.gfx.values() for check in check_gfx(gfx, readings)),
    ]


def check_targets(toolkit: CudaToolkit, readings: Readings) -> FactCheck:
    """A toolkit's target list is exactly that of its ptxas."""
    wheel = toolkit.wheel.partition("==")[2]
    fact, tool = f"CUDA {toolkit.version}: {len(toolkit.targets)} targets", f"ptxas {wheel}"
    ptxas = readings.ptxas.get(toolkit.version, Absent("not asked for"))
    if isinstance(ptxas, Absent):
        return FactCheck(fact, tool, "not checked", ptxas.why)
    if ptxas.release != toolkit.version:
        return FactCheck(fact, tool, "wrong", f"the wheel's ptxas is release {ptxas.release}")
    return _compare(fact, tool, map(str, toolkit.targets), map(str, ptxas.targets))


def check_gfx(gfx: Gfx, readings: Readings) -> Iterator[FactCheck]:
    """One of AMD's targets is in LLVM from the release on that is stated, and so is its generic target."""
    fact = f"{gfx.name}: LLVM {gfx.llvm}"
    if isinstance(readings.llc, Absent):
        yield FactCheck(fact, "llc", "not checked", readings.llc.why)
        return
    for release, targets in readings.llc.items():
        names = {gfx.name, gfx.generic} if gfx.generic and release >= ALL_GENERIC else {gfx.name}
        ours = names if release >= gfx.llvm else set[str]()
        yield _compare(fact, f"llc {release}", ours, targets & names)


def check_isa(isa: Isa, catalog: Catalog, readings: Readings) -> Iterator[FactCheck]:
    """The flags define exactly the macros that are listed, and the features are those of the macros."""
    macros = readings.macros(isa.platform, isa.flags) if isa.flags else frozenset[str]()
    fact, tool = f"{isa.name}: {' '.join(isa.flags)}", f"gcc for {isa.platform}"
    if isinstance(macros, Absent):
        outcome: CheckOutcome = "wrong" if "refuses" in macros.why else "not checked"
        yield FactCheck(fact, tool, outcome, macros.why)
        return
    yield _compare(fact, tool, isa.macros, macros)
    same = [
        " ".join(flags) for flags in _shorter(isa.flags) if readings.macros(isa.platform, flags) == macros
    ]
    if isa.flags:
        yield _compare(f"{isa.name}: other spellings", tool, map(" ".join, isa.other_flags), same)
    implied = {feature.name for feature in _features(catalog, isa.platform) if feature.macro in macros}
    yield _compare(f"{isa.name}: {len(isa.features)} features", tool, isa.features, implied)


def _features(catalog: Catalog, platform: Platform) -> list[Feature]:
    return [feature for feature in catalog.features.values() if feature.platform == platform]


def _shorter(flags: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The same flags without what they switch off, and a -march without some of what is added to it."""
    positive = tuple(flag for flag in flags if not flag.startswith("-mno-"))
    if positive != flags:
        yield positive
    march, *extensions = "".join(flags[:1]).split("+")
    for count in range(len(extensions)):
        yield from (("+".join((march, *chosen)),) for chosen in combinations(extensions, count))


def check_feature(feature: Feature, catalog: Catalog, readings: Readings) -> Iterator[FactCheck]:
    """Some CPU has a feature by gcc's macro and by LLVM's name, and each that has it has it in archspec; its
    flag switches on what it implies, and nothing else that is listed."""
    macros = readings.macros(feature.platform, (feature.flag,)) if feature.flag else Absent("no flag")
    if not isinstance(macros, Absent):
        listed = {one.name for one in _features(catalog, feature.platform) if one.macro in macros}
        yield _compare(f"{feature.name}: {feature.flag}", "gcc", catalog.implied([feature.name]), listed)
    if isinstance(readings.archspec, Absent):
        return
    option = "-march=" if feature.platform.startswith("x86") else "-mcpu="
    confirmed: dict[str, list[bool]] = {"gcc": [], "LLVM": []}
    for cpu in catalog.cpus.values():
        if cpu.platform != feature.platform or cpu.archspec not in readings.archspec:
            continue
        known = feature.name in readings.archspec[cpu.archspec]
        macros = readings.macros(cpu.platform, (option + cpu.archspec.replace("_", "-"),))
        if not isinstance(macros, Absent) and feature.macro in macros:
            confirmed["gcc"].append(known)
        features = readings.llvm(cpu.platform, cpu.llvm) if cpu.llvm else frozenset[str]()
        if not isinstance(features, Absent) and feature.llvm in features:
            confirmed["LLVM"].append(known)
    answered = {
        "gcc": not isinstance(readings.macros(feature.platform, ()), Absent),
        "LLVM": any(confirmed["LLVM"]) or not isinstance(readings.llvm(feature.platform, "generic"), Absent),
    }
    for tool, name in (("gcc", feature.macro), ("LLVM", feature.llvm)):
        cpus = confirmed[tool]
        outcome: CheckOutcome = "holds" if cpus and all(cpus) else "wrong"
        outcome = outcome if answered[tool] else "not checked"
        detail = f"{sum(cpus)} of {len(cpus)} CPUs that have {name} have it in archspec"
        yield FactCheck(
            f"{feature.name}: {name}", f"archspec, {tool}", outcome, "" if outcome == "holds" else detail
        )


def check_cpu(cpu: Cpu, catalog: Catalog, readings: Readings) -> Iterator[FactCheck]:
    """A CPU runs exactly the instruction sets that its features in archspec, and in LLVM, allow."""
    fact = f"{cpu.title}: {', '.join(cpu.isas) or 'none'}"
    if not cpu.archspec and not cpu.llvm:
        yield FactCheck(fact, "archspec, LLVM", "not checked", f"neither has it; {cpu.source}")
    for tool, name in (("archspec", cpu.archspec), ("LLVM", cpu.llvm)):
        if not name:
            continue
        features = _by_archspec(cpu, readings) if tool == "archspec" else _by_llvm(cpu, catalog, readings)
        if isinstance(features, Absent):
            outcome: CheckOutcome = "wrong" if "has no" in features.why else "not checked"
            yield FactCheck(fact, tool, outcome, features.why)
            continue
        known = (isa for isa in catalog.isas.values() if isa.platform == cpu.platform)
        yield _compare(fact, tool, cpu.isas, [isa.name for isa in known if isa_runs(isa, features)])


def _by_archspec(cpu: Cpu, readings: Readings) -> frozenset[str] | Absent:
    if isinstance(readings.archspec, Absent):
        return readings.archspec
    return readings.archspec.get(cpu.archspec, Absent(f"archspec has no {cpu.archspec}"))


def _by_llvm(cpu: Cpu, catalog: Catalog, readings: Readings) -> frozenset[str] | Absent:
    """LLVM's features by their names in /proc/cpuinfo; LRCPC, which has no macro, among them."""
    features = readings.llvm(cpu.platform, cpu.llvm)
    if isinstance(features, Absent):
        return features
    ours = {feature.name for feature in _features(catalog, cpu.platform) if feature.llvm in features}
    return frozenset(ours | ({"lrcpc"} if "rcpc" in features else set()))


def not_looked_at(catalog: Catalog) -> dict[str, int]:
    """How many facts of each kind no tool is asked about; tests hold tables of other sources against them."""
    gpus, cpus = catalog.gpus.values(), catalog.cpus.values()
    lines, pins = catalog.lines.values(), catalog.pins.values()
    pin_tables = ("versions", "cudas", "pythons", "limits", "aliases")
    return {
        "GPU parts": sum(len(gpu.parts) + len(gpu.vgpus) for gpu in gpus),
        "drivers of GPUs": len(gpus),
        "drivers of CUDA releases": sum(1 + bool(toolkit.native_driver) for toolkit in catalog.cuda.values()),
        "products of AMD": sum(len(gfx.parts) + len(gfx.chips) for gfx in catalog.gfx.values()),
        "machines of GPUs": sum(len(gpu.platforms) + len(gpu.cpus) for gpu in gpus),
        "CPU numbers": sum(len(cpu.ids) for cpu in cpus),
        "CPU products and names": sum(len(cpu.products) + len(cpu.also_called) for cpu in cpus),
        "releases of lines": sum(1 + len(line.versions) for line in lines if line.torch),
        "Pythons of lines": sum(len(line.pythons) for line in lines),
        "source hashes": sum(len(line.hashes) for line in lines),
        "fixes of builds": sum(
            len(build.fixes) for line in lines for build in (line.cpu, *line.cuda.values()) if build
        ),
        "signs and patches of fixes": sum(
            len(fix.signs) + len(fix.patches) for fix in catalog.fixes.values()
        ),
        "facts of pins": sum(3 + sum(len(getattr(pin, name)) for name in pin_tables) for pin in pins),
        "known errors": len(catalog.errors),
    }


def _compare(fact: str, tool: str, ours: Iterable[str], theirs: Iterable[str]) -> FactCheck:
    listed, reported = set(ours), set(theirs)
    differences = [
        *(f"{name} is not in the tool" for name in sorted(listed - reported)),
        *(f"{name} is missing here" for name in sorted(reported - listed)),
    ]
    return FactCheck(fact, tool, "wrong" if differences else "holds", ", ".join(differences))
