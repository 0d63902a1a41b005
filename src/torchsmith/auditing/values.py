"""The second depth: recipes evaluated without Nix, a batch at a time, and judged by what comes out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from torchsmith.auditing.context import Context, FileFindings, JudgeTask
from torchsmith.auditing.finding import Finding, Severity
from torchsmith.auditing.form import NormalizedText
from torchsmith.auditing.rule import LARGEST
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
    wanted: Sequence[JudgeTask],
    context: Context,
    forms: Mapping[JudgeTask, NormalizedText],
    *,
    needed: bool,
) -> dict[JudgeTask, FileFindings]:
    """What evaluation finds in recipes; some forms are known.

    Without the evaluator nothing is found, or a Problem says so where it is `needed`.
    """
    if not wanted or (not available() and not needed):
        return {}
    with Evaluator() as evaluator:
        alike = _one_of_each(wanted, context, forms)
        judged = dict(judge_evaluated(list(alike), context, evaluator))
        doubtful = [task for task, one in judged.items() if any(map(_worse_than_note, one.findings))]
        again = [task for first in doubtful for task in alike[first]]
        for first, one in list(judged.items()):
            judged |= {task: FileFindings((), lasting=one.lasting) for task in alike[first]}
        return judged | dict(judge_evaluated(again, context, evaluator))


def _worse_than_note(finding: Finding) -> bool:
    return finding.severity is not Severity.NOTE


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
    wanted: Sequence[JudgeTask], context: Context, forms: Mapping[JudgeTask, NormalizedText]
) -> dict[JudgeTask, list[JudgeTask]]:
    """One recipe of each form, with its others: those are asked only where the first gives reason to."""
    alike: dict[JudgeTask, list[JudgeTask]] = {}
    seen: dict[NormalizedText, JudgeTask] = {}
    for task in wanted:
        if task.path.stat().st_size > LARGEST:
            continue  # said already
        form = forms.get(task) or form_of(task.path, context)
        first = seen.setdefault(form, task) if form else task
        alike.setdefault(first, []).extend([task] if task != first else [])
    return alike


def form_of(path: Path, context: Context) -> NormalizedText | None:
    """What a recipe has in common with others that one verdict holds for."""
    name, text = package_name(path), read_text(path)
    return context.forms.of(name, text, context.lines.get(name)) or context.forms.of_wrapper(name, text)


def judge_evaluated(
    wanted: Sequence[JudgeTask], context: Context, evaluator: Evaluator
) -> Iterator[tuple[JudgeTask, FileFindings]]:
    """What evaluation finds in recipes."""
    for start in range(0, len(wanted), BATCH):
        subjects = list(_subjects(wanted[start : start + BATCH], context))
        questions = [
            Question(one.recipe.path, one.recipe.syntax.data, one.isa.platform if one.isa else "x86_64-linux")
            for _, one in subjects
        ]
        for (task, subject), values in zip(subjects, evaluator.values_of(questions), strict=True):
            unread = isinstance(values, NoValues)
            findings = context.of_recipe(subject, "values", "unread" if unread else "recipe", values)
            lasting = not isinstance(values, NoValues) or values.lasting
            yield task, FileFindings.of(findings, subject.recipe.text, lasting=lasting)


def _subjects(wanted: Sequence[JudgeTask], context: Context) -> Iterator[tuple[JudgeTask, Subject]]:
    for task in wanted:
        with suppress(Problem):  # said already
            yield task, context.subject(task.shown, read_recipe(task.path))
