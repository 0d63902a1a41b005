"""`torchsmith init`: a torchsmith.toml to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from torchsmith.cli.params import Argument, Option

EXAMPLE = "torchsmith init builds --profile real"


def run(
    folder: Annotated[Path, Argument(help="Where the workspace is to be.")] = Path(),
    profile: Annotated[str, Option("--profile", "-p", help="The matrix to start from.")] = "plan",
    cell: Annotated[
        list[str] | None,
        Option("--cell", help="Ask for this cell instead, in every package; may be given again."),
    ] = None,
    force: Annotated[bool, Option("--force", help="Replace a torchsmith.toml that is there.")] = False,
) -> None:
    """Write a torchsmith.toml, the one file that says which builds you ship."""
    from torchsmith.cli.console import err
    from torchsmith.workspace.start import start_workspace

    file, count = start_workspace(folder, profile, cells=cell or (), replace=force)
    err().print(f"wrote {file}: {count} variants; next: torchsmith list -w {folder}", soft_wrap=True)
