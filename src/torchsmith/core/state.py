"""State: what torchsmith itself wrote about a workspace, in the user's own state folder.

Nothing in a workspace is state. A clone, an archive or a restored cache may bring a `.torchsmith` folder of
its own; torchsmith uses the lock in it, and reads and follows nothing else there.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from torchsmith.core.files import user_folder
from torchsmith.core.problem import CannotWrite

TOML = "torchsmith.toml"  # which makes a folder a workspace
IN_WORKSPACE = ".torchsmith"  # has the lock, which other users and machines see too
VARIABLE = "TORCHSMITH_STATE"
WORKSPACE = "workspace"  # the file that says whose state a folder is


def state_home() -> Path:
    """The folder with the state of all workspaces. Raises MissingRequirement if the user has no home."""
    return user_folder(VARIABLE, "XDG_STATE_HOME", ".local/state")


def state_folder(root: Path) -> Path:
    """Where the state of the workspace at `root` is, or would be."""
    from hashlib import sha256  # a short answer does without

    place = os.path.realpath(root)
    name = re.sub(r"[^0-9A-Za-z._-]", "-", os.path.basename(place))[:40]

    return state_home() / "workspaces" / f"{name}-{sha256(os.fsencode(place)).hexdigest()[:16]}"


def log_file(root: Path, named: str) -> Path:
    """Where a log of the record is, by its run and name: also after the record was taken over."""
    return state_folder(root).joinpath("logs", *Path(named).parts[-2:])


def make_state_folder(root: Path) -> Path:
    """The state folder of a workspace, made if there is none. Raises CannotWrite."""
    folder = state_folder(root)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = folder / WORKSPACE
        if not file.exists():
            file.write_bytes(os.fsencode(os.path.realpath(root)) + b"\n")
    except OSError as error:
        hint = f"make it writable for you, or set {VARIABLE} to another folder"
        raise CannotWrite(f"cannot write {folder}: {error.strerror}", hint=hint) from error
    return folder


def abandoned_states() -> list[Path]:
    """State folders of workspaces that are gone: deleted, or moved. Their links keep builds in the store."""
    folders = sorted(state_home().glob(f"workspaces/*/{WORKSPACE}"))
    return [file.parent for file in folders if not os.path.isdir(file.read_bytes().rstrip(b"\n"))]
