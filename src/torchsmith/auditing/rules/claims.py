"""Claims: descriptions, banners and comments that say something else than the recipe does."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torchsmith.auditing.claims import PlacedClaim, claims_of, vocabulary
from torchsmith.auditing.rule import LIKELY, WARNING, Defect, rule
from torchsmith.auditing.rules.gpu import gpu_variables
from torchsmith.catalog import TORCH, Isa, Line
from torchsmith.catalog.ranges import version_key
from torchsmith.core.files import text_or_none
from torchsmith.matrix import Variant
from torchsmith.matrix.cells import toolkit_title
from torchsmith.workspace.subject import Subject


def _of(subject: Subject, *kinds: str) -> Iterator[PlacedClaim]:
    if subject.variant is not None and not subject.wraps_nightly:
        yield from (placed for placed in claims_of(subject) if placed[1].kind in kinds)


@rule("TS601", "prose names another GPU", sure=LIKELY)
def prose_names_the_gpu(subject: Subject) -> Iterator[Defect]:
    """The description, banner and comments must name the GPU architecture that the recipe compiles for:
    people choose packages by these words."""
    gpu = subject.gpu
    generations = vocabulary(subject.catalog).generations
    own = subject.variant.arch if subject.variant else ""
    lines = subject.body.text.splitlines()
    variables = gpu_variables(subject)
    for place, claim, span in _of(subject, "sm", "capability", "generation", "arch"):
        line = lines[span.line - 1] if span.line <= len(lines) else ""
        if place == "banner" and any(f"${{{name}}}" in line for name in variables):
            continue  # it prints the variable, which TS401 is about
        right = claim.value == own or (
            gpu is not None
            and (claim.value == gpu.sm.capability or gpu.name in generations.get(claim.value, ()))
        )
        if not right:
            yield Defect(f"the {place} names {claim.word}; it is {own or 'for the CPU alone'}", span)


@rule("TS602", "prose names another instruction set", sure=LIKELY)
def prose_names_the_isa(subject: Subject, isa: Isa) -> Iterator[Defect]:
    """Prose must name the instruction set of the recipe, and no feature that its CPUs may lack: a text that
    promises FMA in an AVX build, or AVX-512 in an AVX2 build, is wrong."""
    isas = vocabulary(subject.catalog).isas
    own = {
        (span.line, claim.thought) for _, claim, span in _of(subject, "isa") if isas[claim.value] == isa.name
    }
    for place, claim, span in _of(subject, "isa", "feature"):
        if claim.kind == "isa":
            other = subject.catalog.isas[isas[claim.value]]
            # AVX-512 in an AVX-512 BF16 build is not a contradiction, nor is what is beside its own name.
            near = isa.family == other.family or (span.line, claim.thought) in own
            implied = not subject.enforce_conventions and other.features <= isa.features
            right = other.name == isa.name or (implied and near)
        else:
            right = claim.value in isa.needs or claim.value.replace("_", "") in isa.needs
        if not right:
            yield Defect(f"the {place} names {claim.word}; it is {isa.title}", span)


@rule("TS603", "prose names another CUDA", sure=LIKELY)
def prose_names_the_cuda(subject: Subject) -> Iterator[Defect]:
    """Prose must name the CUDA release of the recipe, or only its major version, and the same of ROCm; a CPU
    recipe names none."""
    variant = subject.variant
    own = toolkit_title(variant, subject.catalog) if variant else ""
    for place, claim, span in _of(subject, "cuda", "backend"):
        named = f"CUDA {claim.value}" if claim.kind == "cuda" else re.sub(r"[ :-]+(?=\d)", " ", claim.value)
        if named not in (own, own.partition(".")[0]):
            yield Defect(f"the {place} names {named}; it is {own or 'for the CPU alone'}", span)


@rule("TS604", "prose names another release", sure=LIKELY)
def prose_names_the_release(subject: Subject, line: Line, variant: Variant) -> Iterator[Defect]:
    """Prose must name the releases of torch, companion and Python that the recipe builds."""
    for place, claim, span in _of(subject, "release", "python"):
        if claim.kind == "python":
            right = claim.value == str(variant.python)
        else:
            package, _, release = claim.value.partition(" ")
            built = [_built(subject, line, package), _given(subject, package)]  # which may contradict
            wanted = [version_key(version) for version in built if version]
            named = version_key(release)
            right = not built[0] or any(version[: len(named)] == named for version in wanted)
        if not right:
            yield Defect(f"the {place} names {claim.word}, which is not what is built", span)


def _built(subject: Subject, line: Line, package: str) -> str:
    """The release of a package that the recipe builds: its own, the pin's if it brings none, or the
    line's."""
    if package == TORCH or subject.enforce_conventions:
        return line.version_of(package)
    if not subject.imports_readable:
        return ""
    pin = subject.imported_pin
    return _given(subject, package) or (pin.versions.get(package, "") if pin else "")


def _given(subject: Subject, package: str) -> str:
    return subject.version_given("torch" if package == TORCH else package)


@rule("TS606", "prose names another build", sure=LIKELY)
def prose_names_the_build(subject: Subject, variant: Variant) -> Iterator[Defect]:
    """What a comment or a description gives as the name of the package (`Package name: ...`) must be the name
    of the file. Other mentions of builds may be advice."""
    for place, claim, span in _of(subject, "name"):
        named = Variant.try_parse(claim.value, subject.catalog)
        if named and (named.package, named.cell) != (variant.package, variant.cell):
            yield Defect(f"the {place} names {claim.value}; it is {subject.name}", span)


@rule("TS605", "false hardware claim", sure=LIKELY)
def hardware_claims_are_true(subject: Subject) -> Iterator[Defect]:
    """GPUs in prose must have the architecture of the recipe: an L40S is SM89 and not Hopper, an Orin is SM87
    and not Thor, a DGX Spark is not a datacenter part. CPUs in prose must run its instruction set."""
    gpu, isa = subject.gpu, subject.isa
    known = vocabulary(subject.catalog)
    target = (subject.variant.arch if subject.variant else gpu.name if gpu else "") or "a CPU build"
    for place, claim, span in _of(subject, "part", "cpu"):
        if claim.kind == "part":
            right = gpu is not None and gpu.name in known.parts[claim.value]
            is_ = " or ".join(sorted(known.parts[claim.value]))
            what = f"lists {claim.word} under {target}, but {claim.word} is {is_}"
        else:
            right = isa is None or isa.name in known.cpus[claim.value]
            what = f"lists {claim.word}, which cannot run {isa.name if isa else ''}"
        if not right:
            yield Defect(f"{place} {what}", span, hint=_origin(subject, claim.word))
    for word in gpu.never_called if gpu else ():
        for text in (*subject.body.descriptions, *subject.body.comments):
            if re.search(rf"\b{word}\b", text.value, re.IGNORECASE):
                yield Defect(f"{gpu.title if gpu else ''} is not a {word} part", text.span, severity=WARNING)


def _origin(subject: Subject, word: str) -> str:
    """Which file a word is from, if it is not in the one that puts the text together."""
    if word in subject.body.text:
        return ""
    files = (subject.body.path.parent / path.value for path in subject.body.paths)
    return next((f"{word} is in {file.name}" for file in files if word in (text_or_none(file) or "")), "")
