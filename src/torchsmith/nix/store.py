"""The store: what would be built or fetched, how to realise derivations, and copying to binary caches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from torchsmith.core.files import read_text
from torchsmith.core.problem import Invalid
from torchsmith.core.process import run
from torchsmith.nix.tool import Nix

_UNITS = {"KiB": 1 / 1024, "MiB": 1.0, "GiB": 1024.0}


@dataclass(frozen=True, slots=True)
class DryRun:
    """What realising some derivations would take."""

    build: frozenset[str]  # derivations
    fetch: frozenset[str]  # store paths
    download_mib: float = 0.0


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """How realising is to be done, beyond the user's own nix.conf."""

    caches: tuple[str, ...] = ()
    public_keys: tuple[str, ...] = ()
    builders: str = ""  # Nix's list of machines, in place of that in nix.conf
    max_jobs: int | None = None  # builds on this machine
    extra: tuple[tuple[str, str], ...] = ()

    def arguments(self) -> list[str]:
        """As command line options."""
        chosen: list[tuple[str, str]] = list(self.extra)
        if self.caches:
            chosen.append(("extra-substituters", " ".join(self.caches)))
        if self.public_keys:
            chosen.append(("extra-trusted-public-keys", " ".join(self.public_keys)))
        chosen += [("builders", self.builders), ("builders-use-substitutes", "true")]
        if self.max_jobs is not None:
            chosen.append(("max-jobs", str(self.max_jobs)))
        return [argument for name, value in chosen for argument in ("--option", name, value)]


def read_dry_run(text: str) -> DryRun:
    """The output of `nix-store --realise --dry-run`."""
    build: set[str] = set()
    fetch: set[str] = set()
    download = 0.0
    into: set[str] | None = None
    for line in text.splitlines():
        if re.match(r"(this|these)( \d+)? derivations? will be built:", line):
            into = build
        elif re.match(r"(this|these)( \d+)? paths? will be fetched", line):
            into = fetch
            if size := re.search(r"([\d.]+) (KiB|MiB|GiB) download", line):
                download = float(size[1]) * _UNITS[size[2]]
        elif line.startswith("  /") and into is not None:
            into.add(line.strip())
        elif line.strip():  # such as paths that it does not know how to build
            into = None
    return DryRun(frozenset(build), frozenset(fetch), download)


def dry_run(nix: Nix, derivations: Sequence[str], options: StoreOptions) -> DryRun:
    """Ask Nix what it would build and fetch."""
    if not derivations:
        return DryRun(frozenset(), frozenset())
    plan = nix.command("nix-store", "--realise", "--dry-run", *options.arguments(), *derivations)
    return read_dry_run(nix.ask(plan, "Nix cannot plan the build").stderr)


def realise_command(
    nix: Nix,
    derivations: Sequence[str],
    options: StoreOptions,
    *,
    cores: int | None = None,
    root: Path | None = None,
    keep_going: bool = False,
) -> list[str]:
    """Build derivations, with a link that keeps the result from being collected."""
    arguments = ["--realise", "--log-format", "internal-json", "-v", *options.arguments()]
    if cores is not None:
        arguments += ["--option", "cores", str(cores)]
    if keep_going:
        arguments.append("--keep-going")
    if root is not None:
        arguments += ["--add-root", str(root)]
    return nix.command("nix-store", *arguments, *derivations)


def valid_paths(nix: Nix, paths: Iterable[str]) -> set[str]:
    """Those of the paths that are in the store."""
    wanted = list(paths)
    if not wanted:
        return set()
    # If it fails, nothing is known of any path.
    query = nix.command("nix-store", "--check-validity", "--print-invalid", *wanted)
    return set(wanted) - set(nix.ask(query, "Nix cannot say what is in its store").stdout.split())


def damaged_paths(nix: Nix, paths: Sequence[str]) -> list[str]:
    """Those of the paths that the store has not, or not as they were built: all of each is read."""
    return [path for path in paths if not nix.run(nix.command("nix-store", "--verify-path", path)).ok]


def deriver(nix: Nix, path: str) -> str:
    """The derivation that the store knows for a path; empty if it knows none."""
    done = nix.run(nix.command("nix-store", "--query", "--deriver", path))
    found = done.stdout.strip()
    return found if done.ok and found.endswith(".drv") else ""


def cache_address(cache: str, secret_key: Path | None) -> str:
    """A binary cache as `nix copy --to` takes it, which signs if a key is given."""
    if secret_key is None:
        return cache
    return f"{cache}{'&' if '?' in cache else '?'}secret-key={secret_key}"


def public_key(nix: Nix, secret_key: Path) -> str:
    """The public half of a signing key. Raises CannotRead, Invalid."""
    secret = read_text(secret_key)
    done = run(nix.nix("key", "convert-secret-to-public"), env=nix.environment(), stdin=secret)
    if not done.ok:
        hint = "nix-store --generate-binary-cache-key"
        raise Invalid(f"{secret_key} is not a signing key of Nix", hint=hint)
    return done.stdout.strip()
