"""Publishing packages: each repository's commit is cloned, checked in the clone and published from it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from torchsmith.core.git import git
from torchsmith.core.problem import Invalid, Problem, Refused
from torchsmith.core.process import run
from torchsmith.core.secrets import redactor
from torchsmith.core.text import grouped
from torchsmith.publishing.clone import Clone, blockers, make_clone, source_of
from torchsmith.record import Record
from torchsmith.workspace.checkout import FLOX_NAME, RecipeFile
from torchsmith.workspace.git import head, is_kept, is_repo, top

HOUR = 3600.0
LOCK = ".flox/env/manifest.lock"
Lack = Literal["repository", "source", "recipe", "lock", "commit", "committed", "remote", "pushed"]
PublishState = Literal["published", "published before", "failed", "not verified", "would be published"]
CheckRecipes = Callable[[Sequence[RecipeFile]], Mapping[str, str]]  # why recipes of a clone are not published


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """One package: its state, where it is, and from which commit."""

    name: str
    state: PublishState
    org: str
    repo: str
    revision: str = ""
    detail: str = ""  # why it was not published
    cuda: bool = False  # it contains libraries of the CUDA toolkit


@dataclass
class Publisher:
    """Publishes recipes of a workspace's repositories under one organisation."""

    flox: Path
    org: str
    record: Record
    logs: Path
    check: CheckRecipes
    force: bool = False
    push: bool = False
    credentials: bool = False  # of the checkout

    def publish(self, recipes: Sequence[RecipeFile], *, dry_run: bool = False) -> list[PublishedRow]:
        """Check everything before anything leaves this machine, then publish what is not there yet."""
        require_environments(recipes)
        repos = grouped((repository(recipe.repo), recipe) for recipe in recipes)
        self._require(lack for repo in repos for lack in missing(repo))
        with tempfile.TemporaryDirectory(prefix="torchsmith-publish-") as folder:
            clones = {
                repo: make_clone(source_of(repo), Path(folder) / str(number), credentials=self.credentials)
                for number, repo in enumerate(repos)
            }
            own = {repo: list(in_clone(found, clones[repo])) for repo, found in repos.items()}
            self._require(lack for repo, found in own.items() for lack in missing_in(clones[repo], found))
            checked = [recipe for found in own.values() for recipe in found]
            refused = {} if self.force else self.check(checked)
            return [
                row
                for repo, found in own.items()
                for row in self._publish_from(clones[repo], found, refused, dry_run=dry_run)
            ]

    def _publish_from(
        self, clone: Clone, recipes: Sequence[RecipeFile], refused: Mapping[str, str], *, dry_run: bool
    ) -> Iterator[PublishedRow]:
        key = (self.org, clone.commit)
        before = {entry.name for entry in self.record.published() if (entry.org, entry.revision) == key}
        due = [recipe for recipe in recipes if recipe.name not in before and recipe.name not in refused]
        if self.push and due and not dry_run:
            clone.push()
        for recipe in recipes:
            state: PublishState = "published"
            detail = ""
            if recipe.name in before:
                state = "published before"
            elif recipe.name in refused:
                state, detail = "not verified", refused[recipe.name]
            elif dry_run:
                state = "would be published"
            elif detail := self._flox(recipe, clone):
                state = "failed"
            else:
                self.record.note_published(recipe.name, self.org, clone.commit)
            place = (self.org, recipe.repo.name, clone.commit)
            cuda = recipe.variant is not None and recipe.variant.cuda is not None
            yield PublishedRow(recipe.name, state, *place, detail, cuda)

    def _require(self, lacks: Iterable[Missing]) -> None:
        if stopping := [lack for lack in lacks if not (self.push and lack.lack == "pushed")]:
            hint = "fix these and publish again; nothing has left this machine"
            raise Refused("Flox cannot publish yet:\n  " + "\n  ".join(map(str, stopping)), hint=hint)

    def _flox(self, recipe: RecipeFile, clone: Clone) -> str:
        """Publish one package. Returns why it failed, or nothing."""
        name = recipe.attr
        argv = [str(self.flox), "publish", "-d", str(recipe.repo), "-o", self.org, name]
        done = run(argv, timeout=HOUR, env=clone.environment)
        output = redactor()(f"$ {done.line}\n{done.stdout}{done.stderr}")
        self.logs.mkdir(parents=True, exist_ok=True)
        (self.logs / f"{name}.log").write_text(output)
        if done.ok:
            return ""
        lines = [line.strip() for line in output.splitlines()[1:] if line.strip()]
        return lines[-1] if lines else f"flox ended with {done.code}"


def require_environments(recipes: Sequence[RecipeFile]) -> None:
    """Raise Invalid if a recipe is in no Flox environment, or has a name that Flox refuses."""
    for recipe in recipes:
        if not (recipe.repo / ".flox").is_dir():
            raise Invalid(f"{recipe.path} is in no Flox environment")
        if not FLOX_NAME.fullmatch(recipe.attr):
            raise Invalid(f"{recipe.path} does not have a name that Flox accepts")


def repository(folder: Path) -> Path:
    """The top of the git repository that keeps a Flox environment: its own, or one around it, of which Flox
    takes any folder."""
    return (top(folder) if is_kept(folder) else None) or folder.absolute()


def in_clone(recipes: Iterable[RecipeFile], clone: Clone) -> Iterator[RecipeFile]:
    """The same recipes as the clone has them."""
    for recipe in recipes:
        repo = clone.folder / recipe.repo.absolute().relative_to(clone.source.repo)
        yield replace(recipe, path=repo / recipe.path.relative_to(recipe.repo), repo=repo)


def is_changed(repo: Path) -> bool:
    """Whether tracked files differ from the last commit."""
    return bool(git(repo, "status", "--porcelain", "--untracked-files=no").stdout.strip())


@dataclass(frozen=True, slots=True)
class Missing:
    """A precondition that does not hold, and what to do."""

    repo: str
    lack: Lack
    what: str
    fix: str

    def __str__(self) -> str:
        return f"{self.repo}: {self.what}; {self.fix}"


def missing(repo: Path) -> Iterator[Missing]:
    """What keeps a checkout from being cloned and published."""
    name = repo.absolute().name
    if not is_repo(repo):
        yield Missing(name, "repository", "is not a git repository", "torchsmith apply makes it one")
        return
    if not head(repo):
        yield Missing(name, "commit", "has no commit", "git add its files, and commit")
    elif is_changed(repo):
        yield Missing(name, "committed", "has changes that are not committed", "commit or undo them")
    for what, fix in blockers(repo):
        yield Missing(name, "source", what, fix)


def _has_file(path: Path) -> bool:
    """Whether a file of a clone exists, and not by a link: its target need not be committed."""
    return path.is_file() and path.resolve() == path


def missing_in(clone: Clone, recipes: Sequence[RecipeFile]) -> Iterator[Missing]:
    """What keeps a clone's packages from being published; the remote is asked."""
    name = clone.folder.name
    for recipe in recipes:
        inner = recipe.path.relative_to(clone.folder)
        if not _has_file(recipe.path):
            fix = f"git -C {clone.source.repo} add {inner}, and commit it"
            yield Missing(name, "recipe", f"its commit has no file {inner}", fix)
    for repo in dict.fromkeys(recipe.repo for recipe in recipes):
        if not _has_file(repo / LOCK):
            place = clone.source.repo / repo.relative_to(clone.folder)
            fix = f"flox lock-manifest, or any flox edit, in {place}; then commit {LOCK}"
            yield Missing(repo.name, "lock", "its commit has no lock file", fix)
    try:
        there = clone.remote_commit()
    except Problem as problem:
        yield Missing(name, "remote", problem.message, problem.hint)
        return
    if not there or not clone.is_part_of(there):
        branch = clone.source.upstream.removeprefix("refs/heads/")
        why = f"{clone.source.address} does not have {clone.commit[:12]} on {branch}"
        yield Missing(name, "pushed", why, "git push, or pass --push")
