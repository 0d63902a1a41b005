"""Shape of nixpkgs' torch: what holds if its variables are attributes, and not if they are in `env`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torchsmith.auditing.rule import WARNING, Defect, rule
from torchsmith.recipe.read import Located, Value
from torchsmith.workspace.subject import Subject

FLAGS = "NIX_CFLAGS_COMPILE"  # which every nixpkgs of the catalog has in `env`
TARGETS = "TORCH_CUDA_ARCH_LIST"  # which its preConfigure sets
VARIABLE = re.compile(
    r"NIX_CFLAGS_COMPILE|TORCH_CUDA_ARCH_LIST|(?:USE|BUILD)_[A-Z0-9_]+|PYTORCH_BUILD_(?:VERSION|NUMBER)|PYTHON_LIB_REL_PATH|CMAKE_GENERATOR"
)


def _structured(subject: Subject) -> str:
    """The pin's name if its torch has its variables in `env`; empty if it has not, or if that is unknown."""
    pin = subject.imported_pin
    return pin.name if pin and pin.torch_shape == "structured" else ""


@rule("TS851", "attribute that torch has in env")
def variables_are_exported(subject: Subject) -> Iterator[Defect]:
    """nixpkgs' torch of 2026 keeps its variables in `env`, older ones NIX_CFLAGS_COMPILE, and Nix refuses a
    variable that is also an attribute. Exported in preConfigure it reaches the build in both shapes.
    TORCH_CUDA_ARCH_LIST as an attribute of older ones has no effect: preConfigure sets it."""
    pin = subject.imported_pin
    if pin is None or not pin.torch_shape:
        return
    for targets in unread_targets(subject):
        message = f"{TARGETS} has no effect: preConfigure of nixpkgs {pin.name}'s torch sets it"
        yield Defect(message, targets.span, hint="set gpuTargets by override", severity=WARNING)
    for override in subject.overrides_of("torch", "pytorch"):
        for name in override.arguments if override.kind != "override" else ():
            if VARIABLE.fullmatch(name) and (_structured(subject) or name == FLAGS):
                message = f"{name} is in env of nixpkgs {pin.name}'s torch, which refuses it as an attribute"
                yield Defect(
                    message, override.arguments[name].span, hint=f"export {name}=... in preConfigure"
                )


def unread_targets(subject: Subject) -> list[Located[Value]]:
    """The GPU targets that are an attribute of torch, which its preConfigure sets again."""
    pin = subject.imported_pin
    if subject.gpu is None or pin is None or pin.torch_shape != "attributes":
        return []
    own = (torch.arguments for torch in subject.overrides_of("torch", "pytorch") if torch.kind != "override")
    return [arguments[TARGETS] for arguments in own if TARGETS in arguments]
