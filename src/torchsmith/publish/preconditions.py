"""What Flox asks of a repository before it publishes from it, each checked and told with its cure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from torchsmith.workspace.git import ask as git
from torchsmith.workspace.git import head

LOCK = ".flox/env/manifest.lock"
Lack = Literal["repository", "recipe", "lock", "commit", "committed", "remote", "upstream", "pushed"]
PUSHABLE: tuple[Lack, ...] = ("commit", "committed", "upstream", "pushed")


@dataclass(frozen=True, slots=True)
class Missing:
    """A precondition that does not hold, and what to do."""

    repo: str
    lack: Lack
    what: str
    cure: str

    @property
    def pushable(self) -> bool:
        """Whether one commit and push would mend it."""
        return self.lack in PUSHABLE

    def __str__(self) -> str:
        return f"{self.repo}: {self.what}; {self.cure}"


def missing(repo: Path, recipes: Iterable[Path]) -> Iterator[Missing]:
    """Everything that keeps packages of a repository from being published."""
    name = repo.name
    if not (repo / ".git").exists():
        yield Missing(name, "repository", "is no git repository", "torchsmith generate makes it one")
        return
    known = set(git(repo, "ls-files", "-z").stdout.split("\0"))
    for path in recipes:
        inner = str(path.relative_to(repo))
        if inner not in known:
            yield Missing(name, "recipe", f"git does not know {path.name}", f"git -C {repo} add {inner}")
    if not (repo / LOCK).is_file():
        yield Missing(name, "lock", "has no lock file", f"flox lock-manifest, or any flox edit, in {repo}")
    if not head(repo):
        yield Missing(name, "commit", "has no commit", "commit it, or pass --push")
    elif git(repo, "status", "--porcelain", "--untracked-files=no").stdout.strip():
        yield Missing(name, "committed", "has changes that are not committed", "commit them, or pass --push")
    upstream = git(repo, "rev-parse", "--abbrev-ref", "--symbolic-full-name", "@{upstream}")
    if not git(repo, "remote").stdout.strip():
        yield Missing(name, "remote", "has no remote", f"git -C {repo} remote add origin ADDRESS")
    elif upstream.code != 0:
        yield Missing(name, "upstream", "its branch has no upstream", "git push -u, or pass --push")
    elif git(repo, "rev-list", "--max-count=1", "@{upstream}..HEAD").stdout.strip():
        yield Missing(name, "pushed", "HEAD is not pushed", "git push, or pass --push")
