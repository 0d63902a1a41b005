"""Whether the CPU code is what a name promises: the flags arrived, and nothing asks for more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torchsmith.artifact import iced
from torchsmith.artifact.check import Check, Status
from torchsmith.artifact.cpu import JUDGED, CodeGroup, CpuCode, Sighting, Tally
from torchsmith.artifact.elf import ElfMachine
from torchsmith.artifact.features import closure, facts
from torchsmith.artifact.identity import StatedFlags, stated
from torchsmith.artifact.inspect import Inspection
from torchsmith.catalog import Catalog, Isa

LONGEST_NAME = 120  # characters of a function's name in a line
A_FEW = 20  # functions that show any level, before units of one kind are judged without the others
FEW_LEGACY = 0.05  # the share of functions written the old way that inline assembly explains
A_LIBRARY = 50  # functions that show any level, before a library is judged by itself

WORDS: dict[CodeGroup, str] = {
    "c++": "C++ units",
    "cuda": "host halves of CUDA units",
    "unplaced": "unknown units",
    "shared": "functions shared with dispatched units",
    "runtime": "the compiler's run time",
    "assembly": "assembly",
}


@dataclass(frozen=True, slots=True)
class Combined:
    """The CPU code of all own libraries together."""

    machine: ElfMachine
    groups: dict[CodeGroup, Tally]
    libraries: dict[str, CpuCode]
    cuda: bool  # some of it belongs to GPU code

    def group(self, name: CodeGroup) -> Tally:
        return self.groups.get(name, Tally())

    @property
    def judged(self) -> Tally:
        """All that must run on every CPU, by whatever unit it came."""
        whole = Tally()
        for name in JUDGED:
            whole.join(self.group(name))
        return whole

    @property
    def features(self) -> frozenset[str]:
        """What running it needs, with shared functions that are known to be called."""
        called = {
            feature
            for feature, seen in self.group("shared").sightings.items()
            if any(one.caller for one in seen)
        }
        return (self.judged.features(self.machine) | called) - {facts(self.machine).legacy}


def combined(seen: Inspection) -> Combined | None:
    """What was seen of CPU code, or nothing where none was looked at."""
    looked = {library.name: library.cpu for library in seen.own if library.cpu is not None}
    if not looked or seen.machine is None:
        return None
    groups: dict[CodeGroup, Tally] = {}
    for cpu in looked.values():
        for name, tally in cpu.groups.items():
            groups.setdefault(name, Tally()).join(tally)
    return Combined(seen.machine, groups, looked, cuda=bool(seen.containers))


def cpu_promise(seen: Inspection, isa: Isa, catalog: Catalog) -> Iterator[Check]:
    """The instruction set of the name was compiled for, and is enough to run the result."""
    if seen.machine is None:
        return
    if not isa.platform.startswith(seen.machine):
        text = f"its libraries are for {seen.machine}, the name says {isa.name} ({isa.platform})"
        yield Check("machine", "wrong", text)
        return
    code = combined(seen)
    if code is None:
        return
    if not code.judged.functions:
        text = "no function of PyTorch's own is named: its instructions cannot be told apart"
        yield Check("cpu", "note", text)
        return
    flags = next((library.flags for library in seen.own if library.flags), "")
    yield from _arrived(code, isa, stated(flags, code.machine, isa) if flags else None, catalog)
    yield from _host_halves(code)
    chooses = bool(seen.packages) and all(package.chooses for package in seen.packages)
    yield from _within(code, isa, catalog, chooses=chooses)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the instructions of some functions say of an instruction set."""

    place: str
    functions: int
    telling: str  # the feature that code for the set shows
    showing: int  # functions that do
    modern: int  # functions that show any level of the architecture's sets
    legacy: int  # functions written as for the oldest CPU
    halves: bool  # host halves of CUDA units may be among them
    enough: int  # functions that must show nothing before that tells something

    def words(self, machine: ElfMachine) -> str:
        text = f"{self.showing} of {self.functions} functions of {self.place} use {self.telling}"
        return f"{text}, {self.legacy} {facts(machine).legacy_words}"


def evidence_of(code: Combined | CpuCode, isa: Isa) -> Evidence:
    """The functions that tell whether flags arrived: C++ units, with the rest where these say too little."""
    known = facts(code.machine)
    tally, place, halves = Tally(), WORDS["c++"], False
    for group in JUDGED:
        if group not in code.groups:
            continue
        if tally.having[known.modern] + tally.having[known.legacy] >= A_FEW:
            break
        place = "the library" if tally.functions else WORDS[group]
        halves = group != "c++"
        tally.join(code.groups[group])
    level = next(level for level in known.evidence if isa.features.intersection(level.features))
    counts = tally.having
    telling = max(level.features, key=lambda feature: counts[feature])
    shown = counts[telling], counts[known.modern], counts[known.legacy]
    return Evidence(place, tally.functions, telling, *shown, halves, level.enough)


def told_by_instructions(code: Combined, isa: Isa) -> tuple[Status, Evidence]:
    """Whether flags of a set arrived, as far as instructions tell."""
    found, of = evidence_of(code, isa), facts(code.machine).enough_of
    told = found.modern + found.legacy
    least = FEW_LEGACY * told
    # nvcc's host compiler gets no flags as a rule, so that some of these functions may lack them.
    if found.legacy > least and not (found.halves and code.cuda and found.modern > least):
        return ("unjudged" if _all_halves(code) else "wrong"), found
    if found.showing:
        return "right", found
    silent = (found.functions if of == "any" else told) >= found.enough
    return ("wrong" if silent else "note"), found


def _all_halves(code: Combined) -> bool:
    """Whether all code that could show flags is of host halves of CUDA units, whose compiler gets none."""
    known = facts(code.machine)
    having = {name: code.group(name).having for name in JUDGED}
    shows = {name: counts[known.modern] + counts[known.legacy] for name, counts in having.items()}
    return shows.pop("cuda") > 0 and not any(shows.values())


def _arrived(code: Combined, isa: Isa, said: StatedFlags | None, catalog: Catalog) -> Iterator[Check]:
    """Whether the compiler was told of the instruction set."""
    status, found = told_by_instructions(code, isa)
    evidence = found.words(code.machine) + (f"; {said.text}" if said else "")
    if status == "wrong" or (said and said.other):
        yield Check("flags", "wrong", f"the flags of {isa.name} did not arrive: {evidence}")
        return
    for name, cpu in code.libraries.items():
        alone = evidence_of(cpu, isa)
        if not alone.halves and alone.legacy > max(A_LIBRARY, alone.modern):
            text = f"the flags of {isa.name} did not arrive in {name}: {alone.words(code.machine)}"
            yield Check("flags", "wrong", text)
            return
    if status != "right" and not (said and said.names):
        little = "too little code" if status == "note" else "only host halves of CUDA units"
        text = f"{little} to tell whether the flags of {isa.name} arrived: {evidence}"
        yield Check("flags", status, text)
        return
    yield Check("flags", "right", f"compiled for {isa.name}: {evidence}")
    alike = indistinguishable(code, isa, catalog)
    if alike and not (said and said.names):
        text = f"its instructions cannot tell {isa.name} from {', '.join(alike)}, and no flags are embedded"
        yield Check("set", "note", text, "only what compiled it knows: the build's log, or its recipe")


def indistinguishable(code: Combined, isa: Isa, catalog: Catalog) -> list[str]:
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
        and told_by_instructions(code, other)[0] == "right"
    ]


def _host_halves(code: Combined) -> Iterator[Check]:
    """The host halves of CUDA units: their compiler gets flags only through nvcc."""
    tally, known = code.group("cuda"), facts(code.machine)
    modern, legacy = tally.having[known.modern], tally.having[known.legacy]
    if legacy > modern:
        text = f"{WORDS['cuda']} were compiled without the flags: {legacy} of {tally.functions} functions"
        yield Check(
            "host",
            "note",
            f"{text} {known.legacy_words}",
            "they run on every CPU; NVCC_APPEND_FLAGS=-Xcompiler=... hands flags to nvcc's host compiler",
        )


def _within(code: Combined, isa: Isa, catalog: Catalog, *, chooses: bool) -> Iterator[Check]:
    """Whether code outside dispatch stays within the instruction set; code that `chooses` may hold more."""
    allowed = closure(code.machine, isa.features)
    judged, shared = code.judged, code.group("shared")
    beyond = sorted(judged.features(code.machine) - allowed)
    called = sorted(code.features - allowed)
    names = ", ".join(beyond)
    if beyond and chooses:
        text = f"some of its code needs {names}, beyond {isa.name}: {spot(first_of(judged, beyond))}"
        yield Check("within", "note", text, "this package asks the CPU at run time which code to use")
    elif beyond:
        first = first_of(judged, beyond)
        text = f"code outside dispatch needs {names}, which {isa.name} does not have: {spot(first)}"
        yield Check("within", "wrong", text, crashing_cpus(first.feature, isa, catalog))
    elif called:
        first = next(one for one in shared.sightings[called[0]] if one.caller)
        count = shared.having[first.feature]
        some, need, them = ("function", "needs", "it") if count == 1 else ("functions", "need", "them")
        text = f"{count} {some} that the linker took from dispatched units {need} {', '.join(called)},"
        text += f" and code outside dispatch calls {them}: {spot(first)}, called by {clipped(first.caller)}"
        yield Check("within", "wrong", text, crashing_cpus(first.feature, isa, catalog))
    else:
        text = f"none of {judged.functions} functions outside dispatch needs more than {isa.name}"
        complete = all(cpu.complete for cpu in code.libraries.values())
        yield Check("within", "right" if complete else "note", text)


def first_of(tally: Tally, features: Sequence[str]) -> Sighting:
    """The first place that needs one of some features."""
    return tally.sightings[features[0]][0]


def spot(sighting: Sighting) -> str:
    """Where an instruction stands, in words."""
    unit = f" of {sighting.unit}" if sighting.unit else ""
    return (
        f"{sighting.feature} instruction {disassembled(sighting)} at +{sighting.offset:#x} in"
        f" {clipped(sighting.function)}{unit} ({sighting.library})"
    )


def clipped(name: str) -> str:
    """A function's name for a line of text: templates of C++ can fill a screen, and both ends tell most."""
    half = LONGEST_NAME // 2
    return name if len(name) <= LONGEST_NAME else f"{name[:half]} … {name[-half:]}"


def disassembled(sighting: Sighting) -> str:
    """An instruction as its bytes, and for x86-64 as text."""
    if sighting.machine == "aarch64":
        return sighting.code
    return f"`{iced.text_of(bytes.fromhex(sighting.code))}` ({sighting.code})"


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
    """Shared functions that use more and whose callers are not known: they may crash on older CPUs."""
    code = combined(seen)
    if code is None:
        return
    allowed = closure(code.machine, isa.features if isa else code.features) | code.features
    shared = code.group("shared")
    beyond = sorted(shared.features(code.machine) - allowed)
    if beyond:
        first = first_of(shared, beyond)
        text = f"shared functions use {', '.join(beyond)} beyond the rest of the code: {spot(first)}"
        hint = (
            "inline copies that the linker took from a dispatched unit; no caller outside dispatch was found"
        )
        yield Check("shared", "note", text, hint)
