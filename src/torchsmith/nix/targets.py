"""Which GPUs a derivation compiles for, read off what it tells its build, and which are not a cell's own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from torchsmith.catalog import Sm
from torchsmith.nix.derivation import Derivation
from torchsmith.nix.graph import Graph

PHASES = ("postPatch", "preConfigure", "postConfigure", "preBuild")  # in their order
# Variables and CMake flags by which builds in nixpkgs are told their GPUs.
NAMES = (
    "TORCH_CUDA_ARCH_LIST",
    "CMAKE_CUDA_ARCHITECTURES",
    "CUDA_ARCH_BIN",
    "CUDA_ARCH_PTX",
    "CUTLASS_NVCC_ARCHS_ENABLED",
    "COMPUTE_CAPABILITY",
    "FLASH_ATTN_CUDA_ARCHS",
    "GPU_TARGET",
)
LISTED = "|".join(NAMES)
EXPORT = re.compile(rf"^\s*(?:export\s+)?({LISTED})=[\"']?([^\s\"']*)", re.MULTILINE)
FLAG = re.compile(rf"-D({LISTED})(?::\w+)?=(\S+)")
GENCODE = re.compile(r"\b(?:compute|sm)_(\d+)[af]?\b")
TARGET = re.compile(r"(?:sm_?)?(\d+)\.?(\d)[af]?(?:-real|-virtual|\+PTX)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Stranger:
    """A derivation below a recipe that compiles for GPUs besides the recipe's own."""

    recipe: str
    derivation: str
    others: tuple[int, ...]  # as in sm_90


def gpu_targets(derivation: Derivation) -> frozenset[int]:
    """The GPUs that a derivation names to its compilers; the last word on a variable counts."""
    if derivation.fixed:
        return frozenset()
    env = derivation.env
    told = {name: env[name] for name in NAMES if env.get(name)}
    for phase in PHASES:
        told |= {found[1]: found[2] for found in EXPORT.finditer(env.get(phase, ""))}
    flags = {found[1]: found[2] for found in FLAG.finditer(env.get("cmakeFlags", ""))}
    numbers = {number for words in (*told.values(), *flags.values()) for number in _numbers(words)}
    for name in ("makeFlags", "NVCC_GENCODE"):
        numbers |= {int(found[1]) for found in GENCODE.finditer(env.get(name, ""))}
    return frozenset(numbers)


def _numbers(words: str) -> Iterator[int]:
    """`9.0;10.0+PTX`, `90-real` or `sm_90 sm_100` as numbers; a variable of the shell says nothing."""
    for word in re.split(r"[;,\s]+", words):
        if found := TARGET.fullmatch(word):
            yield int(found[1] + found[2])


def strangers(graph: Graph, own: Mapping[str, Sm]) -> tuple[Stranger, ...]:
    """Below each recipe for a GPU, what compiles for another one."""
    targets = {path: gpu_targets(one) for path, one in graph.derivations.items()}
    compiling = frozenset(path for path, found in targets.items() if found)
    found = (
        Stranger(name, graph.derivations[path].name, tuple(sorted(targets[path] - {own[name].number})))
        for name in graph.recipes
        if name in own
        for path in sorted(graph.below[name] & compiling)
    )
    return tuple(one for one in found if one.others)
