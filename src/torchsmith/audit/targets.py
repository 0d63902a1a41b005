"""What lies under the paths to audit: repositories, their recipes, and the files around them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from torchsmith.edge.problem import Problem
from torchsmith.matrix import BadName, read_name
from torchsmith.workspace.load import FILE, Workspace, open_workspace
from torchsmith.workspace.wanted import PKGS, SHARED

AROUND = (".flox/env.json", ".flox/env/manifest.toml", ".flox/.gitignore")


@dataclass(frozen=True, slots=True)
class Folder:
    """A repository to audit. `whole` is False where single files were named: nothing is said about the
    rest."""

    root: Path
    shown: str
    recipes: tuple[Path, ...]
    others: tuple[Path, ...]
    pages: tuple[Path, ...]
    whole: bool = True

    def show(self, path: Path) -> str:
        inner = path.relative_to(self.root).as_posix()
        return f"{self.shown}/{inner}" if self.shown not in ("", ".") else inner


def find_folders(paths: Sequence[Path]) -> list[Folder]:
    """The repositories below the paths; a Problem where there is no recipe at all."""
    found: list[Folder] = []
    files: dict[Path, list[Path]] = {}
    for path in paths:
        if path.is_file():
            files.setdefault(_root_of(path), []).append(path)
        elif path.is_dir():
            found += _below(path)
        else:
            raise Problem(f"there is no {path}")
    found += [
        Folder(root, _shown(root), tuple(sorted(set(named))), (), (), whole=False)
        for root, named in files.items()
    ]
    if not any(folder.recipes for folder in found):
        raise Problem(
            f"no recipes below {', '.join(map(str, paths))}",
            hint="recipes are .nix files below .flox/pkgs, or files that are named like a variant",
        )
    return found


def _root_of(path: Path) -> Path:
    for parent in path.parents:
        if (parent / ".flox").is_dir():
            return parent
    return path.parent


def _shown(path: Path) -> str:
    return path.as_posix()


def _below(path: Path) -> Iterator[Folder]:
    if (path / PKGS).is_dir():
        yield _repo(path)
        return
    inner = [one for one in sorted(path.iterdir()) if (one / PKGS).is_dir()]
    if inner:
        yield from map(_repo, inner)
        return
    flat = tuple(one for one in sorted(path.glob("*.nix")) if _is_variant(one))
    yield Folder(path, _shown(path), flat, (), ())


def _is_variant(path: Path) -> bool:
    try:
        return bool(read_name(path.stem))
    except BadName:
        return False


def _repo(root: Path) -> Folder:
    recipes = [one for one in sorted((root / PKGS).rglob("*.nix")) if one.is_file() and not one.is_symlink()]
    others = [*sorted((root / SHARED).glob("*.nix")), *sorted(root.glob("*.nix"))]
    others += [root / name for name in AROUND if (root / name).is_file()]
    pages = [*sorted(root.glob("*.md")), *sorted((root / "docs").glob("*.md"))]
    return Folder(root, _shown(root), tuple(recipes), tuple(others), tuple(pages))


def workspace_of(paths: Sequence[Path], named: Path | None) -> Workspace | None:
    """The workspace that the paths belong to: the one named, or the nearest torchsmith.toml above the
    first."""
    if named is not None:
        return open_workspace(named)
    start = paths[0].resolve()
    for folder in (start, *start.parents):
        if (folder / FILE).is_file():
            return open_workspace(folder)
    return None
