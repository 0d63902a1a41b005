"""Settings that have no effect or contradict the name, and undefined names."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torchsmith.auditing.rule import NOTE, WARNING, Defect, convention, rule
from torchsmith.auditing.rules.overlays import missing_fixes
from torchsmith.catalog import CudaToolkit, Line
from torchsmith.matrix import Variant
from torchsmith.workspace.release import stated_release
from torchsmith.workspace.subject import Subject


@rule("TS801", "CMake or ninja flags that have no effect", NOTE, unless=("scratch", "generated"))
def cmake_flags_reach_nothing(subject: Subject, variant: Variant) -> Iterator[Defect]:
    """nixpkgs' torch skips CMake's configure phase, so `cmakeFlags` and `ninjaFlags` do nothing. PyTorch's
    setup.py forwards variables named CMAKE_*, USE_* and BUILD_* instead. Generated recipes keep theirs, with
    the reason beside them: without them every torch would be compiled again."""
    for override in subject.overrides_of("torch", "pytorch"):
        for name in ("cmakeFlags", "ninjaFlags"):
            if name in override.arguments:
                yield Defect(f"{name} of torch has no effect", override.arguments[name].span)


@rule("TS803", "version that is stated otherwise", unless=("flavored",))
def versions_agree(subject: Subject, variant: Variant) -> Iterator[Defect]:
    """setup.py uses PYTORCH_BUILD_VERSION, then version.txt; if either names another release than the source,
    torch reports a wrong version. A recipe that takes the torch of its nixpkgs as it is, if torchsmith.toml
    or `--line` asks for another, gets a warning."""
    for override in subject.overrides_of("torch"):
        version = override.arguments.get("version")
        attributes = override.kind != "override" and "src" not in override.arguments
        if attributes and version is not None and isinstance(version.value, str):
            yield Defect("torch states a version, but its source is the pin's", version.span)
    if subject.line is not None and subject.line.torch:
        yield from _other_releases(subject, subject.line, variant)


def _other_releases(subject: Subject, line: Line, variant: Variant) -> Iterator[Defect]:
    """Where a recipe names another release of torch than the one that it is of."""
    pin = subject.imported_pin
    other = pin is not None and pin.torch not in ("", line.torch) and not subject.at_its_pin
    if pin and other and _takes_the_pins_torch(subject):
        named = stated_release(variant, subject.catalog, subject.recipe.text, None)
        itself = (named or subject.release_by_code) == line.name
        what = f"states torch {line.torch}" if itself else f"torch {line.torch} is asked for"
        message = f"{what}, but its source is that of nixpkgs {pin.name}: {pin.torch}"
        yield Defect(message, subject.body.pins[0].span, severity=None if itself else WARNING)
    stated = r"(?:PYTORCH_BUILD_VERSION|TORCH_BUILD_VERSION)\s*=\s*\"?(\d+\.\d+[\w.]*)"
    for match in re.finditer(stated, subject.code):
        if match[1] != line.torch:
            yield Defect(f"states {match[1]}, the release is {line.torch}", subject.span(match, 1))
    for match in re.finditer(r"echo \"([\d.]+)\" > version\.txt", subject.code):
        if match[1] != line.torch:
            yield Defect(f"writes {match[1]} into version.txt, it is {line.torch}", subject.span(match, 1))
    for override in subject.overrides_of("torch"):
        version = override.arguments.get("version")
        if version is not None and isinstance(version.value, str) and version.value != line.torch:
            yield Defect(f"torch is {version.value}, the line's is {line.torch}", version.span)
        build = override.arguments.get("PYTORCH_BUILD_VERSION")
        if build is not None and isinstance(build.value, str) and build.value != line.torch:
            yield Defect(f"PYTORCH_BUILD_VERSION is {build.value}", build.span)
        if override.kind != "override" and "src" in override.arguments:
            if version is None:
                yield Defect("torch has another source but keeps the pin's version", override.span)
            missing = {sign for fix in missing_fixes(subject) for sign in fix.signs}  # which TS306 is about
            exported = "export PYTORCH_BUILD_VERSION" in subject.code
            if build is None and not exported and "PYTORCH_BUILD_VERSION" not in missing:
                message = "PYTORCH_BUILD_VERSION keeps the pin's version"
                hint = "export PYTORCH_BUILD_VERSION in preConfigure"
                yield Defect(message, override.span, severity=WARNING, hint=hint)


def _takes_the_pins_torch(subject: Subject) -> bool:
    """Whether torch is built here from the source that its one nixpkgs has, and nothing replaces it."""
    replaced = any("src" in override.arguments for override in subject.overrides_of("torch", "pytorch"))
    alone = len(subject.body.pins) == 1 and subject.imports_readable and subject.style == "pinned"
    return alone and subject.builds_torch and not subject.torch_from_elsewhere and not replaced


@rule("TS804", "CUDA version that is stated otherwise")
def cuda_versions_agree(subject: Subject, toolkit: CudaToolkit) -> Iterator[Defect]:
    """A CUDA release stated in the recipe (`-DCUDA_VERSION`, an assert) must be the one in the name."""
    stated = r"(?:-DCUDA_VERSION=|cudaMajorMinorVersion == \")(\d+\.\d+)"
    for match in re.finditer(stated, subject.code):
        if match[1] != str(toolkit.version):
            yield Defect(f"states CUDA {match[1]}, the name says {toolkit.version}", subject.span(match, 1))


@rule("TS805", "undefined name", anywhere=True)
def names_are_bound(subject: Subject) -> Iterator[Defect]:
    """A variable that no let, argument or builtin defines stops the evaluation."""
    for recipe in (subject.recipe, *((subject.body,) if subject.recipe.inner else ())):
        for name, span in recipe.unbound:
            yield Defect(f"undefined variable {name}", span, of=recipe)


@rule("TS807", "from-scratch pattern")
def torch_is_nixpkgs(subject: Subject, variant: Variant) -> Iterator[Defect]:
    """Override nixpkgs' torch to build a release. A recipe that builds torch from scratch repeats what
    nixpkgs already solves, and misses some of it. Nightlies that torchsmith.toml has are built this way on
    purpose."""
    if subject.style != "scratch" or (variant.flavor and subject.generated):
        return
    match = re.search(r"\b(buildPythonPackage|mkDerivation)\b", subject.code)
    message = "builds torch from scratch instead of overriding nixpkgs' torch"
    severity = WARNING if variant.flavor else None
    yield Defect(message, match and subject.span(match), severity=severity, sure=convention(subject))


@rule("TS808", "result of another package", unless=("wraps_nightly",))
def result_is_the_package(subject: Subject, variant: Variant) -> Iterator[Defect]:
    """The value of the recipe must be the package that its file is named after."""
    foreign = variant.flavor and not subject.generated
    if foreign or subject.style == "scratch" or subject.recipe.inner:
        return
    attr = variant.package.attr
    wrong = [
        package.attr
        for package in subject.catalog.packages.values()
        if not package.is_torch and package not in subject.catalog.below(variant.package)
    ]
    for package, override in subject.overrides:
        if package in wrong:
            yield Defect(f"overrides {package} in a recipe of {attr}", override.span)
    own = [override for package, override in subject.overrides if package in (attr, variant.package.name)]
    if attr not in subject.body.scoped and all(
        override.of.startswith(("pprev.", "pfinal.")) for override in own
    ):
        yield Defect(f"nothing of {attr} is overridden: the result is not what its name says")
