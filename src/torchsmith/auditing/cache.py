"""Findings cached by content: a file is checked again only if it or something it depends on has changed.
The cache is in the user's cache folder, so that a checkout cannot bring its own."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

import torchsmith
from torchsmith.auditing.context import CheckTask, Context, FileFindings
from torchsmith.core.files import read_bytes
from torchsmith.core.process import find
from torchsmith.matrix.variant import package_name, try_read
from torchsmith.nix.cache import Fingerprints, ResultCache, key_of
from torchsmith.workspace.checkout import Repository
from torchsmith.workspace.lock import locked_nixpkgs

MIN_FILES = 50  # fewer are checked again as quickly
RELATIVE = re.compile(rb"\.{1,2}/[\w./+~-]*")


class CachedFindings(msgspec.Struct, frozen=True, array_like=True):
    """What a file's text gave away."""

    digest: str
    result: FileFindings


class CachedAudit(msgspec.Struct, frozen=True):
    """The results of an audit, and what all of them rest on."""

    basis: str
    files: dict[str, CachedFindings]


class FindingsCache:
    """The results of repositories by one choice of rules and the facts of one workspace."""

    def __init__(self, folders: Sequence[Repository], context: Context, workspace: Path | None) -> None:
        self.context = context
        choice, fingerprints = context.choice, Fingerprints()
        home = Path(torchsmith.__file__).parent
        rules = repr((choice.select, choice.ignore, choice.line, choice.strict))
        places = repr(sorted(str(folder.root.absolute()) for folder in folders))
        self._key = key_of({"folders": places, "rules": rules})
        self._basis = key_of(
            {
                "torchsmith": f"{torchsmith.__version__} {fingerprints.tree(home)}",
                "catalog": fingerprints.of(workspace / "catalog") if workspace else "",
                "nix": str(find("nix-instantiate")),
            }
        )
        self._store = ResultCache("audits")
        audit = self._store.load(self._key, CachedAudit)
        self._cached = audit.files if audit and audit.basis == self._basis else {}
        self._digests: dict[CheckTask, str] = {}
        self._contents: dict[str, tuple[bytes, Sequence[str]]] = {}

    def checked(self, task: CheckTask) -> FileFindings | None:
        """Return the cached findings of a file, if nothing has changed since."""
        cached = self._cached.get(_name(task))
        return cached.result if cached and cached.digest == self._digest(task) else None

    def keep(self, checked: Mapping[CheckTask, FileFindings]) -> None:
        """Keep what holds as long as no file changes."""
        results = {
            _name(task): CachedFindings(self._digest(task), result)
            for task, result in checked.items()
            if result.lasting
        }
        if len(results) >= MIN_FILES and _digests(results) != _digests(self._cached):
            self._store.keep(self._key, CachedAudit(self._basis, results))

    def _digest(self, task: CheckTask) -> str:
        """All that the result of a file rests on besides the rules and the catalog."""
        if task not in self._digests:
            line = self.context.lines.get(package_name(task.path))
            reading = try_read(package_name(task.path), self.context.catalog)
            right = task.path.with_name(f"{reading.variant}.nix") if reading and reading.old else None
            # Findings have the label; TS102 asks for the file of the right name.
            digest = hashlib.sha256(f"{line}\0{task.label}\0{right and right.is_file()}\0".encode())
            if task.kind == "expression":
                locked = locked_nixpkgs(task.path)
                digest.update(f"{locked}{(task.path.parent / 'flake.lock').is_file()}".encode())
            for content in self._reached(os.path.realpath(task.path)):
                digest.update(content)
            self._digests[task] = digest.hexdigest()
        return self._digests[task]

    def _reached(self, file: str) -> Iterator[bytes]:
        """The content of a file, and of what paths in it lead to, and in those."""
        waiting, seen = [file], set[str]()
        while waiting:
            place = waiting.pop()
            if place not in seen:
                seen.add(place)
                if place not in self._contents:
                    self._contents[place] = _content(place)
                content, targets = self._contents[place]
                waiting += targets
                yield content


def _content(place: str) -> tuple[bytes, Sequence[str]]:
    """Return a file's digest and the targets of paths in it; for a folder, its contents."""
    try:
        if os.path.isdir(place):
            names = "\0".join(sorted(os.listdir(place)))
            return hashlib.sha256(os.fsencode(names)).digest(), [os.path.join(place, "default.nix")]
        data = read_bytes(place)
    except OSError as error:
        return repr(error).encode(), ()
    folder, named = os.path.dirname(place), RELATIVE.findall(data) if b"./" in data else ()
    paths = {os.path.realpath(os.path.join(folder, os.fsdecode(path))) for path in named}
    return hashlib.sha256(data).digest(), sorted(paths)


def _name(task: CheckTask) -> str:
    return f"{task.kind} {task.path.absolute()}"


def _digests(results: Mapping[str, CachedFindings]) -> dict[str, str]:
    return {name: result.digest for name, result in results.items()}
