"""Tests that need a system part are skipped where it is absent; with CI=true its absence is a failure."""

from __future__ import annotations

import os
import shutil

import pytest
from hypothesis import settings

# How long an example takes says more about the machine than about the code.
settings.register_profile("torchsmith", deadline=None)
settings.load_profile("torchsmith")

# A part is there when all of its commands are; `make test` installs them where it may.
PARTS = {
    "cross-gcc": ("x86_64-linux-gnu-gcc", "aarch64-linux-gnu-gcc"),
    "ssh": ("sshd", "ssh", "ssh-keygen"),
    "nix": ("nix-instantiate", "nix-build"),
}


@pytest.fixture(autouse=True, scope="session")
def _somebody_commits() -> None:
    """Git knows a committer, whatever the machine's own settings are."""
    for role in ("AUTHOR", "COMMITTER"):
        os.environ[f"GIT_{role}_NAME"] = "Test"
        os.environ[f"GIT_{role}_EMAIL"] = "test@example.org"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before any fixture of the test, however wide its scope: are its parts there?"""
    path = f"{os.environ['PATH']}:/usr/sbin"  # where sshd is, whoever asks
    for mark in item.iter_markers("needs"):
        for part in mark.args:
            missing = [command for command in PARTS[part] if shutil.which(command, path=path) is None]
            if not missing:
                continue
            message = f"needs {part}: {', '.join(missing)} not found; `make test` installs it where it may"
            if os.environ.get("CI") == "true":
                pytest.fail(message)
            pytest.skip(message)
