"""What a commit holds against what was built and verified: the same derivations, of the pins' own nixpkgs,
whose outputs are whole in the store."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from torchsmith.core.problem import Problem
from torchsmith.core.process import find
from torchsmith.nix.evaluate import EvalResult, EvaluationOptions, evaluate
from torchsmith.nix.fetch import tree_for, tree_hash
from torchsmith.nix.hashes import to_sri
from torchsmith.nix.prepare import Preparation, source_hash
from torchsmith.nix.store import damaged_paths
from torchsmith.nix.tool import Nix, find_nix
from torchsmith.record import Built, Record
from torchsmith.workspace.checkout import RecipeFile
from torchsmith.workspace.git import add, check_out, init
from torchsmith.workspace.load import Workspace

NOT_PINNED = "it pins no nixpkgs, so that one given by --nixpkgs proves nothing of it"
NO_HASH = "its pin states no sha256, so that nothing shows that the tree given by --nixpkgs is that nixpkgs"
OTHER_TREE = (
    "the tree given by --nixpkgs is not the nixpkgs of its pin: its hash is {actual}, the pin's {stated}"
)


@contextmanager
def checked_out(recipes: Sequence[RecipeFile], trees: Mapping[Path, str]) -> Iterator[list[RecipeFile]]:
    """Recipes as a commit or tree of their repository holds them, each in a fresh checkout of it."""
    with tempfile.TemporaryDirectory(prefix="torchsmith-publish-") as folder:
        homes: dict[Path, Path] = {}
        for number, (repo, tree) in enumerate(trees.items()):
            home = homes[repo] = Path(folder).resolve() / str(number) / repo.absolute().name
            check_out(repo, tree, home)
            init(home)
            add(home, ["."])
        yield [
            replace(
                recipe,
                path=homes[recipe.repo] / recipe.path.relative_to(recipe.repo),
                repo=homes[recipe.repo],
            )
            for recipe in recipes
        ]


def differences(
    recipes: Sequence[RecipeFile], record: Record, workspace: Workspace, trees: Mapping[str, Path]
) -> dict[str, str]:
    """Why recipes, as they are committed, are not what was built; by name."""
    built = {recipe.name: record.built(recipe.name) for recipe in recipes}
    absent = {recipe.name: "it is not in the commit" for recipe in recipes if not recipe.path.is_file()}
    there = [recipe for recipe in recipes if recipe.name not in absent]
    by_nix = [recipe for recipe in there if (was := built[recipe.name]) and was.derivation]
    nix = find_nix() if by_nix or find("nix-store") else None
    foreign = _of_another_nixpkgs(nix, by_nix, trees) if nix and trees else {}
    now = {}
    if judged := [recipe for recipe in by_nix if recipe.name not in foreign]:
        assert nix is not None
        results = evaluate(judged, nix, EvaluationOptions(trees=trees, addresses=workspace.addresses))
        now = {result.name: result for result in results}
    reasons = {
        recipe.name: _difference(recipe, built[recipe.name], now.get(recipe.name), nix)
        for recipe in there
        if recipe.name not in foreign
    }
    return {**absent, **foreign, **{name: why for name, why in reasons.items() if why}}


def _difference(recipe: RecipeFile, was: Built | None, now: EvalResult | None, nix: Nix | None) -> str:
    again = "; build and verify it again"
    if was is None:
        return "it was not built here"
    if now is None:  # built by Flox, which reports no derivation
        if source_hash(recipe.path) != was.source:
            at = f" at {was.revision[:12]}" if was.revision else ""
            return f"its recipe, or a file that it reads, is another in the commit than was built{at}{again}"
        return _missing_output(was.outputs, nix)
    if now.evaluated is None:
        return f"it does not evaluate: {now.cause.message if now.cause else ''}"
    if now.evaluated.drv_path != was.derivation:
        return f"the commit holds {now.evaluated.drv_path} and not {was.derivation}, which was built{again}"
    if not was.outputs or not {*was.outputs} <= {*now.evaluated.outputs.values()}:
        return f"the record names outputs that are not those of its derivation{again}"
    return _missing_output(was.outputs, nix)


def _missing_output(outputs: Sequence[str], nix: Nix | None) -> str:
    """Why outputs cannot be handed on: the store no longer has them, or something else in their place."""
    stored = os.environ.get("NIX_STORE_DIR") or "/nix/store"
    known = [path for path in outputs if nix is not None and Path(path).is_relative_to(stored)]
    gone = [path for path in outputs if path not in known and not Path(path).exists()]
    wrong = damaged_paths(nix, known) if nix and known else gone
    return f"the store has no {wrong[0]} as it was built; build and verify it again" if wrong else ""


def _of_another_nixpkgs(nix: Nix, recipes: Sequence[RecipeFile], trees: Mapping[str, Path]) -> dict[str, str]:
    """Recipes for which a tree stands that is not the nixpkgs of their pin, and why."""
    hashes: dict[Path, str] = {}
    reasons: dict[str, str] = {}
    for recipe in recipes:
        preparation = Preparation()
        try:
            preparation.add(recipe.name, recipe.path)
        except Problem as problem:
            reasons[recipe.name] = problem.message
            continue
        pins = [
            tarball for tarball in preparation.jobs[0].tarballs if tree_for(trees, tarball.url) is not None
        ]
        if not preparation.jobs[0].tarballs and "default" in trees:
            reasons[recipe.name] = NOT_PINNED
        for pin in pins:
            tree = tree_for(trees, pin.url)
            assert tree is not None
            if tree not in hashes:
                hashes[tree] = tree_hash(nix, tree)
            if not pin.sha256:
                reasons[recipe.name] = NO_HASH
            elif to_sri(pin.sha256) != hashes[tree]:
                reasons[recipe.name] = OTHER_TREE.format(actual=hashes[tree], stated=to_sri(pin.sha256))
    return reasons
