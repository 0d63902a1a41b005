"""A test whose system part is absent is skipped, and the end says so loudly; in CI a skip is a failure."""

from __future__ import annotations

import gc
import os
import random
import re
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.cli.conftest import call as call
from tools import browser

# How long an example takes says more about the machine than about the code.
settings.register_profile("torchsmith", deadline=None)
settings.load_profile("torchsmith")

# A part is there when all of its commands are; `make test` installs them if it may.
PARTS = {
    "ninja": ("ninja", "gcc"),
    "chromium": (browser.PROGRAM,),
    "hip": ("clang-19", "ld.lld-19", "llc-19", "/usr/lib/llvm-19/bin/clang-offload-bundler"),
    "cross-gcc": ("x86_64-linux-gnu-g++", "aarch64-linux-gnu-g++"),
    "shells": ("bash", "zsh", "fish"),
    "ssh": ("sshd", "ssh", "ssh-keygen"),
    "mounts": ("unshare", "mount"),
    "ccache": ("ccache",),
    "nix": ("nix-instantiate", "nix-build", "patch"),  # the miniature patches its MAGMA
}


# What whoever runs the tests has set for git, Nix or torchsmith; in a hook of git, what git has.
# Without bytecode each of the hundreds of processes that tests start would compile torchsmith again.
THEIR_OWN = re.compile("GIT_|NIX_(REMOTE|CONFIG|PATH)|TORCHSMITH_NIXPKGS|PYTHONDONTWRITEBYTECODE")
sys.dont_write_bytecode = False

# The longest files: begun at the start, they leave no worker alone at the end.
EARLY = {
    "test_documentation.py",
    "test_nix_builds.py",
    "test_publish.py",
    "test_cpu_truth.py",
    "test_hung.py",
    "test_fix_hashes.py",
    "test_browser.py",
    "test_evaluate.py",
    "test_compare.py",
    "test_examples.py",
    "test_ordinary_user.py",
    "test_api.py",
    "test_plan.py",
    "test_bad_files.py",
    "test_parser.py",
    "test_line_online.py",
    "test_bounds.py",
    "test_trial.py",
    "test_answers.py",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With a seed, files in random order, and so the tests within each: no test may lean on another."""
    if seed := os.environ.get("TORCHSMITH_TEST_SEED"):
        order = random.Random(seed)
        ranks = {path: order.random() for path in dict.fromkeys(item.path for item in items)}
        order.shuffle(items)
        items.sort(key=lambda item: ranks[item.path])
    items.sort(key=lambda item: item.path.name not in EARLY)


def pytest_collection_finish() -> None:
    """Thousands of tests stay until the end: nothing is found by looking for rubbish among them."""
    gc.freeze()


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_auto_num_workers() -> Generator[None, int, int]:
    """Two more than there are cores, or a quarter more: Nix, browsers and time limits are waited for."""
    cores = yield
    return cores if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ else cores + max(2, cores // 4)


@pytest.fixture(autouse=True, scope="session")
def _nobodys_own_settings(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Git, Nix and torchsmith are as a machine has them that was just set up, but git knows a committer."""
    for name in filter(THEIR_OWN.match, list(os.environ)):
        del os.environ[name]
    config = tmp_path_factory.mktemp("git") / "config"
    config.write_text(f"[safe]\ndirectory = {Path(__file__).parent.parent}\n[core]\nfsync = none\n")
    os.environ |= {"GIT_CONFIG_GLOBAL": str(config), "GIT_CONFIG_NOSYSTEM": "1", "NIX_USER_CONF_FILES": ""}
    os.environ["TORCHSMITH_STATE"] = str(tmp_path_factory.mktemp("state"))
    for role in ("AUTHOR", "COMMITTER"):
        os.environ |= {f"GIT_{role}_NAME": "Test", f"GIT_{role}_EMAIL": "test@example.org"}
    # A shell's job in the background ignores Ctrl-C, and so would all that tests start and interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before any fixture of the test, however wide its scope: are its parts there?"""
    path = f"{os.environ['PATH']}:/usr/sbin"  # where sshd is, whoever asks
    for mark in item.iter_markers("needs"):
        for part in mark.args:
            missing = [command for command in PARTS[part] if shutil.which(command, path=path) is None]
            if missing:
                pytest.skip(f"{part} is missing ({', '.join(missing)})")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """CI has every part, so a test that it skips is never run."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI") == "true":
        report.outcome, report.longrepr = "failed", f"skipped in CI: {_reason(report)}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was not tested, and how to change that, at the end."""
    skipped = Counter(map(_reason, terminalreporter.stats.get("skipped", ())))
    for reason, count in skipped.items():
        terminalreporter.write_line(f"NOT TESTED HERE: {count} tests, because {reason}", yellow=True)
    if skipped:
        terminalreporter.write_line("`sh tools/system-parts.sh` installs what is missing, or says how to")


def _reason(report: pytest.TestReport) -> str:
    told = report.longrepr
    return str(told[2] if isinstance(told, tuple) else told).removeprefix("Skipped: ")
