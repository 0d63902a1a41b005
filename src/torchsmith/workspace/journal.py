"""Writing a set of files so that a kill leaves all of them or none.

Every new text is first written beside its file, under a name of its own. Then a journal in the user's state
folder says that the set is decided, the files are renamed, git gets them, and the journal is deleted. The
next run that writes finds a journal that was left: a decided set is finished, any other is undone. That holds
for a kill; files are not synced to disk, so it does not hold for a loss of power.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import msgspec

from torchsmith.core.files import exclusive, mode_of, read_bytes, unreadable, write_atomic, write_new
from torchsmith.core.problem import CannotWrite, Failed, Refused
from torchsmith.core.state import IN_WORKSPACE, TOML, make_state_folder, state_folder
from torchsmith.core.text import counted, grouped
from torchsmith.workspace import git
from torchsmith.workspace.change import COPY, Change, ChangeKind

FILE = "journal.json"
UNREADABLE = "?"  # in place of a digest: it counts as changed
MAX_GITS = 4  # that run at a time; one repository around all of them takes one


class GitStep(msgspec.Struct, frozen=True, kw_only=True):
    """What git does in one repository: paths to add, and with a message to commit."""

    repo: str
    add: list[str]
    message: str = ""


class FileStep(msgspec.Struct, frozen=True):
    """A file's digest before and after; empty: there is no file."""

    before: str
    after: str


class Journal(msgspec.Struct, frozen=True, kw_only=True):
    """A set of files on its way. Paths are below the workspace, without links."""

    format: Literal[2] = 2
    verb: str
    folder: int  # the inode of the workspace: another folder at its path is another workspace
    decided: bool = False
    files: dict[str, FileStep]
    steps: list[GitStep] = []


class StoppedRun(msgspec.Struct, frozen=True):
    """A set that a run had decided on when it was stopped, or that one is at work on: the files, and the
    subjects of the commits. `apply` finishes it first."""

    verb: str
    files: dict[str, ChangeKind]
    commits: list[str]


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit that was made in a repository."""

    repo: str
    revision: str
    message: str


@dataclass
class Writer:
    """Writes sets of files below a root that is held; `recovered` says what a stopped run had left."""

    root: Path
    verb: str
    recovered: str = ""
    commits: list[Commit] = field(default_factory=list)
    copies: list[str] = field(default_factory=list)  # of files of others that git does not hold
    new_repos: list[str] = field(default_factory=list)  # folders that became git repositories
    ignored: list[str] = field(default_factory=list)  # files that git does not take

    @property
    def _file(self) -> Path:
        return state_folder(self.root) / FILE

    def write(self, changes: Sequence[Change], steps: Sequence[GitStep] = ()) -> None:
        """Carry changes out, all or none, and run git on them. Raises a Problem if git cannot commit."""
        for folder in (self.root / step.repo for step in steps if step.message):
            git.require_committer(folder if folder.is_dir() else self.root)
        for step in steps:
            _real_path(self.root, step.repo)
        files = {
            _real_path(self.root, path, deleted=text is None): text
            for change in changes
            for path, text in change.files.items()
        }
        if not files and not steps:
            return
        journal = Journal(
            verb=self.verb,
            folder=self.root.stat().st_ino,
            files={
                path: FileStep(_digest(self.root / path), _digest_of(text)) for path, text in files.items()
            },
            steps=list(steps),
        )
        self._save(journal)
        try:
            self._stage(files)
            self._save(msgspec.structs.replace(journal, decided=True))
        except BaseException:
            self._sweep(journal)
            raise
        self._finish(journal)
        self.copies += [path for path, text in files.items() if text is not None and COPY.search(path)]

    def _save(self, journal: Journal) -> None:
        make_state_folder(self.root)
        write_atomic(self._file, msgspec.json.encode(journal).decode())

    def _stage(self, files: Mapping[str, str | None]) -> None:
        existed: dict[str, bool] = {}  # folders, and whether each was there before
        for path, text in files.items():
            target = os.path.join(self.root, path)
            folder = os.path.dirname(target)
            try:
                if folder not in existed:
                    existed[folder] = os.path.isdir(folder)
                if text is not None:
                    os.makedirs(folder, exist_ok=True)
                    write_new(_staged(target), text, mode_of(target) if existed[folder] else None)
                elif existed[folder] and not os.access(folder, os.W_OK):
                    raise PermissionError(13, "Permission denied")
            except OSError as error:
                hint = "nothing was changed"
                raise CannotWrite(f"cannot write {target}: {error.strerror}", hint=hint) from error

    def _finish(self, journal: Journal) -> None:
        try:
            for path, file in journal.files.items():
                target = os.path.join(self.root, path)
                if file.after:
                    # A draft that is not there any more was put in place before the stop.
                    with contextlib.suppress(FileNotFoundError):
                        os.replace(_staged(target), target)
                else:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(target)
                    with contextlib.suppress(OSError):
                        os.rmdir(os.path.dirname(target))
        except OSError as error:
            hint = "fix this and run the command again; it resumes"
            raise CannotWrite(f"cannot write {path}: {error.strerror}", hint=hint) from error
        alone = all(git.is_repo(self.root / step.repo) for step in journal.steps)
        with ThreadPoolExecutor(MAX_GITS if alone or not git.is_kept(self.root) else 1) as pool:
            list(pool.map(self._git_add, journal.steps))
        for step in journal.steps:
            self._git_commit(step)
        self._file.unlink(missing_ok=True)

    def _git_add(self, step: GitStep) -> None:
        folder = os.path.join(self.root, step.repo)
        if not git.is_kept(Path(folder)):
            git.init(Path(folder))
            self.new_repos.append(step.repo)
        gone = {path for path in step.add if not os.path.lexists(f"{folder}/{path}")}
        # git add refuses a file that is gone and that it never knew.
        gone -= git.known_files(Path(folder)) if gone else set()
        if add := [path for path in step.add if path not in gone]:
            self.ignored += (f"{step.repo}/{path}" for path in git.add(Path(folder), add))

    def _git_commit(self, step: GitStep) -> None:
        folder = self.root / step.repo
        taken = [path for path in step.add if f"{step.repo}/{path}" not in self.ignored]
        if step.message and (paths := git.staged(folder, taken)):
            revision = git.commit(folder, step.message, paths)
            self.commits.append(Commit(step.repo, revision, step.message.splitlines()[0]))

    def _sweep(self, journal: Journal) -> None:
        for path, step in journal.files.items():
            if step.after:
                with contextlib.suppress(OSError):
                    os.unlink(_staged(os.path.join(self.root, path)))
        self._file.unlink(missing_ok=True)

    def _changed_since(self, path: str, step: FileStep) -> bool:
        """Whether a file, or its draft, is not as the stopped run left it."""
        target = self.root / path
        if not _is_inside(self.root, path):
            return True
        now = _digest(target)
        if now == UNREADABLE:
            return True
        if not step.after:
            return now not in (step.before, "")
        draft = _staged(str(target))
        if not os.path.lexists(draft):  # put in place before the stop
            return now != step.after
        return now != step.before or _digest(Path(draft)) != step.after

    def recover(self) -> None:
        """Finish or undo what a stopped run left; files that changed since then stay as they are. Raises
        Refused if commits of another verb are left, Failed for a journal that cannot be read."""
        journal = _journal(self._file)
        if journal is None:
            return
        if journal.folder != self.root.stat().st_ino:
            self._file.unlink(missing_ok=True)
            self.recovered = f"a stopped {journal.verb} was not finished: this is another folder since then"
        elif not journal.decided:
            self._sweep(journal)
            self.recovered = f"a stopped {journal.verb} had changed nothing yet; its drafts were removed"
        elif any(step.message for step in journal.steps) and self.verb != journal.verb:
            hint = f"torchsmith plan shows what is left of it, torchsmith {journal.verb} finishes it"
            raise Refused(f"{journal.verb} was stopped before its commits in {self.root}", hint=hint)
        else:
            changed = {path for path, step in journal.files.items() if self._changed_since(path, step)}
            for path in changed:
                if _is_inside(self.root, path):
                    with contextlib.suppress(OSError):
                        os.unlink(_staged(os.path.join(self.root, path)))
            files = {path: step for path, step in journal.files.items() if path not in changed}
            inside = [step for step in journal.steps if _is_plain(self.root, step.repo)]
            steps = [self._without(step, changed) for step in inside]
            self._finish(msgspec.structs.replace(journal, files=files, steps=steps))
            self.recovered = f"a stopped {journal.verb} was finished first: {counted(len(files), 'file')}"
            if changed:
                self.recovered += f"; edited meanwhile and left: {', '.join(sorted(changed))}"

    def _without(self, step: GitStep, paths: Collection[str]) -> GitStep:
        """What git does without some files of the workspace."""
        left = {os.path.relpath(path, step.repo) for path in paths}
        return msgspec.structs.replace(step, add=[path for path in step.add if path not in left])


@contextmanager
def held(root: Path, wait_seconds: float | None = None) -> Iterator[None]:
    """Hold the lock of a workspace, or of a repository without one; a verb without --wait gives no
    `wait_seconds`. Raises CannotWrite if it may not be written."""
    folder = root / IN_WORKSPACE
    if (root / TOML).exists() or folder.exists():
        try:
            folder.mkdir(exist_ok=True)
            if not folder.is_symlink():
                with contextlib.suppress(FileExistsError):
                    write_new(str(folder / ".gitignore"), "*\n", None, replaces=False)
        except OSError as error:
            raise CannotWrite(f"cannot write in {root}: {error.strerror}") from error
    else:
        folder = make_state_folder(root)
    hint = "" if wait_seconds is None else "--wait 60 waits up to a minute for it to end"
    with exclusive(folder / "lock", what=f"workspace {root}", wait_seconds=wait_seconds or 0.0, hint=hint):
        yield


@contextmanager
def writing(root: Path, verb: str, wait_seconds: float | None = None) -> Iterator[Writer]:
    """Hold a workspace for writing; what a stopped run left is finished or undone first."""
    with held(root, wait_seconds):
        writer = Writer(root, verb)
        writer.recover()
        yield writer


def stopped_halfway(root: Path) -> bool:
    """Whether a stopped run, or one at work, has left a journal here."""
    return (state_folder(root) / FILE).exists()


def stopped_run(root: Path) -> StoppedRun | None:
    """The set that a stopped run, or one at work, has not finished. Raises Failed for a journal that cannot
    be read."""
    journal = _journal(state_folder(root) / FILE)
    if journal is None or not journal.decided or journal.folder != root.stat().st_ino:
        return None
    kinds: dict[str, ChangeKind] = {
        path: "delete" if not step.after else "rewrite" if step.before else "create"
        for path, step in journal.files.items()
    }
    commits = [step.message.splitlines()[0] for step in journal.steps if step.message]
    return StoppedRun(journal.verb, kinds, commits)


def _journal(file: Path) -> Journal | None:
    """What a journal says, if there is one. Raises CannotRead, or Failed if it is damaged."""
    try:
        return msgspec.json.decode(read_bytes(file, links=False), type=Journal)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unreadable(file, error, "it is the journal of a run: make it readable for you") from error
    except msgspec.MsgspecError as error:
        raise Failed(f"{file} is damaged: {error}", hint="move it away") from error


def finish_stopped(root: Path, verb: str) -> str:
    """Finish or undo what a stopped run left. Returns what was done."""
    if not stopped_halfway(root):
        return ""
    with writing(root, verb) as writer:
        return writer.recovered


def write_apart(homes: Sequence[tuple[Path, Change]], verb: str) -> str:
    """Changes of files that a person named, each with its workspace or repository: one set for each of those.
    Returns what a stopped run had left."""
    remarks = []
    absolute = ((home, replace(change, path=str(Path(change.path).absolute()))) for home, change in homes)
    for home, changes in grouped(absolute).items():
        with writing(home, verb) as writer:
            writer.write(changes)
        remarks.append(writer.recovered)
    return "; ".join(filter(None, remarks))


def _staged(target: str) -> str:
    """Where a new text waits: beside its file, so on its file system, under a name that no tool reads."""
    folder, _, name = target.rpartition("/")
    return f"{folder}/.{name}.torchsmith-new"


def _real_path(root: Path, path: str, *, deleted: bool = False) -> str:
    """The path below the workspace of the file that is written for `path`; a link within it stays a link.
    Raises Refused for one that leads out of the workspace, and for what is not a file or folder."""
    real = os.path.realpath(root / path)
    inner = os.path.relpath(real, os.path.realpath(root))
    if inner == ".." or inner.startswith("../"):
        hint = f"edit {real} itself" if os.path.exists(real) else "remove the link"
        raise Refused(f"{root / path} leads out of the workspace", hint=hint)
    special = os.path.lexists(real) and not os.path.isfile(real) and not os.path.isdir(real)
    if special or (deleted and os.path.islink(root / path)):
        raise Refused(f"{root / path} is not a regular file")
    return inner


def _is_inside(root: Path, path: str) -> bool:
    """Whether a path of a journal has a regular file, or nothing, and leads there without links."""
    return _is_plain(root, path) and (os.path.isfile(root / path) or not os.path.lexists(root / path))


def _is_plain(root: Path, path: str) -> bool:
    """Whether a path leads into the workspace without links."""
    target = os.path.normpath(os.path.join(os.path.realpath(root), path))
    return not os.path.isabs(path) and ".." not in Path(path).parts and os.path.realpath(target) == target


def _digest_of(text: str | None) -> str:
    return "" if text is None else hashlib.sha256(text.encode()).hexdigest()


def _digest(path: Path) -> str:
    """The hash of a file, by which an edit is noticed; empty for what is not a file."""
    try:
        return hashlib.sha256(read_bytes(path, links=False)).hexdigest()
    except OSError as error:
        return UNREADABLE if error.errno in (errno.EFBIG, errno.EACCES, errno.EPERM, errno.EIO) else ""
