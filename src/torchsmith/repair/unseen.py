"""Sources whose stated hash was not found: neither where recipes state hashes, nor in nixpkgs itself."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from pathlib import Path

from torchsmith.core.problem import Problem
from torchsmith.nix.derivation import Derivation
from torchsmith.nix.fetch import fetch_all, tree_for
from torchsmith.nix.graph import Graph
from torchsmith.nix.hashes import is_placeholder, parse_hash, respell
from torchsmith.nix.prepare import Preparation, PreparedRecipe
from torchsmith.nix.tool import Nix
from torchsmith.workspace.checkout import RecipeFile

WORD = re.compile(rb"[A-Za-z0-9+/=]{26,}")  # a hash in any spelling, without its algorithm's name
TEXTS = (".nix", ".json", ".lock", ".toml")


def unseen_downloads(
    graph: Graph,
    placed: Collection[str],
    recipes: Sequence[RecipeFile],
    nix: Nix,
    trees: Mapping[str, Path],
    addresses: Collection[str],
) -> list[Derivation]:
    """The downloads below recipes that are not nixpkgs' own and whose hash has no known place."""
    left = {path: one for path, one in graph.derivations.items() if one.fixed and path not in placed}
    jobs = list(_prepared(recipes))
    own = _known(left.values(), (file for job in jobs for file in job.reads if file.is_file()))
    foreign = {path for path, one in left.items() if is_placeholder(hash_of(one)) or hash_of(one) in own}
    rest = [one for path, one in left.items() if path not in foreign]
    places = _places(jobs, nix, trees, addresses) if rest else set()
    if places:
        theirs = _known(rest, (file for tree in places for file in _texts(tree)))
        foreign |= {one.path for one in rest if hash_of(one) not in theirs}
    return [one for path, one in left.items() if path in foreign]


def hash_of(derivation: Derivation) -> str:
    """The hash that a download states."""
    return next(output.hash for output in derivation.outputs.values() if output.hash)


def _prepared(recipes: Sequence[RecipeFile]) -> Iterator[PreparedRecipe]:
    for recipe in recipes:
        preparation = Preparation()
        try:
            preparation.add(recipe.name, recipe.path)
        except Problem:
            continue
        yield preparation.jobs[0]


def _places(
    jobs: Sequence[PreparedRecipe], nix: Nix, trees: Mapping[str, Path], addresses: Collection[str]
) -> set[Path]:
    """The nixpkgs trees that recipes are evaluated with."""
    tarballs = {tarball for job in jobs for tarball in job.tarballs}
    found = {tree for tarball in tarballs if (tree := tree_for(trees, tarball.url)) is not None}
    fetched = fetch_all(
        nix, [tarball for tarball in tarballs if tree_for(trees, tarball.url) is None], addresses
    )
    found |= {nix.store_file(one.path) for one in fetched.values() if one.path}
    return found | ({trees["default"]} if "default" in trees else set())


def _known(downloads: Iterable[Derivation], files: Iterable[Path]) -> set[str]:
    """Which of the hashes of downloads stand in files, however they are spelt."""
    spelt: dict[bytes, str] = {}
    for download in downloads:
        stated = hash_of(download)
        for word in _spellings(stated):
            spelt[word.encode()] = stated
    found: set[str] = set()
    for file in files if spelt else ():
        try:
            words = map(bytes.strip, WORD.findall(file.read_bytes()), repeat(b"="))
        except OSError:
            continue
        found.update(spelt[word] for word in words if word in spelt)
    return found


def _spellings(stated: str) -> Iterator[str]:
    digest = parse_hash(stated)
    if digest is None:
        return
    yield digest.raw.hex()
    yield base64.b64encode(digest.raw).decode().rstrip("=")
    yield respell(digest.sri, "0" * ((len(digest.raw) * 8 - 1) // 5 + 1))


def _texts(tree: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(tree.resolve()):
        yield from (Path(folder, name) for name in names if name.endswith(TEXTS))
