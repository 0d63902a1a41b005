"""Git, as far as a workspace needs it: a repository, files that it knows, and what a revision has."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from torchsmith.core.git import find_place, git
from torchsmith.core.problem import Failed, MissingRequirement, NotFound, Problem, Refused
from torchsmith.core.process import Finished, find
from torchsmith.core.secrets import redactor
from torchsmith.core.text import shell_word

MIN_PACKED_FILES = 50  # that are added at once
MAX_LOCK_TRIES = 50
# Many new files go into one pack at once, as they are: in a quarter of the time that a file for each takes.
# The first repack finds how alike recipes are. Like such files, the pack is not waited for to be on the disk.
PACKED = (
    ("core.bigFileThreshold", "1"),
    ("core.compression", "0"),
    ("core.fsync", "-pack,-pack-metadata"),
)
# The line endings of the commit, whatever this machine's settings are.
AS_COMMITTED = (("core.autocrlf", "false"), ("core.eol", "lf"))


def require_git() -> None:
    """Raise a Problem if git is missing."""
    if find("git") is None:
        hint = "install git, or pass --no-git to write the files alone"
        raise MissingRequirement("git is not installed, and Flox only sees files that git tracks", hint=hint)


def require_committer(folder: Path) -> None:
    """Raise a Problem if git would refuse to commit, before anything is written."""
    if not git(folder, "var", "GIT_COMMITTER_IDENT").ok:
        hint = 'git config --global user.name "..." and user.email "..."'
        raise MissingRequirement(f"no git identity to commit with in {folder}", hint=hint)


def require_branch(folder: Path) -> None:
    """Raise Refused if a commit in a folder would be on no branch."""
    if is_kept(folder) and not git(folder, "symbolic-ref", "--quiet", "HEAD").ok:
        hint = f"git -C {shell_word(str(folder))} switch BRANCH, then run the command again"
        raise Refused(f"{folder} has no branch checked out: a commit would be on none", hint=hint)


UNFINISHED = {
    "MERGE_HEAD": "merge",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
}  # what git has in its own folder while one is in progress


def require_finished(folder: Path) -> None:
    """Raise Refused if a merge or the like is in progress in a repository, or has left files unmerged."""
    folder = folder if folder.is_dir() else folder.parent
    place = find_place(folder) if is_kept(folder) else None
    if place is None:
        return
    found = [what for name, what in UNFINISHED.items() if (place.own / name).exists()]
    if found or checked_git(folder, "ls-files", "--unmerged").stdout:
        hint = "finish or abort it first: git status says how"
        raise Refused(f"a {found[0] if found else 'merge'} is in progress in {folder}", hint=hint)


def _refused(repo: Path, args: Sequence[str], errors: Sequence[str]) -> Problem:
    """Why git did not do what it was to do, without secrets, and the command that it advises, as for a
    repository of another user."""
    said = [redactor()(line) for line in errors if not line.startswith("hint: ")]
    last = said[-1] if said else "git said nothing"
    why = next((line for line in said if line.startswith("fatal: ")), last)
    advice = next((line.strip() for line in errors if line.startswith("\tgit ")), "")
    return Failed(f"git {args[0]} failed in {repo}: {why.removeprefix('fatal: ')}", hint=advice)


def checked_git(
    repo: Path,
    *args: str,
    stdin: str | None = None,
    settings: Sequence[tuple[str, str]] = (),
    env: Mapping[str, str] | None = None,
) -> Finished:
    """Run git to its end. Raises Failed, or MissingRequirement for a commit without an identity."""
    done = git(repo, *args, stdin=stdin, settings=settings, env=env)
    for _ in range(MAX_LOCK_TRIES):
        if done.ok or not _is_locked(repo):
            break
        time.sleep(0.1)  # the git of a run that was stopped may still be at work
        done = git(repo, *args, stdin=stdin, settings=settings, env=env)
    if not done.ok:
        if args[0] == "commit":
            require_committer(repo)
        raise _refused(repo, args, done.stderr.strip().splitlines())
    return done


def _is_locked(repo: Path) -> bool:
    place = find_place(repo)
    return place is not None and (place.own / "index.lock").exists()


def is_repo(folder: Path) -> bool:
    """Whether a folder is the top of a repository; one that a full disk left incomplete does not count."""
    place = folder / ".git"
    return place.is_file() or all((place / part).exists() for part in ("HEAD", "objects", "refs"))


def is_kept(folder: Path) -> bool:
    """Whether a repository keeps the files of a folder: its own, or one around it that does not ignore it.
    False if git is not installed."""
    if find("git") is None:
        return False
    if is_repo(folder):
        return True
    around = top(folder)
    return (
        around is not None and git(around, "check-ignore", "--quiet", "--", str(folder.absolute())).code == 1
    )


def top(folder: Path) -> Path | None:
    """The top of the repository that a folder is in, if it is in one."""
    places = (folder.absolute(), *folder.absolute().parents)
    return next((place for place in places if is_repo(place)), None)


def init(folder: Path, *options: str) -> None:
    """Make a folder a repository."""
    folder.mkdir(parents=True, exist_ok=True)
    checked_git(folder, "init", "--quiet", *(options or ("--initial-branch=main",)))


def known_files(repo: Path) -> set[str]:
    """Paths that git knows, staged or committed."""
    return set(filter(None, checked_git(repo, "ls-files", "-z").stdout.split("\0")))


def seen_files(folder: Path, under: str) -> dict[str, bool] | None:
    """Files below a folder that git does not ignore, and whether it knows them; None without git, and in a
    repository of another user, which git does not read."""
    repository = top(folder)
    if repository is None or find("git") is None:
        return None
    options = ("-z", "-t", "--cached", "--others", "--exclude-standard")
    try:
        listing = checked_git(folder, "ls-files", *options, "--", under)
    except Failed:
        if (repository / ".git").stat().st_uid == os.geteuid():
            raise
        return None
    files = {entry[2:]: entry[0] != "?" for entry in listing.stdout.split("\0") if entry}
    return files or None


def add(repo: Path, paths: Sequence[str]) -> list[str]:
    """Stage paths as they are now: written, changed or gone. Returns those that git ignores, which are not
    staged."""
    quick = PACKED if len(paths) >= MIN_PACKED_FILES else ()
    command = ("add", "--all", "--pathspec-from-file=-", "--pathspec-file-nul")
    try:
        checked_git(repo, *command, stdin="\0".join(paths), settings=quick)
    except Failed as problem:
        if not (not_taken := ignored(repo, paths)):
            hint = "the files are written; torchsmith apply --no-git leaves git alone"
            raise problem.replace(hint=hint) from problem
        if others := [path for path in paths if path not in not_taken]:
            add(repo, others)
        return not_taken
    return []


def ignored(repo: Path, paths: Sequence[str]) -> list[str]:
    """Those of some paths that git ignores and does not know."""
    listing = git(repo, "check-ignore", "--stdin", "-z", stdin="\0".join(paths)).stdout
    return sorted(filter(None, listing.split("\0")))


def head(repo: Path) -> str:
    """The revision that is checked out; empty if nothing is committed."""
    return git(repo, "rev-parse", "--verify", "--quiet", "HEAD").stdout.strip()


def staged(repo: Path, paths: Sequence[str]) -> list[str]:
    """Those of the paths that are staged and not committed."""
    if not head(repo):
        paths_staged = known_files(repo)
    else:
        listing = checked_git(repo, "diff", "--cached", "--name-only", "--no-renames", "--relative", "-z")
        paths_staged = set(listing.stdout.split("\0"))
    return [path for path in paths if path in paths_staged]


def uncommitted(repo: Path) -> dict[str, str]:
    """Paths that differ from the last commit or that git does not know, with git's two letters for each."""
    listing = checked_git(
        repo, "status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames", "--", "."
    )
    inner = "" if is_repo(repo) else checked_git(repo, "rev-parse", "--show-prefix").stdout.strip()
    return {entry[3:].removeprefix(inner): entry[:2] for entry in sorted(listing.stdout.split("\0")) if entry}


def commit(repo: Path, message: str, paths: Sequence[str]) -> str:
    """Commit these paths alone; returns the short revision."""
    only = ("--pathspec-from-file=-", "--pathspec-file-nul")
    checked_git(repo, "commit", "--quiet", "--message", message, *only, stdin="\0".join(paths))
    return checked_git(repo, "rev-parse", "--short", "HEAD").stdout.strip()


def is_committed(file: Path, text: str) -> bool:
    """Whether the last commit has a file with exactly this text; what the index says of it does not count."""
    blob = ("cat-file", "blob", f"HEAD:./{file.name}")
    return find("git") is not None and git(file.parent, *blob).stdout == text


def lay_out(folder: Path, revision: str, into: Path, names: Collection[str] | None = None) -> None:
    """Write what `revision` has of every repository in or around `folder` below `into`; of those in it, only
    the named ones; one without that revision is new. Raises NotFound if there is no repository, or none has
    the revision."""
    require_git()
    repos = _repos(folder)
    chosen = [repo for repo in repos if names is None or repo.parent != folder or repo.name in names]
    if not chosen:
        hint = "torchsmith apply --commit makes them"
        raise NotFound(f"{folder} has no git repository to compare with", hint=hint)
    lacking: list[NotFound] = []
    for repo in chosen:
        try:
            _lay_out(repo, folder, revision, into)
        except NotFound as problem:
            lacking.append(problem)
    if len(lacking) == len(chosen):
        raise lacking[0]


def _repos(folder: Path) -> list[Path]:
    if is_repo(folder):
        return [folder]
    if below := sorted(child for child in folder.iterdir() if child.is_dir() and is_repo(child)):
        return below
    return next(([parent] for parent in folder.parents if is_repo(parent)), [])


def _lay_out(repo: Path, folder: Path, revision: str, into: Path) -> None:
    """One repository: its own folder below `into`, or the part of it that `folder` is. Nothing else of it is
    touched. Raises NotFound for a revision that it has not."""
    tree = revision
    if not folder.is_relative_to(repo):
        into = into / repo.relative_to(folder)
    elif folder != repo:
        tree = f"{revision}:{folder.relative_to(repo).as_posix()}"
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="torchsmith-git-") as place:
        own = {"GIT_INDEX_FILE": f"{place}/index"}
        read = git(repo, "read-tree", "--end-of-options", tree, env=own)
        if not read.ok:
            error = (read.stderr.strip().splitlines() or ["git said nothing"])[-1].removeprefix("fatal: ")
            if not git(repo, "rev-parse", "--verify", "HEAD").ok:
                hint = "commit its recipes first; torchsmith apply --commit does"
                raise NotFound(f"{repo.name} has no commit yet", hint=hint)
            hint = "name a commit, a branch or a tag that every repository has"
            raise NotFound(f"{repo.name} has no revision {tree}: {error}", hint=hint)
        command = ("checkout-index", "--all", "--force", f"--prefix={into.resolve()}/")
        checked_git(repo, *command, settings=AS_COMMITTED, env=own)
