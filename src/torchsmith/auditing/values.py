"""The second depth: recipes evaluated without Nix, a batch at a time, and judged by what comes out."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from torchsmith.auditing.context import Context, Judged
from torchsmith.auditing.finding import Finding, Severity
from torchsmith.auditing.form import NormalizedText
from torchsmith.auditing.rule import LARGEST, Over
from torchsmith.auditing.subject import Subject
from torchsmith.core.files import read_text
from torchsmith.core.problem import Problem, Where
from torchsmith.core.words import grouped
from torchsmith.matrix.variant import package_name
from torchsmith.nix.embedded import Evaluator, NoValues, Question, available
from torchsmith.recipe.read import read_recipe
from torchsmith.workspace.checkout import Repository

UNKNOWN = "TS002"  # what the embedded evaluator does not know
BATCH = 64  # recipes in memory at a time


def judge_all_evaluated(
    folders: Sequence[Repository],
    context: Context,
    broken: Collection[str],
    forms: Mapping[str, NormalizedText],
    *,
    needed: bool,
) -> Iterator[Judged]:
    """What evaluation finds in recipes that their text gave no reason to doubt; some forms are known.

    Without the evaluator nothing is found, or a Problem says so where it is `needed`.
    """
    if not available() and not needed:
        return
    wanted = [
        (shown, recipe.path)
        for folder in folders
        for recipe in folder.recipes
        if (shown := folder.show(recipe.path)) not in broken
    ]
    with Evaluator() as evaluator:
        first, rest = _one_of_each(wanted, context, forms)
        found = list(judge_evaluated(first, context, evaluator))
        yield from found
        told = (one for judged in found for one in judged.findings)
        doubtful = {one.where.file for one in told if one.severity is not Severity.NOTE}
        again = [one for shown, _ in first if shown in doubtful for one in rest[shown]]
        yield from judge_evaluated(again, context, evaluator)


def counted_once(findings: Sequence[Finding], folders: Sequence[Repository]) -> list[Finding]:
    """What the embedded evaluator cannot tell of many files of a repository is said once, and counted."""
    untold = [one for one in findings if one.rule == UNKNOWN and one.severity is Severity.NOTE]
    kept = [one for one in findings if one.rule != UNKNOWN or one.severity is not Severity.NOTE]
    roots = sorted((folder.shown for folder in folders), key=len, reverse=True)
    home = {one: next((root for root in roots if one.where.file.startswith(root)), ".") for one in untold}
    for (root, message), same in grouped(((home[one], one.message), one) for one in untold).items():
        if len(same) == 1:
            kept += same
        else:
            words = f"{len(same)} files: {message}, such as {same[0].where.file}"
            kept.append(replace(same[0], where=Where(root), message=words, source=""))
    return kept


def _one_of_each(
    wanted: Sequence[tuple[str, Path]], context: Context, forms: Mapping[str, NormalizedText]
) -> tuple[list[tuple[str, Path]], dict[str, list[tuple[str, Path]]]]:
    """One recipe of each form, and the others by it: they are asked only where the first gives reason to."""
    first: list[tuple[str, Path]] = []
    others: dict[str, list[tuple[str, Path]]] = {}
    seen: dict[NormalizedText, str] = {}
    for shown, path in wanted:
        if path.stat().st_size > LARGEST:
            continue  # said already
        form = forms.get(shown) or form_of(path, context)
        known = seen.setdefault(form, shown) if form else shown
        if known == shown:
            first.append((shown, path))
            others[shown] = []
        else:
            others[known].append((shown, path))
    return first, others


def form_of(path: Path, context: Context) -> NormalizedText | None:
    """What a recipe has in common with others that one verdict holds for."""
    name, text = package_name(path), read_text(path)
    return context.forms.of(name, text, context.lines.get(name)) or context.forms.of_wrapper(name, text)


def judge_evaluated(
    wanted: Sequence[tuple[str, Path]], context: Context, evaluator: Evaluator
) -> Iterator[Judged]:
    """What evaluation finds in recipes, each with the name that it is shown by."""
    for start in range(0, len(wanted), BATCH):
        subjects = list(_subjects(wanted[start : start + BATCH], context))
        questions = [
            Question(one.recipe.path, one.recipe.syntax.data, one.isa.platform if one.isa else "x86_64-linux")
            for one in subjects
        ]
        for subject, values in zip(subjects, evaluator.values_of(questions), strict=True):
            over: Over = "unread" if isinstance(values, NoValues) else "recipe"
            found = context.of_recipe(subject, "values", over, values)
            yield Judged.of(found, subject.recipe.text)


def _subjects(wanted: Sequence[tuple[str, Path]], context: Context) -> Iterator[Subject]:
    for shown, path in wanted:
        with suppress(Problem):  # said already
            yield context.subject(shown, read_recipe(path))
