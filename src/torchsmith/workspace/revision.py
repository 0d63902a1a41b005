"""A workspace as a git revision has it, laid out in a folder of its own."""

from __future__ import annotations

import tarfile
from pathlib import Path

from torchsmith.edge.files import inside
from torchsmith.edge.problem import Invalid, NotFound
from torchsmith.edge.process import run
from torchsmith.workspace.git import is_repo, require_git


def lay_out(folder: Path, revision: str, into: Path) -> None:
    """Write what `revision` holds of every repository in or around `folder` below `into`."""
    require_git()
    if revision.startswith("-"):
        raise Invalid(f"{revision} is no revision: none begins with a dash")
    repos = _repos(folder)
    if not repos:
        raise NotFound(
            f"{folder} holds no git repository to compare with",
            hint="torchsmith generate --commit makes them",
        )
    for repo in repos:
        _archive(repo, folder, revision, into)


def _repos(folder: Path) -> list[Path]:
    if is_repo(folder):
        return [folder]
    below = sorted(child for child in folder.iterdir() if child.is_dir() and is_repo(child))
    if below:
        return below
    return next(([parent] for parent in folder.parents if is_repo(parent)), [])


def _archive(repo: Path, folder: Path, revision: str, into: Path) -> None:
    """One repository: its own folder below `into`, or the part of it that `folder` is."""
    part = folder.relative_to(repo).as_posix() if folder.is_relative_to(repo) else "."
    target = into if repo == folder or folder.is_relative_to(repo) else into / repo.relative_to(folder)
    target.mkdir(parents=True, exist_ok=True)
    tree = revision if part == "." else f"{revision}:{part}"
    file = target / ".revision.tar"
    # Whatever line ends this machine likes in its files.
    as_committed = ["-c", "core.autocrlf=false", "-c", "core.eol=lf"]
    words = ["archive", "--format=tar", f"--output={file}", "--end-of-options", tree]
    done = run(["git", "-C", repo, *as_committed, *words], timeout=300)
    if not done.ok:
        said = (done.stderr.strip().splitlines() or ["git said nothing"])[-1].removeprefix("fatal: ")
        raise NotFound(
            f"{repo.name} has no revision {revision}: {said}",
            hint="name a commit, a branch or a tag that every repository has",
        )
    _unpack(file, target)
    file.unlink()


def _unpack(file: Path, target: Path) -> None:
    """The plain files of an archive, none of them outside `target`; links stay out."""
    with tarfile.open(file) as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isfile() else None
            if content is not None:
                path = inside(target, member.name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content.read())
