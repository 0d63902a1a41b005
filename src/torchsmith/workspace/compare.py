"""What lies there against what should: each file kept, created, updated, deleted, or left to its owner."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from torchsmith.edge.files import inside
from torchsmith.edge.problem import Problem
from torchsmith.recipe.header import owner_of, read_header
from torchsmith.workspace.checkout import PKGS, SHARED
from torchsmith.workspace.wanted import WantedFile, WantedRepo

Kind = Literal["keep", "create", "update", "delete", "adopt", "blocked"]
# Folders of a repo in which a file with our header is ours to delete when it is wanted no more.
MANAGED = (PKGS, SHARED, "docs", "")


@dataclass(frozen=True, slots=True)
class Change:
    """One file: what is to be done with it, why, and its text before and after."""

    kind: Kind
    path: str
    why: str = ""
    before: str | None = None
    after: str | None = None


def compare(
    root: Path, repos: Sequence[WantedRepo], *, adopt: bool = False, prune: bool = True
) -> list[Change]:
    """The changes that make a workspace what it should be, in the order of its files."""
    changes = []
    for repo in repos:
        _stay_inside(root, repo)
        changes += [_change(root, file, adopt=adopt) for file in repo.files]
        if prune:
            changes += _stale(root, repo)
    return changes


def _stay_inside(root: Path, repo: WantedRepo) -> None:
    for folder in sorted({str(Path(file.path).parent) for file in repo.files}):
        inside(root, folder)


def _change(root: Path, file: WantedFile, *, adopt: bool) -> Change:
    path = root / file.path
    if path.is_symlink():
        return Change("blocked", file.path, "it is a link, which is not ours")
    try:
        before = path.read_bytes().decode()
    except FileNotFoundError:
        return Change("create", file.path, after=file.text)
    except IsADirectoryError:
        return Change("blocked", file.path, "it is a folder")
    except UnicodeDecodeError:
        return Change("blocked", file.path, "it is not text")
    except OSError as error:
        raise Problem(f"cannot read {path}: {error.strerror}") from error
    if before == file.text:
        return Change("keep", file.path)
    owner = owner_of(before)
    if owner == "ours":
        return Change("update", file.path, _what_changed(before, file.text), before, file.text)
    why = "it was edited by hand" if owner == "edited" else "torchsmith did not write it"
    if adopt:
        return Change("adopt", file.path, why, before, file.text)
    return Change("blocked", file.path, f"{why}; --adopt takes it over", before, file.text)


def _what_changed(before: str, after: str) -> str:
    old, new = read_header(before), read_header(after)
    if old and new and old.facts.get("line") != new.facts.get("line"):
        return f"line {old.facts.get('line')} -> {new.facts.get('line')}"
    return "its text changed"


def _stale(root: Path, repo: WantedRepo) -> Iterable[Change]:
    """Files with our header that are wanted no more."""
    wanted = {file.path for file in repo.files}
    for folder in MANAGED:
        for path in sorted((root / repo.name / folder).glob("*")):
            name = path.relative_to(root).as_posix()
            if (
                name in wanted
                or path.suffix not in (".nix", ".md")
                or path.is_symlink()
                or not path.is_file()
            ):
                continue
            try:
                before = path.read_bytes().decode()
            except (OSError, UnicodeDecodeError):
                continue
            owner = owner_of(before)
            if owner == "ours":
                yield Change("delete", name, "the workspace asks for it no more", before)
            elif owner == "edited":
                yield Change("blocked", name, "wanted no more, but it was edited by hand", before)
