"""Evaluated recipes, for people and for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import UNSET, UnsetType

from torchsmith.cli.console import paint, print_json, print_problem, tell, write
from torchsmith.cli.evaluation import print_failures
from torchsmith.core.problem import Problem, Where
from torchsmith.core.words import counted
from torchsmith.nix.embedded import Answer
from torchsmith.nix.evaluate import EvalResult


class EvalRow(msgspec.Struct, frozen=True, kw_only=True):
    """A recipe: its derivation, or the error and its place."""

    name: str
    file: Path
    drvPath: str | UnsetType
    derivation: str | UnsetType
    system: str | UnsetType
    outputs: Mapping[str, str] | UnsetType
    facts: object
    error: str | UnsetType
    where: str | UnsetType | None
    seconds: float
    cached: bool


class EvalDocument(msgspec.Struct, frozen=True):
    """Recipes as Nix evaluates them."""

    recipes: list[EvalRow]


class ValuesDocument(msgspec.Struct, frozen=True):
    """Recipes as the embedded evaluator sees them."""

    recipes: Sequence[Answer]


def print_results(results: Sequence[EvalResult], *, as_json: bool) -> None:
    """Name, derivation, time and where the answer came from; failures with their cause."""
    if as_json:
        print_json(EvalDocument([_row(result) for result in results]))
        return
    good = [(result, result.evaluated.drv_path) for result in results if result.evaluated]
    width = max((len(result.name) for result, _ in good), default=0)
    for result, path in good:
        time = "cached" if result.cached else f"{result.seconds:.2f} s"
        write(f"{result.name:{width}}  {paint(f'{time:>8}  ', 'dim')}{path}")
    print_failures(results)
    builds = len({path for _, path in good})
    cached = sum(result.cached for result, _ in good)
    failed = len(results) - len(good)
    words = [f"{len(good)} of {len(results)} recipes evaluate to {counted(builds, 'derivation')}"]
    words += [f"{cached} cached"] if cached else []
    words += [f"{failed} failed"] if failed else []
    tell(", ".join(words))


def _row(result: EvalResult) -> EvalRow:
    known, cause = result.evaluated, result.cause
    return EvalRow(
        name=result.name,
        file=result.path,
        drvPath=known.drv_path if known else UNSET,
        derivation=known.name if known else UNSET,
        system=known.system if known else UNSET,
        outputs=known.outputs if known else UNSET,
        facts=known.facts if known else UNSET,
        error=cause.message if cause else UNSET,
        where=(str(cause.where) if cause.where else None) if cause else UNSET,
        seconds=round(result.seconds, 4),
        cached=result.cached,
    )


def print_values(answers: Sequence[Answer], *, as_json: bool) -> None:
    """What recipes ask for: version, GPU targets, and why something is not known."""
    if as_json:
        print_json(ValuesDocument(answers))
        return
    width = max((len(answer.name) for answer in answers), default=0)
    for answer in answers:
        if answer.values is not None:
            targets = " ".join(answer.values.gpu_targets) or "no GPU"
            write(f"{answer.name:{width}}  {paint(f'{answer.values.version}  ', 'bold')}{targets}")
    for answer in answers:
        if answer.values is None:
            print_problem(Problem(answer.reason, where=Where(str(answer.path))))
