"""GPU targets: which architecture a recipe compiles for, and whether that can be."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from torchsmith.auditing.finding import FindingFix
from torchsmith.auditing.rule import GUESS, LIKELY, NOTE, WARNING, Defect, convention, rewrite, rule
from torchsmith.auditing.rules.cpu import SWITCHED_OFF
from torchsmith.auditing.rules.expressions import SPELLING, in_nixpkgs_python
from torchsmith.catalog import Gpu, Isa
from torchsmith.catalog.facts import GpuBackend
from torchsmith.core.problem import nearest
from torchsmith.matrix import Accepted, Variant, assess
from torchsmith.matrix.cells import no_machine
from torchsmith.recipe.read import Edit, GpuMention, Span, Unknown, gpu_target
from torchsmith.recipe.read.recipe import targets_in
from torchsmith.workspace.subject import Subject

DOTTED = re.compile(r"\d{1,2}\.\d[af]?(\+PTX)?")
# Why a cell cannot be: what ptxas itself says, and cuDNN, which a build can do without.
PTXAS = ("sm-no-cuda", "sm-needs-newer-cuda", "sm-ended")
CUDNN = "cudnn-too-new"
CLAIM = re.compile(r"no other architecture(?<!kernels for no other architecture)")
NO_OWN = ("wraps_nightly", "without_torch")
NO_TORCH = (*NO_OWN, "torch_from_elsewhere")  # none that the recipe could set up


def _mentions(subject: Subject) -> Iterator[GpuMention]:
    for mention in subject.whole.gpu_targets:
        if not any("$" in value for value in mention.values) and mention.name != "gpuArchNum":
            yield mention


def gpu_variables(subject: Subject) -> set[str]:
    """Names of variables of a recipe that hold a GPU target."""
    return {mention.name for mention in _mentions(subject) if mention.spelling == "variable"}


@rule("TS401", "GPU target is not the one in the name")
def target_is_the_named_one(subject: Subject, variant: Variant) -> Iterator[Defect]:
    """The kernels must be compiled for the GPU architecture in the name: an SM, or a target of ROCm.
    Otherwise the package finds no kernel on the GPU it is named after."""
    gpu = subject.gpu
    if variant.sm is None:
        for name, arch, span in _other_archs(subject, subject.catalog.backends[variant.backend]):
            if variant.arch and arch != variant.arch:
                yield Defect(f"{name} is {arch}, the name says {variant.arch}", span)
        return
    variables = gpu_variables(subject)
    for mention in _mentions(subject):
        if mention.spelling != "variable" and variables & _words(subject, mention):
            continue  # the finding is at the variable
        for value in mention.values:
            target = gpu_target(value)
            if target and gpu and target.sm != gpu.sm:
                message = f"{mention.name} is {value}, the name says {gpu.name}"
                # A variable in another notation may be used for more, as a part of a name.
                spelled = mention.spelling != "variable" or DOTTED.fullmatch(value)
                right = _right_target(gpu, mention)
                fix = _in_place(subject, mention.origin, value, right) if spelled else None
                yield Defect(message, mention.origin, hint=f"use {right}" if spelled else "", fix=fix)


def _in_place(subject: Subject, at: Span, value: str, right: str) -> FindingFix | None:
    """The fix that replaces a value if its place has it once, as it is."""
    data, old = subject.whole.syntax.data[at.start : at.end], value.encode()
    if data.count(old) != 1:
        return None
    start = at.start + data.index(old)
    return FindingFix(f"write {right}", (Edit(start, start + len(old), right),), safe=False)


def _right_target(gpu: Gpu, mention: GpuMention) -> str:
    """The recipe's own target as a place takes it."""
    return str(gpu.sm.number) if mention.spelling == "cmake-list" else gpu.sm.capability


def _other_archs(subject: Subject, backend: GpuBackend) -> Iterator[tuple[str, str, Span]]:
    """The architectures of a backend that the code names: in variables and arguments, which builds get them
    by, and as members of the backend's package set."""
    names = ("gpuTargets", *backend.lists)
    bound = ((name, binding) for name in names for binding in subject.bound(name))
    # `config` of nixpkgs has none of them, which TS811 reports.
    stated = [(name, own.value, own.span) for name, own in bound if not own.owner.endswith("config")]
    exports = (export for export in subject.body.exports if export.variable in names)
    stated += [(export.variable, export.value, export.span) for export in exports]
    for name, value, span in stated:
        for word in targets_in(value):
            arch = word.partition(":")[0]  # gfx90a:xnack-
            if re.fullmatch(f"{backend.arch}|{DOTTED.pattern}", arch):
                yield name, arch, span
    members = rf"\b({backend.package_set}\w*)\.({backend.arch})\b"
    for match in re.finditer(members, subject.code) if backend.package_set else ():
        yield match[1], match[2], subject.span(match, 2)


def _only_a_target(subject: Subject, name: str) -> bool:
    """Whether a variable is used as a target alone; in a name another spelling would show."""
    uses = [line for line in subject.code.splitlines() if re.search(rf"\b{name}\b", line)]
    plain = re.compile(rf"\b({name}|gpuArch)\s*=|gpuTargets|ARCH_LIST|apabilities|\becho\b")
    return all(plain.search(line) for line in uses)


@rule("TS402", "gpu target in the wrong notation")
def target_is_a_capability(subject: Subject, gpu: Gpu) -> Iterator[Defect]:
    """`gpuTargets` and TORCH_CUDA_ARCH_LIST take `12.0`; `sm_120` and `120` stop CMake with "Unknown CUDA
    Architecture Name". CMAKE_CUDA_ARCHITECTURES takes `120`: another notation there is a warning."""
    wrong = [
        (mention, value)
        for mention in _mentions(subject)
        for value in mention.values
        if bool(DOTTED.fullmatch(value)) is (mention.spelling == "cmake-list")
    ]
    # A wrong variable is one mistake, wherever it is used; if it is more than a target, each use is one.
    variables = {mention.name for mention, _ in wrong if mention.spelling == "variable"}
    variables = {name for name in variables if _only_a_target(subject, name)}
    uses = {mention: _words(subject, mention) for mention, _ in wrong if mention.spelling != "variable"}
    used = set[str]().union(*uses.values()) & variables
    for mention, value in wrong:
        if mention.name not in used if mention.spelling == "variable" else uses[mention] & variables:
            continue
        target = gpu_target(value)
        if target is None:
            yield Defect(f"{mention.name} is {value}, which is not a GPU architecture", mention.span)
            continue
        right, start, end = _right_target(gpu, mention), mention.span.start, mention.span.end
        own = target.sm == gpu.sm or gpu.sm.capability.startswith(f"{value}.")
        literal = mention.spelling == "variable" and end - start == len(value) + 2
        fix = FindingFix(f"write {right}", (Edit(start + 1, end - 1, right),)) if own and literal else None
        severity = WARNING if mention.spelling == "cmake-list" else None
        yield Defect(
            f"{mention.name} is written {value}, it takes {right}", mention.span, fix=fix, severity=severity
        )


def _words(subject: Subject, mention: GpuMention) -> set[str]:
    """The words in the text of a mention and behind it: in shell code, quotes inside `${}` seem to end it."""
    data, start = subject.whole.syntax.data, mention.span.start
    end = max(mention.span.end, data.find(b"\n", start))
    return set(re.findall(r"\w+", data[start:end].decode()))


@rule("TS403", "target that its CUDA cannot compile", unless=("flavored",))
def cuda_compiles_the_target(subject: Subject, variant: Variant) -> Iterator[Defect]:
    """Each CUDA release compiles for a fixed list of architectures, read from its ptxas; torch's pin may
    require more. For other targets the build stops."""
    if subject.gpu_unknown:
        values = (value for mention in _mentions(subject) for value in mention.values)
        target = next(filter(None, map(gpu_target, values)), None)
        other = target is not None and target.sm != variant.sm
        hint = f"did you mean {target.sm}?" if target and other else ""
        message = f"the catalog knows no {variant.sm}"
        yield Defect(message, hint=hint, sure=None if other else convention(subject))
        return
    line = subject.line.name if subject.line else None
    # A release that the catalog does not know has the same ptxas.
    known = variant if line else variant.changed(release=None)
    decision = assess(known, subject.catalog, line)
    for reason in decision.reasons if not isinstance(decision, Accepted) else ():
        # What the catalog's lines build says nothing about recipes that torchsmith does not manage.
        if reason.code in PTXAS or (reason.code != CUDNN and subject.line and subject.enforce_conventions):
            yield Defect(reason.text, hint=reason.hint)
    gpu, pin = subject.gpu, subject.known_pin
    if gpu and pin and pin.min_sm and gpu.sm < pin.min_sm and not _without_cudnn(subject):
        message = f"the cuDNN of nixpkgs {pin.name} needs {pin.min_sm} or newer, not {gpu.name}"
        yield Defect(message, hint="export USE_CUDNN=0 builds torch without it")


def _without_cudnn(subject: Subject) -> bool:
    """Whether cuDNN is left out, or the torch of another recipe decides."""
    off = any(match[1] == "USE_CUDNN" for match in SWITCHED_OFF.finditer(subject.code))
    return subject.torch_from_elsewhere or off


@rule("TS404", "build that no machine can use", WARNING)
def a_machine_can_use_it(subject: Subject, gpu: Gpu, isa: Isa) -> Iterator[Defect]:
    """Some GPUs exist only with one kind of CPU: SM110 and SM121 only in ARM machines, so no machine can run
    their x86 builds. For a card, which fits any machine, this is a note: few ARM servers have a V100."""
    for reason in no_machine(gpu, isa, subject.catalog):
        advice = "torchsmith.toml has it: `usable = true` there leaves such builds out"
        hint = advice if subject.requested_line else ""
        card = not gpu.tegra and not gpu.cpus  # a card can be put into any machine
        yield Defect(reason.text, hint=hint, sure=convention(subject) if card else None)


@rule("TS405", "no gpu target", unless=NO_TORCH)
def target_is_set(subject: Subject, variant: Variant) -> Iterator[Defect]:
    """Without `gpuTargets` nixpkgs compiles torch for ten architectures, perhaps without the one in the name,
    and takes ten times as long. TORCH_CUDA_ARCH_LIST as an attribute does not do it: nixpkgs' preConfigure
    sets the variable again. With ROCm this is a warning: all that nixpkgs compiles for are included."""
    if subject.gpu is None:
        backend, strings = subject.catalog.backends[variant.backend], subject.body.syntax.plain_strings
        if backend.package_set and variant.arch not in strings and not any(_other_archs(subject, backend)):
            hint = f"add {backend.package_set} = prev.{backend.package_set}.{variant.arch}; in an overlay"
            yield Defect(f"nothing names {variant.arch}", hint=hint, severity=WARNING)
        return
    if subject.style == "scratch":
        if not subject.configured and not any(
            mention.name == "TORCH_CUDA_ARCH_LIST" for mention in subject.body.gpu_targets
        ):
            yield Defect("TORCH_CUDA_ARCH_LIST is not set")
        return
    overrides = subject.passed_to("torch", "pytorch")
    listed = [mention for mention in subject.body.gpu_targets if mention.spelling == "arch-list"]
    passed = [override.arguments for override in subject.overrides_of("torch", "pytorch")]
    if listed and not overrides and not any("TORCH_CUDA_ARCH_LIST" in arguments for arguments in passed):
        return
    if not subject.configured and not any("gpuTargets" in override.arguments for override in overrides):
        # A torch that is overridden under another name is not seen here.
        sure = LIKELY if not overrides and subject.overrides else None
        written = {name: value.span for override in overrides for name, value in override.arguments.items()}
        near = nearest("gpuTargets", written, cutoff=SPELLING)
        at = written[near] if near else overrides[0].span if overrides else None
        hint = f"{near} is not an argument of torch: write gpuTargets" if near else ""
        yield Defect("torch is not given gpuTargets", at, hint=hint, sure=sure)
    for override in overrides:
        targets = override.arguments.get("gpuTargets")
        if targets is not None and targets.value == [] and not subject.configured:
            yield Defect("gpuTargets is empty", targets.span)
        elif targets is not None and isinstance(targets.value, list) and len(targets.value) > 1:
            message = "gpuTargets names several architectures, the name one"
            yield Defect(message, targets.span, severity=WARNING)


@rule("TS406", "the attribute `pytorch`", anywhere=True)
def attribute_is_torch(subject: Subject) -> Iterator[Defect]:
    """nixpkgs calls the package `torch`. `pytorch` was an alias and is an error at newer pins. Other files
    than recipes are checked if their nixpkgs is locked, and the repository has no `pytorch` of its own."""
    pin = subject.imported_pin
    for expression, at in subject.body.selected("pytorch") if subject.pin_has_torch else ():
        if in_nixpkgs_python(subject, expression.rpartition(".")[0]):
            stops = pin is not None and bool(pin.torch) and "pytorch" not in pin.aliases
            refused = (
                f"is refused by nixpkgs {pin.name}" if pin and stops else "is an alias that newer pins refuse"
            )
            severity = None if stops else WARNING
            fix = rewrite(at, "torch")
            message = f"{expression} {refused}"
            yield Defect(message, at, severity=severity, hint="use torch", fix=fix, about="pytorch")


@rule("TS407", "CUDA support not asked for", unless=NO_TORCH)
def cuda_is_asked_for(subject: Subject, variant: Variant) -> Iterator[Defect]:
    """`cudaSupport` says whether torch is built with CUDA: true in a recipe for CUDA, false in any
    other. Without it the package set decides. A recipe for ROCm needs `rocmSupport`."""
    backend = subject.catalog.backends[variant.backend]
    for name in backend.config if variant.cuda is None else ():
        given = [subject.config, *(override.arguments for override in subject.passed_to("torch", "pytorch"))]
        if not any(arguments[name].value is not False for arguments in given if name in arguments):
            sure = None if subject.body.imports and subject.imports_readable else LIKELY
            yield Defect(f"{name} is not true: torch is built without {backend.title}", sure=sure)
    configured = subject.config.get("cudaSupport")
    right = configured is not None and configured.value is (variant.cuda is not None)
    if variant.cuda is None and configured is None and subject.imports_readable and subject.body.imports:
        right = True  # nixpkgs leaves CUDA out by default
    overrides = subject.passed_to("torch", "pytorch")
    for override in overrides:
        support = override.arguments.get("cudaSupport")
        if support is None:
            sure = GUESS if right else LIKELY
            severity = None if variant.cuda is None else WARNING
            yield Defect("torch is not given cudaSupport", override.span, severity=severity, sure=sure)
        elif not isinstance(support.value, Unknown) and support.value is not (variant.cuda is not None):
            recipe = "recipe for CUDA" if variant.cuda else "recipe without CUDA"
            yield Defect(f"cudaSupport is {json.dumps(support.value)} in a {recipe}", support.span)
    if not overrides and subject.style == "flox" and variant.cuda:
        message = "no override sets torch's CUDA: it is built as in the package set"
        hint = "torch.override { cudaSupport = true; cudaPackages = ...; gpuTargets = [ ... ]; }"
        yield Defect(message, hint=hint, severity=WARNING)
    if not overrides and subject.style == "pinned" and not right and subject.imports_readable:
        yield Defect("torch is taken from the pin as it is: no override sets its CUDA and GPU")


@rule("TS408", "CUDA inside a CPU recipe")
def cpu_recipe_has_no_cuda(subject: Subject, variant: Variant) -> Iterator[Defect]:
    """A CPU recipe must not build or link anything of CUDA or ROCm."""
    if variant.toolkit is not None:
        return
    named = subject.body.names(r"cudaPackages\w*|gpuTargets|cudaCapabilities")
    signs = [(name.value, name.span) for name in named]
    set_in_text = r"\bTORCH_CUDA_ARCH_LIST\b|\bUSE_CUDA\s*=\s*\"?1|\brocmSupport = true"
    signs += [(match[0], subject.span(match)) for match in re.finditer(set_in_text, subject.code)]
    for sign, span in signs:
        yield Defect(f"{sign} in a recipe for the CPU alone", span)
    support = subject.config.get("cudaSupport")
    if support is not None and support.value is True:
        # A torch that is configured otherwise has none; what it is built with may.
        overridden = any(
            "cudaSupport" in override.arguments for override in subject.overrides_of("torch", "pytorch")
        )
        sure = LIKELY if overridden else None
        yield Defect("config.cudaSupport is true in a recipe for the CPU alone", support.span, sure=sure)


@rule("TS409", "architectures of companions", WARNING, unless=(*NO_OWN, "configured"))
def companions_find_the_target(subject: Subject, gpu: Gpu, variant: Variant) -> Iterator[Defect]:
    """torchvision and torchaudio compile for `torch.cudaCapabilities`, a passthru, not for gpuTargets. Unless
    it is set to the one target, a companion of this torch compiles for ten architectures, perhaps without its
    own."""
    passed = [
        binding
        for binding in subject.bound("cudaCapabilities")
        if binding.owner.endswith("passthru") and binding.value != []
    ]
    if not passed:
        listed = [mention for mention in subject.body.gpu_targets if mention.spelling == "arch-list"]
        if variant.package.is_torch:
            yield Defect("passthru.cudaCapabilities is not set for companions", severity=NOTE)
        elif not listed:
            elsewhere = subject.torch_from_elsewhere
            torches = [override.span for override in subject.overrides_of("torch", "pytorch")]
            yield Defect(
                "the companion compiles for every architecture of the pin, not for its own",
                torches[-1] if torches else None,
                hint="add passthru.cudaCapabilities = [ gpuArchSM ]; to the torch it is built with",
                severity=None if gpu.tegra and not elsewhere else WARNING,
                sure=LIKELY if elsewhere else None,
            )


@rule("TS410", "libraries below torch for other GPUs", WARNING, unless=NO_TORCH)
def config_names_the_gpu(subject: Subject, gpu: Gpu, isa: Isa) -> Iterator[Defect]:
    """`gpuTargets` narrows only torch: MAGMA and NCCL follow `config.cudaCapabilities`, and contain PTX for
    newer GPUs unless `config.cudaForwardCompat` is false. For a Jetson part that is not named, the import
    stops or leaves packages out. Checked for Jetson parts, and for recipes that claim "no other
    architecture"."""
    jetson = gpu.tegra and isa.platform in gpu.platforms
    claims = CLAIM.search(subject.recipe.text) is not None
    if not (jetson or claims) or not subject.imports_readable:
        return
    for imported in subject.body.imports if subject.style == "pinned" and subject.body.pins else ():
        capabilities = imported.config.get("cudaCapabilities")
        forward = imported.config.get("cudaForwardCompat")
        if capabilities is None or capabilities.value == []:
            message = f"config.cudaCapabilities does not name {gpu.name}"
            hint = f'add cudaCapabilities = [ "{gpu.sm.capability}" ]; to config'
            at = capabilities.span if capabilities else imported.span
            yield Defect(message, at, hint=hint, sure=convention(subject))
        elif claims and (forward is None or forward.value is True):
            message = (
                "libraries below torch contain PTX for newer GPUs: config.cudaForwardCompat is not false"
            )
            yield Defect(message, forward.span if forward else capabilities.span, severity=NOTE)
