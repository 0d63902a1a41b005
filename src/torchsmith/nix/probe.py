"""What a nixpkgs tree has: the facts of a pin, asked of Nix instead of believed."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import msgspec

from torchsmith.catalog import TORCH, Catalog
from torchsmith.core.clock import Clock
from torchsmith.core.nixtext import nix_value
from torchsmith.core.problem import Failed
from torchsmith.nix.tool import Nix

PinFacts = dict[str, Any]  # as pins.toml has them


class _Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What probe.nix tells; null where the tree lacks a thing or throws at it."""

    versions: dict[str, str | None]
    cudas: list[str]
    default_cuda: str | None
    pythons: list[str]
    default_python: str | None
    aliases: list[str]
    torch_switches: list[str]
    torch_shape: Literal["attributes", "structured"]


def probe(nix: Nix, tree: Path, catalog: Catalog, clock: Clock | None = None) -> PinFacts:
    """The facts of a tree, with the day and the version of Nix that told them; it takes seconds."""
    questions = {
        "packages": {name: one.attr for name, one in catalog.packages.items()},
        "pythons": {str(one): made.attr.removesuffix("Packages") for one, made in catalog.pythons.items()},
        "cudas": {str(one): made.attr for one, made in catalog.cuda.items()},
    }
    told = "".join(f" {name} = {nix_value(value)};" for name, value in questions.items())
    text = files("torchsmith.nix").joinpath("probe.nix").read_text()
    expression = f"({text}) {{ nixpkgs = {tree.resolve()};{told} }}"
    options = ("--eval", "--strict", "--json", "--read-write-mode")
    done = nix.ask(
        nix.command("nix-instantiate", *options, "-E", expression), f"{tree} cannot be asked what it has"
    )
    try:
        answer = msgspec.json.decode(done.stdout, type=_Answer)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise Failed(f"{tree} is no nixpkgs that torchsmith understands: {error}") from error
    day = datetime.fromtimestamp((clock or Clock()).now(), UTC).date()
    return _facts(answer, f"asked with Nix {nix.version_text}, {day}")


def _facts(answer: _Answer, source: str) -> PinFacts:
    versions = {name: version for name, version in answer.versions.items() if version}
    facts = {
        "torch": versions.pop(TORCH, ""),
        **versions,
        "default_cuda": answer.default_cuda,
        "cudas": answer.cudas,
        "pythons": answer.pythons,
        "default_python": answer.default_python,
        "aliases": answer.aliases,
        "torch_switches": answer.torch_switches,
        "torch_shape": answer.torch_shape,
    }
    return {name: value for name, value in facts.items() if value} | {"source": source}
