"""A workspace with its record; a cell's last build and its log, by name."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torchsmith.core.problem import Conflict, MissingRequirement, NotBuilt, NotFound, did_you_mean
from torchsmith.core.text import shell_word
from torchsmith.workspace.load import Workspace, open_workspace

if TYPE_CHECKING:
    from torchsmith.record import Record


@contextmanager
def workspace_record(path: Path | None, *, read_only: bool = False) -> Iterator[tuple[Workspace, Record]]:
    """A workspace with its record; `read_only` for verbs that only show it."""
    from torchsmith.record import open_record

    workspace = open_workspace(path, recover=not read_only)
    with closing(open_record(workspace.home, read_only=read_only)) as record:
        yield workspace, record


@dataclass(frozen=True, slots=True)
class NamedBuild:
    """A build on disk."""

    path: Path
    name: str = ""  # the recipe's, as the record has it, if the build was named by that

    @property
    def cell(self) -> str:
        """The name without the repository in front."""
        return self.name.rpartition("/")[2]


def is_name(path: Path) -> bool:
    """Whether a word is NAME or REPO/NAME and not a path: nothing is there."""
    from torchsmith.workspace.checkout import FILE_SUFFIXES

    words = path.parts
    plain = not path.is_absolute() and ".." not in words and FILE_SUFFIXES.isdisjoint(path.suffixes)
    return 1 <= len(words) <= 2 and plain and not path.exists()


def find_build(
    word: Path, workspace: Workspace, hint: str = "give a wheel, a folder or a library"
) -> NamedBuild:
    """The build at a path, or the last one of a recipe that a name or selector picks. Raises NotFound if
    there is neither, NotBuilt for a recipe that was never built here, and Conflict if several builds match;
    `hint` says what is accepted."""
    from torchsmith.nix.tool import stored

    if not is_name(word) or workspace.root is None:
        return NamedBuild(stored(_existing(word, hint)))
    from torchsmith.core.state import state_folder
    from torchsmith.record import open_record

    results = state_folder(workspace.home) / "results"
    with closing(open_record(workspace.root, read_only=True)) as record:
        outputs = {built.name: built.outputs[0] for built in record.all_built() if built.outputs}
    name = _built_name(str(word), workspace, outputs)
    place = stored(results / name)
    return NamedBuild(place if place.exists() else stored(outputs[name]), name)


def _built_name(word: str, workspace: Workspace, names: Collection[str]) -> str:
    """The one of the names of builds that a name or selector is for."""
    if word in names:
        return word
    from torchsmith.workspace.checkout import choose

    same = [name for name in names if name.rpartition("/")[2] == word]
    if not same and not workspace.matrix.find(word):
        chosen = {recipe.name for recipe in choose([word], workspace, workspace.home).recipes}
        same = [name for name in names if name in chosen]
    if not same:
        raise NotBuilt(f"{word} is not built yet", hint=f"torchsmith build {shell_word(word)} builds it")
    if len(same) > 1:
        raise Conflict(f"{len(same)} builds here match {word}", hint=f"name one: {', '.join(sorted(same))}")
    return same[0]


def build_to_run(word: Path, workspace: Workspace) -> NamedBuild:
    """A build that is to run. Raises MissingRequirement if it is in torchsmith's own store."""
    from torchsmith.nix.tool import in_own_store

    hint = "give a result link, a store path or a site-packages folder; install a wheel first"
    found = find_build(word, workspace, hint)
    if in_own_store(found.path):
        raise MissingRequirement(
            f"{word} cannot run: it is in torchsmith's own store, and looks for its parts in /nix/store",
            hint="build into the machine's store: join the group nix-users, or start nix-daemon"
            " (torchsmith doctor)",
        )
    return found


def _existing(path: Path, hint: str) -> Path:
    if os.path.lexists(path):
        return path
    if path.parts[:1] in (("https:",), ("http:",)):
        raise NotFound("URLs are not read", hint="download the file first")
    hint = f"{hint}; in a workspace, the name of a build works too"
    raise NotFound(f"there is no file {path}", hint=hint)


def log_named(named: Path, workspace: Workspace) -> Path:
    """Return a path as it is, or for a job's name the log of its last build. Raises NotFound if the job was
    skipped since: an older log says nothing about that."""
    if not is_name(named) or workspace.root is None:
        return _existing(named, "give the file of a log, or - for standard input")
    from torchsmith.record import open_record

    with closing(open_record(workspace.root, read_only=True)) as record:
        last = record.last_job(str(named))
        if last is not None and last.state == "skipped":
            failed = [job.name for job in record.jobs(last.run) if job.state == "failed"]
            hint = f"torchsmith diagnose {failed[0]}" if failed else "torchsmith runs shows the run"
            raise NotFound(f"{named} was skipped in the last run: {last.error}", hint=hint)
        return last_log(record, str(named), workspace)


def last_log(record: Record, name: str, workspace: Workspace) -> Path:
    """Return the path of a job's last log. Raises NotFound if there is none."""
    from torchsmith.core.state import log_file

    row = record.last_job(name, started=True)
    if row is None:
        hint = did_you_mean(name, record.logged_names()) or "see torchsmith runs"
        if workspace.matrix.find(name):
            raise NotFound(f"{name} has never been built here", hint=hint)
        raise NotFound(f"there is no file {name}, and no job has this name", hint=hint)
    log = log_file(workspace.home, row.log)
    if log.is_symlink() or not log.is_file():
        raise NotFound(f"the log of {name} is gone: {log}")
    return log
