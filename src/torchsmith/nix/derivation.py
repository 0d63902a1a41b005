"""Derivations as values: every JSON shape that Nix has printed them in, and the one it prints today.

Version 1 is Nix 2.8's, version 2 that of 2.26. Versions 3 and 4 are read as their documentation says and were
never tried against a Nix that writes them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from torchsmith.edge.problem import Failed
from torchsmith.nix.tool import Nix

STORE = "/nix/store"
BUNCH = 256  # derivations on one command line
RENAMED = (2, 15)  # `nix show-derivation` became `nix derivation show`


@dataclass(frozen=True, slots=True)
class Output:
    """One output: where it goes, and for a download the hash it must have."""

    path: str | None
    hash: str | None = None


@dataclass(frozen=True, slots=True)
class Derivation:
    """One build: what goes in, what runs, what comes out."""

    path: str
    name: str
    system: str
    builder: str
    args: tuple[str, ...]
    env: Mapping[str, str]
    inputs: Mapping[str, tuple[str, ...]]  # derivation -> the outputs of it that are used
    sources: tuple[str, ...]
    outputs: Mapping[str, Output]

    @property
    def fixed(self) -> bool:
        """Whether the hash of its result is known before it is built: a download."""
        return any(output.hash for output in self.outputs.values())

    @property
    def pname(self) -> str:
        """The package's name without its version."""
        if stated := self.env.get("pname"):
            return stated
        return re.sub(r"-\d[^-]*(-.*)?$", "", self.name)


def read_derivations(text: str | bytes) -> dict[str, Derivation]:
    """What `nix show-derivation` or `nix derivation show` printed."""
    try:
        table = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise Failed(f"Nix printed no derivations: {error}") from error
    listed = table.get("derivations", table) if isinstance(table, dict) else {}
    found = (read_derivation(path, one) for path, one in listed.items() if isinstance(one, dict))
    return {one.path: one for one in found}


def read_derivation(path: str, table: Mapping[str, Any]) -> Derivation:
    """One derivation of any version; paths without their folder, as newer versions have them, get it back."""
    grouped = table.get("inputs") or {}
    drvs = grouped.get("drvs", table.get("inputDrvs", {}))
    sources = grouped.get("srcs", table.get("inputSrcs", []))
    full = _full(path)
    env = {name: value for name, value in table.get("env", {}).items() if isinstance(value, str)}
    return Derivation(
        path=full,
        name=table.get("name") or env.get("name") or name_of(full),
        system=table.get("system") or table.get("platform") or "",
        builder=table.get("builder", ""),
        args=tuple(table.get("args", ())),
        env=env,
        inputs={_full(one): _outputs_used(used) for one, used in drvs.items()},
        sources=tuple(_full(one) for one in sources),
        outputs={name: _output(one) for name, one in table.get("outputs", {}).items()},
    )


def _full(path: str) -> str:
    return path if path.startswith("/") else f"{STORE}/{path}"


def _outputs_used(used: Any) -> tuple[str, ...]:
    """A plain list up to version 1; from 2 on a set that also knows dynamic derivations."""
    return tuple(used.get("outputs", ()) if isinstance(used, dict) else used)


def _output(table: Mapping[str, Any]) -> Output:
    path, digest = table.get("path"), table.get("hash")
    if isinstance(digest, dict):  # version 4
        digest = digest.get("hash")
    return Output(_full(path) if path else None, digest)


def name_of(path: str) -> str:
    """`python3.13-torch-2.10.0` of its path in the store."""
    return re.sub(r"^.*/[0-9a-z]{32}-", "", path).removesuffix(".drv")


def show_derivations(nix: Nix, paths: Sequence[str], *, recursive: bool = False) -> dict[str, Derivation]:
    """Ask Nix for derivations that are in the store, and with `recursive` for everything below them."""
    words = ["derivation", "show"] if nix.version >= RENAMED else ["show-derivation"]
    if recursive:
        words.append("--recursive")
    found: dict[str, Derivation] = {}
    for start in range(0, len(paths), BUNCH):
        bunch = paths[start : start + BUNCH]
        found |= read_derivations(nix.ask(nix.nix(*words, *bunch), "cannot read derivations").stdout)
    return found
