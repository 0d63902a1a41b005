"""Publishing packages: refused with everything that Flox asks for and that is missing, each with its cure; or
one commit, one push, and every package from that commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal

from torchsmith.core.problem import Failed, Invalid, Refused
from torchsmith.core.process import run
from torchsmith.core.secrets import redactor
from torchsmith.core.text import grouped
from torchsmith.publishing.committed import checked_out
from torchsmith.record import Record
from torchsmith.workspace.checkout import RecipeFile
from torchsmith.workspace.git import ask as git
from torchsmith.workspace.git import head, tree_to_commit

MESSAGE = "Recipes as they are published\n"
HOUR = 3600.0
LOCK = ".flox/env/manifest.lock"
Lack = Literal["repository", "recipe", "lock", "commit", "committed", "remote", "upstream", "pushed"]
PUSHABLE: tuple[Lack, ...] = ("commit", "committed", "upstream", "pushed")
Standing = Literal["published", "published before", "failed", "not verified", "would be published"]
Changed = Callable[[Sequence[RecipeFile]], Mapping[str, str]]  # why a committed recipe is not what was built
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
        pushing = self.push and not dry_run
        for repo in repos if pushing else ():
            commit(repo)
        trees = {repo: tree_to_commit(repo) if self.push and dry_run else head(repo) for repo in repos}
        unverified = {} if self.force else self._unverified(recipes, trees)
        rows: list[PublishedRow] = []
        for repo, own in repos.items():
            if pushing:
                push(repo)
            revision = head(repo)
            key = (self.org, revision)
            before = {entry.name for entry in self.record.published() if (entry.org, entry.revision) == key}
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
        lacks = (missing(repo, [recipe.path for recipe in own]) for repo, own in repos.items())
        if stopping := [lack for lack in chain(*lacks) if not (self.push and lack.pushable)]:
            hint = "mend these, then publish again: nothing has left this machine"
            if all(lack.pushable for lack in stopping):
                hint = "--push commits what is not committed and pushes, once in each repository"
            raise Refused("Flox cannot publish yet:\n  " + "\n  ".join(map(str, stopping)), hint=hint)

    def _unverified(self, recipes: Sequence[RecipeFile], trees: Mapping[Path, str]) -> dict[str, str]:
        """Why recipes are not published: their build is not right, or the commit holds something else."""
        reasons = {recipe.name: self.verified(recipe.name) for recipe in recipes}
        known = {name: why for name, why in reasons.items() if why}
        left = [recipe for recipe in recipes if recipe.name not in known]
        with checked_out(left, {repo: tree for repo, tree in trees.items() if left}) as committed:
            return {**self.changed(committed), **known}

    def _flox(self, recipe: RecipeFile, repo: Path) -> str:
        """Publish one package. Returns why it failed, or nothing."""
        name = recipe.attr
        argv = [str(self.flox), "publish", "-d", str(repo), "-o", self.org, name]
        done = run(argv, timeout=HOUR)
        output = redactor()(f"$ {done.line}\n{done.stdout}{done.stderr}")
        self.logs.mkdir(parents=True, exist_ok=True)
        (self.logs / f"{name}.log").write_text(output)
        if done.ok:
            return ""
        lines = [line.strip() for line in output.splitlines()[1:] if line.strip()]
        return lines[-1] if lines else f"flox ended with {done.code}"


def by_repository(recipes: Sequence[RecipeFile]) -> dict[Path, list[RecipeFile]]:
    """Recipes by repository. Raises Invalid where one is in no Flox environment."""
    for recipe in recipes:
        if not (recipe.repo / ".flox").is_dir():
            raise Invalid(f"{recipe.path} is in no Flox environment")
    return grouped((recipe.repo, recipe) for recipe in recipes)


def commit(repo: Path) -> None:
    """One commit of what git tracks, where anything changed."""
    if git(repo, "status", "--porcelain", "--untracked-files=no").stdout.strip():
        _git(repo, "commit", "--quiet", "--all", "--message", MESSAGE)


def push(repo: Path) -> None:
    """The branch, to the remote that it goes to, or else to the first."""
    branch, remote = _branch(repo)
    remotes = git(repo, "remote").stdout.split()
    _git(repo, "push", "--quiet", "--set-upstream", remote if remote in remotes else remotes[0], branch)


def _branch(repo: Path) -> tuple[str, str]:
    """The branch that is checked out, and the remote that it goes to."""
    branch = git(repo, "symbolic-ref", "--short", "HEAD").stdout.strip()
    return branch, git(repo, "config", f"branch.{branch}.remote").stdout.strip()


def _git(repo: Path, *arguments: str) -> None:
    done = git(repo, *arguments)
    if not done.ok:
        raise Failed(f"git {arguments[0]} failed in {repo}: {_last_line(done.stderr)}")


def _last_line(text: str) -> str:
    return (redactor()(text).strip().splitlines() or ["git said nothing"])[-1]


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
            yield Missing(name, "recipe", f"git does not track {path.name}", f"git -C {repo} add {inner}")
    if not (repo / LOCK).is_file():
        yield Missing(name, "lock", "has no lock file", f"flox lock-manifest, or any flox edit, in {repo}")
    if not head(repo):
        yield Missing(name, "commit", "has no commit", "commit it, or pass --push")
    elif git(repo, "status", "--porcelain", "--untracked-files=no").stdout.strip():
        yield Missing(name, "committed", "has changes that are not committed", "commit them, or pass --push")
    remotes = git(repo, "remote").stdout.split()
    branch, remote = _branch(repo)
    if not remotes:
        yield Missing(name, "remote", "has no remote", f"git -C {repo} remote add origin ADDRESS")
    elif remote not in remotes:  # none, or another branch of this repository
        yield Missing(name, "upstream", "its branch goes to no remote", "git push -u, or pass --push")
    else:
        yield from _not_pushed(repo, branch, remote)


def _not_pushed(repo: Path, branch: str, remote: str) -> Iterator[Missing]:
    """Ask the remote itself whether its branch has HEAD; the local remote-tracking branch may be old."""
    ref = git(repo, "config", f"branch.{branch}.merge").stdout.strip() or f"refs/heads/{branch}"
    reply = git(repo, "ls-remote", remote, ref)
    if not reply.ok:
        why = f"{remote} does not answer: {_last_line(reply.stderr)}"
        yield Missing(repo.name, "remote", why, "try again")
        return
    tip = next((line.split()[0] for line in reply.stdout.splitlines() if line.split()[1:] == [ref]), "")
    if not tip or not (tip == head(repo) or git(repo, "merge-base", "--is-ancestor", "HEAD", tip).ok):
        why = f"{remote} does not have HEAD on {ref.removeprefix('refs/heads/')}"
        yield Missing(repo.name, "pushed", why, "git push (after git fetch), or pass --push")
