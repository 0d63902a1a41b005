"""Evaluated recipes, for people and for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import UNSET, UnsetType
from rich.text import Text

from torchsmith.cli.console import err, out, print_json
from torchsmith.nix.embedded import Answer, Values
from torchsmith.nix.evaluate import EvalResult

NAMED = 3  # recipes with the same failure that are named; the rest is counted


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


class ValuesRow(msgspec.Struct, frozen=True):
    """A recipe: what it asks for, or why that is not known."""

    name: str
    file: Path
    values: Values | UnsetType
    error: str | UnsetType


class ValuesDocument(msgspec.Struct, frozen=True):
    """Recipes as the embedded evaluator sees them."""

    recipes: list[ValuesRow]


def print_results(results: Sequence[EvalResult], *, as_json: bool) -> None:
    """Name, derivation, time and where the answer came from; failures with their cause."""
    if as_json:
        print_json(EvalDocument([_row(result) for result in results]))
        return
    good = [result for result in results if result.evaluated is not None]
    width = max((len(result.name) for result in good), default=0)
    for result in good:
        time = "cached" if result.cached else f"{result.seconds:.2f} s"
        line = Text(f"{result.name:{width}}  ").append(f"{time:>8}  ", style="dim")
        out().print(line.append(result.evaluated.drv_path if result.evaluated else ""), soft_wrap=True)
    print_failures(results)
    builds = len({result.evaluated.drv_path for result in good if result.evaluated})
    cached = sum(result.cached for result in good)
    failed = len(results) - len(good)
    words = [f"{len(good)} of {len(results)} recipes evaluate to {builds} derivations"]
    words += [f"{cached} cached"] if cached else []
    words += [f"{failed} failed"] if failed else []
    err().print(", ".join(words))


def print_failures(results: Sequence[EvalResult]) -> None:
    """The recipes that do not evaluate, by cause: one that many have in common is told once."""
    causes: dict[tuple[str, str], list[EvalResult]] = {}
    for result in results:
        if result.cause is not None:
            place = str(result.cause.where or "")
            causes.setdefault((place, result.cause.message), []).append(result)
    for (place, message), failed in causes.items():
        names = ", ".join(result.name for result in failed[:NAMED])
        more = f" and {len(failed) - NAMED} more" if len(failed) > NAMED else ""
        line = Text(f"{place or failed[0].path}: ", style="bold").append("error: ", style="bold red")
        err().print(line.append(message).append(f" ({names}{more})", style="dim"), soft_wrap=True)


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
        rows = [
            ValuesRow(one.name, one.path, one.values, UNSET)
            if one.values
            else ValuesRow(one.name, one.path, UNSET, one.reason)
            for one in answers
        ]
        print_json(ValuesDocument(rows))
        return
    width = max((len(answer.name) for answer in answers), default=0)
    for answer in answers:
        if answer.values is not None:
            targets = " ".join(answer.values.gpu_targets) or "no GPU"
            line = Text(f"{answer.name:{width}}  ").append(f"{answer.values.version}  ", style="bold")
            out().print(line.append(targets), soft_wrap=True)
    for answer in answers:
        if answer.values is None:
            line = Text(f"{answer.path}: ", style="bold").append("error: ", style="bold red")
            err().print(line.append(answer.reason), soft_wrap=True)
