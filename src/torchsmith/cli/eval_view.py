"""Evaluated recipes, for people and for programs."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from torchsmith.cli.console import err, out, print_json
from torchsmith.nix.embedded import Answer
from torchsmith.nix.evaluate import Result

NAMED = 3  # recipes with the same failure that are named; the rest is counted


def print_results(results: Sequence[Result], *, as_json: bool) -> None:
    """Name, derivation, time and where the answer came from; failures with their cause."""
    if as_json:
        print_json([result_json(result) for result in results])
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


def print_failures(results: Sequence[Result]) -> None:
    """The recipes that do not evaluate, by cause: one that many have in common is told once."""
    causes: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        if result.cause is not None:
            place = str(result.cause.where or "")
            causes.setdefault((place, result.cause.message), []).append(result)
    for (place, message), failed in causes.items():
        names = ", ".join(result.name for result in failed[:NAMED])
        more = f" and {len(failed) - NAMED} more" if len(failed) > NAMED else ""
        line = Text(f"{place or failed[0].path}: ", style="bold").append("error: ", style="bold red")
        err().print(line.append(message).append(f" ({names}{more})", style="dim"), soft_wrap=True)


def result_json(result: Result) -> dict[str, object]:
    """One result as data."""
    row: dict[str, object] = {"name": result.name, "file": str(result.path)}
    if result.evaluated is not None:
        row |= {
            "drvPath": result.evaluated.drv_path,
            "derivation": result.evaluated.name,
            "system": result.evaluated.system,
            "outputs": dict(result.evaluated.outputs),
            "facts": result.evaluated.facts,
        }
    if result.cause is not None:
        row["error"] = result.cause.message
        row["where"] = str(result.cause.where) if result.cause.where else None
    return row | {"seconds": round(result.seconds, 4), "cached": result.cached}


def print_values(answers: Sequence[Answer], *, as_json: bool) -> None:
    """What recipes ask for: version, GPU targets, and why something is not known."""
    if as_json:
        print_json([answer.as_json() for answer in answers])
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
