"""Overrides in recipes: what they pass to the wrong place, drop, or take from the wrong package set."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torchsmith.auditing.finding import FindingFix
from torchsmith.auditing.rule import LIKELY, NOTE, WARNING, Defect, rewrite, rule
from torchsmith.auditing.rules.expressions import removal
from torchsmith.catalog import Isa
from torchsmith.catalog.recorded import CXX_MARK, HOST_MARK, RECORD
from torchsmith.matrix import Variant
from torchsmith.recipe.read import Bound, Edit, Located, Override, Value, gpu_target
from torchsmith.recipe.read.recipe import targets_in
from torchsmith.workspace.subject import Subject

ARGUMENTS = frozenset(
    ["cudaSupport", "rocmSupport", "gpuTargets", "cudaPackages", "rocmPackages", "effectiveMagma"]
)
CCACHE = re.compile(r"[\w.'-]*ccacheStdenv")


def _own(subject: Subject, variant: Variant) -> Iterator[Override]:
    """The overrides of torch and of the recipe's own package."""
    return subject.overrides_of("torch", "pytorch", variant.package.attr, variant.package.name)


@rule("TS214", "torch that is not the pin's")
def torch_is_of_the_pin(subject: Subject, variant: Variant) -> Iterator[Defect]:
    """A recipe that imports a nixpkgs takes torch and its companion from there. `pkgs`, which the caller
    passes, is another nixpkgs with another torch, also if `with pkgs;` opens it."""
    if not subject.body.pins or subject.recipe.inner:
        return
    for override in _own(subject, variant):
        if override.from_caller and ".override" not in override.of:
            message = f"{override.of} is the caller's, not the pin's"
            yield Defect(message, override.span, hint="take it from the nixpkgs that the recipe imports")


@rule("TS424", "targets that are not a list of strings", anywhere=True)
def targets_are_strings(subject: Subject) -> Iterator[Defect]:
    """`gpuTargets` and `cudaCapabilities` are lists of strings: a number, such as `9.0` without quotes, stops
    the evaluation, and so does a string in place of the list. Nixpkgs knows the capabilities of
    `config.cudaCapabilities` in the notation `8.6` alone; one that no known GPU has is a warning."""
    if subject.variant is None:
        yield from _unknown_capabilities(subject)
        return
    for name in ("gpuTargets", "cudaCapabilities"):
        for bound in subject.bound(name):
            for number in subject.body.numbers_in(bound.span):
                text = subject.body.text_at(number)
                yield Defect(f"{name} holds {text}, a number", number, fix=rewrite(number, f'"{text}"'))
            if isinstance(bound.value, str):
                yield Defect(
                    f"{name} is a string, it takes a list",
                    bound.span,
                    fix=_listed(subject, name, bound.span.start, bound.span.end),
                )


def _unknown_capabilities(subject: Subject) -> Iterator[Defect]:
    """Capabilities that nixpkgs is configured with and that no GPU has, or that are written otherwise."""
    known = {sm.capability for sm in (*subject.catalog.gpus, *subject.catalog.retired)}
    for _, setting in subject.body.nixpkgs_settings(re.compile("cudaCapabilities")):
        for capability in targets_in(setting.value):
            target = gpu_target(capability)
            if target and target.sm.capability != capability.rstrip("af"):
                message = f"cudaCapabilities holds {capability}, it takes {target.sm.capability}"
                yield Defect(message, setting.span)
            elif capability.rstrip("af") not in known:
                yield Defect(f"no known GPU has the capability {capability}", setting.span, sure=LIKELY)


def _listed(subject: Subject, name: str, start: int, end: int) -> FindingFix | None:
    """Brackets around a string literal."""
    data = subject.body.syntax.data
    if data[start - 1 : start] != b'"' or data[end : end + 1] != b'"':
        return None
    if not re.search(rb"\b" + name.encode() + rb"\s*=\s*$", data[: start - 1]):
        return None  # a variable, which may be used otherwise too
    return FindingFix("make it a list", (Edit(start - 1, start - 1, "[ "), Edit(end + 1, end + 1, " ]")))


@rule("TS812", "argument among attributes")
def arguments_are_passed_by_override(subject: Subject, variant: Variant) -> Iterator[Defect]:
    """`cudaSupport`, `gpuTargets` and the like are arguments of torch, which `override` passes.
    `overrideAttrs` makes them variables of the build, which nothing reads."""
    for override in subject.overrides_of("torch", "pytorch"):
        for name in sorted(ARGUMENTS & override.arguments.keys()) if override.kind != "override" else ():
            message = f"{name} in {override.kind} has no effect: it is an argument of torch"
            yield Defect(message, override.arguments[name].span, hint=f"torch.override {{ {name} = ...; }}")


@rule("TS813", "recipe marked as broken")
def recipe_is_not_broken(subject: Subject, variant: Variant) -> Iterator[Defect]:
    """Nix does not evaluate a package whose `meta.broken` is true."""
    for bound in broken_here(subject):
        fix = FindingFix("write false", (Edit(bound.span.start, bound.span.end, "false"),), safe=False)
        yield Defect("meta.broken is true: it does not evaluate", bound.span, fix=fix)


def broken_here(subject: Subject) -> Iterator[Bound]:
    """Where the recipe marks itself as broken."""
    bindings = subject.bound("broken")
    return (bound for bound in bindings if bound.owner.endswith("meta") and bound.value is True)


@rule("TS814", "meta that is replaced", WARNING)
def meta_is_extended(subject: Subject, variant: Variant) -> Iterator[Defect]:
    """`meta = { ... }` in an override drops the license, the homepage and the platforms that nixpkgs states;
    `oldAttrs.meta // { ... }` keeps them."""
    for override in _own(subject, variant):
        meta = replaced_meta(subject, override)
        if meta is None:
            continue
        fix = None
        if override.old:
            edit = Edit(meta.span.start, meta.span.start, f"{override.old}.meta // ")
            fix = FindingFix("extend it", (edit,), safe=False)
        yield Defect("meta replaces that of nixpkgs", meta.span, hint="extend oldAttrs.meta", fix=fix)


def replaced_meta(subject: Subject, override: Override) -> Located[Value] | None:
    """The meta that an override puts in place of that of nixpkgs."""
    meta = override.arguments.get("meta") if override.kind != "override" else None
    return meta if meta and subject.body.syntax.data.startswith(b"{", meta.span.start) else None


@rule("TS815", "tests of torch in the build", WARNING)
def tests_are_off(subject: Subject, variant: Variant) -> Iterator[Defect]:
    """nixpkgs switches torch's test suite off: it takes hours, and a build has no GPU. `torchsmith test`
    tries a built torch on a machine that has one."""
    for override in subject.overrides_of("torch", "pytorch"):
        check = override.arguments.get("doCheck") if override.kind != "override" else None
        if check is not None and check.value is True:
            fix = removal(subject, "doCheck", check.span, safe=False)
            yield Defect("doCheck is true: torch's tests run in the build", check.span, fix=fix)


@rule("TS816", "compiler set that has no effect", WARNING)
def compiler_set_is_cudas(subject: Subject, variant: Variant) -> Iterator[Defect]:
    """A torch with CUDA is compiled by `cudaPackages.backendStdenv`, whatever `stdenv` it is given;
    `overrideAttrs` cannot change the compiler of any."""
    for override in subject.overrides_of("torch", "pytorch"):
        stdenv = override.arguments.get("stdenv")
        if stdenv is None or (override.kind == "override" and variant.cuda is None):
            continue
        text = subject.body.text_at(stdenv.span)
        if override.kind != "override" or CCACHE.fullmatch(text):
            fix = removal(subject, "stdenv", stdenv.span, safe=False)
            yield Defect(f"stdenv = {text} has no effect on torch", stdenv.span, fix=fix)


@rule("TS508", "compiler flags that are not recorded", NOTE, unless=("wraps_nightly", "torch_from_elsewhere"))
def flags_are_recorded(subject: Subject, isa: Isa, variant: Variant) -> Iterator[Defect]:
    """`torchsmith verify` reads the compiler flags that GCC recorded in a build. Generated recipes have
    `-frecord-gcc-switches` in NIX_CFLAGS_COMPILE and a mark beside the CPU flags and, for CUDA, in
    NVCC_APPEND_FLAGS. `--unsafe-fixes` adds the lines; the build is another one then, of the same code."""
    package = variant.package
    if not isa.flags or not (package.is_torch or package.needs_torch):
        return
    lines = {
        CXX_MARK: [f'export {name}="{CXX_MARK} ${name}"' for name in ("CFLAGS", "CXXFLAGS")],
        RECORD: [f'export NIX_CFLAGS_COMPILE="$NIX_CFLAGS_COMPILE {RECORD}"'],
        HOST_MARK: [f'export NVCC_APPEND_FLAGS="$NVCC_APPEND_FLAGS -Xcompiler={HOST_MARK}"'],
    }
    wanted = [option for option in lines if option != HOST_MARK or variant.cuda]
    missing = [option for option in wanted if option not in subject.code]
    if missing:
        note = "# changes no code: the flags are recorded in the result, where torchsmith verify reads them"
        exports = [export for export in subject.body.exports if export.variable in ("CFLAGS", "CXXFLAGS")]
        at = exports[-1].span if exports else None
        text = [note, *(line for option in missing for line in lines[option])]
        fix = _added_lines(subject, at.end, text) if at else None
        yield Defect(f"the build does not record its flags: {', '.join(missing)}", at, fix=fix)


def _added_lines(subject: Subject, end: int, lines: list[str]) -> FindingFix | None:
    """Lines of shell code below the line of a place in an indented string."""
    data = subject.body.syntax.data
    start, stop = data.rfind(b"\n", 0, end) + 1, data.find(b"\n", end)
    line = data[start:stop].decode()
    indent = line[: len(line) - len(line.lstrip())]
    if stop < 0 or "''" in line[len(indent) :].replace("''${", "") or not indent:
        return None  # the string begins or ends in this line
    text = "".join(f"\n{indent}{added}" for added in lines)
    return FindingFix("add the lines that record them", (Edit(stop, stop, text),), safe=False)
