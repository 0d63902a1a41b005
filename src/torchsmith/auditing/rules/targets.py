"""GPU targets in expressions without a variant name, and the CUDA settings beside them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torchsmith.auditing.claims import claims_in, vocabulary
from torchsmith.auditing.rule import LIKELY, WARNING, Defect, rule
from torchsmith.auditing.rules.gpu import DOTTED
from torchsmith.catalog import Catalog
from torchsmith.catalog.axes import GpuTarget, Sm
from torchsmith.core.problem import nearest
from torchsmith.recipe.read import GpuMention, PackageSet, gpu_target, is_known
from torchsmith.workspace.subject import Subject

THOR = Sm(101)  # the first Jetson part that nixpkgs builds for beside others


def _target(word: str) -> GpuTarget | None:
    return gpu_target(word.removesuffix("+PTX").removesuffix("-real").removesuffix("-virtual"))


def _targets(package_set: PackageSet) -> Iterator[tuple[GpuMention, str, GpuTarget]]:
    for mention in package_set.targets:
        for word in mention.values:
            target = _target(word) if "$" not in word else None
            if target is not None:
                yield mention, word, target


def _is_jetson(sm: Sm, catalog: Catalog) -> bool:
    part = catalog.gpus.get(sm) or catalog.retired.get(sm)
    return part is not None and part.tegra


@rule("TS420", "target in the wrong notation", over="expression")
def target_is_in_its_notation(subject: Subject, package_set: PackageSet) -> Iterator[Defect]:
    """`cudaCapabilities`, `gpuTargets` and TORCH_CUDA_ARCH_LIST take `8.9`; CMAKE_CUDA_ARCHITECTURES takes
    `89`. Each refuses the other's notation. `cudaCapabilities` and `gpuTargets` are lists."""
    for mention, word, target in _targets(package_set):
        dotted = DOTTED.fullmatch(word) is not None
        if mention.spelling == "cmake-list":
            right = f"{target.sm.number}{target.form}"
            if dotted:
                yield Defect(f"{mention.name} is written {word}, it takes {right}", mention.span)
        elif not dotted:
            right = f"{target.sm.capability}{target.form}"
            yield Defect(f"{mention.name} is written {word}, it takes {right}", mention.span)
        elif mention.spelling != "arch-list" and word.endswith("+PTX"):
            yield Defect(f"{mention.name} takes no +PTX", mention.span, hint="cudaForwardCompat adds PTX")
    capabilities = package_set.config.get("cudaCapabilities")
    if capabilities is not None and isinstance(capabilities.value, str):
        yield Defect(
            "cudaCapabilities is a string, it takes a list",
            capabilities.span,
            hint=f'[ "{capabilities.value}" ]',
        )


@rule("TS413", "target that no GPU has", over="expression")
def target_exists(subject: Subject, package_set: PackageSet) -> Iterator[Defect]:
    """A GPU target must be one that some CUDA release compiles for. Another number is a typo, and the build
    or the evaluation stops."""
    compiled = {target.sm for toolkit in subject.catalog.cuda.values() for target in toolkit.targets}
    known = compiled | subject.catalog.retired.keys()
    for mention, word, target in _targets(package_set):
        if target.sm not in known:
            near = nearest(target.sm.capability, [sm.capability for sm in sorted(known)])
            hint = f"did you mean {near}?" if near else ""
            yield Defect(f"{mention.name} names {word}, which no CUDA release knows", mention.span, hint=hint)


@rule("TS414", "target that the CUDA beside it cannot compile", over="expression")
def cuda_compiles_what_stands_beside_it(subject: Subject, package_set: PackageSet) -> Iterator[Defect]:
    """Each CUDA release compiles for a fixed list of architectures, read from its ptxas. A target that the
    package set in the same expression lacks stops the build: Pascal and Volta ended with CUDA 13, Blackwell
    began with 12.8."""
    for mention, word, target in _targets(package_set):
        start, changes = mention.span.start, [change for change in package_set.changes if change.cuda]
        around = [change.cuda for change in changes if change.span.start <= start < change.span.end]
        cuda, known = around[0] if around else package_set.cuda, subject.catalog.cuda.values()
        toolkits = [toolkit for toolkit in known if cuda and cuda.has(toolkit.version)]
        if not toolkits or any(target in toolkit.targets for toolkit in toolkits):
            continue
        able = [str(toolkit.version) for toolkit in known if target in toolkit.targets]
        hint = f"CUDA {able[0]} to {able[-1]} can" if able else ""
        yield Defect(f"CUDA {cuda} cannot compile for {word}", mention.span, hint=hint)


@rule("TS415", "comment about another GPU than the target", WARNING, sure=LIKELY, over="expression")
def comment_names_the_target(subject: Subject, package_set: PackageSet) -> Iterator[Defect]:
    """A comment beside a target, or alone on the line above it, must name GPUs that can run it. On another
    GPU the package finds no kernel."""
    catalog = subject.catalog
    known = vocabulary(catalog)
    for mention in package_set.targets:
        for comment, targets in _beside(subject, mention):
            named: dict[str, frozenset[str]] = {}
            for claim in claims_in(comment, catalog):
                if claim.kind == "part":
                    named[claim.word] = known.parts[claim.value]
                elif claim.kind == "generation":
                    named[claim.word] = known.generations[claim.value]
                elif claim.kind == "sm":
                    named[claim.word] = frozenset([claim.value])
            sms = {Sm.parse(sm) for some in named.values() for sm in some}
            read = [(word, target) for word in targets if (target := _target(word))]
            if sms and read and not any(_runs(word, target, sm) for word, target in read for sm in sms):
                is_ = " or ".join(sorted(some for group in named.values() for some in group))
                message = f"the comment names {', '.join(named)} ({is_}), the target is {' '.join(targets)}"
                yield Defect(message, mention.span)


def _runs(word: str, target: GpuTarget, sm: Sm) -> bool:
    """Whether code for a target runs on an architecture: of its own major, or from PTX."""
    if word.endswith("+PTX"):
        return sm.number >= target.sm.number
    return sm.major == target.sm.major and sm.minor >= target.sm.minor


def _beside(subject: Subject, mention: GpuMention) -> Iterator[tuple[str, list[str]]]:
    """Comments on the lines of a mention, with the targets of their line, or else alone on the line above."""
    syntax = subject.body.syntax
    first = mention.span.line
    last = first + syntax.data.count(b"\n", mention.span.start, mention.span.end)
    for comment in subject.body.comments:
        line = comment.span.line
        before = syntax.line(line)[: comment.span.column - 1]
        if first <= line <= last and before.strip():
            own = re.findall(r'"([^"]+)"', before)
            yield comment.value, [word for word in mention.values if word in own] or list(mention.values)
        elif line == first - 1 and not before.strip():
            yield comment.value, list(mention.values)


@rule("TS416", "Jetson part in the wrong company", over="expression")
def jetson_stands_alone(subject: Subject, package_set: PackageSet) -> Iterator[Defect]:
    """Jetson parts exist only in ARM machines: nixpkgs refuses their capabilities on x86_64-linux, and those
    before Thor in combination with any other."""
    capabilities = package_set.config.get("cudaCapabilities")
    if capabilities is None or not isinstance(capabilities.value, list) or not is_known(capabilities.value):
        return
    read = {word: target for word in map(str, capabilities.value) if (target := _target(word))}
    jetson = [word for word, target in read.items() if _is_jetson(target.sm, subject.catalog)]
    system = package_set.system
    if jetson and system is not None and system.value.startswith("x86_64"):
        yield Defect(
            f"{', '.join(jetson)} is a Jetson part, and the system is {system.value}", capabilities.span
        )
    early = [word for word in jetson if read[word].sm < THOR]
    others = [word for word in read if word not in early]
    if early and others:
        yield Defect(f"{early[0]} is a Jetson part, which nixpkgs builds for alone", capabilities.span)


@rule("TS417", "CUDA inputs beside a torch without CUDA", WARNING, sure=LIKELY, over="expression")
def cuda_is_asked_of_the_set(subject: Subject, package_set: PackageSet) -> Iterator[Defect]:
    """nixpkgs builds torch without CUDA unless `config.cudaSupport` or an override asks for it; CUDA packages
    beside it change nothing. `torch-bin` has CUDA in any case."""
    used = subject.body.syntax.identifiers
    enabled = "cudaSupport" in used or "torch-bin" in used or "rocmSupport" in used or "pkgsCuda" in used
    if not package_set.imported or enabled or "torch" not in used:
        return
    if len(subject.body.imports) == 1 and any(name.startswith("cudaPackages") for name in used):
        message = "torch is built without CUDA: config.cudaSupport is not set, though CUDA packages are used"
        yield Defect(message, package_set.span, hint="config.cudaSupport = true;")


@rule("TS418", "CUDA and ROCm at once", over="expression")
def one_vendor_at_a_time(subject: Subject, package_set: PackageSet) -> Iterator[Defect]:
    """A torch is built for CUDA or for ROCm: nixpkgs marks one with both as broken. CUDA takes targets such
    as `8.9`, ROCm such as `gfx1100`."""
    config = package_set.config
    if all(
        (setting := config.get(name)) and setting.value is True for name in ("cudaSupport", "rocmSupport")
    ):
        message = "config asks for cudaSupport and rocmSupport: torch is broken"
        yield Defect(message, config["rocmSupport"].span, severity=WARNING)
    vendors = {"cudaSupport", "rocmSupport"}
    for change in (change for change in package_set.changes if vendors & change.texts.keys()):
        values = {name: argument.value for name, argument in change.arguments.items()}
        targets = change.arguments.get("gpuTargets")
        listed = targets.value if targets and isinstance(targets.value, list) else []
        named = [target for target in listed if isinstance(target, str)]
        if values.get("cudaSupport") is True and values.get("rocmSupport") is True:
            yield Defect(f"{change.package} gets both cudaSupport and rocmSupport", change.span)
        for vendor, foreign in (("cudaSupport", r"gfx\w+"), ("rocmSupport", r"\d+\.\d.*|sm_?\d+")):
            wrong = [word for word in named if re.fullmatch(foreign, word)]
            if values.get(vendor) is True and wrong and targets:
                yield Defect(f"{change.package} has {vendor}, and a target {wrong[0]}", targets.span)
