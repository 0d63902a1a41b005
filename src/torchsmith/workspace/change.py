"""A change of one file: its text before and after, the reason, and the owner."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from torchsmith.core.problem import NotFound, Refused
from torchsmith.core.text import printable
from torchsmith.recipe.header import Owner

ChangeKind = Literal["keep", "create", "rewrite", "replace", "delete"]
KINDS: tuple[ChangeKind, ...] = ("keep", "create", "rewrite", "replace", "delete")
Phase = Literal["clean up", "GPU on x86", "GPU on ARM", "macOS", "CPU only", "everything else"]
PHASES: tuple[Phase, ...] = get_args(Phase)
ReasonCode = Literal[
    "",
    "missing",
    "up-to-date",
    "text",  # the generated text differs
    "line",  # it is of another release line now
    "nixpkgs",  # its line has another nixpkgs now
    "unmanaged",  # torchsmith did not write it
    "edited",
    "not-text",  # a link, a folder, or bytes
    "valid",  # not managed by torchsmith, and without errors
    "broken",
    "stand-in",  # another flavor of the cell
    "old-name",
    "same-package",
    "redundant",
    "not-wanted",  # no longer in torchsmith.toml
    "not-wanted-broken",
    "not-wanted-valid",
    "imported",  # a library of recipes
    "impossible",  # torchsmith cannot generate it
]
COPY = re.compile(r"\.orig\d*\Z")  # how the names of copies end
BY_NAME = (".md", ".flox/env.json", ".flox/env/manifest.toml", ".flox/.gitignore")
MAX_ERRORS = 3  # of a broken recipe, in its reason
ALL = "all"  # what --adopt calls everything that a plan skips


@dataclass(frozen=True, slots=True)
class Change:
    """What is to be done with a file. `old` is the file that a replacement removes; `skipped` marks what is
    not done because torchsmith does not manage the file."""

    kind: ChangeKind
    path: str  # below the workspace; absolute if it is elsewhere
    why: str = ""
    before: str | None = None  # the text of the file, and null for a file that is kept
    after: str | None = None  # null: the file is deleted or kept
    owner: Owner | None = None  # null: there is no file yet
    old: str = ""
    recipe: bool = False
    skipped: bool = False
    warnings: int = 0  # of the audit, for a recipe that is kept
    differs: tuple[str, ...] = ()  # in what a recipe that is kept differs from its line: nixpkgs, torch
    rules: tuple[str, ...] = ()  # of the audit, that a broken recipe violates
    errors: tuple[str, ...] = ()  # of the audit, that make a recipe broken
    fixable: bool = False  # each of these has a safe fix
    code: ReasonCode = ""  # of the reason
    phase: Phase = "everything else"

    @property
    def pending(self) -> bool:
        """Whether the file would change."""
        return self.kind != "keep" and not self.skipped

    @property
    def generated(self) -> bool:
        """Whether the file has torchsmith's text, or would get it."""
        return self.code == "up-to-date" or (self.pending and self.after is not None)

    @property
    def files(self) -> dict[str, str | None]:
        """Texts to write by path; None deletes the file."""
        if not self.pending:
            return {}
        return {self.path: self.after} | ({self.old: None} if self.old else {})

    @property
    def reason(self) -> str:
        """Why, with the first errors of the audit."""
        more = len(self.errors) - MAX_ERRORS
        listed = "; ".join(self.errors[:MAX_ERRORS]) + (f", and {more} more" if more > 0 else "")
        return f"{self.why}: {listed}" if listed else self.why

    def diff(self, context: int = 3) -> str:
        """A unified diff; empty for a file that is kept."""
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
    """Which files that torchsmith does not manage may be taken over: everything that a plan skips, or what is
    at or below the paths."""

    skipped: bool = False
    paths: tuple[str, ...] = ()

    @classmethod
    def of(cls, words: Sequence[str], root: Path) -> Adoption:
        """The values of --adopt, with paths made relative to the workspace. Raises NotFound for a path that
        is not in the workspace, Refused for a link."""
        top, inner = root.resolve(), []
        for word in words:
            if word == ALL:
                continue
            places = (Path(word), root / word)
            if link := next((path for path in places if path.is_symlink() and not path.is_dir()), None):
                raise Refused(f"{link} is a link: replace it yourself")
            candidates = [path.resolve() for path in places if path.exists()]
            place = next((path for path in candidates if path.is_relative_to(top)), None)
            if place is None:
                hint = f"--adopt takes files and folders of the workspace, or {ALL}"
                raise NotFound(f"no such file or folder in {root}: {word}", hint=hint)
            inner.append(str(place.relative_to(top)))
        return cls(ALL in words, tuple(inner))

    def names(self, path: str) -> bool:
        """Whether a path names a file, or a folder that contains it; pages and the files of a Flox
        environment are taken over only by their own names."""
        if path in self.paths or path.endswith(BY_NAME):
            return path in self.paths
        return any(folder == "." or path.startswith(f"{folder}/") for folder in self.paths)

    def takes(self, path: str) -> bool:
        """Whether a file that a plan would skip may be taken over."""
        return self.names(path) or (self.skipped and not path.endswith(BY_NAME))
