"""Companions: whether torchvision and torchaudio belong to their torch, and share it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from torchsmith.auditing.rule import GUESS, LIKELY, NOTE, Defect, convention, rule
from torchsmith.auditing.rules.expressions import PYTHON_SET
from torchsmith.catalog import Line, Package
from torchsmith.matrix import Flavor, Variant
from torchsmith.recipe.read import Bound, Located, Override, Value
from torchsmith.workspace.subject import Subject

STOCK_TORCH = re.compile(rf"{PYTHON_SET.pattern}\.torch")


def _own(subject: Subject, kind: str) -> list[Override]:
    """The overrides of the companion itself."""
    package = subject.variant.package.attr if subject.variant else ""
    return [override for override in subject.overrides_of(package) if override.kind == kind]


@rule("TS701", "companion that is not the pair of its torch", unless=("not_companion", "flavored"))
def companion_is_the_pair(subject: Subject, variant: Variant, line: Line) -> Iterator[Defect]:
    """Each torch release has one torchvision and one torchaudio that are built and tested with it, and their
    wheels ask for no other. The release that belongs to another torch than the recipe builds is an error.
    A release that is the pair of no known torch, or the one that the pin has beside an overridden torch, may
    well work: in recipes that torchsmith does not manage it is a note."""
    package = variant.package
    wanted = line.version_of(package.name)
    if not wanted:
        return
    pin = subject.known_pin
    native = pin.versions.get(package.name, "") if pin else wanted
    stated = (override.arguments.get("version") for override in _own(subject, "overrideAttrs"))
    versions = list(filter(None, stated))
    for version in versions:
        if isinstance(version.value, str) and version.value != wanted:
            other, this = other_torch(subject, package, version.value), f"torch {line.torch}"
            message = f"{package} {version.value} is not the pair of {this}"
            if other:
                message = f"{package} {version.value} belongs to torch {other}; this recipe builds {this}"
            hint, sure = f"the pair of {this} is {package} {wanted}", None if other else convention(subject)
            yield Defect(message, version.span, hint=hint, sure=sure)
    # Pairs of nixpkgs itself that are in separate recipes are not a mistake.
    apart = subject.torch_from_elsewhere
    if not versions and subject.imports_readable and not apart and native not in ("", None, wanted):
        message = f"the pin's {package} {native} is built with torch {line.torch}, whose pair is {wanted}"
        yield Defect(message, hint="give it the version and src of its pair", sure=convention(subject))


def other_torch(subject: Subject, package: Package, version: str) -> str:
    """The torch that a release of a companion is the pair of, if the recipe builds another one; empty if it
    does not say which it builds, or if the release is not known."""
    built = subject.version_given("torch", "pytorch")
    pairs = {line.version_of(package.name): line.torch for line in subject.catalog.lines.values()}
    pair = pairs.get(version, "")
    return pair if built not in ("", pair) else ""


@rule("TS702", "companion built with another torch", unless=("not_companion",))
def companion_uses_its_torch(subject: Subject, variant: Variant) -> Iterator[Defect]:
    """A companion must get the torch of its own cell (`override { torch = customPytorch; }`, or a package set
    with that torch); otherwise it is built with the pin's torch, for other GPUs and CPUs. A torch that is
    imported from the recipe of another cell is not its own either."""
    if subject.torch_beside:
        path, torch = subject.torch_beside
        at = next((at.span for at in subject.body.paths if at.value == f"./{path.name}"), None)
        imported, named = (
            one.changed(flavor=Flavor.RELEASE, release=None).of(torch.package).name.split("-")
            for one in (torch, variant)
        )
        other = "-".join(part for part in imported if part not in named)
        if other:
            own = "-".join(part for part in named if part not in imported)
            yield Defect(f"it imports {other}, the name says {own}", at)
        return
    if "torch" in subject.body.scoped:
        return
    if subject.configured and not (subject.isa and subject.isa.flags):
        return  # all of the package set is built for that GPU, and the name requires nothing else
    if not subject.imports_readable:
        return
    torches = [override.of for override in subject.overrides_of("torch", "pytorch")]
    if torches and not any(map(STOCK_TORCH.search, torches)):
        return  # an overlay makes the torch of the package set another one
    overrides = _own(subject, "override")
    if not any("torch" in override.arguments for override in overrides):
        yield Defect("the companion is not given its torch", overrides[0].span if overrides else None)
    for given in (override.arguments.get("torch") for override in overrides if torches):
        text = subject.body.text_at(given.span) if given else ""
        if given and STOCK_TORCH.fullmatch(text):
            yield Defect(f"the companion is given {text}, which is not that of its cell", given.span)


@rule("TS703", "companion that does not bring its torch", unless=("not_companion", "flavored"))
def companion_propagates_torch(subject: Subject, variant: Variant) -> Iterator[Defect]:
    """nixpkgs propagates only the dev output of torch, so `import torch` fails if the companion alone is
    installed, as with `flox install`; `python.withPackages` and `nix-shell` find torch without it. Add
    the `out` output of torch to propagatedBuildInputs and to requiredPythonModules. For a program such as
    `vllm`, which nixpkgs wraps, this is a note."""
    torch = _torch_of(subject)
    carried = [
        inputs
        for override in _own(subject, "overrideAttrs")
        for name in ("propagatedBuildInputs", "dependencies")
        if (inputs := override.arguments.get(name))
    ]
    if not _hold_out(subject, carried):
        programs = ", ".join(variant.package.programs)
        message = "torch's out is not among propagatedBuildInputs"
        message += f"; {programs} finds it" if programs else ""
        hint = "in overrideAttrs, set propagatedBuildInputs = (oldAttrs.propagatedBuildInputs or [ ])"
        hint += f" ++ [ {torch}.out ];"
        own = [override.span for override in _own(subject, "overrideAttrs")]
        at = next(iter([inputs.span for inputs in carried] + own), None)
        severity = NOTE if programs else None
        sure = GUESS if not subject.imports_readable else LIKELY if programs else None
        yield Defect(message, at, hint=hint, sure=sure, severity=severity)
    if not _hold_out(subject, subject.bound("requiredPythonModules")):
        hint = "in passthru, set requiredPythonModules = oldAttrs.passthru.requiredPythonModules"
        hint += f" ++ [ {torch}.out ];"
        yield Defect(f"requiredPythonModules does not hold {torch}.out", hint=hint, severity=NOTE)
    if not any(binding.owner.endswith("passthru") for binding in subject.bound("torch")):
        message, hint = "passthru.torch does not say which torch it is built with", f"torch = {torch};"
        yield Defect(message, hint=f"in passthru, set {hint}", severity=NOTE)


def _torch_of(subject: Subject) -> str:
    """The torch of a companion as its recipe can write it."""
    sets = (override.of.rpartition(".")[0] for override in _own(subject, "overrideAttrs"))
    if "torch" in subject.body.scoped and (scope := next(filter(None, sets), "")):
        return f"{scope}.torch"
    return next(filter(re.compile(r"[\w'-]+").fullmatch, subject.body.bound_texts("torch")), "torch")


def _hold_out(subject: Subject, values: Iterable[Located[Value] | Bound]) -> bool:
    """Whether one of some values names an `out`."""
    data = subject.body.syntax.data
    return any(
        re.search(rb"(?<![\w-])out(?![\w-])", data[value.span.start : value.span.end]) for value in values
    )


@rule("TS706", "companion without its own source", unless=("not_companion", "flavored"))
def companion_source_is_the_pair(subject: Subject, line: Line) -> Iterator[Defect]:
    """If the pin has another release, the companion needs its own source, from its own repository."""
    for override in _own(subject, "overrideAttrs"):
        version, src = override.arguments.get("version"), override.arguments.get("src")
        if version is not None and src is None:
            yield Defect("a version is stated, but no src: the source is the pin's", version.span)
        if src is not None and version is None:
            yield Defect("a source is given, but the version stays the pin's", src.span)
