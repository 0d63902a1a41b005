"""Derivations: what real Nix makes of the recipes of a repository, held against each other and against
names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchsmith.auditing.rule import NOTE, WARNING, Defect, rule

if TYPE_CHECKING:
    from torchsmith.auditing.derivations import EvaluatedWorkspace


@rule("TS003", "recipe that Nix does not evaluate", over="derivations")
def nix_evaluates_it(built: EvaluatedWorkspace) -> Iterator[Defect]:
    """Nix, with the pinned nixpkgs or the given tree, cannot evaluate this recipe."""
    for file, cause in built.failed:
        yield Defect(f"does not evaluate: {cause}", file=file)


@rule("TS109", "the same derivation twice", WARNING, over="derivations")
def derivations_differ(built: EvaluatedWorkspace) -> Iterator[Defect]:
    """Two recipes whose derivations differ only in the name build the same thing twice."""
    seen: dict[str, str] = {}
    for recipe in sorted(built.recipes, key=lambda recipe: (len(recipe.name), recipe.name)):
        other = seen.setdefault(recipe.essence, recipe.name) if recipe.essence else recipe.name
        if other != recipe.name:
            yield Defect(f"{recipe.name} builds what {other} builds", hint="delete one", file=recipe.file)


@rule("TS422", "derivation for another GPU", over="derivations")
def derivation_compiles_for_its_gpu(built: EvaluatedWorkspace) -> Iterator[Defect]:
    """TORCH_CUDA_ARCH_LIST in the derivation, of torch and of companions, must be the architecture in the
    name."""
    for recipe in built.recipes:
        sm = recipe.variant.sm if recipe.variant else None
        if sm is not None and recipe.architectures and recipe.architectures != sm.capability:
            yield Defect(
                f"compiles for {recipe.architectures}, the name says {sm.capability}", file=recipe.file
            )


@rule("TS423", "code for other GPUs below", NOTE, over="derivations")
def all_below_is_for_its_gpu(built: EvaluatedWorkspace) -> Iterator[Defect]:
    """`gpuTargets` narrows only torch. MAGMA and NCCL, which torch links, and OpenCV below torchaudio are
    compiled for all default GPUs of nixpkgs unless `config.cudaCapabilities` names the recipe's own: a build
    for one GPU then contains more code for others than for its own. For ROCm, whose libraries nixpkgs
    compiles for thirteen targets, `rocmPackages.gfx942` and its siblings are narrowed sets. Keep it if you
    depend on a public cache of nixpkgs' defaults."""
    for recipe in built.recipes:
        variant = recipe.variant
        if variant is None or not variant.arch:
            continue
        backend = built.catalog.backends[variant.backend]
        others = {name: gpus for name, gpus in recipe.others.items() if not name.startswith(backend.wide)}
        if others:
            gpus = sorted({gpu for listed in others.values() for gpu in listed})
            message = f"{', '.join(sorted(others))} below it: compiled for {', '.join(gpus)} besides"
            hint = f"{backend.package_set} = prev.{backend.package_set}.{variant.arch}; in an overlay"
            if variant.sm:
                hint = f'cudaCapabilities = [ "{variant.sm.capability}" ]; in the config of the import'
            yield Defect(message, hint=hint, file=recipe.file)


@rule("TS722", "companion that compiles a torch of its own", WARNING, over="derivations")
def companion_builds_on_the_torch_recipe(built: EvaluatedWorkspace) -> Iterator[Defect]:
    """The torch of a companion must be the derivation of the PyTorch recipe of the same cell; otherwise it is
    compiled twice."""
    for recipe in built.recipes:
        if recipe.variant is None or not recipe.variant.package.needs_torch:
            continue
        torch = built.torch.get(recipe.variant.stack)
        if torch and torch not in recipe.below:
            yield Defect(
                f"its torch is not the one of {recipe.variant.of(built.catalog.torch)}", file=recipe.file
            )


@rule("TS222", "derivation for another system", over="derivations")
def derivation_is_for_its_system(built: EvaluatedWorkspace) -> Iterator[Defect]:
    """The derivation's system must be the one whose compiler knows the flags."""
    for recipe in built.recipes:
        isa = built.catalog.isas.get(recipe.variant.isa) if recipe.variant else None
        if isa is not None and recipe.system != isa.platform:
            yield Defect(f"is built on {recipe.system}, {isa.name} is {isa.platform}", file=recipe.file)
