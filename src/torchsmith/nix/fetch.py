"""Tarballs that recipes pin, fetched before a recipe is evaluated.

Nix' own list of allowed addresses goes by their beginning, so a recipe could append what it has read. Here
an address is taken from a recipe's text, whole and only if it is known; evaluation itself has no network.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from torchsmith.core.nixtext import nix_value
from torchsmith.core.problem import Failed
from torchsmith.nix.errors import error_in
from torchsmith.nix.tool import Nix

ARCHIVE = "https://github.com/NixOS/nixpkgs/archive/{rev}.tar.gz"
# nixpkgs at any full revision: the address of every pin. GitHub ignores the case of the name.
NIXPKGS = re.compile(r"https://github\.com/(?i:NixOS/nixpkgs)/archive/([0-9a-f]{40})\.tar\.gz")
HASH_MISMATCH = 102  # Nix's exit code


@dataclass(frozen=True, slots=True)
class Tarball:
    """A `fetchTarball` as a recipe writes it."""

    url: str
    sha256: str = ""
    name: str = ""

    @property
    def key(self) -> str:
        """The key in the driver's table."""
        return f"{self.url} {self.sha256} {self.name}"

    def arguments(self) -> dict[str, str]:
        stated = {"url": self.url, "sha256": self.sha256, "name": self.name}
        return {name: value for name, value in stated.items() if value}


class Download(msgspec.Struct, frozen=True, omit_defaults=True):
    """A fetched tarball: its path in the store, or why there is none."""

    path: str = ""
    failure: str = ""
    wrong_hash: bool = False  # it was downloaded, and its hash is another one


def nixpkgs_address(rev: str) -> str:
    """The address of nixpkgs at a revision."""
    return ARCHIVE.replace("{rev}", rev)


def tree_for(trees: Mapping[str, Path], url: str) -> Path | None:
    """The tree on disk to use for a tarball; the driver decides it in the same way."""
    rev = re.search("[0-9a-f]{40}", url)
    own = trees.get(rev[0]) if rev else None
    return own or (trees.get("default") if "nixpkgs" in url else None)


def known(url: str, addresses: Collection[str]) -> bool:
    """Whether an address may be fetched: nixpkgs at a revision, or one that the workspace names."""
    return NIXPKGS.fullmatch(url) is not None or url in addresses


def fetch_all(nix: Nix, tarballs: Iterable[Tarball], addresses: Collection[str]) -> dict[Tarball, Download]:
    """Fetch the tarballs whose address is known; Nix refuses the others when it evaluates."""
    wanted = [tarball for tarball in dict.fromkeys(tarballs) if known(tarball.url, addresses)]
    return {tarball: _fetch(nix, tarball) for tarball in wanted}


def _fetch(nix: Nix, tarball: Tarball) -> Download:
    expression = f"builtins.fetchTarball {nix_value(tarball.arguments())}"
    mode = ["--eval", "--json", "--read-write-mode", "--log-format", "internal-json"]
    chosen = ["--option", "restrict-eval", "false", "--option", "download-attempts", "2"]
    done = nix.run(nix.command("nix-instantiate", *mode, *chosen, "-E", expression))
    if done.ok:
        return Download(path=str(msgspec.json.decode(done.stdout)))
    return Download(failure=error_in(done.stderr).message, wrong_hash=done.code == HASH_MISMATCH)


def fetch_tree(nix: Nix, url: str, sha256: str = "", hint: str = "") -> Path:
    """The files of a tarball, in the store. Raises Failed if it cannot be fetched."""
    done = _fetch(nix, Tarball(url, sha256))
    if done.failure:
        raise Failed(done.failure, hint=hint)
    return nix.store_file(done.path)
