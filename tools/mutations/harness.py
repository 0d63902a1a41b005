"""Running the mistakes: which are noticed, which are named, and which change nothing."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tools.mutations.generic import generic
from tools.mutations.mistake import Mistake, Right
from tools.mutations.realistic import realistic
from torchsmith.auditing.context import Context
from torchsmith.auditing.finding import Finding, Severity
from torchsmith.auditing.run import check_recipe
from torchsmith.auditing.suppress import RuleSelection
from torchsmith.catalog import builtin_catalog
from torchsmith.core.problem import Problem
from torchsmith.matrix import Variant
from torchsmith.recipe.read import read_text_as_recipe
from torchsmith.workspace.load import SettingsFile, Workspace, parse_settings
from torchsmith.workspace.wanted import wanted_repos

CATALOG = builtin_catalog()
# A few cells of every family: releases, CUDA and CPU, x86 and ARM, Jetson, AVX, companions, the Flox line.
CELLS = """format = 1
[[matrix]]
line = "2.10"
python = ["3.13"]
cuda = ["13.0"]
sm = ["sm120"]
isa = ["avx512", "avx2", "avx"]
[[matrix]]
line = "2.10"
python = ["3.13"]
cuda = ["13.0"]
sm = ["sm110", "sm121"]
isa = ["armv9"]
[[matrix]]
line = "2.10"
python = ["3.13"]
cuda = ["cpu"]
isa = ["avx512bf16", "armv8_2"]
[[matrix]]
line = "2.10"
python = ["3.12"]
cuda = ["12.8"]
sm = ["sm89"]
isa = ["avx512vnni"]
[[matrix]]
line = "2.9"
python = ["3.13"]
cuda = ["12.9"]
sm = ["sm90"]
isa = ["avx2"]
[[matrix]]
line = "2.8"
packages = ["pytorch"]
python = ["3.13"]
cuda = ["12.6", "cpu"]
sm = ["sm86"]
isa = ["avx512"]
[[matrix]]
line = "2.9"
packages = ["pytorch", "torchvision"]
python = ["3.13"]
target = ["rocm6_4-gfx1100"]
isa = ["avx2"]
[[matrix]]
line = "flox"
packages = ["pytorch"]
python = ["3.11"]
cuda = ["12.8", "cpu"]
sm = ["sm80"]
isa = ["avx2"]
"""
OTHER_HANDS = Path(__file__).parents[2] / "tests/auditing/other-hands"
PACKAGES = Path(".flox/pkgs")  # where Flox would have them
NO_CHANGE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the audit said of one mistake."""

    mistake: Mistake
    caught: bool
    named: bool
    rules: tuple[str, ...]


def _workspace() -> Workspace:
    source = SettingsFile("mutations", CELLS)
    return Workspace(None, source, parse_settings(source), CATALOG, "")


@cache
def _lines() -> dict[str, str]:
    """What the workspace asks for: its own conventions count."""
    return {cell.name: cell.line for cell in _workspace().matrix.cells}


def right_recipes() -> list[Right]:
    """Recipes without a mistake and without a header, as if written by hand."""
    files = [file for repo in wanted_repos(_workspace()) for file in repo.files if file.cell]
    return [Right(file.cell, file.text.partition("\n")[2]) for file in files]


def written_by_others(roots: Sequence[Path]) -> list[Right]:
    """Recipes below these folders that are told nothing: a mistake more in a wrong one says little."""
    recipes = [
        Right(path.stem, path.read_text(), path.parent)
        for root in roots
        for path in sorted(root.rglob("*.nix"))
        if Variant.try_parse(path.stem, CATALOG)
    ]
    return [
        one
        for one in recipes
        if all(found.severity is Severity.NOTE for found in findings_of(one.name, one.text, one.folder))
    ]


def findings_of(name: str, text: str, folder: Path = Path()) -> list[Finding]:
    """What the text rules say, notes included: they are told to whoever asks."""
    ours = not folder.parts
    bench = Context(CATALOG, RuleSelection(strict=ours), _lines() if ours else {})
    try:
        recipe = read_text_as_recipe(text.encode(), (folder if folder.parts else PACKAGES) / f"{name}.nix")
    except Problem:
        return [Finding("TS001", "", Severity.ERROR, where=None, message="unreadable")]  # type: ignore[arg-type]
    return list(check_recipe(recipe, f"{name}.nix", bench).findings)


def run(mistakes: Iterable[Mistake], known: dict[Right, set[str]]) -> Iterator[Outcome]:
    """Judge each; what the right recipe is told already does not count."""
    for one in mistakes:
        told = findings_of(one.name, one.text, one.of.folder)
        found = [finding for finding in told if key_of(finding) not in known[one.of]]
        rules = tuple(sorted({finding.rule for finding in found}))
        yield Outcome(one, bool(found), any(_names(finding, one) for finding in found), rules)


def key_of(finding: Finding) -> str:
    return f"{finding.rule} {finding.message}"


def _names(finding: Finding, mistake: Mistake) -> bool:
    """Whether a finding is about the mistake: by its rule, its place, or its words."""
    if finding.rule == "TS001":
        return True
    if mistake.rules:
        return finding.rule in mistake.rules
    first, last = mistake.lines
    if finding.where.line and first <= finding.where.line <= last:
        return True
    told = f"{finding.title} {finding.message} {finding.hint} {finding.source}".lower()
    return any(word.lower() in told for word in mistake.words if len(word) > 1)


def everything(roots: Sequence[Path], seed: int = 0) -> Iterator[tuple[str, list[Outcome]]]:
    """All realistic mistakes in our recipes, and all generic ones that change something, in recipes of others
    too."""
    ours, others = right_recipes(), written_by_others(roots)
    yield "realistic", list(run((one for right in ours for one in realistic(right)), known_of(ours)))
    yield "generic", list(run(changing(ours, seed), known_of(ours)))
    yield "generic, by other hands", list(run(changing(others, seed), known_of(others)))


def known_of(recipes: Sequence[Right]) -> dict[Right, set[str]]:
    """What right recipes are told."""
    return {one: {key_of(found) for found in findings_of(one.name, one.text, one.folder)} for one in recipes}


def changing(recipes: Sequence[Right], seed: int = 0) -> Iterator[Mistake]:
    """Generic mistakes that change more than blanks."""
    chosen = random.Random(seed)
    for right in recipes:
        text = NO_CHANGE.sub("", right.text)
        yield from (one for one in generic(right, chosen) if NO_CHANGE.sub("", one.text) != text)


def share(outcomes: Sequence[Outcome]) -> tuple[float, float]:
    """The shares caught and named."""
    total = len(outcomes) or 1
    return sum(one.caught for one in outcomes) / total, sum(one.named for one in outcomes) / total


def missed(outcomes: Sequence[Outcome]) -> Counter[str]:
    """What was not noticed, by kind and what."""
    return Counter(f"{one.mistake.kind}: {one.mistake.what}" for one in outcomes if not one.caught)
