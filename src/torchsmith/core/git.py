"""The one way to start git: the settings of a checkout run no program and reach no network.

A checkout may come from anyone, and its .git/config can name programs that git would start: a file monitor,
hooks, filters, helpers for signatures. The user's own configuration of these applies, and that of the
checkout does not. Commands that use the network run only in a repository that torchsmith made.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torchsmith.core.files import read_text
from torchsmith.core.problem import Failed, Invalid, Refused
from torchsmith.core.process import Finished, run

TIMEOUT_SECONDS = 300.0
READ_SECONDS = 30.0  # for a command that only reads
MAX_DIGITS = 6  # of GIT_CONFIG_COUNT
Setting = tuple[str, str]
Scoped = tuple[str, str, str]  # a setting's scope, key and value
THEIRS = ("local", "worktree")  # the scopes of settings that a checkout brings
REMOTE = frozenset(("fetch", "ls-remote", "push"))
WITH_HOOKS = frozenset(("commit", "push"))  # of the user: these are what the user asked for
READS = frozenset(
    (
        *("cat-file", "check-ignore", "config", "diff", "log", "ls-files"),
        *("remote", "rev-parse", "status", "symbolic-ref", "var"),
    )
)
# glibc returns memory after every object and requests it again: a fifth of the time.
KEEPS_MEMORY = {"MALLOC_TRIM_THRESHOLD_": "8388608"}
READ_IN_TOP = (".gitattributes", ".gitignore", ".gitmodules")  # by git, without a look at what they are
PROTOCOLS = "file:http:https:ssh"  # neither ext:: nor git://, which start programs that the settings name
# These start nothing by themselves but what `ALWAYS` switches off.
PLAIN = frozenset(
    (
        *("cat-file", "check-ignore", "config", "index-pack", "init", "ls-files", "merge-base"),
        *("pack-objects", "read-tree", "remote", "rev-list", "rev-parse", "symbolic-ref", "var"),
    )
)
WITHOUT = {
    "diff": ("--no-ext-diff", "--no-textconv", "--ignore-submodules=all"),
    "log": ("--no-ext-diff", "--no-textconv"),
    "fetch": ("--recurse-submodules=no",),
    "push": ("--recurse-submodules=no",),
    "status": ("--ignore-submodules=all",),  # git would ask each of them, under its own settings
}
ALWAYS = (
    ("core.fsmonitor", "false"),
    ("diff.ignoreSubmodules", "all"),  # git would ask each of them, under its own settings
    ("log.showSignature", "false"),
    ("safe.bareRepository", "explicit"),  # a folder of the checkout may look like a repository
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
)
# Settings of a checkout that name programs, and what is used instead if the user has none of their own.
NEUTRAL = (
    (r"filter\..*\.(clean|smudge|process)", ""),
    (r"filter\..*\.required", "false"),
    (r"gpg\.(openpgp\.)?program", "gpg"),
    (r"gpg\.x509\.program", "gpgsm"),
    (r"gpg\.ssh\.program", "ssh-keygen"),
    (r"gpg\.ssh\.defaultkeycommand", "false"),
    (r"hook\..*\.command", "true"),
)
# The settings that a repository has in which git may use the network.
OWN_SETTINGS = re.compile(
    r"core\.(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks)"
    r"|core\.(autocrlf|eol)|extensions\.objectformat|branch\..*\.(remote|merge)"
    r"|remote\.origin\.(url|pushurl|fetch)",
    re.DOTALL,
)
PARTIAL = re.compile(r"extensions\.partialclone|remote\..*\.promisor", re.DOTALL)
# By which a checkout in CI has access to its remote; taken only if the user says so.
CREDENTIALS = r"http\.(.*\.)?extraheader|credential\..*|core\.sshcommand"
# What `git rev-parse --local-env-vars` lists, without GIT_CONFIG_COUNT and GIT_CONFIG_PARAMETERS, which are
# the user's own settings: these name another repository than the one that git is to run in.
LOCAL_VARIABLES = (
    *("GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_CONFIG", "GIT_DIR", "GIT_GRAFT_FILE"),
    *("GIT_IMPLICIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_INTERNAL_SUPER_PREFIX", "GIT_NO_REPLACE_OBJECTS"),
    *("GIT_OBJECT_DIRECTORY", "GIT_PREFIX", "GIT_REPLACE_REF_BASE", "GIT_SHALLOW_FILE", "GIT_WORK_TREE"),
)


def git(
    repo: Path,
    *args: str,
    stdin: str | None = None,
    settings: Iterable[Setting] = (),
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
) -> Finished:
    """Run git in a folder; the caller checks whether it succeeded. `args` begin with the command. Raises
    Refused for a command that uses the network in a repository that has settings of others, and Failed for
    one that does not end in time."""
    command, *rest = args
    limit = timeout or (READ_SECONDS if command in READS else TIMEOUT_SECONDS)
    place = find_place(repo)
    configured = [] if command in PLAIN else list(_configured(repo))
    if place is not None:
        _check_worktree(place, configured)
        if command not in READS:
            _check_links(place)
    safe = [*ALWAYS, ("core.hooksPath", _hooks(configured) if command in WITH_HOOKS else os.devnull)]
    safe += harmless(configured)
    theirs = [key for scope, key, _ in configured if scope in THEIRS]
    protocols = "none"
    if command in REMOTE:
        if foreign := [key for key in theirs if not OWN_SETTINGS.fullmatch(key)]:
            raise Refused(f"git {command} is not run in {repo}: it has the setting {foreign[0]}")
        protocols = PROTOCOLS
    elif command in WITH_HOOKS and not any(map(PARTIAL.fullmatch, theirs)):
        protocols = PROTOCOLS  # for a hook; of a partial clone git itself would fetch
    argv = ["git", "-C", str(repo), "--no-pager", command, *WITHOUT.get(command, ()), *rest]
    quiet = {"GIT_ALLOW_PROTOCOL": protocols, "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"}
    quiet |= {"GIT_OPTIONAL_LOCKS": "0"} if command in READS else {}  # git writes nothing then
    quiet |= {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_GRAFT_FILE": os.devnull}  # objects as they are named
    full = environment([*settings, *safe]) | KEEPS_MEMORY | quiet | dict(env or {})
    done = run(argv, timeout=limit, stdin=stdin, names=True, env=full)
    return done if command in REMOTE else _ended(repo, done, limit)


def _ended(repo: Path, done: Finished, limit: float) -> Finished:
    """A command that has ended by itself. Raises Failed."""
    if done.timed_out:
        hint = "its disk does not answer, or a file that git reads there is a fifo or a device"
        raise Failed(f"git did not end within {limit:.0f} s in {repo}", hint=hint)
    return done


@dataclass(frozen=True, slots=True)
class GitPlace:
    """A repository: the folder of its files, git's own folder for it, and for a linked worktree the folder
    that it shares with others."""

    top: Path
    own: Path
    shared: Path


def find_place(folder: Path) -> GitPlace | None:
    """The repository that a folder is in. Raises Refused if `.git` leads to one of another folder, or if git
    would wait for a file that it reads there."""
    folder = folder.absolute()
    top = next((one for one in (folder, *folder.parents) if os.path.lexists(one / ".git")), None)
    if top is None:
        return None
    place = own = shared = top / ".git"
    if place.is_symlink():
        raise Refused(f"{place} is a link", hint="it may lead to a repository of yours: make it a folder")
    _check_files(place, *(top / name for name in READ_IN_TOP))
    if place.is_file():
        own = shared = top / read_text(place).partition("gitdir:")[2].strip()
        _check_files(own / "config")
        back = own / "gitdir"  # of a linked worktree; a submodule has the setting core.worktree
        found = Path(read_text(back).strip()) if back.is_file() else own / _worktree_of(own)
        if found.resolve() not in (place.resolve(), top.resolve()):
            raise Refused(f"{place} leads to {own}, which is the repository of another folder")
    for inner in (own, own / "info"):
        if inner.is_dir():
            _check_files(*inner.iterdir())
    if (own / "commondir").exists():
        shared = own / read_text(own / "commondir").strip()
        if own == place or shared.resolve() != own.resolve().parents[1]:
            raise Refused(f"{own}/commondir leads to {shared}, which is the repository of another folder")
    return GitPlace(top, own, shared)


def _check_links(place: GitPlace) -> None:
    """Raise Refused for a link out of git's own folder: git writes to the file that it leads to."""
    real = str(place.shared.resolve())
    for folder, folders, files in os.walk(place.shared):
        if "hooks" in folders and folder == str(place.shared):
            folders.remove("hooks")  # which are not used
        for path in (os.path.join(folder, name) for name in (*folders, *files)):
            if os.path.islink(path) and not f"{os.path.realpath(path)}/".startswith(f"{real}/"):
                raise Refused(f"{path} is a link", hint="it may lead to a file of yours: remove it")
        if os.path.basename(folder) == "objects":
            folders.clear()  # what is below has a hash as its name and is written once


def _check_files(*paths: Path) -> None:
    """Raise Refused for a fifo or a device: git would wait for it, or read it without an end."""
    for path in paths:
        with contextlib.suppress(OSError):
            mode = path.stat().st_mode
            if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
                raise Refused(f"{path} is not a regular file")


def _check_worktree(place: GitPlace, configured: Iterable[Scoped]) -> None:
    """Raise Refused if the settings of a repository lead to the files of another folder."""
    named = [value for scope, key, value in configured if scope in THEIRS and key == "core.worktree"]
    for value in named:
        if (place.own / value).resolve() != place.top.resolve():
            raise Refused(f"{place.top}/.git has the files of another folder: core.worktree is {value}")


def _worktree_of(own: Path) -> str:
    """The setting core.worktree in git's own folder of a submodule; empty if it has none."""
    argv = ["git", "config", "--file", str(own / "config"), "core.worktree"]
    return run(argv, timeout=READ_SECONDS, names=True, env=environment()).stdout.strip()


def harmless(configured: Sequence[Scoped]) -> Iterator[Setting]:
    """Settings that take the place of those of a checkout that name programs."""
    mine = {key: value for scope, key, value in configured if scope not in THEIRS}
    for key in dict.fromkeys(key for scope, key, _ in configured if scope in THEIRS):
        for pattern, neutral in NEUTRAL:
            if re.fullmatch(pattern, key, re.DOTALL):
                yield key, mine.get(key, neutral)


def _hooks(configured: Iterable[Scoped]) -> str:
    """The folder of the user's own hooks; one that is relative would be a folder of the checkout."""
    folders = [value for scope, key, value in configured if key == "core.hookspath" and scope not in THEIRS]
    return folders[-1] if folders and folders[-1].startswith(("/", "~")) else os.devnull


def _configured(repo: Path) -> Iterator[Scoped]:
    """Every setting that git would use here: its scope, key and value; includes are followed."""
    argv = ["git", "-C", str(repo), "config", "--list", "--show-scope", "-z"]
    listing = _ended(repo, run(argv, timeout=READ_SECONDS, names=True, env=environment()), READ_SECONDS)
    parts = listing.stdout.split("\0")
    for scope, entry in zip(parts[::2], parts[1::2], strict=False):
        key, _, value = entry.partition("\n")
        yield scope, key, value


def checkout_credentials(repo: Path) -> list[Setting]:
    """The settings by which a checkout itself has access to its remote."""
    found = _configured(repo)
    own = [(key, value) for scope, key, value in found if scope in THEIRS]
    return [pair for pair in own if re.fullmatch(CREDENTIALS, pair[0], re.DOTALL)]


def environment(settings: Iterable[Setting] = ()) -> dict[str, str]:
    """The user's environment for git in any repository, with settings that override what files say."""
    env = {name: value for name, value in os.environ.items() if name not in LOCAL_VARIABLES}
    text = env.get("GIT_CONFIG_COUNT") or "0"
    if not text.isdecimal() or len(text) > MAX_DIGITS:
        raise Invalid(f"GIT_CONFIG_COUNT is {text!r} and not a number", hint="unset GIT_CONFIG_COUNT")
    count = int(text)
    for key, value in settings:
        env |= {f"GIT_CONFIG_KEY_{count}": key, f"GIT_CONFIG_VALUE_{count}": value}
        count += 1
    return env | {"GIT_CONFIG_COUNT": str(count)}
