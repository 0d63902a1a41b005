"""A clean clone of the commit to be published: its objects come from the checkout, its settings do not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from torchsmith.core.git import Setting, checkout_credentials, environment, git
from torchsmith.core.problem import Failed
from torchsmith.core.secrets import redactor
from torchsmith.workspace.git import AS_COMMITTED, checked_git, head, init

# A repository on this machine may have come with the checkout, and git runs its hooks.
SCHEMES = frozenset(("http", "https", "ssh"))
FIX_ADDRESS = (
    "use an address of http, https or ssh; for a folder of this machine map one to it:"
    " git config --global url.FOLDER.insteadOf ADDRESS"
)
OPTION = "--checkout-credentials"


@dataclass(frozen=True, slots=True)
class CommitSource:
    """What of a checkout is published, and the remote branch that must have it."""

    repo: Path
    commit: str
    branch: str
    upstream: str  # the remote's name for the branch: refs/heads/...
    address: str
    push_address: str


@dataclass(frozen=True, slots=True)
class Clone:
    """A clone of a source; `settings` are credentials of the checkout, if the user asked to take them."""

    source: CommitSource
    folder: Path
    settings: Sequence[Setting] = ()

    @property
    def commit(self) -> str:
        return self.source.commit

    @property
    def environment(self) -> dict[str, str]:
        """For a program that runs git in the clone."""
        return environment(self.settings)

    def remote_commit(self) -> str:
        """The commit of the remote's branch, which is fetched; empty if there is no such branch. Raises
        Failed if the remote does not answer."""
        ref = self.source.upstream
        listing = self._git("ls-remote", "--end-of-options", "origin", ref)
        if any(line.split()[1:] == [ref] for line in listing.splitlines()):
            tracking = f"refs/remotes/origin/{ref.removeprefix('refs/heads/')}"
            self._git("fetch", "--quiet", "--no-tags", "--end-of-options", "origin", f"+{ref}:{tracking}")
            return self._git("rev-parse", "--verify", "--end-of-options", tracking).strip()
        return ""

    def is_part_of(self, commit: str) -> bool:
        """Whether the clone's commit is in the history of another one."""
        return git(self.folder, "merge-base", "--is-ancestor", "--end-of-options", self.commit, commit).ok

    def push(self) -> None:
        """Push the commit and check that the remote has exactly this one. Raises Failed."""
        self._git("push", "--quiet", "--end-of-options", "origin", f"{self.commit}:{self.source.upstream}")
        if (there := self.remote_commit()) != self.commit:
            branch = self.source.upstream.removeprefix("refs/heads/")
            raise Failed(f"{self.source.address} has {there or 'nothing'} on {branch} and not {self.commit}")

    def _git(self, *arguments: str) -> str:
        done = git(self.folder, *arguments, settings=self.settings)
        if not done.ok:
            hint = f"git takes credentials from your own settings and agents; {OPTION} takes the checkout's"
            last = (done.stderr.strip().splitlines() or ["git printed nothing"])[-1]
            why = f"git {arguments[0]} failed for {self.source.address}: {last}"
            raise Failed(redactor()(why), hint=hint)
        return done.stdout


def make_clone(source: CommitSource, parent: Path, *, credentials: bool = False) -> Clone:
    """A clone below `parent`, in a folder with the repository's own name. Raises Failed if objects of its
    history are missing or damaged."""
    folder = parent.resolve() / source.repo.absolute().name
    objects = git(source.repo, "rev-parse", "--show-object-format").stdout.strip() or "sha1"
    init(folder, "--template=", f"--initial-branch={source.branch}", f"--object-format={objects}")
    packs = folder / ".git/objects/pack"
    packs.mkdir(parents=True, exist_ok=True)
    checked_git(
        source.repo,
        *("pack-objects", "--quiet", "--revs", str(packs / "pack")),
        stdin=f"{source.commit}\n",
    )
    for index in (*packs.glob("*.idx"), *packs.glob("*.rev")):
        index.unlink()  # names that the checkout gave its objects
    for pack in list(packs.glob("*.pack")):
        checked_git(folder, "index-pack", str(pack))  # and those that they have
    checked_git(folder, "rev-list", "--objects", "--quiet", source.commit)
    for key, value in (
        ("remote.origin.url", source.address),
        ("remote.origin.pushurl", source.push_address),
        ("remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"),
        (f"branch.{source.branch}.remote", "origin"),
        (f"branch.{source.branch}.merge", source.upstream),
        *AS_COMMITTED,
    ):
        checked_git(folder, "config", key, value)
    checked_git(folder, "reset", "--quiet", "--hard", source.commit)
    return Clone(source, folder, tuple(checkout_credentials(source.repo)) if credentials else ())


def source_of(repo: Path) -> CommitSource:
    """What of a repository is published. `blockers` has named what could be wrong."""
    branch = _branch(repo)
    address, push_address = _addresses(repo, branch)
    upstream = _config(repo, f"branch.{branch}.merge") or f"refs/heads/{branch}"
    return CommitSource(repo, head(repo), branch, upstream, address, push_address)


def blockers(repo: Path) -> Iterator[tuple[str, str]]:
    """Why no clone of a repository can be published, each with what to do."""
    if git(repo, "rev-parse", "--is-shallow-repository").stdout.strip() == "true":
        yield "has a part of its history only", f"git -C {repo} fetch --unshallow"
    branch = _branch(repo)
    if not branch:
        yield "has no branch checked out", f"git -C {repo} switch BRANCH"
        return
    upstream = _config(repo, f"branch.{branch}.merge") or f"refs/heads/{branch}"
    if branch.startswith("-") or not re.match("refs/heads/[^-]", upstream):
        yield "has a branch whose name could be an option", f"git -C {repo} branch -m NAME"
        return
    addresses = _addresses(repo, branch)
    if not all(addresses):
        yield "has no remote", f"git -C {repo} remote add origin ADDRESS"
    for address in dict.fromkeys(filter(None, addresses)):
        if not is_address(address):
            yield f"has a remote at {address!r}", FIX_ADDRESS


def _branch(repo: Path) -> str:
    return git(repo, "symbolic-ref", "--quiet", "--short", "HEAD").stdout.strip()


def _config(repo: Path, key: str) -> str:
    return git(repo, "config", key).stdout.strip()


def _addresses(repo: Path, branch: str) -> tuple[str, str]:
    """Where the branch is fetched from and pushed to: its own remote, else the only one or origin."""
    remotes = git(repo, "remote").stdout.split("\n")[:-1]
    own = _config(repo, f"branch.{branch}.remote")
    names = [own] if own in remotes else ["origin"] if "origin" in remotes else remotes[:1]
    if not names:
        return "", ""
    address = _config(repo, f"remote.{names[0]}.url")
    return address, _config(repo, f"remote.{names[0]}.pushurl") or address


def is_address(address: str) -> bool:
    """Whether git may be given an address: a known scheme, and nothing that a program takes as an option."""
    scheme, has_scheme, rest = address.partition("://")
    if not has_scheme:
        scheme, rest = "ssh" if ":" in address.partition("/")[0] else "file", address
    place = rest.partition("/")[0]
    return (
        scheme.lower() in SCHEMES
        and address.isprintable()
        and "::" not in place
        and not re.search(r"(^|@|:)-", place)
    )
