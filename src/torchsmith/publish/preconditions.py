"""What Flox asks of a repository before it publishes from it, each checked and told with its cure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from torchsmith.workspace.git import ask as git

LOCK = ".flox/env/manifest.lock"


@dataclass(frozen=True, slots=True)
class Missing:
    """A precondition that does not hold, and what to do; `pushable`: one commit and push would mend it."""

    repo: str
    what: str
    cure: str
    pushable: bool = False

    def __str__(self) -> str:
        return f"{self.repo}: {self.what}"


def missing(repo: Path, recipes: Iterable[Path]) -> Iterator[Missing]:
    """Everything that keeps packages of a repository from being published."""
    name = repo.name
    if not (repo / ".git").exists():
        yield Missing(name, "is no git repository", "torchsmith generate makes it one")
        return
    known = set(git(repo, "ls-files", "-z").stdout.split("\0"))
    for path in recipes:
        if str(path.relative_to(repo)) not in known:
            yield Missing(
                name, f"git does not know {path.name}", f"git -C {repo} add {path.relative_to(repo)}"
            )
    if not (repo / LOCK).is_file():
        yield Missing(name, "has no lock file", f"flox lock-manifest, or any flox edit, in {repo}")
    if git(repo, "rev-parse", "--verify", "--quiet", "HEAD").code != 0:
        yield Missing(name, "has no commit", "commit it, or pass --push", pushable=True)
    elif git(repo, "status", "--porcelain", "--untracked-files=no").stdout.strip():
        yield Missing(
            name, "has changes that are not committed", "commit them, or pass --push", pushable=True
        )
    upstream = git(repo, "rev-parse", "--abbrev-ref", "--symbolic-full-name", "@{upstream}")
    if not git(repo, "remote").stdout.strip():
        yield Missing(name, "has no remote", f"git -C {repo} remote add origin ADDRESS")
    elif upstream.code != 0:
        yield Missing(name, "its branch has no upstream", "git push -u, or pass --push", pushable=True)
    elif git(repo, "rev-list", "--max-count=1", "@{upstream}..HEAD").stdout.strip():
        yield Missing(name, "HEAD is not pushed", "git push, or pass --push", pushable=True)


def head(repo: Path) -> str:
    """The revision that packages are published from."""
    return git(repo, "rev-parse", "HEAD").stdout.strip()
