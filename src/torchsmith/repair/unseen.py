"""Sources whose stated hash was not found: neither where recipes state hashes, nor in nixpkgs itself."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from torchsmith.core.files import read_bytes
from torchsmith.core.problem import Problem
from torchsmith.nix.derivation import Derivation
from torchsmith.nix.fetch import fetch_all, tree_for
from torchsmith.nix.graph import Graph
from torchsmith.nix.hashes import is_placeholder, parse_hash, to_base32
from torchsmith.nix.prepare import EvalJob, Preparation
from torchsmith.nix.tool import Nix
from torchsmith.workspace.checkout import RecipeFile

HASH_TEXT = re.compile(rb"[A-Za-z0-9+/=]{26,}")  # a hash in any spelling, without its algorithm's name
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
    downloads = [drv for drv in graph.derivations.values() if drv.fixed and drv.path not in placed]
    jobs = list(_prepared(recipes))
    own = _known(downloads, (file for job in jobs for file in job.reads if file.is_file()))
    foreign = {drv.path for drv in downloads if is_placeholder(hash_of(drv)) or hash_of(drv) in own}
    rest = [drv for drv in downloads if drv.path not in foreign]
    nixpkgs = _trees(jobs, nix, trees, addresses) if rest else set()
    if nixpkgs:
        theirs = _known(rest, (file for tree in nixpkgs for file in _texts(tree)))
        foreign |= {drv.path for drv in rest if hash_of(drv) not in theirs}
    return [drv for drv in downloads if drv.path in foreign]


def hash_of(derivation: Derivation) -> str:
    """The hash that a download states."""
    return next(output.hash for output in derivation.outputs.values() if output.hash)


def _prepared(recipes: Sequence[RecipeFile]) -> Iterator[EvalJob]:
    for recipe in recipes:
        preparation = Preparation()
        try:
            preparation.add(recipe.name, recipe.path)
        except Problem:
            continue
        yield preparation.jobs[0]


def _trees(
    jobs: Sequence[EvalJob], nix: Nix, trees: Mapping[str, Path], addresses: Collection[str]
) -> set[Path]:
    """The nixpkgs trees that recipes are evaluated with."""
    tarballs = {tarball for job in jobs for tarball in job.tarballs}
    local = {tarball: tree for tarball in tarballs if (tree := tree_for(trees, tarball.url)) is not None}
    fetched = fetch_all(nix, [tarball for tarball in tarballs if tarball not in local], addresses)
    stored = (nix.store_file(tarball.path) for tarball in fetched.values() if tarball.path)
    return {*local.values(), *stored, *([trees["default"]] if "default" in trees else [])}


def _known(downloads: Iterable[Derivation], files: Iterable[Path]) -> set[str]:
    """Which of the hashes of downloads are in files, in any spelling."""
    spellings: dict[bytes, str] = {}
    for download in downloads:
        stated = hash_of(download)
        for spelling in _spellings(stated):
            spellings[spelling.encode()] = stated
    known: set[str] = set()
    for file in files if spellings else ():
        try:
            hashes = {spelling.strip(b"=") for spelling in HASH_TEXT.findall(read_bytes(file))}
        except OSError:
            continue
        known.update(spellings[spelling] for spelling in hashes & spellings.keys())
    return known


def _spellings(stated: str) -> Iterator[str]:
    digest = parse_hash(stated)
    if digest is None:
        return
    yield digest.raw.hex()
    yield base64.b64encode(digest.raw).decode().rstrip("=")
    yield to_base32(digest.raw)


def _texts(tree: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(tree.resolve()):
        yield from (Path(folder, name) for name in names if name.endswith(TEXTS))
