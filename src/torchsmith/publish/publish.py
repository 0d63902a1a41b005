"""Publishing packages: refused with reasons, or one commit, one push, and every package from that commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from torchsmith.edge.problem import Failed, Invalid, Refused
from torchsmith.edge.process import run
from torchsmith.edge.secrets import Redact, redactor
from torchsmith.edge.words import grouped
from torchsmith.publish.preconditions import Missing, missing
from torchsmith.record import Record
from torchsmith.workspace.checkout import RecipeFile
from torchsmith.workspace.git import ask as git
from torchsmith.workspace.git import head

MESSAGE = "Recipes as they are published\n"
HOUR = 3600.0
Standing = Literal[
    "published", "published before", "failed", "not verified", "not tried", "would be published"
]
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
    env: Mapping[str, str] | None = None
    redact: Redact = field(default_factory=redactor)

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
            rows += [self._one(one, repo, revision, unverified, before, dry_run=dry_run) for one in own]
        return rows

    def _require(self, repos: Mapping[Path, Sequence[RecipeFile]]) -> None:
        found = [one for repo, own in repos.items() for one in missing(repo, [recipe.path for recipe in own])]
        stopping = [one for one in found if not (self.push and one.pushable)]
        if stopping:
            raise Refused(
                "Flox cannot publish yet:\n  " + "\n  ".join(map(str, stopping)),
                hint=_hint(stopping),
            )

    def _unverified(self, recipes: Sequence[RecipeFile]) -> dict[str, str]:
        reasons = {recipe.name: self.verified(recipe.name) for recipe in recipes}
        known = {name: why for name, why in reasons.items() if why}
        return {**self.changed([one for one in recipes if one.name not in known]), **known}

    def _one(
        self,
        recipe: RecipeFile,
        repo: Path,
        revision: str,
        unverified: Mapping[str, str],
        done: set[str],
        *,
        dry_run: bool,
    ) -> PublishedRow:
        def row(standing: Standing, words: str = "") -> PublishedRow:
            return PublishedRow(recipe.name, standing, self.org, repo.name, revision, words)

        if recipe.name in done:
            return row("published before")
        if recipe.name in unverified:
            return row("not verified", unverified[recipe.name])
        if dry_run:
            return row("would be published")
        failure = self._flox(recipe, repo)
        if failure:
            return row("failed", failure)
        self.record.note_published(recipe.name, self.org, revision)
        return row("published")

    def _flox(self, recipe: RecipeFile, repo: Path) -> str:
        """Publish one package; what went wrong, or nothing."""
        name = recipe.attr
        argv = [str(self.flox), "publish", "-d", str(repo), "-o", self.org, name]
        done = run(argv, env=self.env, timeout=HOUR)
        said = self.redact(f"$ {done.line}\n{done.stdout}{done.stderr}")
        self.logs.mkdir(parents=True, exist_ok=True)
        (self.logs / f"{name}.log").write_text(said)
        if done.ok:
            return ""
        lines = [line.strip() for line in said.splitlines()[1:] if line.strip()]
        return lines[-1] if lines else f"flox ended with {done.code}"


def _hint(stopping: Sequence[Missing]) -> str:
    if all(one.pushable for one in stopping):
        return "--push commits what is not committed and pushes, once in each repository"
    return "mend these, then publish again: nothing has left this machine"


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
