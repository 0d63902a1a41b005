"""Names: of files, of packages, and as Flox sees them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher

from torchsmith.auditing.repo import Repo
from torchsmith.auditing.rule import GUESS, NOTE, WARNING, Defect, convention, rewrite, rule
from torchsmith.catalog import Line
from torchsmith.matrix import BadName, Reading, Variant, read_name
from torchsmith.matrix import pname as right_pname
from torchsmith.recipe.read import Bound
from torchsmith.workspace.checkout import FLOX_NAME
from torchsmith.workspace.subject import Subject

NEAR = 0.8  # how alike a word and a package's name are when one is a typo of the other


@rule("TS101", "file name off the convention", WARNING, unless=("reading",))
def name_is_readable(subject: Subject) -> Iterator[Defect]:
    """A recipe is called `PACKAGE-pythonXYZ-cudaX_Y-smNNN-ISA.nix` or `PACKAGE-pythonXYZ-cpu-ISA.nix`. From
    another name neither people nor tools can tell what it builds. Checked for Flox packages (below
    `.flox/pkgs`) only."""
    if not subject.flox:
        return
    first = subject.name.split("-")[0]
    packages = subject.catalog.packages
    near = any(SequenceMatcher(None, first, package).ratio() > NEAR for package in packages)
    if not near and not any(first.startswith(package) for package in packages):
        return
    try:
        read_name(subject.name, subject.catalog)
    except BadName as problem:
        # What we do not know may be right: darwin, rocm, no instruction set, an ending of their own.
        at = subject.name[: problem.column - 1].count("-")
        words = subject.name.split("-")
        ours = len(words) > 2 and re.match(r"cuda|cpu|sm\d", words[2]) and at < 4 < len(words)
        sure = None if ours or _package_of(first) not in packages else GUESS
        yield Defect(f"{subject.name} is not a variant's name: {problem.what}", hint=problem.hint, sure=sure)


@rule("TS102", "old spelling of a file name", WARNING)
def name_is_canonical(subject: Subject, reading: Reading) -> Iterator[Defect]:
    """Names have one spelling. `-magma` says what every GPU variant has."""
    for words in reading.old if "." not in subject.name else ():
        yield Defect(words, hint=f"call it {reading.variant}.nix")


@rule("TS103", "name that Flox cannot reach")
def name_suits_flox(subject: Subject) -> Iterator[Defect]:
    """Flox uses the file name as an attribute name: letters, digits, `_` and `-`, no dot. A package with a
    dot in its name cannot be installed. Checked for Flox packages (below `.flox/pkgs`) and for files named as
    variants."""
    named = subject.flox or subject.reading is not None
    if named and not FLOX_NAME.fullmatch(subject.name):
        better = re.sub(r"^(?=[\d-])", "_", re.sub(r"[^A-Za-z0-9_-]", "_", subject.name))
        yield Defect(f"Flox cannot reach a package called {subject.name}", hint=f"call it {better}.nix")


@rule("TS104", "names that collide for Flox", over="repo")
def names_do_not_collide(repo: Repo) -> Iterator[Defect]:
    """Flox treats `-` and `_` alike when it links results, so two names that differ only in these collide."""
    seen: dict[str, str] = {}
    for recipe in repo.recipes:
        other = seen.setdefault(recipe.name.replace("-", "_"), recipe.name)
        if other != recipe.name:
            yield Defect(f"{recipe.name} and {other} are one name for Flox", file=recipe.file)


@rule("TS105", "pname of another cell", unless=("wraps_nightly",))
def pname_is_of_the_cell(subject: Subject, variant: Variant) -> Iterator[Defect]:
    """The pname becomes part of the store path and of every list of installed packages. It must name the same
    Python, target and instruction set as the file; that of torch starts with its release (`pytorch210-`),
    that of a companion with the package."""
    line = subject.line
    if not subject.bound_by_us or line is None:
        yield from _pname_of_other_hands(subject, variant)
        return
    torch = right_pname(variant.of(subject.catalog.torch), line)
    wanted = {right_pname(one, line) for one in subject.stack}
    said = [one for one in subject.bound("pname") if isinstance(one.value, str)]
    for one in said:
        text = str(one.value)
        if text in wanted:
            continue
        own = right_pname(variant, line) if one == said[-1] else torch
        named = Variant.try_parse(text, subject.catalog)
        words, severity = f"pname {text} is not that of this recipe, {own}", None
        if named and named.cell == variant.cell and _package_of(text) == _package_of(own):
            words, severity = f"pname {text} should be {own}", WARNING
        yield Defect(words, one.span, severity=severity, fix=rewrite(one.span, own))
    last = str(said[-1].value) if said else ""
    if said and last in wanted and last != right_pname(variant, line) and subject.companion:
        yield Defect(f"the package itself is called {last}, which is torch's name", said[-1].span)


def _pname_of_other_hands(subject: Subject, variant: Variant) -> Iterator[Defect]:
    """A pname that names another cell is a copy; how else it is put together is everybody's own choice."""
    cells = {variant.cell, subject.name.partition("-")[2]}
    said = [one for one in subject.bound("pname") if isinstance(one.value, str)]
    for one in said:
        named = Variant.try_parse(str(one.value), subject.catalog)
        cell = named.cell if named else ""
        if cell and cell != variant.cell:
            own = _package_of(str(one.value)) == _package_of(subject.name)
            right = f"{str(one.value).partition('-')[0]}-{subject.name.partition('-')[2]}"
            fix = rewrite(one.span, right) if own and one == said[-1] else None
            yield Defect(f"pname {one.value} is not that of this recipe, {subject.name}", one.span, fix=fix)
        elif cell and str(one.value).partition("-")[2] not in cells:
            yield Defect(f"pname {one.value} spells its cell otherwise than the file", one.span, sure=GUESS)
        elif not cell and one == said[-1] and subject.line and not subject.line.flavor:
            words = f"pname {one.value} does not say which variant it is"
            yield Defect(words, one.span, hint=right_pname(variant, subject.line), sure=GUESS)
    last = Variant.try_parse(str(said[-1].value), subject.catalog) if said else None
    if last and subject.companion and _package_of(str(said[-1].value)) == subject.catalog.torch.name:
        yield Defect(f"the package itself is called {said[-1].value}, which is torch's name", said[-1].span)


def _package_of(text: str) -> str:
    return re.sub(r"\d+$", "", text.split("-")[0])


@rule("TS106", "no pname", WARNING, unless=("wraps_nightly",))
def pname_is_set(subject: Subject, variant: Variant, line: Line) -> Iterator[Defect]:
    """Without its own pname a package has nixpkgs' name, and two variants look the same."""
    said = list(subject.bound("pname"))
    wanted = 2 if variant.package.needs_torch else 1
    own, torch = right_pname(variant, line), right_pname(variant.of(subject.catalog.torch), line)
    if not said:
        yield Defect(f"no pname is set; it should be {own}")
    elif len(said) < wanted and subject.embeds_torch:
        words = "torch and its companion each need a pname, only one is set"
        yield Defect(words, said[0].span, hint=f"{torch} and {own}", sure=convention(subject))


@rule("TS107", "the same recipe twice", WARNING, over="repo")
def recipes_differ(repo: Repo) -> Iterator[Defect]:
    """Two recipes that differ only in names and prose build the same thing twice."""
    seen: dict[str, str] = {}
    for recipe in sorted(repo.recipes, key=lambda one: (len(one.name), one.name)):
        if not recipe.fingerprint:
            continue
        cell = recipe.variant.stack if recipe.variant else ""
        other = seen.setdefault(f"{recipe.fingerprint} {cell}", recipe.name)
        if other != recipe.name:
            yield Defect(f"{recipe.name} builds what {other} builds", hint="delete one", file=recipe.file)


def _labels(subject: Subject, name: str) -> list[Bound]:
    return [one for one in subject.bound(name) if one.owner.endswith("torchsmith")]


@rule("TS108", "label of another recipe", WARNING)
def label_is_of_the_cell(subject: Subject, variant: Variant, line: Line) -> Iterator[Defect]:
    """The passthru `torchsmith` tells tools which variant and line a derivation is; it must match the
    file."""
    torch = variant.of(subject.catalog.torch).name
    own = {one.name for one in (variant, *subject.stack)} | {variant.name.removesuffix("-wrapper")}
    labels, lines = _labels(subject, "variant"), _labels(subject, "line")
    for one in labels:
        if isinstance(one.value, str) and one.value not in own:
            yield Defect(f"labelled {one.value}", one.span, fix=rewrite(one.span, variant.name))
    if labels and subject.companion and labels[-1].value == torch:
        yield Defect("the companion is labelled as its torch", labels[-1].span)
    for one in lines:
        if one.value != line.name:
            yield Defect(f"labelled as line {one.value}, it is {line.name}", one.span)
    if len(labels) != len(lines):
        yield Defect("a label names its variant and its line", severity=NOTE)
