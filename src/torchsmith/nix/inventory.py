"""What a recipe is made of, as Nix tells it: every package that goes into it, with its licences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from torchsmith.nix.component import Component
from torchsmith.nix.evaluate import EvalResult
from torchsmith.nix.store import valid_paths
from torchsmith.nix.tool import Nix


@dataclass(frozen=True, slots=True)
class Inventory:
    """The packages of some recipes. `built`: those that results hold, not those named as inputs."""

    roots: Mapping[str, str]  # a recipe -> its derivation
    components: tuple[Component, ...]
    built: bool = False
    strangers: tuple[str, ...] = ()  # store paths of built results that no package of the evaluation has


def merged(parts: Iterable[Sequence[Component]]) -> tuple[Component, ...]:
    """The packages of several recipes, each once, by name."""
    found = {one.drv_path: one for part in parts for one in part}
    return tuple(sorted(found.values(), key=lambda one: (one.name, one.drv_path)))


def narrowed(inventory: Inventory, closure: frozenset[str]) -> Inventory:
    """An inventory cut down to the store paths that results hold."""
    kept = tuple(one for one in inventory.components if closure.intersection(one.outputs))
    known = {path for one in kept for path in one.outputs}
    return Inventory(inventory.roots, kept, built=True, strangers=tuple(sorted(closure - known)))


def closure_of(nix: Nix, outputs: Sequence[str]) -> frozenset[str] | None:
    """Everything in the store that built outputs refer to; None where one of them is not there."""
    if len(valid_paths(nix, outputs)) < len(set(outputs)):
        return None
    query = nix.command("nix-store", "--query", "--requisites", *outputs)
    return frozenset(nix.ask(query, "Nix cannot tell what results hold").stdout.split())


def take_stock(nix: Nix, results: Sequence[EvalResult]) -> Inventory:
    """What evaluated recipes are made of; where all of them are built, what their results hold."""
    known = {result.name: result.evaluated for result in results if result.evaluated}
    roots = {name: one.drv_path for name, one in known.items()}
    inventory = Inventory(roots, merged(one.components for one in known.values()))
    outputs = sorted({path for one in known.values() for path in one.outputs.values()})
    closure = closure_of(nix, outputs) if outputs else None
    return inventory if closure is None else narrowed(inventory, closure)
