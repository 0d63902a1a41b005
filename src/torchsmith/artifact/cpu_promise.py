"""Whether the CPU code is what a name promises: the flags arrived, and nothing asks for more."""

from __future__ import annotations

from collections.abc import Iterator

from torchsmith.artifact.check import Check
from torchsmith.artifact.cpu import CpuCode, Sighting, Tally
from torchsmith.artifact.elf import Machine
from torchsmith.artifact.features import LEGACY_SSE, closure, facts
from torchsmith.artifact.inspect import Inspection
from torchsmith.catalog import Catalog, Isa

ENOUGH = 500  # functions with vector code, before their silence tells anything
FEW_LEGACY = 0.05  # the share of functions with SSE written the old way that assembly files explain


def combined(seen: Inspection) -> tuple[Tally, Tally, list[CpuCode]]:
    """The undispatched and the shared functions of all own libraries together."""
    undispatched, shared = Tally(), Tally()
    looked = [library.cpu for library in seen.own if library.cpu is not None]
    for cpu in looked:
        undispatched.join(cpu.undispatched)
        shared.join(cpu.shared)
    return undispatched, shared, looked


def cpu_promise(seen: Inspection, isa: Isa, catalog: Catalog) -> Iterator[Check]:
    """The instruction set of the name was compiled for, and is enough to run the result."""
    machine = seen.machine
    if machine is None:
        return
    if not isa.platform.startswith(machine):
        text = f"its libraries are for {machine}, the name says {isa.name} ({isa.platform})"
        yield Check("machine", "wrong", text)
        return
    undispatched, _, looked = combined(seen)
    if not looked:
        return
    if not undispatched.functions:
        yield Check(
            "cpu", "note", "no function of PyTorch's own is named: its instructions cannot be told apart"
        )
        return
    yield _arrived(seen, machine, isa, undispatched)
    yield _within(machine, isa, undispatched, catalog)


def _arrived(seen: Inspection, machine: Machine, isa: Isa, tally: Tally) -> Check:
    """Whether the compiler was told of the instruction set."""
    levels = [feature for feature in facts(machine).evidence if feature in isa.features]
    counts = [tally.having[feature] for feature in levels]
    legacy = tally.having[LEGACY_SSE]
    vector = max(counts[-1], legacy)
    embedded, contradiction = _embedded(seen, isa)
    evidence = f"{counts[0]} of {tally.functions} undispatched functions use {levels[0]}"
    if machine == "x86_64":
        evidence += f", {legacy} use SSE without VEX"
    evidence += f"; {embedded}" if embedded else ""
    silent = not counts[0] and (vector >= ENOUGH or (machine == "aarch64" and tally.functions >= ENOUGH))
    if silent or contradiction or (machine == "x86_64" and legacy > FEW_LEGACY * vector):
        return Check("flags", "wrong", f"the flags of {isa.name} did not arrive: {evidence}")
    if counts[0]:
        return Check("flags", "right", f"compiled for {isa.name}: {evidence}")
    return Check(
        "flags", "note", f"too little code to tell whether the flags of {isa.name} arrived: {evidence}"
    )


def _embedded(seen: Inspection, isa: Isa) -> tuple[str, bool]:
    """What the embedded compile flags say of the instruction set, and whether they name another one.

    A compiler wrapper adds flags that the text does not show, so their absence alone proves nothing.
    """
    words = next((library.flags for library in seen.own if library.flags), "").split()
    if not words:
        return "", False
    absent = [flag for flag in isa.flags if flag not in words]
    if not absent:
        return "its embedded flags name the set", False
    other = [word for word in words if word.startswith("-march=") and word not in isa.flags]
    some = [flag for flag in isa.flags if flag in words]
    having = f"name {' '.join([*some, *other])} and " if some or other else ""
    return f"its embedded flags {having}lack {' '.join(absent)}", bool(some or other)


def _within(machine: Machine, isa: Isa, tally: Tally, catalog: Catalog) -> Check:
    """Whether code outside dispatch stays within the instruction set."""
    beyond = sorted(tally.features - closure(machine, isa.features))
    if not beyond:
        return Check("within", "right", f"nothing outside dispatch needs more than {isa.name}")
    first = tally.sightings[beyond[0]][0]
    crash = crashing_cpus(first.feature, isa, catalog)
    text = f"code outside dispatch needs {', '.join(beyond)}, which {isa.name} does not have: {spot(first)}"
    return Check("within", "wrong", text, crash)


def spot(sighting: Sighting) -> str:
    """Where an instruction stands, in words."""
    unit = f" of {sighting.unit}" if sighting.unit else ""
    return (
        f"{sighting.feature} instruction {disassembled(sighting)} at +{sighting.offset:#x} in"
        f" {sighting.function}{unit} ({sighting.library})"
    )


def disassembled(sighting: Sighting) -> str:
    """An instruction as its bytes, and as text where capstone is installed and knows it."""
    try:
        import capstone
    except ImportError:
        return sighting.code
    if sighting.machine == "x86_64":
        engine = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    else:
        engine = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)
    found = next(engine.disasm_lite(bytes.fromhex(sighting.code), 0), None)
    return f"`{found[2]} {found[3]}` ({sighting.code})" if found else sighting.code


def crashing_cpus(feature: str, isa: Isa, catalog: Catalog) -> str:
    """Which CPUs run the instruction set and die at the feature, in words."""
    having = {other.name for other in catalog.isas.values() if feature in other.features}
    if not having:
        return f"a CPU without {feature} crashes there (SIGILL)"
    lacking = [
        cpu.title
        for cpu in catalog.cpus.values()
        if isa.name in cpu.isas and not having.intersection(cpu.isas)
    ]
    if not lacking:
        return f"every CPU of the catalog that runs {isa.name} has {feature} too"
    return f"crashes (SIGILL) on {', '.join(lacking)}"


def shared_copies(seen: Inspection, isa: Isa | None) -> Iterator[Check]:
    """Functions of no known unit that use more: such an inline function crashes on older CPUs."""
    machine = seen.machine
    undispatched, shared, _ = combined(seen)
    if machine is None or not shared.functions:
        return
    allowed = closure(machine, isa.features) if isa else closure(machine, undispatched.features)
    beyond = sorted(shared.features - allowed)
    if beyond:
        first = shared.sightings[beyond[0]][0]
        yield Check(
            "shared",
            "note",
            f"shared functions use {', '.join(beyond)} beyond the rest of the code: {spot(first)}",
            "inline copies that the linker took from a dispatched unit, or code that asks the CPU first",
        )
