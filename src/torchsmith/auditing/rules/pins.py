"""Pins: which nixpkgs a recipe imports, and for which system."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches

from torchsmith.auditing.finding import FindingFix
from torchsmith.auditing.repo import Repo
from torchsmith.auditing.rule import GUESS, NOTE, WARNING, Defect, convention, rewrite, rule
from torchsmith.catalog import Catalog, Isa
from torchsmith.core.text import counted
from torchsmith.matrix import Variant
from torchsmith.recipe.read import Edit, Recipe
from torchsmith.recipe.read.located import RecipePin
from torchsmith.workspace.subject import Subject

REVISION = re.compile(r"/nixpkgs/(?:archive|tarball)/(\w{30,50})\b")


@rule("TS201", "wrong nixpkgs pin")
def pin_is_of_the_line(subject: Subject, variant: Variant) -> Iterator[Defect]:
    """A recipe must import the nixpkgs revision that its torch release and CUDA are built from. Another one
    has another torch, other patches, or no such CUDA. A recipe that torchsmith does not manage may use any
    nixpkgs of the catalog that has its CUDA. A revision that is nearly a known one is mistyped."""
    wanted = subject.pin
    by_rev = {pin.rev: pin for pin in subject.catalog.pins.values()}
    for pin in subject.body.pins:
        if right := _meant(pin, subject.catalog):
            message = f"this revision is mistyped: nixpkgs {right[:7]} has another"
            at = (pin.rev or pin.url).span
            yield Defect(message, at, hint=f"write {right}", fix=rewrite(at, right) if pin.rev else None)
            continue
        if pin.rev is None or "nixpkgs" not in pin.url.value or (wanted and pin.rev.value == wanted.rev):
            continue
        known = by_rev.get(pin.rev.value)
        # No fix: another pin needs other overlays too, which is a rewrite.
        having = next((pin for pin in by_rev.values() if variant.cuda in pin.cudas), None)
        hint = f"nixpkgs {having.rev} has it" if having else ""
        if wanted and subject.line:
            hint = f"torch {subject.line.torch} is built from nixpkgs {wanted.rev}"
        if known and variant.cuda and known.cudas and variant.cuda not in known.cudas:
            yield Defect(f"nixpkgs {known.name} has no CUDA {variant.cuda}", pin.rev.span, hint=hint)
        elif known is None:
            message = f"nixpkgs {pin.rev.value[:7]} is not in the catalog: what it holds is not known"
            how = WARNING if wanted else NOTE
            yield Defect(
                message, pin.rev.span, hint=hint if wanted else "", severity=how, sure=convention(subject)
            )
        elif wanted and subject.line and subject.enforce_conventions:
            message = f"nixpkgs {known.name} is not the pin of line {subject.line.name}"
            yield Defect(message, pin.rev.span, hint=hint)


def _meant(pin: RecipePin, catalog: Catalog) -> str:
    """The revision that one in an address is nearly, but is not, and is no abbreviation of."""
    revs = [known.rev for known in catalog.pins.values()]
    stated = REVISION.search(pin.url.value)
    close = get_close_matches(stated[1], revs, n=1, cutoff=0.9) if stated else []
    return next((rev for rev in close if stated and not rev.startswith(stated[1])), "")


@rule("TS204", "pin without a hash", WARNING)
def pin_has_a_hash(subject: Subject) -> Iterator[Defect]:
    """`fetchTarball` without `sha256` downloads again after an hour and accepts whatever it gets. State the
    hash; `torchsmith line update LINE --rev REV` downloads it once and writes it into generated recipes. For
    a revision whose hash the catalog does not know this is a note."""
    for pin in subject.body.pins:
        if pin.sha256 is None or not pin.sha256.value:
            known = subject.imported_pin.sha256 if subject.imported_pin else ""
            if known or not subject.generated:
                fix = _with_hash(subject.body, pin, known) if known else None
                severity = None if known else NOTE
                yield Defect("the pin's hash is not stated", pin.span, fix=fix, severity=severity)


def _with_hash(recipe: Recipe, pin: RecipePin, sha256: str) -> FindingFix | None:
    """The fix that states the hash of a pin: in the place of an empty one, or after the address."""
    title, text, url = f'add sha256 = "{sha256}"', recipe.text_at(pin.span), pin.url.span
    if pin.sha256 is not None:
        return rewrite(pin.sha256.span, sha256)
    if "sha256" in text or "hash" in text or not pin.span.start < url.start < pin.span.end:
        return None
    data = recipe.syntax.data
    if bound := recipe.binding_around(url, "url"):
        indent = re.search(rb"\n *\Z", data[: bound.start])
        before = indent[0].decode() if indent else " "
        return FindingFix(title, (Edit(bound.end, bound.end, f'{before}sha256 = "{sha256}";'),))
    if data[url.start - 1 : url.start] != b'"' or data[url.end : url.end + 1] != b'"':
        return None
    last = f'; sha256 = "{sha256}"; }}'
    return FindingFix(
        title, (Edit(url.start - 1, url.start - 1, "{ url = "), Edit(url.end + 1, url.end + 1, last))
    )


@rule("TS205", "nixpkgs that is not pinned", WARNING)
def nixpkgs_is_pinned(subject: Subject, variant: Variant) -> Iterator[Defect]:
    """`<nixpkgs>` or the tarball of a branch is whatever it is on the day of the build."""
    match = None
    for match in re.finditer(r"<nixpkgs[^>]*>", subject.code) if "<nixpkgs" in subject.code else ():
        at = subject.span(match)
        default = [
            argument.value
            for argument in subject.body.arguments
            if argument.span.start <= at.start < argument.span.end
        ]
        if not (default and subject.body.pins):
            yield Defect("imports <nixpkgs>, which differs from machine to machine", at)
    for pin in subject.body.pins:
        if pin.rev is None and "nixpkgs" in pin.url.value and not _meant(pin, subject.catalog):
            yield Defect("the tarball's address names no revision", pin.url.span)
    expects = subject.build is not None and subject.build.style == "pinned"
    if expects and subject.style == "pinned" and not subject.body.pins and not match:
        yield Defect("no pinned nixpkgs is imported")


@rule("TS206", "system of another machine", unless=("wraps_nightly",))
def system_is_of_the_isa(subject: Subject, isa: Isa) -> Iterator[Defect]:
    """Without `system` a pinned import evaluates for the machine that runs Nix: an ARM cell evaluated on x86
    becomes an x86 build with ARM flags, and the reverse."""
    for imported in subject.body.imports:
        if imported.system is None:
            if imported.complete and not imported.arguments & {"system", "localSystem"}:
                message = f"the import names no system: on another machine it is not {isa.platform}"
                hint = f'add system = "{isa.platform}";'
                yield Defect(message, imported.span, hint=hint, severity=WARNING, sure=convention(subject))
        elif imported.system.value != isa.platform and not imported.system.value.startswith("$"):
            message = f"{isa.title} is built on {isa.platform}, not {imported.system.value}"
            yield Defect(message, imported.system.span, fix=rewrite(imported.system.span, isa.platform))


@rule("TS207", "Python that is not the one in the name")
def python_is_the_named_one(subject: Subject, variant: Variant) -> Iterator[Defect]:
    """`python3Packages` is the default Python of the pin; every other Python has its own set."""
    if variant.python not in subject.catalog.pythons:
        return
    pin = subject.known_pin
    defaults = [pin.default_python for pin in subject.catalog.pins.values() if pin.default_python]
    default = pin.default_python if pin else max(defaults, default=variant.python)
    wanted = {subject.catalog.pythons[variant.python].attr}
    if default == variant.python:
        wanted.add("python3Packages")
    for package_set in subject.body.names(r"python3\d*Packages"):
        if package_set.value not in wanted:
            is_ = (
                f"Python {default}"
                if package_set.value == "python3Packages"
                else f"not Python {variant.python}"
            )
            best = subject.catalog.pythons[variant.python].attr
            # Which Python python3Packages is depends on the pin.
            sure = GUESS if package_set.value == "python3Packages" and pin is None else None
            message = f"{package_set.value} is {is_}; the name says {variant.python}"
            fix = rewrite(package_set.span, best, safe=False)
            yield Defect(message, package_set.span, hint=f"use {best}", fix=fix, sure=sure)


@rule("TS208", "unfree packages not allowed", unless=("wraps_nightly",))
def unfree_is_allowed(subject: Subject, variant: Variant) -> Iterator[Defect]:
    """CUDA and cuDNN are unfree: an import that does not allow unfree packages stops with an error."""
    if variant.cuda is None or subject.config.keys() & {"allowUnfreePredicate", "allowUnfreePackages"}:
        return
    unfree = subject.config.get("allowUnfree")
    settings = [setting.span for setting in subject.config.values()]
    for imported in subject.body.imports[:1] if unfree is None or unfree.value is False else ():
        if imported.complete:
            at = unfree.span if unfree else min(settings, default=imported.span)
            yield Defect("config.allowUnfree is not set, and CUDA is unfree", at)


@rule("TS209", "dependencies without CUDA", WARNING, unless=("wraps_nightly",))
def dependencies_use_cuda(subject: Subject, variant: Variant) -> Iterator[Defect]:
    """Dependencies of torch follow `config.cudaSupport`; without it they are built without CUDA, beside a
    torch with CUDA."""
    support = subject.config.get("cudaSupport")
    wrong = support is None or support.value in (False, None)
    for imported in subject.body.imports[:1] if variant.cuda and wrong else ():
        if imported.complete:
            settings = [setting.span for setting in (support, *subject.config.values()) if setting]
            yield Defect("config.cudaSupport is not true", settings[0] if settings else imported.span)


@rule("TS210", "unknown torch release", NOTE, over="repo")
def release_is_known(repo: Repo) -> Iterator[Defect]:
    """The torch release of a recipe is known from torchsmith.toml, its name, its text, or a pin in the
    catalog. Otherwise rules and fixes that depend on it do not run. The comment `# torchsmith: line 2.9`
    in a recipe, `line` in `[audit]` of torchsmith.toml, or `--line 2.9` states it. A recipe that imports a
    missing file is left to TS006, as its release may be in there."""
    named = {
        file: facts
        for file, (recipe, facts) in repo.recipes.items()
        if recipe.variant and not recipe.variant.flavor
    }
    silent = [file for file, facts in named.items() if not (facts.line or facts.lacks_import)]
    if not silent:
        return
    pins = sorted({named[file].pin[:7] for file in silent} - {""})
    where = f" (nixpkgs {', '.join(pins)})" if pins else ""
    [line, *others] = {named[file].line_of_pin for file in silent}
    line = "LINE" if others or not line else line
    if len(silent) == 1:
        message = f"the torch release is not known{where}: rules that depend on it did not run"
        yield Defect(message, hint=f"the comment # torchsmith: line {line} states it", file=silent[0])
        return
    message = f"the torch release of {len(silent)} of {counted(len(named), 'recipe')} is not known{where}"
    hint = f"--line {line} states it for all of them, the comment # torchsmith: line {line} for one"
    yield Defect(f"{message}: rules that depend on it did not run", hint=hint)
