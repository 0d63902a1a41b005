"""The one way to start git: the settings of a checkout run no program.

A checkout may come from anybody, and its .git/config can name programs that git would start: a file monitor,
hooks, filters, helpers for diffs, signatures and passwords. What the user's own configuration says of them
holds; what the checkout says does not.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from torchsmith.core.problem import Invalid
from torchsmith.core.process import Finished, run

TIMEOUT_SECONDS = 300.0
Setting = tuple[str, str]
REMOTE = frozenset(("fetch", "ls-remote", "push"))
PROTOCOLS = "file:http:https:ssh"  # neither ext:: nor git://, which start programs that the settings name
# These start nothing by themselves but what `ALWAYS` switches off.
PLAIN = frozenset(
    (
        *("check-ignore", "commit-tree", "config", "index-pack", "init", "ls-files", "ls-tree"),
        *("merge-base", "pack-objects", "read-tree", "remote", "rev-list", "rev-parse", "symbolic-ref"),
        *("var", "write-tree"),
    )
)
WITHOUT = {
    "diff": ("--no-ext-diff", "--no-textconv", "--ignore-submodules=all"),
    "log": ("--no-ext-diff", "--no-textconv"),
    "fetch": ("--upload-pack=git-upload-pack", "--recurse-submodules=no"),
    "push": ("--receive-pack=git-receive-pack", "--recurse-submodules=no"),
    "ls-remote": ("--upload-pack=git-upload-pack",),
    "status": ("--ignore-submodules=all",),  # git would ask each of them, under its own settings
}
ALWAYS = (
    ("core.fsmonitor", "false"),
    ("core.hooksPath", os.devnull),
    ("log.showSignature", "false"),
    ("safe.bareRepository", "explicit"),  # a folder of the checkout that looks like a repository is none
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
)
# Settings of a checkout that name programs, and what stands in their place where the user has no own.
NEUTRAL = (
    (r"filter\..*\.(clean|smudge|process)", ""),
    (r"filter\..*\.required", "false"),
    (r"core\.sshcommand", "ssh"),
    (r"core\.askpass", ""),
    (r"gpg\.(openpgp\.)?program", "gpg"),
    (r"gpg\.x509\.program", "gpgsm"),
    (r"gpg\.ssh\.program", "ssh-keygen"),
    (r"gpg\.ssh\.defaultkeycommand", "false"),
)
# By which a checkout in CI has access to its remote; taken only if the user says so.
CREDENTIALS = r"http\.(.*\.)?extraheader|credential\..*|core\.sshcommand"
# What `git rev-parse --local-env-vars` lists, without GIT_CONFIG_COUNT and GIT_CONFIG_PARAMETERS, which are
# the user's own settings: these name another repository than the one that git is to run in.
LOCAL_VARIABLES = (
    *("GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_CONFIG", "GIT_DIR", "GIT_GRAFT_FILE"),
    *("GIT_IMPLICIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_INTERNAL_SUPER_PREFIX", "GIT_NO_REPLACE_OBJECTS"),
    *("GIT_OBJECT_DIRECTORY", "GIT_PREFIX", "GIT_REPLACE_REF_BASE", "GIT_SHALLOW_FILE", "GIT_WORK_TREE"),
)
HELPER = r"credential\.(.*\.)?helper"


def git(
    repo: Path,
    *args: str,
    stdin: str | None = None,
    settings: Iterable[Setting] = (),
    env: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT_SECONDS,
) -> Finished:
    """Run git in a folder; how it ended is for the caller to judge. `args` begin with the command."""
    command, *rest = args
    safe = list(ALWAYS)
    if command not in PLAIN:
        safe += harmless(_configured(repo, timeout))
    argv = ["git", "-C", str(repo), "--no-pager", command, *WITHOUT.get(command, ()), *rest]
    protocols = PROTOCOLS if command in REMOTE else "none"
    quiet = {"GIT_ALLOW_PROTOCOL": protocols, "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"}
    quiet |= {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_GRAFT_FILE": os.devnull}  # objects as they are named
    return run(
        argv,
        timeout=timeout,
        stdin=stdin,
        names=True,
        env=environment([*settings, *safe]) | quiet | dict(env or {}),
    )


def harmless(configured: Iterable[tuple[str, str, str]]) -> Iterator[Setting]:
    """Settings that take the place of those of a checkout; `configured` are scope, key and value."""
    own: list[Setting] = []
    theirs: dict[str, None] = {}
    for scope, key, value in configured:
        if scope in ("local", "worktree"):
            theirs[key] = None
        else:
            own.append((key, value))
    mine = dict(own)
    for key in theirs:
        for pattern, neutral in NEUTRAL:
            if re.fullmatch(pattern, key, re.DOTALL):
                yield key, mine.get(key, neutral)
    if any(re.fullmatch(HELPER, key, re.DOTALL) for key in theirs):
        yield "credential.helper", ""  # forgets every helper so far
        yield from (pair for pair in own if re.fullmatch(HELPER, pair[0], re.DOTALL))


def _configured(repo: Path, timeout: float) -> Iterator[tuple[str, str, str]]:
    """Every setting that git would use here: its scope, key and value; includes are followed."""
    listing = run(
        ["git", "-C", repo, "config", "--list", "--show-scope", "-z"],
        timeout=timeout,
        names=True,
        env=environment(),
    ).stdout
    parts = listing.split("\0")
    for scope, entry in zip(parts[::2], parts[1::2], strict=False):
        key, _, value = entry.partition("\n")
        yield scope, key, value


def checkout_credentials(repo: Path) -> list[Setting]:
    """The settings by which a checkout itself has access to its remote."""
    found = _configured(repo, TIMEOUT_SECONDS)
    own = [(key, value) for scope, key, value in found if scope in ("local", "worktree")]
    return [pair for pair in own if re.fullmatch(CREDENTIALS, pair[0], re.DOTALL)]


def environment(settings: Iterable[Setting] = ()) -> dict[str, str]:
    """The user's environment for git in any repository, with settings that override what files say."""
    env = {name: value for name, value in os.environ.items() if name not in LOCAL_VARIABLES}
    text = env.get("GIT_CONFIG_COUNT") or "0"
    if not text.isdecimal():
        raise Invalid(f"GIT_CONFIG_COUNT is {text!r} and not a number", hint="unset GIT_CONFIG_COUNT")
    count = int(text)
    for key, value in settings:
        env |= {f"GIT_CONFIG_KEY_{count}": key, f"GIT_CONFIG_VALUE_{count}": value}
        count += 1
    return env | {"GIT_CONFIG_COUNT": str(count)}
