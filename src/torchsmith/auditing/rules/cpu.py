"""CPU instruction sets: the flags, whether they reach the compiler, and the platforms that can use them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from itertools import pairwise

from torchsmith.auditing.rule import LIKELY, NOTE, WARNING, Defect, convention, rewrite, rule
from torchsmith.auditing.rules.reading import lacks_import
from torchsmith.catalog import Isa
from torchsmith.matrix import Variant
from torchsmith.recipe.read import Export, FlagList, Located, Span, Unknown
from torchsmith.workspace.subject import Subject


def _lists(subject: Subject) -> Iterator[FlagList]:
    """The lists of CPU flags that the compiler gets. If the text does not say what is in CXXFLAGS, several
    lists may be a table of instruction sets, of which this recipe takes one."""
    lists = [flags for flags in subject.body.cpu_flags if flags.name != "flags"]
    exported = False
    for export in subject.body.exports:
        flags = [*filter(IS_CPU_FLAG, export.value.split())]
        last = export.last and export.variable == "CXXFLAGS"
        if last and flags and not FILLED_IN.search(export.value):
            exported = True
            own = next((one for one in lists if [*filter(IS_CPU_FLAG, one.values)] == flags), None)
            at = export.span
            yield own or FlagList("CXXFLAGS", tuple(Located(flag, at) for flag in flags), at)
    if not exported and not subject.recipe.inner:
        enabling = [flags for flags in lists if _enabled(flags.values)] or lists
        yield from enabling if len({flags.values for flags in enabling}) == 1 else ()


IS_CPU_FLAG = re.compile(r"-m").match
# Flags that choose instructions, as opposed to -mtune= and the like; and those of a whole CPU.
CHOICE = re.compile(r"-m(?:[^=]*|(?:arch|cpu)=(?!native).*)")
WHOLE = re.compile(r"-march=(?!armv\d)|-mcpu=(?!apple)")
FILLED_IN = re.compile(r"\$\{(?![A-Z_]+[}:])")
# An interpolation that only an evaluation could fill, or flags; what the shell fills is in capitals.
FILLED = re.compile(r"\$\{(?![A-Z_]+[}:])|(?<!\w)-m")
VARIABLE = re.compile(r"\$\{?(\w+)")
SWITCHED_OFF = re.compile(r"(USE_(?<!\wUSE_)[A-Z0-9_]+)\s*=\s*\"?(0|OFF|false)\b")


def _enabled(flags: tuple[str, ...]) -> set[str]:
    return {flag for flag in flags if not flag.startswith("-mno-")}


def _deviations(subject: Subject, isa: Isa, flags: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Flags of the instruction set that nothing switches on, and flags that switch on more, or off what it
    has."""
    features = subject.catalog.features
    of_flag = {feature.flag: name for name, feature in features.items() if feature.flag}
    off = [flag for flag in flags if flag not in _enabled(flags)]
    off = [flag for flag in off if of_flag.get(flag.replace("-mno-", "-m")) in isa.features]
    if any(_enabled(flags) == _enabled(choice) for choice in (isa.flags, *isa.other_flags)):
        return [], off
    switched_on = (of_flag[flag] for flag in flags if flag in of_flag)
    on = {features[name].flag for name in subject.catalog.implied(switched_on)}
    extra = [flag for flag in flags if flag in _enabled(flags) and flag not in isa.flags]
    extra = [flag for flag in extra if of_flag.get(flag) not in isa.features]
    return [flag for flag in isa.flags if flag in _enabled(isa.flags).difference(on, flags)], extra + off


@rule("TS501", "flags that are not the instruction set's", unless=("wraps_nightly",))
def flags_are_the_isas(subject: Subject, isa: Isa) -> Iterator[Defect]:
    """The flags that choose instructions (`-m...`) must be those of the instruction set in the name. An extra
    flag causes illegal instructions on CPUs that the variant is for (FMA in an AVX build stops on Sandy
    Bridge); a missing one breaks the promise of the name. Other flags that mean the same to gcc are a note,
    as `torchsmith verify` looks for these; the `-march=` of a CPU, which adds more, is a warning. A name
    that gcc does not know stops the build; it is a warning if the catalog does not know the nixpkgs, which
    may have a newer gcc."""
    for listed in [*_lists(subject)] or subject.body.selected_flags:
        if refused := [*_refused(subject, isa, listed)]:
            yield from refused
            continue
        flags = tuple(filter(CHOICE.fullmatch, listed.values))
        lacking, extra = _deviations(subject, isa, flags)
        hint = f"{isa.name} is {' '.join(isa.flags)}"
        cpu = next((flag for flag in listed.flags if flag.value in extra and WHOLE.match(flag.value)), None)
        if not lacking and not extra:
            if {*flags} not in map(set, (isa.flags, *isa.other_flags)):
                message = "other flags that mean the same to gcc"
                yield Defect(message, listed.span, hint=hint, severity=NOTE)
        elif cpu:
            march = cpu.value.partition("=")[2].replace("-", "_")
            known = [one for one in subject.catalog.cpus.values() if one.archspec == march]
            lesser = lacking and known and isa.name not in known[0].isas
            what = f"without {isa.name}" if lesser else f"with all that it has beyond {isa.name}"
            message = f"{cpu.value} compiles for a CPU {what}"
            yield Defect(message, cpu.span, hint=hint, severity=None if lesser else WARNING)
        else:
            yield _deviation(subject, isa, listed, lacking, extra)


def _refused(subject: Subject, isa: Isa, listed: FlagList) -> Iterator[Defect]:
    """The names after -march= that gcc does not know."""
    compiler = subject.catalog.compilers.get(isa.platform)
    marches = [flag for flag in listed.flags if compiler and flag.value.startswith("-march=")]
    for flag in marches:
        assert compiler is not None
        march, *extensions = flag.value.removeprefix("-march=").split("+")
        known = {march: compiler.march, **dict.fromkeys(extensions, compiler.extensions)}
        for word in known:
            if not {word, word.removeprefix("no")}.intersection(known[word]) and "$" not in word:
                close = get_close_matches(word, known[word], n=1)
                hint = f"did you mean {close[0]}?" if close else ""
                sure = None if subject.imported_pin else LIKELY
                yield Defect(f"{flag.value}: gcc does not know {word}", flag.span, hint=hint, sure=sure)


def _deviation(subject: Subject, isa: Isa, listed: FlagList, missing: list[str], extra: list[str]) -> Defect:
    """A list of flags that lacks some or has more."""
    # The name promises what it is called after; FMA and F16C beside AVX2 are our reading of it.
    own_family = [flag for flag in missing if flag.startswith(f"-m{isa.family}")]
    sure = None if extra or own_family or "-march" in " ".join(missing) else convention(subject)
    sets = {flag for other in subject.catalog.isas.values() for flag in other.flags}
    arm = [flag for flag in extra if re.match(r"-march=armv\d", flag) and flag not in sets]
    are = "is not one of" if len(extra) == 1 else "are not among"
    parts = [f"the flags lack {', '.join(missing)}"] if missing else []
    parts += [f"{', '.join(extra)} {are} {isa.name}'s flags"] if extra else []
    at = next((flag.span for flag in listed.flags if flag.value in extra), listed.span)
    hint = f"{isa.name} is {' '.join(isa.flags)}"
    severity = WARNING if arm else None  # the same instructions may have several names
    return Defect("; ".join(parts), at, hint=hint, sure=sure, severity=severity)


@rule("TS502", "flags that have no effect", unless=("wraps_nightly",))
def flags_reach_the_compiler(subject: Subject, isa: Isa) -> Iterator[Defect]:
    """A list of flags has an effect only if it ends up in CXXFLAGS and CFLAGS (or NIX_CFLAGS_COMPILE), and
    the shell exports them. A later line of the phase that replaces them is a warning, as it may not run;
    so is a variable without `export`."""
    if not isa.flags:
        return
    wanted = _enabled(isa.flags)
    for export in subject.body.exports:
        variable, inherited = (
            export.variable,
            rf"\bexport\b(?:\\\n|[^\n;])*\b{export.variable}\b|\b{export.variable}\s+=",
        )
        if variable in ("CXXFLAGS", "CFLAGS") and not re.search(inherited, subject.code):
            message = f"{variable} is set without export: the compiler does not get it"
            yield Defect(message, export.span, hint=f"write export {variable}=", sure=LIKELY)
    # What is interpolated and needs an evaluation may well be the flags.
    passing = [
        export
        for export in subject.body.exports
        if any(flag in export.value for flag in wanted)
        or FILLED.search(export.value)
        or any(map(subject.bound, VARIABLE.findall(export.value)))
    ]
    exported = [export.variable for export in passing if export.last]
    attributes = subject.body.flagged("CXXFLAGS", "CFLAGS", "NIX_CFLAGS_COMPILE")
    if "NIX_CFLAGS_COMPILE" in (*exported, *attributes):
        return
    variables = exported + [attribute for attribute in attributes if attribute not in exported]
    listed = [*_lists(subject), *(listed for listed in subject.body.cpu_flags if listed.name == "flags")]
    if not listed and not variables and subject.torch_from_elsewhere and "torch" in subject.body.scoped:
        return  # a stack's torch is checked where it is written
    if not listed and not variables:
        hint = f"{isa.name} is {' '.join(isa.flags)}"
        yield Defect(f"no cpuFlags for {isa.name} are set", _lacking_at(subject), hint=hint)
        return
    compiles = subject.variant is None or subject.variant.package.cpu_flags
    times = 2 if subject.embeds_torch and compiles else 1
    for variable, what in (("CXXFLAGS", "C++"), ("CFLAGS", "C")):
        count = variables.count(variable)
        if count < times:
            whose = "torch or its companion" if times > 1 else "the build"
            lost = _replaced(subject, passing, variable)
            # The later line may not run, and others may mean the torch below by the name, which has them.
            sure = LIKELY if lost or (count and not subject.enforce_conventions) else None
            message = f"{variable} of {whose} does not get the flags: {what} code is built without them"
            at = lost or (listed[0].span if listed else _lacking_at(subject))
            hint = f'write export {variable}="... ${variable}", which keeps them' if lost else ""
            yield Defect(message, at, hint=hint, sure=sure)


def _replaced(subject: Subject, passing: list[Export], variable: str) -> Span | None:
    """Where a phase gives a variable another value than the flags that it passed in it before."""
    exports = [export for export in subject.body.exports if export.variable == variable]
    pairs = pairwise(exports)
    lost = (
        later for earlier, later in pairs if not earlier.last and earlier in passing and later not in passing
    )
    return next((export.span for export in lost), None)


def _lacking_at(subject: Subject) -> Span | None:
    """The package that lacks something: its last override; none if that may be in a file that is missing."""
    package = subject.variant.package.attr if subject.variant else ""
    own = [*subject.overrides_of("torch", "pytorch", package)]
    return own[-1].span if own and not lacks_import(subject) else None


@rule("TS503", "flags for the machine that builds")
def flags_are_not_native(subject: Subject) -> Iterator[Defect]:
    """`-march=native` compiles for the machine that builds, whatever the name says."""
    for match in re.finditer(r"-m(?:arch|tune|cpu)=native", subject.code):
        yield Defect(f"{match[0]} is the builder's CPU, not the one in the name", subject.span(match))


@rule("TS504", "parts with newer instructions", unless=("wraps_nightly", "torch_from_elsewhere"))
def torch_parts_suit_the_isa(subject: Subject, isa: Isa) -> Iterator[Defect]:
    """FBGEMM, oneDNN and NNPACK inside PyTorch have AVX2 code whatever the flags are. Whether each of them
    checks the CPU first was not measured, so a build for older CPUs should switch them off; any other
    should keep them, because torch is slower without."""
    if subject.variant and not (subject.variant.package.is_torch or subject.variant.package.needs_torch):
        return
    known = {name for other in subject.catalog.isas.values() for name in other.torch_off}
    off = {match[1]: match for match in SWITCHED_OFF.finditer(subject.code) if match[1] in known}
    for name, match in sorted(off.items()):
        nightly = subject.style == "scratch" and name == "USE_NNPACK"
        if name not in isa.torch_off and not nightly:
            message = f"{name} is off, though {isa.name} CPUs run it"
            yield Defect(message, subject.span(match), severity=WARNING)
    for name in isa.torch_off:
        part_of = any(
            name.startswith(f"{switch}_") for switch in off
        )  # without oneDNN there is no CBLAS of it
        if name not in off and not (part_of and not subject.enforce_conventions):
            message = f"{name} is on: it has code that {isa.name} CPUs cannot run"
            yield Defect(message, hint=f"export {name}=0 in preConfigure", sure=LIKELY)


@rule("TS505", "platforms that contradict the instruction set", unless=("wraps_nightly",))
def platforms_are_the_isas(subject: Subject, isa: Isa) -> Iterator[Defect]:
    """`meta.platforms` must list only the platform whose compiler knows the flags: avx is not a flag on ARM,
    armv9 not on x86. One more platform is a warning if there are no flags, as for Apple silicon."""
    own = f'[ "{isa.platform}" ]'
    for platforms in subject.body.platforms:
        wrong = [platform for platform in platforms.value if platform != isa.platform]
        if wrong:
            message = f"{isa.title} is {isa.platform}, not {', '.join(wrong)}"
            severity = None if isa.flags or isa.platform not in platforms.value else WARNING
            yield Defect(message, platforms.span, fix=rewrite(platforms.span, own), severity=severity)
        elif not platforms.value:
            yield Defect("platforms is empty: the package can be built nowhere", platforms.span)
    bindings = subject.bound("platforms")
    wanted = 2 if subject.embeds_torch and not subject.flavored and subject.enforce_conventions else 1
    if len(bindings) < wanted:
        yield Defect(f"meta.platforms is not set; it should be {isa.platform}", severity=WARNING)
    for binding in bindings:
        text = binding.value.text if isinstance(binding.value, Unknown) else ""
        if re.search(r"\bmeta\.platforms\b|\blib\.platforms\.(linux|unix|all)\b", text):
            message = f"platforms are left as nixpkgs has them: {isa.title} is {isa.platform} alone"
            yield Defect(message, binding.span, fix=rewrite(binding.span, own), severity=WARNING)


@rule("TS506", "torch parts that are switched off")
def torch_is_whole(subject: Subject, variant: Variant, isa: Isa) -> Iterator[Defect]:
    """Variants differ only in GPU and CPU. A part of torch that is switched off in one is missing for users
    who pick it by name. Without CUDA it is an error, without another part a warning."""
    known = {name for other in subject.catalog.isas.values() for name in other.torch_off}
    fine = {"USE_CUDA", "USE_CUDNN", "USE_CUBLAS", "USE_NCCL"} if variant.cuda is None else set()
    oldest = [pin.min_sm for pin in subject.catalog.pins.values() if pin.min_sm]
    if subject.gpu and oldest and subject.gpu.sm < min(oldest):
        fine.add("USE_CUDNN")  # whose cuDNN refuses the GPU
    for match in SWITCHED_OFF.finditer(subject.code):
        name = match[1]
        if name not in known and name not in fine and name != "USE_MAGMA":
            severity = None if name == "USE_CUDA" else WARNING
            yield Defect(f"{name} is off", subject.span(match), severity=severity)
