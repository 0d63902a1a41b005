"""Reading and evaluating recipes, against one Nix process for each.

The miniature nixpkgs is used unless TORCHSMITH_NIXPKGS names a real tree. Importing the miniature costs
almost nothing, so sharing and keeping save less there, and the goals are lower; docs/records.md has the
figures of a real one. The rival has as many processes at a time as torchsmith has workers.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from bench.measure import Row, in_turn
from torchsmith.cli.samples import HERE
from torchsmith.core.process import find
from torchsmith.nix.cache import ResultCache
from torchsmith.nix.evaluate import EvaluationOptions, EvaluationRequest, evaluate
from torchsmith.nix.tool import Nix, find_nix
from torchsmith.nix.worker import WorkerLimits
from torchsmith.recipe.read import read_recipe
from torchsmith.verbs.apply import ApplyRequest, apply
from torchsmith.workspace.checkout import recipes_in

MINI = HERE / "nixpkgs"
WORKERS = 2


def rows() -> Iterator[Row]:
    """The default workspace: read, evaluated, and evaluated again."""
    if find("nix-instantiate") is None:
        return
    tree = Path(os.environ.get("TORCHSMITH_NIXPKGS") or MINI)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "workspace"
        root.mkdir()
        (root / "torchsmith.toml").write_text('format = 1\nprofile = "seed"\n')
        apply(ApplyRequest(workspace=root, git=False))
        files = recipes_in(root)
        requests = [EvaluationRequest(one.name, one.path, one.system) for one in files]
        nix = find_nix()
        if tree == MINI:
            nix = replace(nix, store=f"local?root={folder}/store")
        yield _reading(nix, [one.path for one in files])
        yield _evaluating(nix, requests, tree)
        yield _again(nix, requests, tree, Path(folder))


def _reading(nix: Nix, paths: Sequence[Path]) -> Row:
    def ours() -> None:
        for path in paths:
            read_recipe(path)

    def everything() -> None:
        for path in paths:
            one = read_recipe(path)
            _ = (one.pins, one.overlays, one.sources, one.platforms, one.gpu_targets, one.cpu_flags)

    def theirs() -> None:
        for path in paths:
            subprocess.run(
                nix.command("nix-instantiate", "--parse", path), check=True, stdout=subprocess.DEVNULL
            )

    mine, rivals = in_turn(ours, theirs, repeats=3)
    told, _ = in_turn(everything, lambda: None, repeats=3)
    each = told.median / len(paths) * 1000
    note = f"{each:.1f} ms a recipe with its pins, overlays, hashes, targets and flags"
    return Row(f"read {len(paths)} recipes", "nix-instantiate --parse each", mine, rivals, 10, "higher", note)


def _evaluating(nix: Nix, requests: Sequence[EvaluationRequest], tree: Path) -> Row:
    limits = WorkerLimits(workers=WORKERS)

    def ours() -> None:
        results = evaluate(requests, nix, EvaluationOptions(trees={"default": tree}, limits=limits))
        assert all(result.ok for result in results)

    def one(request: EvaluationRequest) -> None:
        text = f"(import {request.path} {{ torchsmithNixpkgs = {tree}; }}).drvPath"
        done = nix.command("nix-instantiate", "--eval", "-E", text)
        subprocess.run(done, check=True, stdout=subprocess.DEVNULL)

    def theirs() -> None:
        with ThreadPoolExecutor(WORKERS) as pool:
            list(pool.map(one, requests))

    mine, rivals = in_turn(ours, theirs, repeats=3 if tree == MINI else 1)
    what = f"evaluate {len(requests)} recipes"
    note = f"{tree.name}, Nix {nix.version_text}, {WORKERS} processes at a time on both sides"
    return Row(what, "one nix-instantiate each", mine, rivals, 4 if tree == MINI else 10, "higher", note)


def _again(nix: Nix, requests: Sequence[EvaluationRequest], tree: Path, folder: Path) -> Row:
    cache = ResultCache(folder / "cache")
    limits = WorkerLimits(workers=WORKERS)

    def first() -> None:
        evaluate(requests, nix, EvaluationOptions(trees={"default": tree}, limits=limits))

    def second() -> None:
        evaluate(requests, nix, EvaluationOptions(trees={"default": tree}, limits=limits, cache=cache))

    second()
    mine, rivals = in_turn(second, first, repeats=3)
    note = "includes a look at every file of the nixpkgs tree; a pinned tarball needs none"
    goal = 20 if tree == MINI else 50
    return Row(
        f"evaluate {len(requests)} recipes again", "the first time", mine, rivals, goal, "higher", note
    )
