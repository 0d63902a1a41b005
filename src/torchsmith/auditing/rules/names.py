"""Names: of files, of packages, and as Flox sees them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torchsmith.auditing.repo import Repo
from torchsmith.auditing.rule import GUESS, WARNING, Defect, convention, rewrite, rule
from torchsmith.catalog import Line
from torchsmith.core.problem import nearest
from torchsmith.matrix import BadName, ParsedName, Variant, read_name
from torchsmith.matrix import pname as right_pname
from torchsmith.workspace.checkout import FLOX_NAME
from torchsmith.workspace.subject import Subject

MIN_SIMILARITY = 0.8  # how alike a word and a package's name are when one is a typo of the other


@rule("TS101", "file name off the convention", WARNING, unless=("reading",), anywhere=True)
def name_is_readable(subject: Subject) -> Iterator[Defect]:
    """A recipe is called `PACKAGE-pythonXYZ-cudaX_Y-smNNN-ISA.nix` or `PACKAGE-pythonXYZ-cpu-ISA.nix`. From
    another name neither people nor tools know what it builds, and rules that hold a recipe against its name
    do not run. With an ending or a target that torchsmith does not know, this is a note, which is always
    shown. Checked for Flox packages (below `.flox/pkgs`) only."""
    table = subject.recipe.syntax.root.type == "attrset_expression"  # Flox calls functions alone
    if not subject.flox or table:
        return
    first = subject.name.split("-")[0]
    packages = subject.catalog.packages
    if not nearest(first, packages, MIN_SIMILARITY) and not first.startswith(tuple(packages)):
        return
    try:
        read_name(subject.name, subject.catalog)
    except BadName as problem:
        # What we do not know may be right: darwin, rocm, no instruction set, an ending of their own.
        at = subject.name[: problem.column - 1].count("-")
        parts = subject.name.split("-")
        ours = len(parts) > 2 and re.match(r"cuda|cpu|sm\d", parts[2]) and at < 4 < len(parts)
        sure = None if ours or _package_of(first) not in packages else GUESS
        message = f"not the name of a build: {problem.what}; rules that depend on it did not run"
        yield Defect(message, hint=problem.hint, sure=sure)


@rule("TS102", "old spelling of a file name", WARNING)
def name_is_canonical(subject: Subject, reading: ParsedName) -> Iterator[Defect]:
    """Names have one spelling. `-magma` says what every GPU variant has."""
    right = subject.recipe.path.with_name(f"{reading.variant}.nix")
    hint = f"it is a duplicate of {right.name}: delete it" if right.is_file() else f"call it {right.name}"
    for spelling in reading.old if "." not in subject.name else ():
        yield Defect(spelling, hint=hint)


@rule("TS103", "name that Flox cannot reach", anywhere=True)
def name_suits_flox(subject: Subject) -> Iterator[Defect]:
    """Flox uses the file name as an attribute name: letters, digits, `_` and `-`, no dot. A package with a
    dot in its name cannot be installed. Checked for Flox packages (below `.flox/pkgs`) and for files named as
    variants."""
    named = subject.flox or subject.reading is not None
    if named and not FLOX_NAME.fullmatch(subject.name):
        better = re.sub(r"^(?=[\d-])", "_", re.sub(r"[^A-Za-z0-9_-]", "_", subject.name))
        message = "Flox cannot reach this name: it has letters, digits, _ and - alone, first a letter or _"
        yield Defect(message, hint=f"call it {better}.nix")


@rule("TS104", "names that collide for Flox", over="repo")
def names_do_not_collide(repo: Repo) -> Iterator[Defect]:
    """Flox treats `-` and `_` alike when it links results, so two names that differ only in these collide."""
    seen: dict[str, str] = {}
    for file, (recipe, _) in repo.recipes.items():
        other = seen.setdefault(recipe.attr.replace("-", "_"), recipe.attr)
        if other != recipe.attr:
            yield Defect(f"{recipe.attr} and {other} are one name for Flox", file=file)


@rule("TS105", "pname of another build", unless=("wraps_nightly", "gpu_unknown"))
def pname_is_of_the_cell(subject: Subject, variant: Variant) -> Iterator[Defect]:
    """The pname becomes part of the store path and of every list of installed packages. It must name the same
    Python, target and instruction set as the file; that of torch starts with its release (`pytorch210-`),
    that of a companion with the package. Another spelling is a note, unless torchsmith wrote it."""
    line, own = subject.line, subject.name.partition("-")[2]
    wanted = {right_pname(member, line) for member in subject.stack} if line else set()
    pnames = [binding for binding in subject.bound("pname") if isinstance(binding.value, str)]
    for binding in pnames:
        text, last = str(binding.value), binding == pnames[-1]
        named = Variant.try_parse(text, subject.catalog)
        if named and named.cell != variant.cell:
            right = f"{text.partition('-')[0]}-{own if last else variant.cell}"
            fix = rewrite(binding.span, right) if _package_of(text) == _package_of(subject.name) else None
            message = f"pname {text} is of another build; it should be {right}"
            yield Defect(message, binding.span, fix=fix if last else None)
        elif named and text.partition("-")[2] not in (variant.cell, own):
            message = f"pname {text} spells its build otherwise than the file"
            yield Defect(message, binding.span, severity=WARNING, sure=convention(subject))
        elif line and not line.flavor and text not in wanted and (not named or subject.enforce_conventions):
            right = right_pname(variant if last else variant.of(subject.catalog.torch), line)
            if last or subject.enforce_conventions:
                message = f"pname {text} should be {right}"
                fix, sure = rewrite(binding.span, right), convention(subject)
                yield Defect(message, binding.span, severity=WARNING, fix=fix, sure=sure)
    text = str(pnames[-1].value) if pnames and subject.companion else ""
    if _package_of(text) == subject.catalog.torch.name and Variant.try_parse(text, subject.catalog):
        yield Defect(f"the package itself is called {text}, which is torch's name", pnames[-1].span)


def _package_of(text: str) -> str:
    return re.sub(r"\d+$", "", text.split("-")[0])


@rule("TS106", "no pname", WARNING, unless=("wraps_nightly",))
def pname_is_set(subject: Subject, variant: Variant, line: Line) -> Iterator[Defect]:
    """Without its own pname a package has nixpkgs' name, and two variants look the same."""
    pnames = list(subject.bound("pname"))
    wanted = 2 if variant.package.needs_torch else 1
    own, torch = right_pname(variant, line), right_pname(variant.of(subject.catalog.torch), line)
    if not pnames:
        yield Defect(f"no pname is set; it should be {own}")
    elif len(pnames) < wanted and subject.embeds_torch:
        message = "torch and its companion each need a pname, only one is set"
        yield Defect(message, pnames[0].span, hint=f"{torch} and {own}", sure=convention(subject))
