"""The newest nixpkgs of a channel: its revision from a git server, its files downloaded into the store."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from torchsmith.core.git import git
from torchsmith.core.problem import Conflict, Invalid, MissingRequirement, NotFound
from torchsmith.core.process import run
from torchsmith.nix.errors import error_in
from torchsmith.nix.fetch import ARCHIVE
from torchsmith.nix.hashes import to_sri
from torchsmith.nix.tool import Nix

CHANNEL = "nixos-unstable"
GIT_REMOTE = "https://github.com/NixOS/nixpkgs"
REVISION = re.compile(r"[0-9a-f]{40}")
CHANNEL_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z._/-]*")
ANSWER_SECONDS = 15.0  # for the list of a server's branches
# Without a network the answer comes within seconds; a slow server is waited for.
LIMITS = {"connect-timeout": "5", "download-attempts": "2", "stalled-download-timeout": "30"}
OFFLINE = "--rev REV --nixpkgs TREE takes a tree that you have; [sources] of torchsmith.toml names a mirror"


@dataclass(frozen=True, slots=True)
class Tree:
    """The files of nixpkgs at a revision, in the store, and the hash that a recipe states of them."""

    rev: str
    sha256: str
    path: Path


def head_of(channel: str, remote: str = GIT_REMOTE) -> str:
    """The revision that a channel is at now. Raises MissingRequirement if the server cannot be reached, and
    NotFound if it has no such channel."""
    if not CHANNEL_NAME.fullmatch(channel) or ".." in channel:
        raise Invalid(f"{channel!r} is not the name of a channel", hint=f"such as {CHANNEL}")
    asked = git(
        Path("/"), "ls-remote", "--heads", "--", remote, f"refs/heads/{channel}", timeout=ANSWER_SECONDS
    )
    if not asked.ok:
        why = (asked.stderr.strip().splitlines() or ["no answer"])[-1].removeprefix("fatal: ")
        raise MissingRequirement(f"{remote} cannot be reached: {why}", hint=OFFLINE)
    rev = asked.stdout.split("\t", 1)[0].strip()
    if not REVISION.fullmatch(rev):
        raise NotFound(f"{remote} has no channel {channel}", hint=f"such as {CHANNEL}")
    return rev


def download(nix: Nix, rev: str, *, archive: str = ARCHIVE, sha256: str = "") -> Tree:
    """The files of a revision, by the same store path as a `fetchTarball` of them has.

    The first download of a revision is trusted; with `sha256`, other files are refused. Raises
    MissingRequirement if it cannot be downloaded, and Conflict if it is not what the hash says."""
    if not REVISION.fullmatch(rev):
        raise Invalid(f"{rev!r} is not a full revision", hint="40 hexadecimal digits")
    url = archive.replace("{rev}", rev)
    options = ("--unpack", "--name", "source", "--print-path", "--type", "sha256")
    log = ("--log-format", "internal-json")
    chosen = (word for name, value in LIMITS.items() for word in ("--option", name, value))
    command = nix.command("nix-prefetch-url", *options, *log, *chosen, url)
    done = run(command, env=nix.environment(), ends_with_us=True)
    if not done.ok:
        raise MissingRequirement(f"nixpkgs {rev[:12]}: {error_in(done.stderr).message}", hint=OFFLINE)
    digest, path = done.stdout.split()
    found = to_sri(digest)
    if sha256 and found != to_sri(sha256):
        message = f"{url} is not what it was: sha256 {found}, and {to_sri(sha256)} is recorded"
        raise Conflict(message, hint="the recorded hash stays; find out which of the two is right")
    return Tree(rev, found, nix.store_file(path))
