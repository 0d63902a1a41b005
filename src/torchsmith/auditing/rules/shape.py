"""Shape of nixpkgs' torch: what holds if its variables are attributes, and not if they are in `env`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torchsmith.auditing.rule import WARNING, Defect, rule
from torchsmith.catalog import Line
from torchsmith.workspace.subject import Subject

FLAGS = "NIX_CFLAGS_COMPILE"  # which every nixpkgs of the catalog has in `env`
TARGETS = "TORCH_CUDA_ARCH_LIST"  # which its preConfigure sets
VARIABLE = re.compile(
    r"NIX_CFLAGS_COMPILE|TORCH_CUDA_ARCH_LIST|(?:USE|BUILD)_[A-Z0-9_]+|PYTORCH_BUILD_(?:VERSION|NUMBER)|PYTHON_LIB_REL_PATH|CMAKE_GENERATOR"
)
CCCL = re.compile(r"(?<![\w-])cuda_cccl(?![\w-])")
FALLBACK = re.compile(r"\bor\s+[\w.]*$")  # `cccl or cuda_cccl` asks for what there is


def _structured(subject: Subject) -> str:
    """The pin's name if its torch has its variables in `env`; empty if it has not, or if that is unknown."""
    pin = subject.imported_pin
    return pin.name if pin and pin.torch_shape == "structured" else ""


@rule("TS851", "attribute that torch has in env")
def variables_are_exported(subject: Subject) -> Iterator[Defect]:
    """nixpkgs' torch of 2026 keeps its variables in `env`, older ones NIX_CFLAGS_COMPILE, and Nix refuses a
    variable that is also an attribute. Exported in preConfigure it reaches the build in both shapes.
    TORCH_CUDA_ARCH_LIST as an attribute of older ones has no effect: preConfigure sets it."""
    known = subject.imported_pin
    pin, structured = (known.name, bool(_structured(subject))) if known and known.torch_shape else ("", False)
    for override in subject.overrides_of("torch", "pytorch") if pin else ():
        if override.kind == "override":
            continue
        for name, argument in override.arguments.items():
            if name == TARGETS and not structured and subject.gpu:
                message = f"{TARGETS} has no effect: preConfigure of nixpkgs {pin}'s torch sets it"
                yield Defect(message, argument.span, hint="set gpuTargets by override", severity=WARNING)
            elif VARIABLE.fullmatch(name) and (structured or name == FLAGS):
                message = f"{name} is in env of nixpkgs {pin}'s torch, which refuses it as an attribute"
                yield Defect(message, argument.span, hint=f"export {name}=... in preConfigure")


@rule("TS852", "CUDA's cccl by its old name")
def cccl_is_asked_for(subject: Subject) -> Iterator[Defect]:
    """nixpkgs of 2026 calls the C++ core libraries of CUDA `cccl`; `cuda_cccl` is gone there."""
    pin = _structured(subject)
    for match in CCCL.finditer(subject.code) if pin else ():
        if not FALLBACK.search(subject.code[: match.start()]):
            message = f"cuda_cccl is called cccl in nixpkgs {pin}"
            yield Defect(message, subject.span(match), hint="cudaPackages.cccl or cudaPackages.cuda_cccl")


@rule("TS853", "patches of the pin's own torch dropped", WARNING, unless=("flavored",))
def native_patches_stay(subject: Subject, line: Line) -> Iterator[Defect]:
    """A pin whose torch is the wanted release has the patches it needs: without them CMake looks for files
    that nixpkgs removed, or compiles twice for one GPU. Drop them only with another source."""
    pin = subject.imported_pin
    if pin is None or not line.torch or pin.torch != line.torch:
        return
    for override in subject.overrides_of("torch", "pytorch"):
        patches = override.arguments.get("patches")
        if override.kind != "override" and patches is not None and patches.value == []:
            message = f"drops the patches of nixpkgs {pin.name}'s torch, which is {line.torch} already"
            yield Defect(message, patches.span, hint="leave patches as they are")
