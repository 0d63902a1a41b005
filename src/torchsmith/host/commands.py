"""The commands that bring a variant onto a machine, as a person would type them."""

from __future__ import annotations

from torchsmith.matrix import Variant


def install_command(variant: Variant, org: str) -> str:
    """Install what an organisation has published to the Flox catalog."""
    return f"flox install {org}/{variant.name}"


def build_commands(variant: Variant) -> tuple[str, ...]:
    """Build it here, with Flox or with Nix alone."""
    repo = variant.package.folder
    return (
        f"flox build -d {repo} {variant.name}",
        f"nix-build {repo}/.flox/pkgs/{variant.name}.nix",
    )


def create_steps(variant: Variant, file: str) -> tuple[str, ...]:
    """Make a cell that the matrix lacks: in the workspace at hand, or in one of its own."""
    steps = (f'add "{variant.name}" to include in {file}, then: torchsmith generate',) if file else ()
    return (*steps, f"torchsmith init mine --cell {variant.name} && torchsmith generate -w mine")
