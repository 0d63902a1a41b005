"""The installed Nix: its programs, version, store and settings; an error if it is missing or too old."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from torchsmith.core.files import cache_dir, exclusive
from torchsmith.core.problem import Failed, Invalid, MissingRequirement, Problem
from torchsmith.core.process import Finished, find, run
from torchsmith.nix.errors import shorten

STATE = Path("/nix/var/nix")
STORE_VARIABLES = ("NIX_REMOTE", "NIX_STORE_DIR", "NIX_STATE_DIR")
CONFIG_RENAMED = (2, 20)  # `nix show-config` became `nix config show`
USUAL_FEATURES = frozenset(("benchmark", "big-parallel", "nixos-test"))
OLDEST_VERSION = (2, 4)  # the first with --log-format and the experimental `nix` commands


@dataclass(frozen=True)
class Nix:
    """One installed Nix and the store that it is used with."""

    program: Path  # nix-instantiate; its siblings are in the same folder
    version: tuple[int, ...]
    store: str = ""  # empty: Nix' own choice
    env: Mapping[str, str] = field(default_factory=dict)  # added to the environment, for tests

    @property
    def version_text(self) -> str:
        return ".".join(map(str, self.version))

    @property
    def current_system(self) -> str:
        return f"{os.uname().machine}-{os.uname().sysname.lower()}"

    @property
    def store_settings(self) -> dict[str, str]:
        """What says which store it works with; the daemon's is the same as without it."""
        environment = self.environment()
        settings = {"store": self.store} | {name: environment.get(name, "") for name in STORE_VARIABLES}
        return {name: "" if value == "daemon" else value for name, value in settings.items()}

    def store_file(self, path: str) -> Path:
        """Where a path of the store is on this machine's disk."""
        below = re.match(r"local\?root=([^&]+)", self.store or self.environment().get("NIX_REMOTE", ""))
        return Path(below[1] if below else "/") / path.lstrip("/")

    def command(self, name: str, *arguments: str | os.PathLike[str]) -> list[str]:
        """A Nix command with the store in its place."""
        store = ["--store", self.store] if self.store else []
        return [str(self.program.with_name(name)), *store, *(os.fspath(word) for word in arguments)]

    def nix(self, *arguments: str | os.PathLike[str]) -> list[str]:
        """A command of the newer `nix` program, which still counts as experimental."""
        return self.command("nix", "--extra-experimental-features", "nix-command", *arguments)

    def environment(self) -> dict[str, str]:
        """Ours without what would steer an evaluation from outside."""
        ours = {
            name: value for name, value in os.environ.items() if name not in ("NIX_PATH", "NIXPKGS_CONFIG")
        }
        return {**ours, **self.env}

    def make_store(self) -> None:
        """Initialise a store that was never used: processes that do so at the same time fail."""
        state = Path(self.environment().get("NIX_STATE_DIR") or self.store_file("/nix/var/nix"))
        laid_out = state / "gcroots/profiles"  # the last thing that Nix makes
        if os.path.lexists(laid_out):
            return
        with exclusive(cache_dir() / "new-store.lock", what="the Nix store", wait_seconds=60):
            if not os.path.lexists(laid_out):
                self.run(self.command("nix-store", "--init"), timeout=60)

    def run(self, argv: Sequence[str], *, timeout: float | None = None) -> Finished:
        return run(argv, env=self.environment(), timeout=timeout)

    def show_config(self, timeout: float) -> Finished:
        """All of its settings as JSON."""
        command = ("config", "show") if self.version >= CONFIG_RENAMED else ("show-config",)
        return self.run(self.nix(*command, "--json"), timeout=timeout)

    def ask(self, argv: Sequence[str], failing: str) -> Finished:
        """Run a command that must succeed. Raises Failed: what is `failing`, and why."""
        done = self.run(argv)
        if not done.ok:
            raise Failed(f"{failing}: {shorten(done.stderr).message}")
        return done


def find_nix() -> Nix:
    """The Nix on PATH. Raises MissingRequirement if it is missing or too old."""
    program = find("nix-instantiate")
    if program is None:
        hint = "install it (Debian: apt-get install nix-bin), or use what works without: audit, list, show"
        raise MissingRequirement("Nix is not installed, and this needs it", hint=hint)
    version = _version(program, program.stat().st_mtime_ns)
    if version < OLDEST_VERSION:
        hint = f"{'.'.join(map(str, OLDEST_VERSION))} or newer is needed"
        raise MissingRequirement(f"Nix {'.'.join(map(str, version))} is too old", hint=hint)
    return Nix(program, version, _usable_store())


def stored(path: str | os.PathLike[str]) -> Path:
    """Where a path of the store, or what a result link leads to, is on disk: in a store of torchsmith's own
    it has the name of one in the machine's."""
    place = Path(path)
    if place.exists():
        return place
    try:
        nix = find_nix()
    except Problem:
        return place
    inside = nix.store_file(os.fspath(place.readlink() if place.is_symlink() else place))
    return inside if nix.store and inside.exists() else place


def in_own_store(path: Path) -> bool:
    """Whether a build is in a store of torchsmith's own; when it runs, it looks for its parts in the
    machine's."""
    return path.resolve().is_relative_to(cache_dir().resolve() / "store/nix/store")


@cache
def _version(program: Path, _changed: int) -> tuple[int, ...]:
    """The version of a program, asked once until the file changes."""
    done = run([program, "--version"], timeout=30)
    return parse_version(done.stdout or done.stderr)


def parse_version(text: str) -> tuple[int, ...]:
    """The version in `nix-instantiate (Nix) 2.26.3`, or in the words of Lix and Determinate."""
    match = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    if match is None:
        raise MissingRequirement(f"cannot read the version of Nix from {text.strip()!r}")
    return tuple(int(part) for part in match.groups() if part is not None)


def _usable_store() -> str:
    """Nix' own store if this user may write to it, else one of ours with the same paths."""
    if any(os.environ.get(name) for name in ("NIX_REMOTE", "NIX_STORE_DIR")):
        return ""
    # Debian shows the daemon's socket to a group alone; others cannot use it either.
    if os.access(STATE / "db", os.W_OK) or os.access(STATE / "daemon-socket/socket", os.W_OK):
        return ""
    return f"local?root={cache_dir() / 'store'}"


@dataclass(frozen=True, slots=True)
class BuildSettings:
    """What Nix's settings say of builds: what can be built here, and the other builders."""

    systems: frozenset[str]
    features: frozenset[str] = USUAL_FEATURES
    builders: str = "@/etc/nix/machines"


def settings_of(nix: Nix) -> BuildSettings:
    """Nix's settings for builds; its defaults if it does not report them."""
    default = BuildSettings(frozenset((nix.current_system,)))
    try:
        settings = read_settings(nix.show_config(30).stdout)
    except msgspec.DecodeError:
        return default
    return BuildSettings(
        systems=default.systems.union(settings.get("extra-platforms", ())),
        features=frozenset(settings.get("system-features") or USUAL_FEATURES),
        builders=str(settings.get("builders", default.builders)),
    )


def read_settings(text: str) -> dict[str, Any]:
    """The values in what `show_config` prints, by name. Raises msgspec.DecodeError."""
    settings = msgspec.json.decode(text, type=dict[str, Any])
    return {name: entry.get("value") for name, entry in settings.items() if isinstance(entry, dict)}


def canonical_text(path: Path) -> str | None:
    """A file as Nix prints it after parsing, for text that our grammar does not understand; None without Nix.
    The text means the same, but its positions are not the file's. Raises Invalid if Nix refuses it too."""
    try:
        nix = find_nix()
    except Problem:
        return None
    done = nix.run(nix.command("nix-instantiate", "--parse", path), timeout=60)
    if done.ok:
        return done.stdout
    cause = shorten(done.stderr)
    raise Invalid(f"not valid Nix: {cause.message}", where=cause.where)
