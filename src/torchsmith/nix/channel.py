"""The newest nixpkgs of a channel: its revision from a git server, its files downloaded into the store."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE, STDOUT
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from torchsmith.core.git import git
from torchsmith.core.problem import Conflict, Invalid, MissingRequirement, NotFound
from torchsmith.core.process import ChildProcess
from torchsmith.nix.errors import cause_of, parse_event
from torchsmith.nix.hashes import to_sri
from torchsmith.nix.tool import Nix

CHANNEL = "nixos-unstable"
GIT_REMOTE = "https://github.com/NixOS/nixpkgs"
ARCHIVE = "https://github.com/NixOS/nixpkgs/archive/{rev}.tar.gz"
REVISION = re.compile(r"[0-9a-f]{40}")
CHANNEL_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z._/-]*")
CONNECT_SECONDS = 3.0  # without a network the answer must come within five
ANSWER_SECONDS = 60.0  # for the list of a server's branches
STALLED_SECONDS = 30  # without a byte
PORTS = {"http": 80, "https": 443, "ssh": 22}
OFFLINE = "--rev REV --nixpkgs TREE takes a tree that you have; [sources] of torchsmith.toml names a mirror"
PROGRESS = 105  # the type of Nix's progress events: bytes done, bytes expected
STORE_PATH = re.compile(r"(/\S*/[0-9a-z]{32}-source)\s*$", re.MULTILINE)
BASE32 = re.compile(r"^([0-9a-z]{52})\s*$", re.MULTILINE)

Downloaded = Callable[[int, int], None]  # bytes done, and bytes expected or 0


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
    check_reachable(remote)
    asked = git(
        Path("/"), "ls-remote", "--heads", "--", remote, f"refs/heads/{channel}", timeout=ANSWER_SECONDS
    )
    if not asked.ok:
        raise MissingRequirement(f"{remote} does not answer: {asked.line}", hint=OFFLINE)
    rev = asked.stdout.split("\t", 1)[0].strip()
    if not REVISION.fullmatch(rev):
        raise NotFound(f"{remote} has no channel {channel}", hint=f"such as {CHANNEL}")
    return rev


def check_reachable(address: str, hint: str = OFFLINE) -> None:
    """Raise MissingRequirement within seconds if neither an address nor its proxy accepts a connection."""
    url = urlsplit(address)
    proxy = {} if url.hostname and proxy_bypass(url.hostname) else getproxies()
    through = urlsplit(proxy.get(url.scheme) or proxy.get("all") or address)
    if not through.hostname or through.scheme not in PORTS:
        return  # a path of this machine, or a protocol that git knows better
    errors: list[Exception | None] = []

    def connect() -> None:
        try:
            place = (through.hostname, through.port or PORTS[through.scheme])
            with closing(socket.create_connection(place, timeout=CONNECT_SECONDS)):
                errors.append(None)
        except (OSError, ValueError) as error:
            errors.append(error)

    # The search for a name has no limit of its own.
    asking = threading.Thread(target=connect, daemon=True)
    asking.start()
    asking.join(CONNECT_SECONDS)
    error = errors[0] if errors else TimeoutError("no answer")
    if error is not None:
        what = getattr(error, "strerror", None) or error
        raise MissingRequirement(f"{through.hostname} cannot be reached: {what}", hint=hint) from error


def download(
    nix: Nix,
    rev: str,
    *,
    archive: str = ARCHIVE,
    sha256: str = "",
    progress: Downloaded = lambda done, expected: None,
) -> Tree:
    """The files of a revision, by the same store path as a `fetchTarball` of them has.

    The first download of a revision is trusted; with `sha256`, other files are refused. Raises
    MissingRequirement if it cannot be downloaded, and Conflict if it is not what the hash says."""
    if not REVISION.fullmatch(rev):
        raise Invalid(f"{rev!r} is not a whole revision", hint="40 hexadecimal digits")
    url = archive.replace("{rev}", rev)
    check_reachable(url)
    options = [
        "--unpack",
        "--name",
        "source",
        "--print-path",
        "--type",
        "sha256",
        "--log-format",
        "internal-json",
    ]
    limits = {
        "connect-timeout": "5",
        "download-attempts": "2",
        "stalled-download-timeout": str(STALLED_SECONDS),
    }
    chosen = [word for name, value in limits.items() for word in ("--option", name, value)]
    command = nix.command("nix-prefetch-url", *options, *chosen, url)
    lines: list[str] = []
    errors: list[str] = []
    with ChildProcess(command, env=nix.environment(), stdout=PIPE, stderr=STDOUT) as running:
        for line in running.lines(1.0):
            event = parse_event(line) if line is not None else None
            if event is None:
                lines += [line] if line is not None else []
            elif event.get("type") == PROGRESS:
                _report(event.get("fields"), progress)
            elif event.get("action") == "msg" and event.get("level") == 0:
                errors.append(cause_of(event).message)
        code = running.wait()
    text = "\n".join(lines)
    path, digest = STORE_PATH.search(text), BASE32.search(text)
    if code or path is None or digest is None:
        why = errors[-1] if errors else next((line for line in reversed(lines) if line.strip()), "no answer")
        raise MissingRequirement(f"{url} cannot be downloaded: {why.removeprefix('error: ')}", hint=OFFLINE)
    found = to_sri(digest[1])
    if sha256 and found != to_sri(sha256):
        message = f"{url} is not what it was: sha256 {found}, and {to_sri(sha256)} is recorded"
        raise Conflict(message, hint="the recorded hash stays; find out which of the two is right")
    return Tree(rev, found, nix.store_file(path[1]))


def _report(fields: Any, progress: Downloaded) -> None:
    if isinstance(fields, list) and len(fields) > 1 and all(isinstance(number, int) for number in fields[:2]):
        progress(fields[0], fields[1])
