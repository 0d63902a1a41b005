"""The newest nixpkgs of a channel: its revision from a git server, its files downloaded into the store."""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from torchsmith.core.git import git
from torchsmith.core.problem import Conflict, Invalid, MissingRequirement, NotFound
from torchsmith.core.process import run
from torchsmith.nix.errors import shorten
from torchsmith.nix.hashes import to_sri
from torchsmith.nix.tool import Nix

CHANNEL = "nixos-unstable"
GIT_REMOTE = "https://github.com/NixOS/nixpkgs"
ARCHIVE = "https://github.com/NixOS/nixpkgs/archive/{rev}.tar.gz"
REVISION = re.compile(r"[0-9a-f]{40}")
CHANNEL_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z._/-]*")
ANSWER_SECONDS = 30.0  # for the list of a server's branches
CONNECT_SECONDS = 3.0
PORTS = {"https": 443, "http": 80, "ssh": 22, "git": 9418}
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
    rewritten = git(Path("/"), "ls-remote", "--get-url", "--", remote)
    if not git(Path("/"), "config", "--get-urlmatch", "http.proxy", remote).ok:
        check_connects(rewritten.stdout.strip() or remote)
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


def check_connects(address: str, hint: str = OFFLINE) -> None:
    """Raise MissingRequirement if the server of an address takes no connection within seconds: behind a
    firewall that drops packets, programs wait much longer."""
    parts = urlsplit(address)
    host, port = parts.hostname, parts.port or PORTS.get(parts.scheme)
    if not host or not port or (parts.scheme in getproxies() and not proxy_bypass(host)):
        return
    why = "it has no address"
    try:
        places = {info[0]: info for info in reversed(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))}
    except OSError as error:
        places, why = {}, error.strerror or str(error)
    for family, kind, protocol, _, place in places.values():  # one for IPv4, one for IPv6
        with socket.socket(family, kind, protocol) as connection:
            connection.settimeout(CONNECT_SECONDS / len(places))
            try:
                connection.connect(place)
            except TimeoutError:
                why = f"no answer in {CONNECT_SECONDS:.0f} s"
            except OSError as error:
                why = error.strerror or str(error)
            else:
                return
    raise MissingRequirement(f"{address} cannot be reached: {why}", hint=hint)


def download(nix: Nix, rev: str, *, archive: str = ARCHIVE, sha256: str = "") -> Tree:
    """The files of a revision, by the same store path as a `fetchTarball` of them has.

    The first download of a revision is trusted; with `sha256`, other files are refused. Raises
    MissingRequirement if it cannot be downloaded, and Conflict if it is not what the hash says."""
    if not REVISION.fullmatch(rev):
        raise Invalid(f"{rev!r} is not a whole revision", hint="40 hexadecimal digits")
    url = archive.replace("{rev}", rev)
    options = ("--unpack", "--name", "source", "--print-path", "--type", "sha256")
    chosen = (word for name, value in LIMITS.items() for word in ("--option", name, value))
    command = nix.command("nix-prefetch-url", *options, *chosen, url)
    done = run(command, env=nix.environment(), ends_with_us=True)
    if not done.ok:
        why = shorten(done.stderr).message
        raise MissingRequirement(f"{url} cannot be downloaded: {why}", hint=OFFLINE)
    digest, path = done.stdout.split()
    found = to_sri(digest)
    if sha256 and found != to_sri(sha256):
        message = f"{url} is not what it was: sha256 {found}, and {to_sri(sha256)} is recorded"
        raise Conflict(message, hint="the recorded hash stays; find out which of the two is right")
    return Tree(rev, found, nix.store_file(path))
