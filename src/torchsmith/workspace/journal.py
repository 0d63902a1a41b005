"""Writing a set of files so that a kill leaves all of them or none.

Every new text is first laid beside its file, under a name of its own. Then a journal in the workspace says
that the set is decided, the files are put in place, git gets them, and the journal goes. The next run that
writes finds a journal that was left: a decided set is finished, any other is swept away.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from torchsmith.core.files import exclusive, write_atomic
from torchsmith.core.problem import CannotWrite, Failed
from torchsmith.core.text import counted, grouped
from torchsmith.workspace import git
from torchsmith.workspace.change import COPY, Change

STATE = ".torchsmith"  # lock, journal, record and logs of a workspace, never in a repository
FILE = "journal.json"
MAX_GITS = 4  # that run at a time; one repository around all of them takes one


class GitStep(msgspec.Struct, frozen=True, kw_only=True):
    """What git does in one repository: paths to add, and with a message paths to commit."""

    repo: str
    add: list[str]
    commit: list[str] = []
    message: str = ""


class Journal(msgspec.Struct, frozen=True, kw_only=True):
    """A set of files on its way."""

    format: int = 1
    verb: str
    decided: bool = False
    writes: list[str]
    deletes: list[str]
    before: dict[str, str] = {}  # a digest of each file to be written, as it was when the set was decided
    steps: list[GitStep] = []


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

    @property
    def _file(self) -> Path:
        return self.root / STATE / FILE

    def write(self, changes: Sequence[Change], steps: Sequence[GitStep] = ()) -> None:
        """Carry changes out, all or none, and run git on them. A Problem where git cannot commit."""
        for folder in (self.root / step.repo for step in steps if step.message):
            git.require_committer(folder if folder.is_dir() else self.root)
        files = {path: text for change in changes for path, text in change.files.items()}
        if not files and not steps:
            return
        writes = [path for path, text in files.items() if text is not None]
        deletes = [path for path, text in files.items() if text is None]
        journal = Journal(verb=self.verb, writes=writes, deletes=deletes, steps=list(steps))
        self._save(journal)
        try:
            self._stage(files)
            before = {path: _digest(self.root / path) for path in writes}
            self._save(msgspec.structs.replace(journal, decided=True, before=before))
        except BaseException:
            self._sweep(journal)
            raise
        self._finish(journal)
        self.copies += filter(COPY.search, writes)

    def _save(self, journal: Journal) -> None:
        write_atomic(self._file, msgspec.json.encode(journal).decode())

    def _stage(self, files: Mapping[str, str | None]) -> None:
        existed: dict[str, bool] = {}  # folders, and whether each was there before
        for path, text in files.items():
            target = os.path.join(self.root, path)
            folder = os.path.dirname(target)
            try:
                if folder not in existed:
                    existed[folder] = os.path.isdir(folder)
                    os.makedirs(folder, exist_ok=True)
                if text is not None:
                    _write_new(_staged(target), text, _mode(target) if existed[folder] else None)
                elif not os.access(folder, os.W_OK):
                    raise PermissionError(13, "Permission denied")
            except OSError as error:
                hint = "nothing was changed"
                raise CannotWrite(f"cannot write {target}: {error.strerror}", hint=hint) from error

    def _finish(self, journal: Journal) -> None:
        try:
            for path in journal.writes:
                target = os.path.join(self.root, path)
                # A draft that is not there any more was put in place before the stop.
                try:
                    os.replace(_staged(target), target)
                except FileNotFoundError:
                    continue
            for path in journal.deletes:
                gone = self.root / path
                gone.unlink(missing_ok=True)
                with contextlib.suppress(OSError):
                    gone.parent.rmdir()
        except OSError as error:
            hint = "see to it, then run the command again: it goes on from here"
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
        gone = {path for path in step.add if not os.path.lexists(f"{folder}/{path}")}
        # git add refuses a file that is gone and that it never knew.
        gone -= git.known_files(Path(folder)) if gone else set()
        if add := [path for path in step.add if path not in gone]:
            git.add(Path(folder), add)

    def _git_commit(self, step: GitStep) -> None:
        folder = self.root / step.repo
        if step.message and (paths := git.staged(folder, step.commit)):
            revision = git.commit(folder, step.message, paths)
            self.commits.append(Commit(step.repo, revision, step.message.splitlines()[0]))

    def _sweep(self, journal: Journal) -> None:
        for path in journal.writes:
            with contextlib.suppress(OSError):
                os.unlink(_staged(os.path.join(self.root, path)))
        self._file.unlink(missing_ok=True)

    def _edited_since(self, journal: Journal) -> list[str]:
        """Files that somebody wrote after the stop: their drafts go, and the files stay."""
        edited = []
        for path, before in journal.before.items():
            if _digest(self.root / path) != before:
                with contextlib.suppress(FileNotFoundError):  # put in place before the stop
                    os.unlink(_staged(os.path.join(self.root, path)))
                    edited.append(path)
        return edited

    def recover(self) -> None:
        """Finish or sweep away what a stopped run left. Raises Failed for a journal that cannot be read."""
        try:
            journal = msgspec.json.decode(self._file.read_bytes(), type=Journal)
        except FileNotFoundError:
            return
        except (OSError, msgspec.MsgspecError) as error:
            raise Failed(f"{self._file} cannot be read: {error}") from error
        count = len(journal.writes) + len(journal.deletes)
        if journal.decided:
            edited = self._edited_since(journal)
            self._finish(journal)
            self.recovered = f"a stopped {journal.verb} was finished first: {counted(count, 'file')}"
            if edited:
                self.recovered += f"; edited meanwhile and left: {', '.join(edited)}"
        else:
            self._sweep(journal)
            self.recovered = f"a stopped {journal.verb} had changed nothing yet; its drafts were removed"


@contextmanager
def held(root: Path, wait_seconds: float = 0.0) -> Iterator[None]:
    """Hold a workspace, and leave it as it is. Raises CannotWrite where it may not be written."""
    try:
        (root / STATE).mkdir(exist_ok=True)
        ignore = root / STATE / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")
    except OSError as error:
        raise CannotWrite(f"cannot write in {root}: {error.strerror}") from error
    with exclusive(root / STATE / "lock", what=f"workspace {root}", wait_seconds=wait_seconds):
        yield


@contextmanager
def writing(root: Path, verb: str, wait_seconds: float = 0.0) -> Iterator[Writer]:
    """Hold a workspace for writing; what a stopped run left is finished or undone first."""
    with held(root, wait_seconds):
        writer = Writer(root, verb)
        writer.recover()
        yield writer


def stopped_halfway(root: Path) -> bool:
    """Whether a stopped run, or one at work, has left a journal here."""
    return (root / STATE / FILE).exists()


def finish_stopped(root: Path, verb: str) -> str:
    """See to what a stopped run left, before recipes are built or published; and return what was done."""
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


def _digest(path: Path) -> str:
    """By which an edit is noticed, whatever clocks say; nothing for what is no file."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def _mode(target: str) -> int | None:
    """The mode of a file that there is."""
    try:
        state = os.lstat(target)
    except FileNotFoundError:
        return None
    return stat.S_IMODE(state.st_mode) if stat.S_ISREG(state.st_mode) else None


def _write_new(path: str, text: str, mode: int | None) -> None:
    """A new file with the mode of the one that it replaces, else what the user's umask leaves of 0o666."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, mode or 0o666)
    try:
        rest = text.encode()
        while rest:
            rest = rest[os.write(handle, rest) :]
        if mode is not None:
            os.fchmod(handle, mode)
    finally:
        os.close(handle)
