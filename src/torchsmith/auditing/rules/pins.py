"""Pins: which nixpkgs a recipe imports, and for which system."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torchsmith.auditing.repo import Repo
from torchsmith.auditing.rule import GUESS, LIKELY, NOTE, WARNING, Defect, convention, rewrite, rule
from torchsmith.catalog import Isa
from torchsmith.catalog.ranges import version_key
from torchsmith.core.words import grouped
from torchsmith.matrix import Variant
from torchsmith.workspace.subject import Subject

FORGOTTEN = 0.1  # of the recipes of a package; more are a second release beside the first


@rule("TS201", "wrong nixpkgs pin")
def pin_is_of_the_line(subject: Subject, variant: Variant) -> Iterator[Defect]:
    """A recipe must import the nixpkgs revision that its torch release and CUDA are built from. Another one
    has another torch, other patches, or no such CUDA. A recipe that torchsmith does not manage may use any
    nixpkgs of the catalog that has its CUDA."""
    wanted = subject.pin
    by_rev = {pin.rev: pin for pin in subject.catalog.pins.values()}
    for pin in subject.body.pins:
        if pin.rev is None or "nixpkgs" not in pin.url.value or (wanted and pin.rev.value == wanted.rev):
            continue
        known = by_rev.get(pin.rev.value)
        # No fix: another pin wants other overlays too, which is a rewrite.
        hint = f"line {subject.line.name} is built from {wanted.rev}" if wanted and subject.line else ""
        if known and variant.cuda and known.cudas and variant.cuda not in known.cudas:
            yield Defect(f"nixpkgs {known.name} has no CUDA {variant.cuda}", pin.rev.span, hint=hint)
        elif known is None:
            words = f"nixpkgs {pin.rev.value[:7]} is not in the catalog: what it holds is not known"
            how = WARNING if wanted else NOTE
            yield Defect(words, pin.rev.span, hint=hint, severity=how, sure=convention(subject))
        elif wanted and subject.line and subject.bound_by_us:
            words = f"nixpkgs {known.name} is not the pin of line {subject.line.name}"
            yield Defect(words, pin.rev.span, hint=hint)


@rule("TS202", "two pins in one recipe")
def one_pin_a_recipe(subject: Subject) -> Iterator[Defect]:
    """Packages of two nixpkgs revisions have different C libraries; a process that loads both fails, or
    worse."""
    revs = [pin for pin in subject.body.pins if pin.rev and "nixpkgs" in pin.url.value]
    for pin in revs[1:]:
        if pin.rev and revs[0].rev and pin.rev.value != revs[0].rev.value:
            yield Defect(f"imports nixpkgs {pin.rev.value[:7]} besides {revs[0].rev.value[:7]}", pin.rev.span)


@rule("TS203", "recipes of one line at several pins", WARNING, over="repo")
def one_pin_a_line(repo: Repo) -> Iterator[Defect]:
    """Recipes of one release and CUDA share dependencies only if they share their pin; a repository with two
    pins is usually half migrated."""
    pinned = (one for one in repo.recipes if one.pin and one.line)
    groups = grouped(((one.line, one.variant.cuda if one.variant else None), one) for one in pinned)
    for (line, cuda), recipes in groups.items():
        pins = grouped((one.pin, one.file) for one in recipes)
        most = max(pins, key=lambda pin: len(pins[pin]))
        for pin, files in pins.items():
            for file in files if pin != most else ():
                what = f"line {line}" + (f", CUDA {cuda}," if cuda else "")
                words = f"at nixpkgs {pin[:7]}, while {len(pins[most])} of {what} are at {most[:7]}"
                yield Defect(words, file=file)


@rule("TS211", "release that is not its neighbours'", WARNING, sure=LIKELY, over="repo")
def release_is_its_neighbours(repo: Repo) -> Iterator[Defect]:
    """Where nearly all hand-written recipes of a package build one torch release and a few build an older one
    under the same kind of name, those few were probably forgotten. A release in the name (`pytorch29-...`)
    shows that it is intended."""
    by_hand = (one for one in repo.recipes if one.by_hand and one.line)
    named = ((one.variant.package.name, one) for one in by_hand if one.variant and not one.variant.flavor)
    for package, group in grouped(named).items():
        lines = grouped((one.line, one) for one in group if one.name.startswith(f"{package}-"))
        most = max(lines, key=lambda line: len(lines[line]), default="")
        total = sum(map(len, lines.values()))
        for line, recipes in lines.items():
            if () < version_key(line) < version_key(most) and len(recipes) <= total * FORGOTTEN:
                for one in recipes:
                    words = f"builds torch {line}, while {len(lines[most])} of {total} recipes of {package}"
                    yield Defect(f"{words} build {most}", file=one.file)


@rule("TS204", "pin without a hash", NOTE)
def pin_has_a_hash(subject: Subject) -> Iterator[Defect]:
    """`fetchTarball` without `sha256` downloads again after an hour and accepts whatever it gets. State the
    hash; `torchsmith pin` and `fix-hashes` find it."""
    for pin in subject.body.pins:
        if pin.sha256 is None or not pin.sha256.value:
            known = subject.said_pin.sha256 if subject.said_pin else ""
            yield Defect("the pin's hash is not stated", pin.span, severity=WARNING if known else None)


@rule("TS205", "nixpkgs that is not pinned", WARNING)
def nixpkgs_is_pinned(subject: Subject, variant: Variant) -> Iterator[Defect]:
    """`<nixpkgs>` or the tarball of a branch is whatever it is on the day of the build."""
    found = None
    for found in re.finditer(r"<nixpkgs[^>]*>", subject.code) if "<nixpkgs" in subject.code else ():
        at = subject.span(found)
        default = [one.name for one in subject.body.arguments if one.span.start <= at.start < one.span.end]
        # An argument that is there for the form alone brings nothing.
        used = not default or len(subject.body.names(re.escape(default[0]))) > 1
        if used and not (default and subject.body.pins):
            yield Defect("imports <nixpkgs>, which differs from machine to machine", at)
    for pin in subject.body.pins:
        if pin.rev is None and "nixpkgs" in pin.url.value:
            yield Defect("the tarball's address names no revision", pin.url.span)
    expects = subject.build is not None and subject.build.style == "pinned"
    if expects and subject.style == "pinned" and not subject.body.pins and not found:
        yield Defect("no pinned nixpkgs is imported")


@rule("TS206", "system of another machine", unless=("wraps_nightly",))
def system_is_of_the_isa(subject: Subject, isa: Isa) -> Iterator[Defect]:
    """Without `system` a pinned import evaluates for the machine that runs Nix: an ARM cell evaluated on x86
    becomes an x86 build with ARM flags, and the reverse."""
    for one in subject.body.imports:
        if one.system is None:
            if one.whole and not one.told & {"system", "localSystem"}:
                words = f"the import names no system: on another machine it is not {isa.platform}"
                hint = f'system = "{isa.platform}";'
                yield Defect(words, one.span, hint=hint, severity=WARNING, sure=convention(subject))
        elif one.system.value != isa.platform and not one.system.value.startswith("$"):
            words = f"{isa.name} is built on {isa.platform}, not {one.system.value}"
            yield Defect(words, one.system.span, fix=rewrite(one.system.span, isa.platform))


@rule("TS207", "Python that is not the one in the name")
def python_is_the_named_one(subject: Subject, variant: Variant) -> Iterator[Defect]:
    """`python3Packages` is the default Python of the pin; every other Python has its own set."""
    if variant.python not in subject.catalog.pythons:
        return
    pin = subject.known_pin
    defaults = [one.default_python for one in subject.catalog.pins.values() if one.default_python]
    default = pin.default_python if pin else max(defaults, default=variant.python)
    wanted = {subject.catalog.pythons[variant.python].attr}
    if default == variant.python:
        wanted.add("python3Packages")
    for said in subject.body.names(r"python3\d*Packages"):
        if said.value not in wanted:
            is_ = f"Python {default}" if said.value == "python3Packages" else f"not Python {variant.python}"
            best = subject.catalog.pythons[variant.python].attr
            # Which Python python3Packages is depends on the pin.
            sure = GUESS if said.value == "python3Packages" and pin is None else None
            words = f"{said.value} is {is_}; the name says {variant.python}"
            yield Defect(words, said.span, hint=f"use {best}", sure=sure)


@rule("TS208", "unfree packages not allowed", unless=("wraps_nightly",))
def unfree_is_allowed(subject: Subject, variant: Variant) -> Iterator[Defect]:
    """CUDA and cuDNN are unfree: an import that does not allow unfree packages stops with an error."""
    if variant.cuda is None or subject.config.keys() & {"allowUnfreePredicate", "allowUnfreePackages"}:
        return
    said = subject.config.get("allowUnfree")
    for one in subject.body.imports[:1] if said is None or said.value is False else ():
        if one.whole:
            yield Defect("config.allowUnfree is not set, and CUDA is unfree", one.span)


@rule("TS209", "dependencies without CUDA", WARNING, unless=("wraps_nightly",))
def dependencies_use_cuda(subject: Subject, variant: Variant) -> Iterator[Defect]:
    """Dependencies of torch follow `config.cudaSupport`; without it they are built without CUDA, beside a
    torch with CUDA."""
    said = subject.config.get("cudaSupport")
    wrong = said is None or said.value in (False, None)
    for one in subject.body.imports[:1] if variant.cuda and wrong else ():
        if one.whole:
            yield Defect("config.cudaSupport is not true", said.span if said else one.span)


@rule("TS210", "unknown torch release", NOTE, over="repo")
def release_is_told(repo: Repo) -> Iterator[Defect]:
    """The torch release of a recipe is known from torchsmith.toml, its name, its text, or a pin in the
    catalog. Otherwise rules and fixes that depend on it do not run. A comment `# torchsmith: line 2.9` in a
    recipe, `line` in `[audit]` of torchsmith.toml, or `--line 2.9` states it."""
    silent = [one for one in repo.recipes if one.variant and not one.variant.flavor and not one.line]
    pins = sorted({one.pin[:7] for one in silent if one.pin})
    if silent:
        where = f" (nixpkgs {', '.join(pins)})" if pins else ""
        yield Defect(
            f"cannot tell which torch release {len(silent)} of {len(repo.recipes)} recipes are of{where}:"
            " rules that depend on it did not run",
            hint="--line 2.9, line in [audit] of torchsmith.toml, or a comment # torchsmith: line 2.9",
        )
