"""Publishing packages: refused with everything that Flox asks for and that is missing, each with its cure; or
one commit, one push, and every package from that commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from torchsmith.edge.problem import Failed, Invalid, Refused
from torchsmith.edge.process import run
from torchsmith.edge.secrets import redactor
from torchsmith.edge.words import grouped
from torchsmith.record import Record
from torchsmith.workspace.checkout import RecipeFile
from torchsmith.workspace.git import ask as git
from torchsmith.workspace.git import head

MESSAGE = "Recipes as they are published\n"
HOUR = 3600.0
LOCK = ".flox/env/manifest.lock"
Lack = Literal["repository", "recipe", "lock", "commit", "committed", "remote", "upstream", "pushed"]
PUSHABLE: tuple[Lack, ...] = ("commit", "committed", "upstream", "pushed")
Standing = Literal["published", "published before", "failed", "not verified", "would be published"]
Changed = Callable[[Sequence[RecipeFile]], Mapping[str, str]]  # why a recipe is not what was built
Verified = Callable[[str], str]  # a package's name -> why it does not count as verified; empty: it does


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """One package: how it stands, where it is, and from which commit."""

    name: str
    standing: Standing
    org: str
    repo: str
    revision: str = ""
    words: str = ""


@dataclass
class Publisher:
    """Publishes recipes of a workspace's repositories under one organisation."""

    flox: Path
    org: str
    record: Record
    logs: Path
    verified: Verified
    changed: Changed
    force: bool = False
    push: bool = False

    def publish(self, recipes: Sequence[RecipeFile], *, dry_run: bool = False) -> list[PublishedRow]:
        """Check everything before anything leaves this machine, then publish what is not there yet."""
        repos = by_repository(recipes)
        self._require(repos)
        unverified = {} if self.force else self._unverified(recipes)
        rows: list[PublishedRow] = []
        for repo, own in repos.items():
            if self.push and not dry_run:
                commit_and_push(repo)
            revision = head(repo)
            key = (self.org, revision)
            before = {one.name for one in self.record.published() if (one.org, one.revision) == key}
            for recipe in own:
                standing: Standing = "published"
                words = ""
                if recipe.name in before:
                    standing = "published before"
                elif recipe.name in unverified:
                    standing, words = "not verified", unverified[recipe.name]
                elif dry_run:
                    standing = "would be published"
                elif words := self._flox(recipe, repo):
                    standing = "failed"
                else:
                    self.record.note_published(recipe.name, self.org, revision)
                rows.append(PublishedRow(recipe.name, standing, self.org, repo.name, revision, words))
        return rows

    def _require(self, repos: Mapping[Path, Sequence[RecipeFile]]) -> None:
        found = [one for repo, own in repos.items() for one in missing(repo, [recipe.path for recipe in own])]
        if stopping := [one for one in found if not (self.push and one.pushable)]:
            hint = "mend these, then publish again: nothing has left this machine"
            if all(one.pushable for one in stopping):
                hint = "--push commits what is not committed and pushes, once in each repository"
            raise Refused("Flox cannot publish yet:\n  " + "\n  ".join(map(str, stopping)), hint=hint)

    def _unverified(self, recipes: Sequence[RecipeFile]) -> dict[str, str]:
        reasons = {recipe.name: self.verified(recipe.name) for recipe in recipes}
        known = {name: why for name, why in reasons.items() if why}
        return {**self.changed([one for one in recipes if one.name not in known]), **known}

    def _flox(self, recipe: RecipeFile, repo: Path) -> str:
        """Publish one package; what went wrong, or nothing."""
        name = recipe.attr
        argv = [str(self.flox), "publish", "-d", str(repo), "-o", self.org, name]
        done = run(argv, timeout=HOUR)
        said = redactor()(f"$ {done.line}\n{done.stdout}{done.stderr}")
        self.logs.mkdir(parents=True, exist_ok=True)
        (self.logs / f"{name}.log").write_text(said)
        if done.ok:
            return ""
        lines = [line.strip() for line in said.splitlines()[1:] if line.strip()]
        return lines[-1] if lines else f"flox ended with {done.code}"


def by_repository(recipes: Sequence[RecipeFile]) -> dict[Path, list[RecipeFile]]:
    """Recipes by the repository that they lie in."""
    for recipe in recipes:
        if not (recipe.repo / ".flox").is_dir():
            raise Invalid(f"{recipe.path} is in no Flox environment")
    return grouped((recipe.repo, recipe) for recipe in recipes)


def commit_and_push(repo: Path) -> None:
    """One commit of what git tracks, where anything changed, and one push."""
    staged = git(repo, "status", "--porcelain", "--untracked-files=no").stdout.strip()
    steps: list[list[str]] = []
    if staged:
        steps.append(["commit", "--quiet", "--all", "--message", MESSAGE])
    branch = git(repo, "symbolic-ref", "--short", "HEAD").stdout.strip()
    chosen = git(repo, "config", f"branch.{branch}.remote").stdout.strip()
    remote = chosen or git(repo, "remote").stdout.split()[0]
    steps.append(["push", "--quiet", "--set-upstream", remote, branch])
    for words in steps:
        done = git(repo, *words)
        if not done.ok:
            last = (redactor()(done.stderr).strip().splitlines() or ["git said nothing"])[-1]
            raise Failed(f"git {words[0]} failed in {repo}: {last}")


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
