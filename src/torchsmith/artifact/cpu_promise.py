"""Whether the CPU code is what a name promises: the flags arrived, and no code needs more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torchsmith.artifact import iced
from torchsmith.artifact.check import Check, Status
from torchsmith.artifact.cpu import FLAGGED, CodeBlock, CodeGroup, CpuCode, Hit, Tally
from torchsmith.artifact.elf import ElfMachine
from torchsmith.artifact.features import Level, closure, facts
from torchsmith.artifact.identity import StatedFlags, stated
from torchsmith.artifact.inspect import Inspection
from torchsmith.catalog import Catalog, Isa

MOST_LINKING_CODE = 8 << 10  # bytes of code in a library that only loads others
LONGEST_NAME = 120  # characters of a function's name in a line
FEWEST = 20  # functions that show any level, before C++ units are judged without host halves
FEWEST_IN_UNIT = 20  # functions that show any level, before a unit is judged by itself
MOST_MISTAKEN = 0.2  # of the functions of a stripped CUDA library; 0.095 in torch 2.15's libtorch_cuda.so
MOST_LEGACY = 0.05  # the share of functions without any flags that inline assembly explains
MOST_OLDER = 0.01  # the share of functions without the set that inline assembly explains
FEWEST_PROVING = 3  # functions without the set that prove that its flags did not arrive
FEWEST_IN_LIBRARY = 50  # functions that show any level, before a library is judged by itself
# The share of functions in units that show nothing of a set, beyond what small units explain: how much leaves
# doubt, and how much is proof. Neighbours that stand for units are of one kind where a linker sorted them.
SILENT_UNITS, SILENT_NEIGHBOURS = (0.25, 0.6), (0.6, 0.9)

DECIDING_HINT = (
    "what decides: the flags that libtorch_cpu.so embeds, or CXXFLAGS in the derivation, which"
    " `torchsmith verify NAME` finds by the record in the workspace that built it"
)

GROUP_TITLES: dict[CodeGroup, str] = {
    "c++": "C++ units",
    "cuda": "host halves of CUDA units",
    "unplaced": "unknown units",
    "shared": "functions shared with dispatched units",
    "runtime": "the compiler's run time",
    "assembly": "assembly",
}


def combined(build: Inspection) -> CpuCode | None:
    """The CPU code of all own libraries together; None where none was read."""
    codes = list(build.cpu_code.values())
    if not codes or build.machine is None:
        return None
    groups: dict[CodeGroup, Tally] = {}
    for cpu in codes:
        for name, tally in cpu.groups.items():
            groups.setdefault(name, Tally()).join(tally)
    return CpuCode(
        machine=build.machine,
        stripped=any(cpu.stripped for cpu in codes),
        complete=all(cpu.complete for cpu in codes),
        groups=groups,
        blocks=[block for cpu in codes for block in cpu.blocks],
        host_halves_known=all(cpu.host_halves_known for cpu in codes),
        for_size=any(cpu.for_size for cpu in codes),
        dispatched=tuple(sorted({name for cpu in codes for name in cpu.dispatched})),
        outline_atomics=any(cpu.outline_atomics for cpu in codes),
    )


def cpu_promise(build: Inspection, isa: Isa, catalog: Catalog) -> Iterator[Check]:
    """The instruction set of the name was compiled for, and is enough to run the result."""
    if build.machine is None:
        return
    if not isa.platform.startswith(build.machine):
        text = f"its libraries are for {build.machine}, the name says {isa.name} ({isa.platform})"
        yield Check("machine", "wrong", text)
        return
    code = combined(build)
    if code is None:
        return
    stated_flags = [stated(text, by, code.machine, isa) for by, text in _stated_flags(build)]
    statements = [flags for flags in stated_flags if flags is not None]
    if not code.judged.functions and not any(flags.names for flags in statements):
        text = "no function of the package's own is named: its instructions cannot be attributed"
        empty = sum(library.code for library in build.own) <= MOST_LINKING_CODE
        yield Check("cpu", "note" if empty else "unjudged", text, DECIDING_HINT)
        return
    yield from _arrived(code, build, isa, statements, catalog)
    yield from _host_halves(code)
    chooses = bool(build.packages) and all(package.chooses for package in build.packages)
    yield from _within(code, isa, catalog, chooses=chooses)


def _stated_flags(build: Inspection) -> Iterator[tuple[str, str]]:
    """The flags that the compiler got, each with its source."""
    embedded = next((library.flags for library in build.own if library.flags), "")
    if embedded:
        yield "embedded flags", embedded
    if build.derivation:
        yield "derivation's flags", build.derivation


@dataclass(frozen=True, slots=True)
class Evidence:
    """Whether some functions were compiled for an instruction set, by their instructions."""

    status: Status
    why: str  # where it is not right
    place: str
    functions: int
    feature: str  # that code for the set shows
    showing: int  # functions that do
    modern: int  # functions that show any level of the architecture's sets
    legacy: int  # functions written as for the oldest CPU

    def summary(self, machine: ElfMachine) -> str:
        text = f"{self.showing} of {self.functions} functions of {self.place} use {self.feature}"
        return f"{text}, {self.legacy} {facts(machine).legacy_words}"


def flag_evidence(code: CpuCode, isa: Isa) -> Evidence:
    """Whether the flags of a set arrived, by the instructions of C++ units; and of host halves of CUDA units
    where there is hardly anything else."""
    known = facts(code.machine)
    tally, halves = Tally(), code.group("cuda")
    for group in FLAGGED:
        tally.join(code.group(group))
    place = GROUP_TITLES["c++"] if "unplaced" not in code.groups else "the library"
    alone = tally.having[known.modern] + tally.having[known.legacy] < FEWEST and halves.functions > 0
    if alone:
        tally.join(halves)
        place = GROUP_TITLES["cuda"] if halves.functions == tally.functions else "the library"
    level = next(level for level in known.evidence if isa.features.intersection(level.features))
    counts = tally.having
    feature = max(level.features, key=lambda name: counts[name])
    modern, legacy = counts[known.modern], counts[known.legacy]
    status, why = _status(code, level, counts, alone)
    return Evidence(status, why, place, tally.functions, feature, counts[feature], modern, legacy)


def _status(code: CpuCode, level: Level, counts: Counter[str], alone: bool) -> tuple[Status, str]:
    """The status by counts of functions by feature, and why where it is not right."""
    known = facts(code.machine)
    showing = max(counts[feature] for feature in level.features)
    modern, legacy, older = counts[known.modern], counts[known.legacy], counts[level.older]
    if legacy > MOST_LEGACY * (modern + legacy):
        if alone:
            return "unjudged", "hardly any code but host halves of CUDA units, whose compiler gets no flags"
        if not code.host_halves_known:
            return "unjudged", "stripped, so host halves of CUDA units and C++ units look alike"
        inferred = {"cuda", "unplaced"} <= code.groups.keys()
        if inferred and legacy <= MOST_MISTAKEN * (modern + legacy):
            return "unjudged", "stripped, so that some host halves of CUDA units may count as C++ units"
        return "wrong", ""
    for block in code.blocks:
        if block.unit and not block.having[known.modern] and block.having[known.legacy] >= FEWEST_IN_UNIT:
            return "wrong", f"all of {block.unit} {known.legacy_words}"
    if not showing and not level.share:
        return "unjudged", "code for the set may hold no instruction of it"
    if older > MOST_OLDER * (showing + older):
        text = f"{older} functions write a {level.older}, as compilers do without {level.features[0]}"
        proved = older > MOST_LEGACY * (showing + older) and older >= FEWEST_PROVING
        return ("wrong" if proved else "unjudged"), text
    silent = silent_share(code.blocks, level, known.modern)
    some, most = SILENT_UNITS if _named(code.blocks, known.modern) else SILENT_NEIGHBOURS
    if silent <= some and showing:
        return "right", ""
    if modern < level.enough:
        return "unjudged", "too little code to tell"
    if code.for_size:
        return "unjudged", "compiled for size, which leaves instructions of the set out"
    text = f"{silent:.0%} of the code with vectors stands in units without any such instruction"
    return ("wrong" if silent > most else "unjudged"), text


def _named(blocks: Sequence[CodeBlock], modern: str) -> bool:
    """Whether most functions stand in units that have a name."""
    named = sum(block.having[modern] for block in blocks if block.unit)
    return 2 * named > sum(block.having[modern] for block in blocks)


def silent_share(blocks: Sequence[CodeBlock], level: Level, modern: str) -> float:
    """The share of functions with vector code in units that show nothing of a level, less what is expected:
    of units in which each function shows it with the usual frequency, small ones may show nothing."""
    total = sum(block.having[modern] for block in blocks)
    if not total or not level.share:
        return 0.0
    showing_counts = [max(block.having[feature] for feature in level.features) for block in blocks]
    usual = max(sum(showing_counts) / total, level.share)
    excess = 0.0
    for block, showing in zip(blocks, showing_counts, strict=True):
        count = block.having[modern]
        excess += count * ((showing == 0) - (1 - min(usual, 1.0)) ** count)
    return max(excess / total, 0.0)


def _arrived(
    code: CpuCode, build: Inspection, isa: Isa, flags: Sequence[StatedFlags], catalog: Catalog
) -> Iterator[Check]:
    """Whether the compiler got the flags of the instruction set: by instructions, and by stated flags."""
    evidence = flag_evidence(code, isa)
    summary = "; ".join([evidence.summary(code.machine), *(stated.text for stated in flags)])
    summary += f" ({evidence.why})" if evidence.why else ""
    named = any(stated.names for stated in flags)
    # Flags that a build states reached all of its units: then code without such instructions is no proof.
    silent = evidence.status == "wrong" and not evidence.legacy and named
    if (evidence.status == "wrong" and not silent) or any(stated.other for stated in flags):
        yield Check("flags", "wrong", f"the flags of {isa.name} did not arrive: {summary}")
        return
    for name, cpu in build.cpu_code.items():
        alone = flag_evidence(cpu, isa)
        if alone.status == "wrong" and alone.legacy > max(FEWEST_IN_LIBRARY, alone.modern):
            text = f"the flags of {isa.name} did not arrive in {name}: {alone.summary(code.machine)}"
            yield Check("flags", "wrong", text)
            return
    if evidence.status == "unjudged" and not named:
        text = f"cannot tell whether the flags of {isa.name} arrived: {summary}"
        yield Check("flags", "unjudged", text, DECIDING_HINT)
        return
    yield Check("flags", "right", f"compiled for {isa.name}: {summary}")
    alike = indistinguishable(code, isa, catalog)
    if alike and not named:
        text = f"its instructions cannot tell {isa.name} from {', '.join(alike)}, and no flags are stated"
        yield Check("set", "note", text, DECIDING_HINT)


def indistinguishable(code: CpuCode, isa: Isa, catalog: Catalog) -> list[str]:
    """Other sets that the same instructions would pass for."""
    needed = code.features
    if not needed <= closure(code.machine, isa.features):
        return []
    return [
        other.name
        for other in catalog.isas.values()
        if other.name != isa.name
        and other.platform == isa.platform
        and needed <= closure(code.machine, other.features)
        and flag_evidence(code, other).status != "wrong"
    ]


def _host_halves(code: CpuCode) -> Iterator[Check]:
    """The host halves of CUDA units: their compiler gets flags only through nvcc."""
    tally, known = code.group("cuda"), facts(code.machine)
    modern, legacy = tally.having[known.modern], tally.having[known.legacy]
    if legacy > modern:
        share = f"{legacy} of {tally.functions} functions {known.legacy_words}"
        hint = "they run on every CPU; NVCC_APPEND_FLAGS=-Xcompiler=... hands flags to nvcc's host compiler"
        text = f"{GROUP_TITLES['cuda']} were compiled without the flags: {share}"
        yield Check("host", "note", text, hint)


def _within(code: CpuCode, isa: Isa, catalog: Catalog, *, chooses: bool) -> Iterator[Check]:
    """Whether code outside dispatch stays within the instruction set; code that `chooses` may hold more."""
    allowed = closure(code.machine, isa.features)
    judged, shared = code.judged, code.group("shared")
    beyond = sorted(judged.features(code.machine) - allowed)
    called = sorted(code.features - allowed)
    names = ", ".join(beyond)
    if beyond and chooses:
        text = f"some of its code needs {names}, beyond {isa.name}: {location(first_of(judged, beyond))}"
        yield Check("within", "note", text, "this package asks the CPU at run time which code to use")
    elif beyond:
        first = first_of(judged, beyond)
        text = f"code outside dispatch needs {names}, which {isa.name} does not have: {location(first)}"
        yield Check("within", "wrong", text, crashing_cpus(first.feature, isa, catalog))
    elif called:
        first = next(hit for hit in shared.hits[called[0]] if hit.caller)
        count = shared.having[first.feature]
        some, need, them = ("function", "needs", "it") if count == 1 else ("functions", "need", "them")
        text = f"{count} {some} that the linker took from dispatched units {need} {', '.join(called)},"
        text += (
            f" and code outside dispatch calls {them}: {location(first)}, called by {clipped(first.caller)}"
        )
        yield Check("within", "wrong", text, crashing_cpus(first.feature, isa, catalog))
    else:
        text = f"none of {judged.functions} functions outside dispatch needs more than {isa.name}"
        yield Check("within", "right" if code.complete else "note", text)


def first_of(tally: Tally, features: Sequence[str]) -> Hit:
    """The first place that needs one of some features."""
    return tally.hits[features[0]][0]


def location(hit: Hit) -> str:
    """An instruction and its place, as text."""
    unit = f" of {hit.unit}" if hit.unit else ""
    return (
        f"{hit.feature} instruction {disassembled(hit)} at +{hit.offset:#x} in"
        f" {clipped(hit.function)}{unit} ({hit.library})"
    )


def clipped(name: str) -> str:
    """A function's name, shortened: templates of C++ can fill a screen, and both ends matter most."""
    half = LONGEST_NAME // 2
    return name if len(name) <= LONGEST_NAME else f"{name[:half]} … {name[-half:]}"


def disassembled(hit: Hit) -> str:
    """An instruction as its bytes, and for x86-64 as text."""
    if hit.machine == "aarch64":
        return hit.code
    return f"`{iced.text_of(bytes.fromhex(hit.code))}` ({hit.code})"


def crashing_cpus(feature: str, isa: Isa, catalog: Catalog) -> str:
    """The CPUs that run the instruction set and crash at the feature, as text."""
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


def shared_copies(build: Inspection, isa: Isa | None) -> Iterator[Check]:
    """Shared functions that use more and whose callers are not known: they may crash on older CPUs."""
    code = combined(build)
    if code is None:
        return
    allowed = closure(code.machine, isa.features if isa else code.features) | code.features
    shared = code.group("shared")
    beyond = sorted(shared.features(code.machine) - allowed)
    if beyond:
        first = first_of(shared, beyond)
        text = f"shared functions use {', '.join(beyond)} beyond the rest of the code: {location(first)}"
        hint = (
            "inline copies that the linker took from a dispatched unit; no caller outside dispatch was found"
        )
        yield Check("shared", "note", text, hint)
