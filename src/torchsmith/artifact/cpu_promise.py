"""Whether the CPU code is what a name promises: the flags reached every unit, and no code needs more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchsmith.artifact.check import Check
from torchsmith.artifact.cpu import CpuCode, Tally
from torchsmith.artifact.features import closure
from torchsmith.artifact.inspect import Inspection
from torchsmith.artifact.recorded import RecordedLine
from torchsmith.catalog import Catalog, Isa
from torchsmith.core.text import counted, some_of
from torchsmith.matrix.variant import Variant

MOST_LINES = 3  # of a kind, in a report; JSON has all
DEFAULTS = ("-march=x86-64", "-march=armv8-a")  # of GCC, which records them
HARMLESS = (  # options that choose no instructions beyond the set
    *("-m64", "-mlittle-endian", "-momit-leaf-frame-pointer", "-mno-omit-leaf-frame-pointer"),
    *("-mno-red-zone", "-mshstk", "-moutline-atomics", "-mno-outline-atomics"),
)
NO_RECORD = "this build does not record its flags"


def combined(build: Inspection) -> CpuCode | None:
    """The CPU code of all own libraries together; None if none was read."""
    codes = list(build.cpu_code.values())
    if not codes or build.machine is None:
        return None
    own, unnamed = Tally(), Tally()
    for code in codes:
        own.join(code.own)
        unnamed.join(code.unnamed)
    return CpuCode(
        machine=build.machine,
        complete=all(code.complete for code in codes),
        own=own,
        unnamed=unnamed,
        dispatched=tuple(sorted({name for code in codes for name in code.dispatched})),
    )


def cpu_promise(build: Inspection, isa: Isa, variant: Variant, catalog: Catalog) -> Iterator[Check]:
    """The instruction set of the name was compiled for, and is enough to run the result."""
    if build.machine is None:
        return
    if not isa.platform.startswith(build.machine):
        text = f"its libraries are for {build.machine}, the name says {isa.name} ({isa.platform})"
        yield Check("machine", "wrong", text)
        return
    code = combined(build)
    compiler = catalog.backends[variant.backend].compiler
    if compiler == "gcc":
        yield from _flags(build, code, isa, torch=variant.package.is_torch)
    else:
        text = f"{compiler} compiles these builds, and they do not record their flags"
        yield Check("flags", "unjudged", text, blocking=False)
    if code is not None:
        yield from _within(code, isa, chooses=variant.package.chooses)


def _flags(build: Inspection, code: CpuCode | None, isa: Isa, *, torch: bool) -> Iterator[Check]:
    """Whether the flags of the instruction set reached every unit, by the command lines that it records."""
    if build.recorded:
        check = flags_check(build.recorded, isa, torch=torch)
        yield check
        yield from _unrecorded(build, isa) if check.status == "right" else ()
        return
    used = ", ".join(sorted(code.own.features)) if code else ""
    text = NO_RECORD
    text += f"; code outside dispatch uses {used or 'nothing beyond the oldest CPU'}" if code else ""
    yield Check("flags", "unjudged", text)


def flags_check(lines: Sequence[RecordedLine], isa: Isa, *, torch: bool) -> Check:
    """Whether command lines show that the flags of the instruction set reached every unit; host halves of
    `torch` may lack them."""
    unreached = [line for line in lines if not line.mark]
    hosts = [line for line in lines if line.mark == "host"]
    exact = [line for line in lines if _is_for(line, isa)]
    lacking = [line for line in hosts if not any(map(_chosen(line).issuperset, _spellings(isa)))]
    if not lines:
        return Check("flags", "unjudged", NO_RECORD)
    if unreached:
        text = f"the flags of {isa.name} did not reach every unit: {_quoted(unreached)}"
        return Check("flags", "wrong", text, "a unit that CXXFLAGS reach records the mark beside them")
    if not exact:
        found = dict.fromkeys(f"`{' '.join(line.machine_options)}`" for line in lines)
        text = f"no recorded command line is for {isa.name}, but for {some_of(list(found), MOST_LINES)}"
        return Check("flags", "wrong", text)
    if lacking and not torch:
        text = f"nvcc's host compiler did not get the flags of {isa.name}: {_quoted(lacking)}"
        return Check("flags", "wrong", text, "NVCC_APPEND_FLAGS=-Xcompiler=... passes them")
    parts = [f"{isa.title} in {len(exact)} of {counted(len(lines), 'recorded command line')}"]
    overrides = len(lines) - len(exact) - len(hosts)
    parts += [counted(overrides, "unit's own override", "units' own overrides")] if overrides else []
    parts += [counted(len(hosts), "CUDA host line")] if hosts else []
    hint = "objects without a record are not covered: assembly, LTO, static MAGMA and NCCL"
    return Check("flags", "right", "; ".join(parts), hint)


def _spellings(isa: Isa) -> list[frozenset[str]]:
    """The flags of an instruction set, however they may be written."""
    return [frozenset(flags) for flags in (isa.flags, *isa.other_flags)]


def _chosen(line: RecordedLine) -> frozenset[str]:
    """The options of a command line that may choose its instructions."""
    options = (
        option
        for option in line.machine_options
        if "=" not in option or option.startswith(("-march=", "-mcpu="))
    )
    return frozenset(options).difference(DEFAULTS, HARMLESS)


def _is_for(line: RecordedLine, isa: Isa) -> bool:
    """Whether a unit that CXXFLAGS reach got exactly the set, and no option of its own that changes it."""
    return line.mark == "cxx" and _chosen(line) in _spellings(isa)


def _unrecorded(build: Inspection, isa: Isa) -> Iterator[Check]:
    """Libraries about whose flags the record of the others says nothing."""
    compiled = [library for library in build.own if library.code]
    silent = [library.name for library in compiled if not library.recorded]
    if silent:
        yield Check("flags", "unjudged", f"no flags are recorded in {some_of(silent, MOST_LINES)}")
    without = [
        library.name
        for library in compiled
        if any(line.mark == "cxx" for line in library.recorded)
        and not any(_is_for(line, isa) for line in library.recorded)
    ]
    if without:
        text = f"no unit of {some_of(without, MOST_LINES)} was compiled for {isa.name} alone"
        yield Check("flags", "unjudged", text)


def _quoted(lines: Sequence[RecordedLine]) -> str:
    return some_of([f"`{line.text}`" for line in lines], MOST_LINES)


def _within(code: CpuCode, isa: Isa, *, chooses: bool) -> Iterator[Check]:
    """Whether code outside dispatch stays within the instruction set; code that `chooses` may hold more."""
    within = closure(code.machine, isa.features)
    own, unnamed = sorted(code.own.features - within), sorted(code.unnamed.features - within)
    if (own or unnamed) and chooses:
        text = f"some of its code needs {', '.join(own or unnamed)}, beyond {isa.name}"
        yield Check("within", "note", text, "this package asks the CPU at run time which code to use")
    elif own:
        text = f"code outside dispatch needs {', '.join(own)}, which {isa.name} does not have:"
        text += f" {code.own.examples[own[0]]}"
        yield Check("within", "wrong", text, f"a CPU without {own[0]} crashes there (SIGILL)")
    elif unnamed:
        text = f"code without names needs {', '.join(unnamed)}; whether it is dispatched is not known:"
        yield Check("within", "unjudged", f"{text} {code.unnamed.examples[unnamed[0]]}")
    elif code.undecoded:
        yield Check("within", "unjudged", f"{counted(code.undecoded, 'function')} could not be decoded")
    elif not code.complete:
        yield Check("within", "unjudged", "not all of its functions could be read")
    elif functions := code.own.functions + code.unnamed.functions:
        text = f"none of {functions} functions outside dispatch needs more than {isa.name}"
        yield Check("within", "right", text)
    else:
        yield Check("within", "note", "it has no function of its own outside dispatch to check")
