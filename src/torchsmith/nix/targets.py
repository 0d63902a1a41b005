"""GPUs that a derivation compiles for, by its variables and flags; and those that are not the cell's own."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from torchsmith.catalog import Catalog
from torchsmith.core.text import grouped
from torchsmith.matrix.variant import CUDA
from torchsmith.nix.derivation import Derivation
from torchsmith.nix.graph import Graph

PHASES = ("postPatch", "preConfigure", "postConfigure", "preBuild")  # in their order
GENCODE = re.compile(r"\b(?:compute|sm)_(\d+)[af]?\b")
NEWEST_SM = 199  # of NVIDIA's architectures, by their numbers
CAPABILITY = re.compile(r"(?:sm_?)?(\d+)\.?(\d)[af]?(?:-real|-virtual|\+PTX)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ForeignTargets:
    """A derivation that compiles for GPUs besides the one of recipes above it."""

    name: str
    gpus: tuple[str, ...]  # sm90, gfx942
    recipes: tuple[str, ...]


class _Lists:
    """The variables and flags by which builds in nixpkgs get their GPUs, by the catalog's backends."""

    def __init__(self, catalog: Catalog) -> None:
        self.names = [name for backend in catalog.backends.values() for name in backend.lists]
        listed = "|".join(self.names)
        self.export = re.compile(rf"^\s*(?:export\s+)?({listed})=[\"']?([^\s\"']*)", re.MULTILINE)
        self.flag = re.compile(rf"-D({listed})(?::\w+)?=(\S+)")
        others = [backend for name, backend in catalog.backends.items() if backend.arch and name != CUDA]
        self.arch = re.compile(rf"({'|'.join(backend.arch for backend in others)})(?::[\w+-]+)*")
        self.letters = [re.sub(r"\d.*", "", other.example) for other in others]  # gfx of gfx942

    def archs(self, text: str) -> Iterator[str]:
        """`9.0;10.0+PTX`, `90-real` or `gfx90a:xnack-` as names write them; not a shell's variable."""
        for word in re.split(r"[;,\s]+", text):
            capability = CAPABILITY.fullmatch(word)
            if capability and int(capability[1] + capability[2]) <= NEWEST_SM:
                yield f"sm{capability[1]}{capability[2]}"
                continue
            # MAGMA gets AMD's targets without their letters: 906,1030.
            whole = (self.arch.fullmatch(letters + word) for letters in ("", *self.letters))
            yield from (match[1] for match in whole if match)


_lists = lru_cache(4)(_Lists)


def gpu_targets(derivation: Derivation, catalog: Catalog) -> frozenset[str]:
    """The GPUs that a derivation passes to its compilers; the last value of a variable counts."""
    if derivation.fixed:
        return frozenset()
    lists, env = _lists(catalog), derivation.env
    stated = {name: env[name] for name in lists.names if env.get(name)}
    for phase in PHASES:
        stated |= {match[1]: match[2] for match in lists.export.finditer(env.get(phase, ""))}
    flags = {match[1]: match[2] for match in lists.flag.finditer(env.get("cmakeFlags", ""))}
    archs = {arch for text in (*stated.values(), *flags.values()) for arch in lists.archs(text)}
    for name in ("makeFlags", "NVCC_GENCODE"):
        archs |= {f"sm{match[1]}" for match in GENCODE.finditer(env.get(name, ""))}
    return frozenset(archs)


def foreign_targets(graph: Graph, own: Mapping[str, str], catalog: Catalog) -> list[ForeignTargets]:
    """What compiles for another GPU than `own` says of the recipes above it."""
    targets = {path: gpu_targets(derivation, catalog) for path, derivation in graph.derivations.items()}
    compiling = frozenset(path for path, archs in targets.items() if archs)
    below = grouped(
        ((graph.derivations[path].name, gpus), name)
        for name in graph.recipes
        if name in own
        for path in sorted(graph.below[name] & compiling)
        if (gpus := _ordered(targets[path] - {own[name]}))
    )
    return [ForeignTargets(name, gpus, tuple(recipes)) for (name, gpus), recipes in below.items()]


def _ordered(archs: Collection[str]) -> tuple[str, ...]:
    return tuple(sorted(archs, key=lambda arch: (len(arch), arch)))  # sm90 before sm100
