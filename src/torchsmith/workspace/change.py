"""One file before and after, why, and whose it is: what every verb that writes is made of."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from torchsmith.core.problem import Conflict, NotFound
from torchsmith.core.text import printable
from torchsmith.recipe.header import Owner

ChangeKind = Literal["keep", "create", "rewrite", "replace", "delete"]
KINDS: tuple[ChangeKind, ...] = ("keep", "create", "rewrite", "replace", "delete")
COPY = re.compile(r"\.orig\d*\Z")  # how the names of copies end
BY_NAME = (".md", ".flox/env.json", ".flox/env/manifest.toml", ".flox/.gitignore")


@dataclass(frozen=True, slots=True)
class Change:
    """What is to be done with a file. `old` is the file that a replacement removes; `skipped` marks what is
    not done because the file is somebody else's."""

    kind: ChangeKind
    path: str  # below the workspace; absolute where it lies elsewhere
    why: str = ""
    before: str | None = None
    after: str | None = None
    owner: Owner | None = None  # None: there is nothing yet
    old: str = ""
    recipe: bool = False
    skipped: bool = False
    warnings: int = 0  # of the audit, where somebody else's recipe stays

    @property
    def pending(self) -> bool:
        """Whether carrying it out changes anything."""
        return self.kind != "keep" and not self.skipped

    @property
    def files(self) -> dict[str, str | None]:
        """Texts to be written by path; None where the file goes."""
        if not self.pending:
            return {}
        return {self.path: self.after} | ({self.old: None} if self.old else {})

    def diff(self, context: int = 3) -> str:
        """As a unified diff to look at; nothing where the texts are the same or unknown."""
        if self.kind == "keep":
            return ""
        lines = difflib.unified_diff(
            (self.before or "").splitlines(keepends=True),
            (self.after or "").splitlines(keepends=True),
            f"a/{self.old or self.path}" if self.before is not None else "/dev/null",
            f"b/{self.path}" if self.after is not None else "/dev/null",
            n=context,
        )
        return printable("".join(lines), "\n\t")


@dataclass(frozen=True, slots=True)
class Adoption:
    """Which files of others may be taken over: none, the paths named, or with no path all that may not say
    more than ours would."""

    enabled: bool = False
    paths: tuple[str, ...] = ()

    @classmethod
    def of(cls, wanted: bool, paths: Sequence[Path], root: Path) -> Adoption:
        """What a person named, from here or from the workspace, as paths below the workspace. Raises Conflict
        for paths without --adopt, NotFound for one that is not in the workspace."""
        if paths and not wanted:
            hint = "add --adopt, or name no path"
            raise Conflict(f"{paths[0]}: paths say what --adopt takes over", hint=hint)
        top, inner = root.resolve(), []
        for path in paths:
            place = next(
                (candidate.resolve() for candidate in (path, root / path) if candidate.exists()), None
            )
            if place is None or not place.is_relative_to(top):
                hint = "--adopt takes files of the workspace over"
                raise NotFound(f"no such file or folder in {root}: {path}", hint=hint)
            inner.append(str(place.relative_to(top)))
        return cls(wanted, tuple(inner))

    def takes(self, path: str) -> bool:
        """Whether a file may be taken over; pages and the files of a Flox environment only by their names."""
        if not self.enabled or (path.endswith(BY_NAME) and path not in self.paths):
            return False
        return not self.paths or any(
            path == adopted or path.startswith(f"{adopted}/") or adopted == "." for adopted in self.paths
        )
