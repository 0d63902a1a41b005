"""Shape of nixpkgs' torch: its variables are attributes, or in `env`."""

from __future__ import annotations

from collections.abc import Iterator

from torchsmith.auditing.rule import WARNING, Defect, rule
from torchsmith.recipe.read import Located, Value
from torchsmith.workspace.subject import Subject

TARGETS = "TORCH_CUDA_ARCH_LIST"  # which its preConfigure sets


@rule("TS851", "GPU targets without effect", WARNING)
def targets_are_read(subject: Subject) -> Iterator[Defect]:
    """TORCH_CUDA_ARCH_LIST as an attribute of nixpkgs' torch has no effect, because its preConfigure sets the
    variable again. `gpuTargets` of `override` is read. A torch that has its variables in `env`, as in nixpkgs
    of 2026, refuses the attribute: Nix itself says so."""
    for targets in unread_targets(subject):
        name = subject.imported_pin.name if subject.imported_pin else ""
        message = f"{TARGETS} has no effect: preConfigure of nixpkgs {name}'s torch sets it"
        yield Defect(message, targets.span, hint="set gpuTargets by override")


def unread_targets(subject: Subject) -> list[Located[Value]]:
    """The GPU targets that are an attribute of torch, which its preConfigure sets again."""
    pin = subject.imported_pin
    if subject.gpu is None or pin is None or pin.torch_shape != "attributes":
        return []
    own = (torch.arguments for torch in subject.overrides_of("torch", "pytorch") if torch.kind != "override")
    return [arguments[TARGETS] for arguments in own if TARGETS in arguments]
