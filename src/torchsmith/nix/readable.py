"""What recipes may read while they are evaluated: files that git tracks, else what their own text names.

A recipe is an untrusted program. What it can read it can also put into a derivation, so keys, tokens and the
state of tools are not readable, even in the same folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from torchsmith.core.git import git
from torchsmith.core.process import find

PRIVATE = frozenset((".git", ".torchsmith", ".netrc", "netrc"))  # even if git tracks them
RECIPES = ".flox"  # the one hidden folder that holds recipes
MOST_LEVELS = 100  # of folders
MOST_ENTRIES = 50_000  # of a folder; a larger one is not a folder of recipes


def readable_root(recipe: Path) -> Path:
    """The folder that a recipe belongs to: its repository, or else the folder it is in."""
    resolved = recipe.resolve()
    for folder in resolved.parents:
        if (folder / ".git").exists() or (folder / "torchsmith.toml").exists():
            return folder
        if folder.name == RECIPES:
            return folder.parent
    return resolved.parent


@dataclass(frozen=True, slots=True)
class Root:
    """A folder of recipes; `tracked` is what git knows below it, None outside of a repository."""

    folder: Path
    tracked: frozenset[Path] | None

    def allows(self, path: Path) -> bool:
        """Whether a recipe may read a file, given by its resolved path."""
        parts = path.relative_to(self.folder).parts
        if any(part in PRIVATE for part in parts):
            return False
        if self.tracked is not None and path in self.tracked:
            return True
        hidden = any(part.startswith(".") and part != RECIPES for part in parts)
        return not hidden and (self.tracked is None or parts[:2] == (RECIPES, "pkgs"))


@dataclass
class Readable:
    """The readable part of every root that recipes of one evaluation are in."""

    roots: dict[Path, Root] = field(default_factory=dict)
    seen: dict[Path, Path] = field(default_factory=dict)  # the root of a folder's files, links apart
    _whole: dict[Path, list[Path]] = field(default_factory=dict)  # what of a tracked root may be read

    def add(self, recipe: Path) -> Path:
        """Take in the root of a recipe, which is returned."""
        plain = not recipe.is_symlink()
        if plain and recipe.parent in self.seen:
            return self.seen[recipe.parent]
        folder = readable_root(recipe)
        if folder not in self.roots:
            self.roots[folder] = Root(folder, _tracked(folder))
        if plain:
            self.seen[recipe.parent] = folder
        return folder

    def allows(self, path: Path) -> bool:
        """Whether a file may be read, links followed."""
        resolved = path.resolve()
        return any(
            resolved.is_relative_to(root.folder) and root.allows(resolved) for root in self.roots.values()
        )

    def entries(self, reads: Iterable[Path]) -> list[Path]:
        """Files and folders that together are all that may be read; `reads` are named by recipes."""
        entries: dict[Path, None] = {}
        named = {path.resolve() for path in reads}
        for root in self.roots.values():
            if root.tracked is not None:
                if root.folder not in self._whole:
                    self._whole[root.folder] = list(_parts(root, root.folder))
                entries |= dict.fromkeys(self._whole[root.folder])
                continue
            for path in (path for path in named if path.is_relative_to(root.folder)):
                entries |= dict.fromkeys(_parts(root, path))
        return list(entries)


def without_git(tree: Path, into: Path) -> Path:
    """A nixpkgs tree for recipes to read; of a checkout, links to everything but git's own folder."""
    if not (tree / ".git").exists():
        return tree
    into.mkdir(exist_ok=True)
    for child in tree.iterdir():
        if child.name != ".git":
            (into / child.name).symlink_to(child)
    return into


def _parts(root: Root, path: Path) -> Iterator[Path]:
    """A resolved path if all below it may be read, else the parts of it that may."""
    if path.is_file():
        yield from [path] if root.allows(path) else []
        return
    whole, parts = _walk(root, path, [MOST_ENTRIES])
    yield from ([path] if whole else parts)


def _walk(root: Root, path: Path, left: list[int]) -> tuple[bool, list[Path]]:
    left[0] -= 1
    if left[0] < 0 or path.name in PRIVATE or len(path.parts) > len(root.folder.parts) + MOST_LEVELS:
        return False, []
    if not path.is_dir() or path.is_symlink():
        target = path.resolve()  # Nix follows links, and would stop at one that leads out
        ok = target.is_relative_to(root.folder) and root.allows(path) and target.is_file()
        ok = ok and root.allows(target)
        return ok, [path] if ok else []
    whole, readable = True, []
    try:
        names = sorted(os.listdir(path))
    except OSError:
        return False, []
    for name in names:
        child_whole, parts = _walk(root, path / name, left)
        whole = whole and child_whole
        readable += [path / name] if child_whole else parts
    return whole and bool(names) and path != root.folder, readable


def _tracked(folder: Path) -> frozenset[Path] | None:
    """The files that git tracks below a folder; None outside of a repository."""
    if find("git") is None:
        return None
    done = git(folder, "ls-files", "-z", timeout=60)
    names = [name for name in done.stdout.split("\0") if name] if done.ok else []
    return frozenset(folder / name for name in names) if names or (folder / ".git").exists() else None
