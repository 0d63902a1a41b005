"""A checkout from elsewhere names programs in its .git/config, and none of them is started."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from torchsmith.core.git import LOCAL_VARIABLES, git, harmless
from torchsmith.core.problem import Failed, Refused

SRC = Path(__file__).parents[2] / "src/torchsmith"


def raw(repo: Path, *args: str) -> None:
    subprocess.run(["git", "-C", repo, *args], check=True, capture_output=True)


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    """A file that a program of the checkout leaves behind."""
    return tmp_path / "ran"


@pytest.fixture
def program(tmp_path: Path, ran: Path) -> str:
    file = tmp_path / "program"
    file.write_text(f'#!/bin/sh\necho "$0 $*" >> {ran}\ncat 2> /dev/null\n')
    file.chmod(0o755)
    return str(file)


@pytest.fixture
def checkout(tmp_path: Path, program: str) -> Path:
    """A repository with a remote, whose settings name the program wherever git knows a program."""
    repo = tmp_path / "checkout"
    raw(tmp_path, "init", "--quiet", "--bare", "remote.git")
    raw(tmp_path, "init", "--quiet", "--initial-branch=main", "checkout")
    (repo / "a.nix").write_text("1\n")
    (repo / ".gitattributes").write_text("*.nix filter=a=b diff=other\n")
    raw(repo, "add", ".")
    raw(repo, "commit", "--quiet", "--message", "first")
    raw(repo, "remote", "add", "origin", str(tmp_path / "remote.git"))
    hook = repo / ".git/hooks"
    hook.mkdir(exist_ok=True)
    for name in ("pre-commit", "post-commit", "pre-push", "post-index-change", "reference-transaction"):
        (hook / name).symlink_to(program)
    for key in (
        "core.fsmonitor", "core.sshCommand", "core.askPass", "core.editor", "core.pager",
        "diff.external", "diff.other.command", "diff.other.textconv",
        "filter.a=b.clean", "filter.a=b.smudge", "filter.a=b.process",
        "gpg.program", "credential.helper", "remote.origin.receivepack", "remote.origin.uploadpack",
        "alias.status", "alias.ls-files",
    ):  # fmt: skip
        raw(repo, "config", key, f"!{program}" if key.startswith(("alias", "credential")) else program)
    raw(repo, "config", "log.showSignature", "true")
    raw(repo, "config", "protocol.ext.allow", "always")
    return repo


COMMANDS = (
    ("ls-files", "-z", "-t", "--cached", "--others", "--exclude-standard"),
    ("status", "--porcelain=v1", "--untracked-files=all"),
    ("diff", "HEAD"),
    ("diff", "--cached", "--name-only"),
    ("log", "--patch", "--name-status"),
    ("add", "--all"),
    ("commit", "--quiet", "--all", "--message", "second"),
    ("archive", "--format=tar", "--output=/dev/null", "HEAD"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_program_of_a_checkout_is_started(checkout: Path, ran: Path, command: tuple[str, ...]) -> None:
    (checkout / "a.nix").write_text("2\n")
    done = git(checkout, *command)
    assert not ran.exists(), ran.read_text()
    assert done.ok, done.stderr


def test_nor_is_one_that_an_included_file_names(checkout: Path, ran: Path, program: str) -> None:
    (checkout / ".gitattributes").write_text("*.nix filter=included\n")
    (checkout.parent / "more").write_text(
        f'[filter "included"]\nclean = {program}\n[core]\nfsmonitor = {program}\n'
    )
    raw(checkout, "config", "include.path", str(checkout.parent / "more"))
    (checkout / "a.nix").write_text("2\n")
    assert "a.nix" in git(checkout, "status", "--porcelain=v1").stdout
    assert not ran.exists(), ran.read_text()


def test_settings_in_a_file_that_never_ends_fail_in_time(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(checkout.parent / "fifo")
    raw(checkout, "config", "include.path", str(checkout.parent / "fifo"))
    monkeypatch.setattr("torchsmith.core.git.READ_SECONDS", 0.1)
    with pytest.raises(Failed):
        git(checkout, "rev-parse", "HEAD")


@pytest.mark.parametrize(
    "command", [("push", "origin", "main"), ("ls-remote", "origin"), ("fetch", "origin")]
)
def test_no_network_is_used_in_a_checkout_that_has_settings_of_its_own(
    checkout: Path, ran: Path, command: tuple[str, ...]
) -> None:
    with pytest.raises(Refused):
        git(checkout, *command)
    assert not ran.exists()


@pytest.mark.parametrize("key", ["http.cookieFile", "http.https://x.test/.proxy", "url./x.insteadOf"])
def test_addresses_and_cookies_of_a_checkout_are_never_used(tmp_path: Path, key: str) -> None:
    raw(tmp_path, "init", "--quiet", "plain")
    raw(tmp_path, "init", "--quiet", "--bare", "remote.git")
    repo = tmp_path / "plain"
    raw(repo, "remote", "add", "origin", str(tmp_path / "remote.git"))
    assert git(repo, "ls-remote", "origin").ok
    raw(repo, "config", key, "x")
    with pytest.raises(Refused):
        git(repo, "ls-remote", "origin")


def test_nor_one_of_a_repository_inside_it(checkout: Path, ran: Path, program: str) -> None:
    raw(checkout, "init", "--quiet", "inner")
    raw(checkout / "inner", "commit", "--quiet", "--allow-empty", "--message", "inner")
    (checkout / ".gitattributes").unlink()
    assert git(checkout, "add", "inner").ok
    raw(checkout / "inner", "config", "core.fsmonitor", program)
    ran.unlink(missing_ok=True)
    assert git(checkout, "status", "--porcelain=v1").ok
    assert git(checkout, "diff", "--quiet", "HEAD", "--", "a.nix").ok
    assert not ran.exists()


def test_what_the_user_s_own_configuration_says_holds() -> None:
    found = harmless(
        [
            ("global", "gpg.program", "my-gpg"),
            ("global", "filter.lfs.clean", "git-lfs clean"),
            ("local", "gpg.program", "evil"),
            ("local", "filter.other.clean", "evil"),
            ("local", "user.name", "Somebody"),
        ]
    )
    assert list(found) == [("gpg.program", "my-gpg"), ("filter.other.clean", "")]


@pytest.mark.parametrize(("folder", "runs"), [("{own}", True), ("own", False)])
def test_the_user_s_own_hooks_run_on_a_commit_unless_they_are_in_the_checkout(
    checkout: Path, ran: Path, program: str, monkeypatch: pytest.MonkeyPatch, folder: str, runs: bool
) -> None:
    own = checkout.parent / "hooks"
    for place in (own, checkout / "own"):
        place.mkdir()
        (place / "pre-commit").symlink_to(program)
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.hooksPath")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", folder.format(own=own))
    (checkout / "a.nix").write_text("2\n")
    assert git(checkout, "status", "--porcelain=v1").ok
    assert git(checkout, "add", "--all").ok
    assert not ran.exists()
    assert git(checkout, "commit", "--quiet", "--all", "--message", "second").ok
    assert ran.exists() is runs
    assert str(own if runs else "") in (ran.read_text() if runs else "")


@pytest.mark.parametrize("name", LOCAL_VARIABLES)
def test_variables_that_name_another_repository_do_not_reach_git(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    raw(checkout.parent, "init", "--quiet", "other")
    monkeypatch.setenv(name, str(checkout.parent / "other/.git"))
    listing = git(checkout, "ls-files").stdout.split()
    assert listing == [".gitattributes", "a.nix"]


def test_every_local_variable_of_git_is_dropped() -> None:
    listing = subprocess.run(["git", "rev-parse", "--local-env-vars"], capture_output=True, text=True)
    own = {"GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS"}
    assert set(listing.stdout.split()) - own <= set(LOCAL_VARIABLES)


def test_git_is_started_in_one_place() -> None:
    starts = re.compile(r"""\[\s*["']git["']""")
    assert [str(file.relative_to(SRC)) for file in SRC.rglob("*.py") if starts.search(file.read_text())] == [
        "core/git.py"
    ]
