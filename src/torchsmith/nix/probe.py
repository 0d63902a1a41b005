"""The facts of a nixpkgs tree, for a pin, by evaluating it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import msgspec

from torchsmith.catalog import TORCH, Catalog, Package
from torchsmith.catalog.axes import Platform
from torchsmith.core.nixtext import nix_value
from torchsmith.core.problem import Failed
from torchsmith.core.text import grouped
from torchsmith.matrix.variant import CUDA
from torchsmith.nix.tool import Nix

PinFacts = dict[str, Any]  # as pins.toml has them
CUDNN = "cudnn"
AnswerT = TypeVar("AnswerT", bound=msgspec.Struct)
Refusals = Mapping[str, Mapping[str, Mapping[str, list[str]]]]  # libraries, by system, GPU and CUDA release


class BackendAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The release of a backend that a tree has, and the architectures with a package set of their own."""

    release: str | None
    archs: list[str]


class _Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The attributes of probe.nix; null if the tree lacks it or throws."""

    versions: dict[str, str | None]
    missing: dict[str, list[str]]
    cudas: list[str]
    default_cuda: str | None
    pythons: list[str]
    default_python: str | None
    aliases: list[str]
    torch_shape: Literal["attributes", "structured"]
    triton: str | None
    capabilities: dict[str, dict[str, list[str] | None]]
    refused: Refusals
    backends: dict[str, BackendAnswer]


class PackageAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The packages of a tree, by name."""

    versions: dict[str, str | None]
    missing: dict[str, list[str]]
    alike: dict[str, list[str]]  # attributes with the same beginning


def probe(nix: Nix, tree: Path, catalog: Catalog) -> PinFacts:
    """The facts of a tree, with the day and the version of Nix that gave them; it takes seconds."""
    packages = {name: package.attr for name, package in catalog.packages.items()}
    answer = _ask(nix, tree, catalog, packages, _Answer)
    day = datetime.now(UTC).date()
    return _facts(answer, catalog) | {"source": f"asked with Nix {nix.version_text}, {day}"}


def probe_package(nix: Nix, tree: Path, catalog: Catalog, package: Package) -> PackageAnswer:
    """The release of a package, the systems that lack it, and attributes that are alike."""
    return _ask(nix, tree, catalog, {package.name: package.attr}, PackageAnswer)


def _ask(
    nix: Nix, tree: Path, catalog: Catalog, packages: Mapping[str, str], answer: type[AnswerT]
) -> AnswerT:
    """The attributes of probe.nix that an answer has."""
    questions: dict[str, Any] = {
        "nixpkgs": tree.resolve(),
        "packages": packages,
        "pythons": {str(version): p.attr.removesuffix("Packages") for version, p in catalog.pythons.items()},
        "cudas": {str(version): toolkit.attr for version, toolkit in catalog.cuda.items()},
        "backends": {
            name: {"set": own.package_set, "release": own.release_of, "archs": list(catalog.archs_of(own))}
            for name, own in catalog.backends.items()
            if own.package_set
        },
        "gpus": {platform: _gpus(platform, catalog) for platform in catalog.backends[CUDA].systems},
        "systems": list(get_args(Platform)),
    }
    text = files("torchsmith.nix").joinpath("probe.nix").read_text()
    call = f"({text}) {nix_value(questions)}"
    expression = f"{{ inherit ({call}) {' '.join(answer.__struct_fields__)}; }}"
    options = ("--eval", "--strict", "--json", "--read-write-mode")
    done = nix.ask(
        nix.command("nix-instantiate", *options, "-E", expression), f"{tree} cannot be asked what it has"
    )
    try:
        return msgspec.json.decode(done.stdout, type=answer)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise Failed(f"{tree} is not a nixpkgs that torchsmith understands: {error}") from error


def _gpus(platform: str, catalog: Catalog) -> dict[str, Any]:
    """The GPUs that machines of a platform have, and the CUDA releases that compile for each."""
    return {
        str(sm): {
            "capability": sm.capability,
            "cudas": [str(version) for version, toolkit in catalog.cuda.items() if toolkit.compiles(sm)],
        }
        for sm, gpu in catalog.gpus.items()
        if platform in gpu.platforms
    }


def _facts(answer: _Answer, catalog: Catalog) -> PinFacts:
    versions = {name: version for name in catalog.packages if (version := answer.versions[name])}
    oldest = _oldest_gpu(answer.refused, catalog)
    facts = {
        "torch": versions.pop(TORCH, ""),
        **versions,
        "triton": answer.triton,
        "default_cuda": answer.default_cuda,
        "cudas": answer.cudas,
        "pythons": answer.pythons,
        "default_python": answer.default_python,
        "aliases": answer.aliases,
        "torch_shape": answer.torch_shape,
        "min_sm": oldest,
        "missing": {system: names for system, names in answer.missing.items() if names},
        "capabilities": {
            system: {cuda: sms for cuda, sms in cudas.items() if sms}
            for system, cudas in answer.capabilities.items()
        },
        "limits": _limits(answer.refused, oldest, catalog),
        "backends": {
            name: {"release": ".".join(backend.release.split(".")[:2]), "archs": backend.archs}
            for name, backend in answer.backends.items()
            if backend.release
        },
    }
    return {name: value for name, value in facts.items() if value}


def _oldest_gpu(refused: Refusals, catalog: Catalog) -> str:
    """The oldest GPU that the tree's cuDNN accepts, if it refuses older ones."""
    refusing = {
        gpu
        for gpus in refused.values()
        for gpu, cudas in gpus.items()
        if cudas and all(CUDNN in libraries for libraries in cudas.values())
    }
    oldest, *_ = (str(sm) for sm in catalog.gpus if str(sm) not in refusing)
    return oldest if str(min(catalog.gpus)) in refusing else ""


def _limits(refused: Refusals, oldest: str, catalog: Catalog) -> dict[str, dict[str, Any]]:
    """GPUs whose libraries the tree refuses though their CUDA release knows them."""
    known = [str(sm) for sm in catalog.gpus]
    rows = [
        ((cuda, system, ", ".join(libraries)), gpu)
        for system, gpus in refused.items()
        for gpu, cudas in gpus.items()
        for cuda, libraries in cudas.items()
        if libraries and (not oldest or known.index(gpu) >= known.index(oldest))
    ]
    return {
        f"cuda{cuda}-{system.removesuffix('-linux')}": {
            "cuda": f"=={cuda}",
            "sms": gpus,
            "platforms": [system],
            "reason": f"{libraries} of its CUDA {cuda} not available for {', '.join(gpus)} on {system}",
        }
        for (cuda, system, libraries), gpus in grouped(rows).items()
    }
