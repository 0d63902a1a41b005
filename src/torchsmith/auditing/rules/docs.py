"""Documents: counts, tables and claims in README and docs that contradict the recipes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

from torchsmith.auditing.claims import claims_in, vocabulary
from torchsmith.auditing.repo import Repo
from torchsmith.auditing.rule import GUESS, LIKELY, WARNING, Defect, replaced, rule, unlisted
from torchsmith.catalog import Package
from torchsmith.core.files import read_text
from torchsmith.core.problem import Problem
from torchsmith.matrix import Variant
from torchsmith.recipe.read import Span

COUNT = re.compile(
    r"(?<![\w./:+(-])(?:[Aa]ll |[Tt]otal(?: of|:)? )?(\d{1,4}) (?:total )?"
    r"(?:PyTorch |TorchVision |TorchAudio )?(variants|recipes|builds|packages)\b"
)
# A number is about all of them if the line says so, and about a part if it names one.
WHOLE = re.compile(
    r"\b(all|total|altogether|complete|entire|has|contains|provides|ships|holds)\b", re.IGNORECASE
)
PART = re.compile(
    r"\b(per|each|every|of the|more|new|added|after|remaining|other|priority|phase|tier|branch(es)?"
    r"|GPU|CPU|ARM|x86)\b|[×=]",
    re.IGNORECASE,
)
SHORT_LINE_WORDS = 4  # of a line that holds nothing else
SENTENCE = re.compile(r"[^\s][^\n]*?(?:[.;!?](?=\s)|$)", re.MULTILINE)
# A line about another branch, or about what is still to come.
ELSEWHERE = re.compile(
    r"\b(branch|checkout|plan(?:ned)?|to ?do|to create|to be|future|pending|not yet|soon)\b", re.IGNORECASE
)
ARCHITECTURE = re.compile(r"(?:SM|sm|compute)[_ ]?\d")
NAME = re.compile(r"\b[a-z][\w-]*?-python3\d+-[\w-]+(?:\.\d\w*)?")


def _pages(repo: Repo) -> Iterator[tuple[str, str]]:
    for path in repo.folder.pages:
        with suppress(Problem):  # said already
            yield repo.folder.label_of(path), read_text(path)


def _package(repo: Repo) -> Package | None:
    packages = {recipe.variant.package for recipe in repo.recipes if recipe.variant}
    return packages.pop() if len(packages) == 1 else None


@rule("TS961", "count that contradicts the recipes", WARNING, sure=LIKELY, over="repo")
def counts_are_right(repo: Repo) -> Iterator[Defect]:
    """A page that states a number of variants must state the number of recipes in the repository."""
    variants = [recipe for recipe in repo.recipes if recipe.variant]
    counts = {len(variants), len(repo.recipes)}
    for file, text in _pages(repo) if variants else ():
        for match in COUNT.finditer(text):
            line = text[text.rfind("\n", 0, match.start()) + 1 : text.find("\n", match.end())]
            if int(match[1]) not in counts and _of_all(line, repo):
                message, now = f"says {match[0]}, there are {max(counts)}", str(max(counts))
                fix = replaced(text, *match.span(1), now, f"write {now}") if len(counts) == 1 else None
                yield Defect(message, file=file, at=_line(text, match.start()), fix=fix)


def _of_all(line: str, repo: Repo) -> bool:
    alone = len(line.split()) <= SHORT_LINE_WORDS
    if not (alone or WHOLE.search(line)) or PART.search(line):
        return False
    part = ("sm", "cuda", "isa", "python", "generation", "part", "name", "system", "release")
    return not any(claim.kind in part for claim in claims_in(line, repo.catalog))


def _line(text: str, at: int) -> Span:
    return Span(at, at, text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))


@rule("TS962", "table that contradicts the recipes", WARNING, sure=LIKELY, over="repo")
def named_variants_exist(repo: Repo) -> Iterator[Defect]:
    """A variant listed in a page must exist as a recipe, and a page that lists variants must list all of
    them."""
    package = _package(repo)
    known = [recipe.variant for recipe in repo.recipes if recipe.variant]
    names = {recipe.name for recipe in repo.recipes if recipe.variant}
    present = {recipe.attr for recipe in repo.folder.recipes}  # also those that cannot be parsed
    for file, text in _pages(repo):
        listed: dict[str, int] = {}
        for match in NAME.finditer(text):
            if package is not None and _names(match[0], package, repo, names):
                listed.setdefault(match[0].removesuffix(".nix"), match.start())
        for name, at in listed.items():
            line = text[text.rfind("\n", 0, at) + 1 : text.find("\n", at)]
            named = None if name in present else Variant.try_parse(name, repo.catalog)
            if _missed(named, known) and not ELSEWHERE.search(line):
                yield Defect(f"names {name}, which has no recipe", file=file, at=_line(text, at))
        missing = sorted(names - set(listed))
        if missing and len(listed) > max(8, len(names) // 2) and "/docs/" not in f"/{file}":
            yield Defect(f"lists {len(listed)} builds and leaves out {missing[0]}", file=file, sure=GUESS)


def _missed(named: Variant | None, known: Sequence[Variant]) -> bool:
    """Whether a recipe of that name is missed here: there are others of its Python and CUDA, so that it is
    not another branch's, and none of its cell under another spelling."""
    if named is None:
        return False
    neighbours = [cell for cell in known if cell.python is named.python and cell.cuda is named.cuda]
    return bool(neighbours) and (named.target, named.isa) not in [
        (variant.target, variant.isa) for variant in neighbours
    ]


def _names(name: str, package: Package, repo: Repo, known: set[str]) -> bool:
    """Whether a word names a recipe of a package; a release that no recipe has is a pname."""
    if name in known:
        return True
    variant = Variant.try_parse(name, repo.catalog)
    return variant is not None and variant.package == package and not variant.release


@rule("TS963", "false hardware claim in a page", WARNING, sure=LIKELY, over="repo")
def pages_tell_the_truth(repo: Repo) -> Iterator[Defect]:
    """A sentence that names one GPU architecture and a GPU must name a GPU of that architecture."""
    known = vocabulary(repo.catalog)
    for file, text in _pages(repo):
        true: set[str] = set()  # rows of a table claim the same of one variant after the other
        for match in SENTENCE.finditer(text):
            prose = NAME.sub("", match[0])
            if prose in true or not ARCHITECTURE.search(prose):
                continue
            true.add(prose)
            kinds = [(mention.lastgroup, mention["sm"]) for mention in known.pattern.finditer(match[0])]
            if len({sm for _, sm in kinds if sm}) != 1 or "part" not in [kind for kind, _ in kinds]:
                continue  # how it is meant takes longer to find out
            claims = claims_in(match[0], repo.catalog)
            sms = {claim.value for claim in claims if claim.kind == "sm"}
            if len(sms) != 1:
                continue
            sm = next(iter(sms))
            for claim in claims:
                if (
                    claim.kind == "part"
                    and sm not in known.parts[claim.value]
                    and claim.value not in known.cpus
                ):
                    is_ = " or ".join(sorted(known.parts[claim.value]))
                    at = _line(text, match.start() + claim.start)
                    true.discard(prose)
                    message = f"page lists {claim.word} under {sm}, but {claim.word} is {is_}"
                    yield Defect(message, file=file, at=at, fix=unlisted(text, at.line, claim.word))
