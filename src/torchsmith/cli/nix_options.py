"""Options for recipes and for Nix, and the evaluation that they describe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from torchsmith.cli.options import complete_selectors
from torchsmith.cli.reporter import SILENT, Reporter
from torchsmith.cli.request import Argument, Option, Request
from torchsmith.cli.samples import is_sample, or_sample
from torchsmith.core.problem import Invalid, NotFound

if TYPE_CHECKING:
    from torchsmith.nix.evaluate import EvalResult, Evaluable
    from torchsmith.nix.tool import Nix
    from torchsmith.workspace.checkout import RecipeFile
    from torchsmith.workspace.load import Workspace

Recipes = Annotated[
    Sequence[str],
    Argument(
        "Names, selectors such as sm120, or paths of recipes and repositories; by default all.",
        metavar="[RECIPE]...",
        complete=complete_selectors,
    ),
]
NixpkgsOption = Annotated[
    Sequence[str],
    Option(
        "A nixpkgs tree instead of the download, for all pins or the one named; `sample` is a small one.",
        metavar="[REV=]PATH",
        envvar="TORCHSMITH_NIXPKGS",
    ),
]


@dataclass(frozen=True)
class NixOptions(Request):
    """How Nix evaluates: with which nixpkgs, and with which limits."""

    nixpkgs: NixpkgsOption = ()
    jobs: Annotated[int | None, Option("--jobs", "-j", "Number of parallel workers.", min=1)] = None
    memory: Annotated[float, Option("Memory limit of a worker, in GiB.", min=0.25)] = 2.0
    timeout: Annotated[float, Option("Time limit for a recipe, in seconds.", min=1)] = 300.0
    cache: Annotated[bool, Option("--cache/--no-cache", "Use cached results.")] = True


def read_trees(options: Sequence[str]) -> dict[str, Path]:
    """Return the trees by revision: `PATH` is for every pin, `REV=PATH` for one."""
    trees: dict[str, Path] = {}
    for word in options:
        rev, equals, path = word.partition("=")
        if not equals:
            trees["default"] = or_sample(Path(word), "nixpkgs")
        elif len(rev) == 40 and all(digit in "0123456789abcdef" for digit in rev):
            trees[rev] = Path(path)
        else:
            trees[_full_revision(rev)] = Path(path)
    if missing := [path for path in trees.values() if not path.exists()]:
        raise NotFound(f"--nixpkgs: no such folder: {missing[0]}", hint="it takes a folder, or sample")
    return trees


def takes_sample(trees: Sequence[str]) -> bool:
    """Whether one of the trees is the sample."""
    return any(is_sample(Path(word)) for word in trees)


def require_own_tree(trees: Sequence[str], what: str, *, dry_run: bool) -> None:
    """Raise Invalid if facts of the sample would be written about something else."""
    if takes_sample(trees) and not dry_run:
        hint = "--nixpkgs takes a tree of it; --dry-run tries it with the sample"
        raise Invalid(f"the sample is not {what}: its facts are not written", hint=hint)


def _full_revision(short: str) -> str:
    from torchsmith.catalog import builtin_catalog

    revisions = [
        pin.rev for pin in builtin_catalog().pins.values() if pin.rev.startswith(short) and len(short) >= 7
    ]
    if len(revisions) != 1:
        raise Invalid(
            f"--nixpkgs: {short!r} is not a revision", hint="give 40 digits, or 7 of a pin in the catalog"
        )
    return revisions[0]


def open_recipes(selectors: Sequence[str], workspace: Path | None) -> tuple[Workspace, list[RecipeFile]]:
    """Return the workspace and the recipes in it that words select."""
    from torchsmith.workspace.checkout import choose
    from torchsmith.workspace.load import open_workspace

    opened = open_workspace(workspace)
    folder = opened.root or Path.cwd()
    return opened, choose(selectors, opened, folder).recipes


def evaluation(
    options: NixOptions,
    *,
    workspace: Workspace | None = None,
    instantiate: bool = False,
    reporter: Reporter = SILENT,
) -> tuple[Nix, Callable[[Sequence[Evaluable]], list[EvalResult]]]:
    """The installed Nix, and evaluation with it; `reporter` gets the name of each recipe."""
    from torchsmith.nix.cache import ResultCache
    from torchsmith.nix.evaluate import EvaluationOptions, default_workers, evaluate, reachable
    from torchsmith.nix.tool import find_nix
    from torchsmith.nix.worker import WorkerLimits

    trees = read_trees(options.nixpkgs)
    nix = find_nix()
    memory = int(options.memory * (1 << 30))
    limits = WorkerLimits(options.jobs or default_workers(), memory, options.timeout)
    cache = ResultCache() if options.cache else None

    def run(requests: Sequence[Evaluable]) -> list[EvalResult]:
        with reporter.steps("evaluating", len(requests)) as step:
            results = evaluate(
                requests,
                nix,
                EvaluationOptions(
                    trees=trees,
                    addresses=workspace.addresses if workspace else (),
                    limits=limits,
                    cache=cache,
                    instantiate=instantiate,
                ),
                on_event=lambda result: step(result.name),
            )
        return reachable(results)

    return nix, run
