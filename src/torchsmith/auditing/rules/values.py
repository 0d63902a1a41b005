"""Values: what a recipe evaluates to, where its text alone does not say it. Asked of recipes without an
error."""

from __future__ import annotations

from collections.abc import Iterator

from torchsmith.auditing.rule import NOTE, Defect, rule
from torchsmith.auditing.subject import Subject
from torchsmith.catalog import Gpu, Isa, Line
from torchsmith.matrix import Variant
from torchsmith.matrix import pname as right_pname
from torchsmith.nix.embedded import NoValues, Values

NIGHTLY = ("wraps_nightly",)
ENDLESS = ("does not end", "needs more than")


@rule("TS002", "recipe that does not evaluate", depth="values", over="unread")
def recipe_evaluates(subject: Subject, values: NoValues) -> Iterator[Defect]:
    """A recipe that loops, or takes more memory than a computer has, is not built either. Where the embedded
    evaluator does not know enough of nixpkgs, that is said in a note: `--eval` asks Nix itself."""
    endless = any(words in values.reason for words in ENDLESS)
    yield Defect(f"does not evaluate: {values.reason}", severity=None if endless else NOTE)


@rule("TS421", "evaluated gpu target is not the one in the name", depth="values", unless=NIGHTLY)
def target_evaluates_to_the_name(subject: Subject, values: Values, gpu: Gpu) -> Iterator[Defect]:
    """However the target is computed, what torch is told is the one architecture of the name."""
    wanted = (gpu.sm.capability,)
    if subject.style != "scratch" and values.gpu_targets and values.gpu_targets != wanted:
        told = " ".join(values.gpu_targets)
        yield Defect(f"torch is told gpuTargets {told}, the name says {wanted[0]}")


@rule("TS521", "evaluated flags are not the instruction set's", depth="values", unless=NIGHTLY)
def flags_evaluate_to_the_isa(subject: Subject, values: Values, isa: Isa) -> Iterator[Defect]:
    """However they are put together, the flags in the build phases are all of the instruction set's."""
    phases = [str(values.attributes.get("preConfigure", ""))]
    if values.torch is not None:
        phases.append(str(values.torch.get("preConfigure", "")))
    choices = (isa.flags, *isa.other_flags)
    for phase in phases:
        if "FLAGS=" in phase and not any(all(flag in phase for flag in choice) for choice in choices):
            yield Defect(f"the flags that reach the compiler are not those of {isa.name}")


@rule("TS121", "evaluated pname of another cell", depth="values", unless=("flavored",))
def pname_evaluates_to_the_cell(
    subject: Subject, values: Values, variant: Variant, line: Line
) -> Iterator[Defect]:
    """However it is put together, the pname is that of the file."""
    wanted = right_pname(variant, line)
    told = values.attributes.get("pname")
    literal = {one.value for one in subject.bound("pname")}  # judged by its text
    if isinstance(told, str) and told not in {wanted, variant.name, *literal}:
        yield Defect(f"pname evaluates to {told}, it should be {wanted}")


@rule("TS721", "evaluated version is not the line's", depth="values", unless=("flavored",))
def version_evaluates_to_the_line(
    subject: Subject, values: Values, variant: Variant, line: Line
) -> Iterator[Defect]:
    """The version that comes out is the release's: torch's own, or its pair's."""
    stated = values.version
    replaced = subject.build is not None and "torch-source" in subject.build.fixes
    own = variant.package.is_torch and replaced and bool(line.torch)
    if own and stated and stated != line.torch:
        yield Defect(f"version evaluates to {stated}, the line's is {line.torch}")


@rule("TS522", "evaluated platforms contradict the instruction set", depth="values", unless=NIGHTLY)
def platforms_evaluate_to_the_isa(subject: Subject, values: Values, isa: Isa) -> Iterator[Defect]:
    """However they are put together, the platforms are the one that the flags are for."""
    told = values.meta.get("platforms")
    if isinstance(told, list) and told and told != [isa.platform]:
        yield Defect(f"platforms evaluate to {' '.join(map(str, told))}, it is {isa.platform}")
