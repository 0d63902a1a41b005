"""What a cell's name leads to: its last build, and the log of that."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from torchsmith.core.problem import Exit, MissingRequirement, NotFound, did_you_mean
from torchsmith.core.text import shell_word
from torchsmith.workspace.load import Workspace

if TYPE_CHECKING:
    from torchsmith.record import Record


def is_name(path: Path) -> bool:
    """Whether something is no place but a name: nothing is there, and no folder is part of it."""
    return len(path.parts) == 1 and str(path) != "-" and not path.exists()


def build_named(named: Path, workspace: Workspace, hint: str = "give a wheel, a folder or a library") -> Path:
    """Where a path, or for a cell's name its last build, lies on disk. Raises NotFound for a name that was
    never built here; `hint` says what it takes."""
    from torchsmith.nix.tool import stored

    if not is_name(named) or workspace.root is None:
        return stored(_existing(named, hint))
    from torchsmith.core.state import state_folder
    from torchsmith.record import open_record

    link = state_folder(workspace.home) / "results" / named.name
    if (place := stored(link)).exists():
        return place
    with closing(open_record(workspace.root, read_only=True)) as record:
        built = record.built(named.name)
    if built is None or not built.outputs:
        raise NotFound(
            f"{named} is neither a path nor the name of a build here",
            hint=f"torchsmith build {shell_word(named.name)} builds it; torchsmith list lists the names",
            exit=Exit.ENVIRONMENT,
        )
    return stored(built.outputs[0])


def build_to_run(named: Path, workspace: Workspace) -> Path:
    """The same of a build that is to run. Raises MissingRequirement if it is in a store of its own."""
    from torchsmith.nix.tool import in_own_store

    hint = "give a result link, a store path or a site-packages folder; install a wheel first"
    path = build_named(named, workspace, hint)
    if in_own_store(path):
        raise MissingRequirement(
            f"{named} cannot run: it lies in torchsmith's own store, and looks for its parts in /nix/store",
            hint="build into the machine's store: join the group nix-users, or start nix-daemon"
            " (torchsmith doctor)",
        )
    return path


def _existing(path: Path, hint: str) -> Path:
    if os.path.lexists(path) or str(path) == "-":
        return path
    hint = f"{hint}; in a workspace, the name of a build works too"
    raise NotFound(f"there is no file {path}", hint=hint)


def derivation_of(path: Path, name: str, workspace: Workspace) -> str:
    """The derivation of a build that was made here under a name; empty where the record has another one."""
    if workspace.root is None:
        return ""
    from torchsmith.nix.tool import stored
    from torchsmith.record import open_record

    with closing(open_record(workspace.root, read_only=True)) as record:
        built = record.built(name)
    same = built is not None and path.resolve() in [stored(output).resolve() for output in built.outputs]
    return str(stored(built.derivation)) if built is not None and built.derivation and same else ""


def log_named(named: Path, workspace: Workspace) -> Path:
    """A path as it is; for a job's name the log of its last build."""
    if not is_name(named) or workspace.root is None:
        return _existing(named, "give the file of a log, or - for stdin")
    from torchsmith.record import open_record

    with closing(open_record(workspace.root, read_only=True)) as record:
        return last_log(record, named.name, workspace)


def last_log(record: Record, name: str, workspace: Workspace) -> Path:
    """Where a job's last log is. Raises NotFound if there is none."""
    from torchsmith.core.state import log_file

    row = record.last_log(name)
    if row is None:
        known = record.logged_names()
        hint = did_you_mean(name, known) if known else "nothing has been built in this workspace yet"
        raise NotFound(f"{name} has never been built here", hint=hint)
    log = log_file(workspace.home, row.log)
    if log.is_symlink() or not log.is_file():
        raise NotFound(f"the log of {name} is gone: {log}", exit=Exit.ENVIRONMENT)
    return log
