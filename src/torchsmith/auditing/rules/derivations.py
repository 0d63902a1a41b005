"""Derivations: what real Nix makes of the recipes of a repository, held against each other and against
names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchsmith.auditing.rule import NOTE, WARNING, Defect, rule

if TYPE_CHECKING:
    from torchsmith.auditing.derivations import EvaluatedWorkspace


@rule("TS003", "recipe that Nix does not evaluate", depth="derivations", over="repo")
def nix_evaluates_it(built: EvaluatedWorkspace) -> Iterator[Defect]:
    """Nix, with the pinned nixpkgs or the given tree, cannot evaluate this recipe."""
    for file, cause in built.failed:
        yield Defect(f"does not evaluate: {cause}", file=file)


@rule("TS109", "the same derivation twice", WARNING, depth="derivations", over="repo")
def derivations_differ(built: EvaluatedWorkspace) -> Iterator[Defect]:
    """Two recipes whose derivations differ only in the name build the same thing twice."""
    seen: dict[str, str] = {}
    for one in sorted(built.recipes, key=lambda one: (len(one.name), one.name)):
        other = seen.setdefault(one.essence, one.name) if one.essence else one.name
        if other != one.name:
            yield Defect(f"{one.name} builds what {other} builds", hint="delete one", file=one.file)


@rule("TS422", "derivation for another GPU", depth="derivations", over="repo")
def derivation_compiles_for_its_gpu(built: EvaluatedWorkspace) -> Iterator[Defect]:
    """TORCH_CUDA_ARCH_LIST in the derivation, of torch and of companions, must be the architecture in the
    name."""
    for one in built.recipes:
        sm = one.variant.sm if one.variant else None
        if sm is not None and one.architectures and one.architectures != sm.capability:
            yield Defect(f"compiles for {one.architectures}, the name says {sm.capability}", file=one.file)


@rule("TS423", "code for other GPUs below", NOTE, depth="derivations", over="repo")
def all_below_is_for_its_gpu(built: EvaluatedWorkspace) -> Iterator[Defect]:
    """`gpuTargets` narrows only torch. MAGMA and NCCL, which torch links, and OpenCV below torchaudio are
    compiled for all default GPUs of nixpkgs unless `config.cudaCapabilities` names the recipe's own: a build
    for one GPU then contains more code for others than for its own. Keep it if you depend on a public cache
    of nixpkgs' defaults."""
    for one in built.recipes:
        if one.others and one.variant and one.variant.sm:
            gpus = sorted({f"sm{number}" for numbers in one.others.values() for number in numbers})
            words = f"{', '.join(sorted(one.others))} below it: compiled for {', '.join(gpus)} besides"
            hint = f'cudaCapabilities = [ "{one.variant.sm.capability}" ]; in the config of the import'
            yield Defect(words, hint=hint, file=one.file)


@rule("TS722", "companion that compiles a torch of its own", WARNING, depth="derivations", over="repo")
def companion_builds_on_the_torch_recipe(built: EvaluatedWorkspace) -> Iterator[Defect]:
    """The torch of a companion must be the derivation of the PyTorch recipe of the same cell; otherwise it is
    compiled twice."""
    for one in built.recipes:
        if one.variant is None or not one.variant.package.needs_torch:
            continue
        torch = built.torch.get(one.variant.stack)
        if torch and torch not in one.below:
            yield Defect(f"its torch is not the one of {one.variant.of(built.catalog.torch)}", file=one.file)


@rule("TS222", "derivation for another system", depth="derivations", over="repo")
def derivation_is_for_its_system(built: EvaluatedWorkspace) -> Iterator[Defect]:
    """The derivation's system must be the one whose compiler knows the flags."""
    for one in built.recipes:
        isa = built.catalog.isas.get(one.variant.isa) if one.variant else None
        if isa is not None and one.system != isa.platform:
            yield Defect(f"is built on {one.system}, {isa.name} is {isa.platform}", file=one.file)
