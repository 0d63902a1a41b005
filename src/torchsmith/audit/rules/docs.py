"""Documents: counts, tables and claims in README and docs that contradict the recipes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torchsmith.audit.claims import claims_in, vocabulary
from torchsmith.audit.repo import Repo
from torchsmith.audit.rule import LIKELY, WARNING, Defect, rule
from torchsmith.catalog import Package
from torchsmith.edge.files import read_text
from torchsmith.edge.problem import Problem
from torchsmith.matrix import Variant
from torchsmith.recipe.read import Span

COUNT = re.compile(
    r"\b(\d{1,4}) (?:total )?(?:PyTorch |TorchVision |TorchAudio )?(variants|recipes|builds|packages)\b"
)
NAME = re.compile(r"\b[a-z][\w-]*?-python3\d+-[\w-]+(?:\.\d\w*)?")


def _pages(repo: Repo) -> Iterator[tuple[str, str]]:
    for path in repo.pages:
        try:
            yield repo.show(path), read_text(path)
        except Problem:
            continue


def _package(repo: Repo) -> Package | None:
    packages = {recipe.variant.package for recipe in repo.recipes if recipe.variant}
    return packages.pop() if len(packages) == 1 else None


@rule("TS961", "count that contradicts the recipes", WARNING, sure=LIKELY, over="repo")
def counts_are_right(repo: Repo) -> Iterator[Defect]:
    """A page that says how many variants there are says how many recipes lie there."""
    counts = {len([one for one in repo.recipes if one.variant]), len(repo.recipes)}
    for file, text in _pages(repo):
        for found in COUNT.finditer(text) if repo.recipes else ():
            before = text[max(0, found.start() - 60) : found.start()].rpartition("\n")[2]
            if int(found[1]) not in counts and not re.search(r"\b(of|GPU|CPU|ARM|x86)\W*$", before):
                yield Defect(
                    f"says {found[0]}, there are {max(counts)}", file=file, at=_line(text, found.start())
                )


def _line(text: str, at: int) -> Span:
    return Span(at, at, text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))


@rule("TS962", "table that contradicts the recipes", WARNING, sure=LIKELY, over="repo")
def named_variants_exist(repo: Repo) -> Iterator[Defect]:
    """A variant that a page of the repo lists exists as a recipe, and a page that lists variants lists all of
    them."""
    package = _package(repo)
    names = {recipe.name for recipe in repo.recipes if recipe.variant}
    for file, text in _pages(repo):
        listed: dict[str, int] = {}
        for found in NAME.finditer(text):
            if package is not None and _names(found[0], package, repo, names):
                listed.setdefault(found[0].removesuffix(".nix"), found.start())
        for name, at in listed.items():
            if name not in names:
                yield Defect(f"names {name}, which has no recipe", file=file, at=_line(text, at))
        missing = sorted(names - set(listed))
        if missing and len(listed) > max(8, len(names) // 2) and "/docs/" not in f"/{file}":
            yield Defect(f"lists {len(listed)} variants and leaves out {missing[0]}", file=file)


def _names(name: str, package: Package, repo: Repo, known: set[str]) -> bool:
    """Whether a word names a recipe of a package; a release that no recipe has is a pname."""
    variant = Variant.try_parse(name, repo.catalog)
    return variant is not None and variant.package == package and (not variant.release or name in known)


@rule("TS963", "false hardware claim in a page", WARNING, sure=LIKELY, over="repo")
def pages_tell_the_truth(repo: Repo) -> Iterator[Defect]:
    """A line that names one GPU architecture and a part names a part that has it."""
    words = vocabulary(repo.catalog)
    for file, text in _pages(repo):
        for match in re.finditer(r"[^\n]+", text):
            found = list(claims_in(match[0], repo.catalog))
            sms = {one.value for one in found if one.kind == "sm"}
            if len(sms) != 1:
                continue
            sm = next(iter(sms))
            for one in found:
                if one.kind == "part" and sm not in words.parts[one.value] and one.value not in words.cpus:
                    is_ = " or ".join(sorted(words.parts[one.value]))
                    at = _line(text, match.start() + one.start)
                    yield Defect(f"says {one.word} is {sm}; it is {is_}", file=file, at=at)
