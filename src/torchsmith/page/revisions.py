"""How the recipes of repositories came to be: the commits that changed them, and how many there were."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from torchsmith.edge.process import find
from torchsmith.page.document import PageRevision
from torchsmith.workspace import git
from torchsmith.workspace.checkout import PKGS

MOST = 200  # commits of a repository
MARK = "\x1e"
HEAD = re.compile(r"([0-9a-f]{4,64})\x1f(\d+)\x1f([^\n]*)")


def revisions(root: Path, repositories: Sequence[Path]) -> Iterator[PageRevision]:
    """The commits of every repository that is its own, oldest first; git around the folder is not asked."""
    if find("git") is None:
        return
    for repository in repositories:
        if git.is_repo(repository):
            name = repository.name if repository.resolve() != root.resolve() else ""
            yield from _of(repository, name)


def _of(repository: Path, name: str) -> list[PageRevision]:
    plain = ["-c", "core.fsmonitor=false", "log", "--no-renames", "--no-ext-diff", f"--max-count={MOST}"]
    form = ["--name-status", f"--format={MARK}%h%x1f%at%x1f%s"]
    told = git.ask(repository, *plain, *form, "--", f"{PKGS}/*.nix")
    commits = [_counts(block) for block in told.stdout.split(MARK)[1:]] if told.ok else []
    now = git.ask(repository, "ls-tree", "-r", "--name-only", "-z", "HEAD", "--", PKGS)
    recipes = sum(path.endswith(".nix") for path in now.stdout.split("\0"))
    found = []
    for commit in filter(None, commits):  # newest first, so that counts are taken back
        revision, at, subject, added, changed, deleted = commit
        found.append(PageRevision(name, revision, at, subject[:200], added, changed, deleted, recipes))
        recipes -= added - deleted
    return found[::-1]


def _counts(block: str) -> tuple[str, float, str, int, int, int] | None:
    head, _, rest = block.partition("\n")
    found = HEAD.fullmatch(head)
    if found is None:
        return None
    letters = [line[0] for line in rest.split("\n") if line]
    changed = len(letters) - letters.count("A") - letters.count("D")
    return found[1], float(found[2]), found[3], letters.count("A"), changed, letters.count("D")
