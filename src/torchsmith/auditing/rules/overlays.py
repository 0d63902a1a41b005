"""Overlays and fixes: what a release and its CUDA need of the pin, and what they no longer need."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torchsmith.auditing.rule import LIKELY, WARNING, Defect, rewrite, rule
from torchsmith.auditing.rules.overrides import replaced_meta
from torchsmith.catalog import CudaToolkit
from torchsmith.catalog.facts import Fix
from torchsmith.matrix import Variant
from torchsmith.recipe.read import Overlay, Span
from torchsmith.workspace.subject import Subject

MAGMA_OFF = re.compile(
    r"filterMagma|USE_MAGMA\s*=\s*\"?(?:OFF|0|false|off)\b|effectiveMagma *= *null|magma *= *null"
)
ORDER = ("cudaPackages", "magma", "torch")


def _changed(subject: Subject) -> list[tuple[str, Overlay]]:
    """What the overlays change, in order."""
    overlays = subject.body.overlays
    return [(package.rpartition(".")[2], overlay) for overlay in overlays for package in overlay.packages]


def _needed(subject: Subject) -> Iterator[Fix]:
    """The fixes that the cell's line asks for and the package has a use for, at the pin for which
    they were found. Another pin needs other ones, and which is not known."""
    if subject.build is None or subject.variant is None or subject.wraps_nightly or not subject.at_its_pin:
        return
    for name in subject.build.fixes:
        fix = subject.catalog.fixes[name]
        if fix.serves(subject.variant.package):
            yield fix


@rule("TS301", "missing overlay", unless=("torch_from_elsewhere",))
def overlays_are_complete(subject: Subject) -> Iterator[Defect]:
    """Each torch release on each CUDA needs its own overlays: the CUDA package set, the MAGMA patch, the
    torch source. Without one of them the recipe builds another CUDA, another torch, or nothing."""
    if subject.style != "pinned" or not subject.imports_readable:
        return
    yield from _cuda_set(subject)
    changed = {package for package, _ in _changed(subject)}
    for fix in _needed(subject):
        if not fix.overlay or fix.overlay in changed or fix.overlay == "cudaPackages":
            continue
        # A torch that is overridden in place needs no overlay, and neither does a MAGMA that is left out.
        own = any("src" in override.arguments for override in subject.overrides_of(fix.overlay))
        if not own and not (fix.overlay == "magma" and MAGMA_OFF.search(subject.code)):
            yield Defect(f"missing overlay of {fix.overlay}: {fix.title}", _import(subject), hint=fix.why)


def _cuda_set(subject: Subject) -> Iterator[Defect]:
    """A recipe that names no CUDA package set builds with the default of its pin."""
    variant, pin = subject.variant, subject.imported_pin
    if variant is None or variant.cuda is None or subject.wraps_nightly:
        return
    named = re.search(r"cudaPackages(?<!\wcudaPackages)(?:(?:_\w+)?\s*=|_\d)", subject.code)
    default = pin.default_cuda if pin else None
    if named or default == variant.cuda:
        return
    fix = subject.catalog.fixes.get("cuda-package-set")
    is_ = f"it builds with the pin's CUDA {default}" if default else "it builds with the pin's default CUDA"
    message = f"missing overlay of cudaPackages: {is_}, the name says {variant.cuda}"
    hint, sure = fix.why if fix else "", None if default else LIKELY
    yield Defect(message, _import(subject), hint=hint, sure=sure)


def _import(subject: Subject) -> Span | None:
    return subject.body.imports[0].span if subject.body.imports else None


@rule("TS303", "overlay that is not needed", WARNING)
def overlays_are_needed(subject: Subject) -> Iterator[Defect]:
    """A workaround stays only as long as its reason: a MAGMA patch that the pin already has does not apply, a
    torch source that the pin has is a second download, and the same overlay twice patches twice."""
    if subject.build is None or subject.style != "pinned" or not subject.at_its_pin:
        return
    needed = {fix.overlay for fix in _needed(subject) if fix.overlay}
    seen: set[str] = set()
    for package, overlay in _changed(subject):
        if package in seen:
            yield Defect(f"{package} is changed by two overlays", overlay.span)
        elif package == "torch" and not any(
            "src" in override.arguments and overlay.span.start <= override.span.start < overlay.span.end
            for override in subject.overrides_of("torch")
        ):
            pass  # it configures the pin's own
        elif package in ORDER and package not in needed:
            line = subject.line.name if subject.line else "this line"
            yield Defect(f"{line} needs no overlay for {package} here", overlay.span)
        seen.add(package)


@rule("TS304", "CUDA of another release")
def cuda_set_is_the_named_one(subject: Subject, toolkit: CudaToolkit) -> Iterator[Defect]:
    """The CUDA package set of the recipe must be the release in the name. `cudaPackages_13` is accepted if
    that is the pin's release for 13: its default, or else the newest it has."""
    build = subject.build
    best = build.cuda_set or toolkit.attr if build else toolkit.attr
    allowed = {toolkit.attr, best}
    pin, major = subject.known_pin, toolkit.version.major
    newest = max((cuda for cuda in (pin.cudas if pin else ()) if cuda.major == major), default=None)
    default = pin.default_cuda if pin else None
    if pin is None or (default if default and default.major == major else newest) == toolkit.version:
        allowed.add(f"cudaPackages_{major}")
    absent = pin is not None and bool(pin.cudas) and toolkit.version not in pin.cudas
    if absent and subject.body.pins:
        return  # which TS201 says
    for name in subject.body.names(r"cudaPackages_\d+(?:_\d+)?"):
        if name.value not in allowed:
            message = f"{name.value} is not CUDA {toolkit.version}, which the name says"
            fix = None if absent else rewrite(name.span, best, safe=False)
            yield Defect(message, name.span, hint="" if absent else f"use {best}", fix=fix)


@rule("TS305", "MAGMA disabled")
def magma_is_enabled(subject: Subject, variant: Variant) -> Iterator[Defect]:
    """Every GPU variant has MAGMA: without it torch.linalg falls back to slow paths. Older recipes removed it
    because CUDA 13 broke it; a patch repairs that."""
    if variant.cuda is None:
        return
    sure = LIKELY if not subject.enforce_conventions else None  # a build without it works, and may be meant
    for match in MAGMA_OFF.finditer(subject.code):
        hint = "add the patch and leave it on"
        yield Defect("MAGMA is switched off", subject.span(match), hint=hint, sure=sure)


@rule("TS306", "missing fix")
def fixes_are_complete(subject: Subject) -> Iterator[Defect]:
    """What is known to break a release on its CUDA must be repaired in the recipe: version variables, CCCL
    links, the FindCUDAToolkit stub, OpenCV's patches. Each was needed in a real build. A recipe that
    torchsmith does not manage may have another fix, so it is a warning there; a torch that nixpkgs marks as
    broken is an error in every recipe that says nothing about broken packages."""
    for fix in missing_fixes(subject):
        certain = subject.enforce_conventions or (fix.refused and _is_refused(subject))
        hint = f"add {fix.add}" if fix.add else ""
        changed = [*subject.overrides_of(fix.overlay or "torch"), *subject.overrides_of("pytorch")]
        at = changed[-1].span if changed else _import(subject)
        yield Defect(fix.why, at, hint=hint, sure=None if certain else LIKELY)


def missing_fixes(subject: Subject) -> Iterator[Fix]:
    """The fixes that the recipe needs and shows no sign of; TS301 reports those whose overlay is missing."""
    for fix in _needed(subject) if not subject.torch_from_elsewhere and subject.imports_readable else ():
        missing = [sign for sign in fix.signs if not re.search(sign, subject.code)]
        overlaid = fix.overlay and subject.style == "pinned"
        if missing and not (overlaid and all(fix.overlay != package for package, _ in _changed(subject))):
            yield fix


def _is_refused(subject: Subject) -> bool:
    """Whether the torch of the pin is built with the CUDA in the name, and nothing in the recipe concerns
    packages that are marked as broken."""
    overrides = [*subject.overrides_of("torch", "pytorch")]
    cuda = "cudaPackages" in {package for package, _ in _changed(subject)}
    return (
        (cuda or any("cudaPackages" in override.arguments for override in overrides))
        and "roken" not in subject.code
        and not any(replaced_meta(subject, override) for override in overrides)
    )


@rule("TS308", "patches kept for another source")
def patches_fit_the_source(subject: Subject) -> Iterator[Defect]:
    """A torch from its own source must drop the pin's patches (`patches = [ ];`): they fit only the pin's
    version and stop the build."""
    for override in subject.overrides_of("torch"):
        if override.kind == "override" or not {"src", "version"} <= override.arguments.keys():
            continue
        patches = override.arguments.get("patches")
        sure = None if subject.known_pin else LIKELY  # which patches there are depends on the package set
        message, at = "the pin's patches are applied to another source", override.span
        if patches is not None:
            message, at = "patches of another version are kept", patches.span
        if patches is None or patches.value != []:
            yield Defect(
                message,
                at,
                hint="add patches = [ ];" if patches is None else "write patches = [ ];",
                sure=sure,
            )
