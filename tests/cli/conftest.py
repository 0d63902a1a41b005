"""A way to call the command line as a user does, without a process each time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import torchsmith.cli.console
import torchsmith.cli.main
from torchsmith.__main__ import main
from torchsmith.core.problem import Problem


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str
    error: str = ""  # the code of the problem that ended it


Call = Callable[..., Result]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """Run `torchsmith ARGS`, in a folder if one is given; anything but an exit escapes and fails the test."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    fail, told = torchsmith.cli.main.fail, list[str]()

    def failing(problem: Problem) -> None:
        told.append(problem.code())
        fail(problem)

    monkeypatch.setattr(torchsmith.cli.main, "fail", failing)

    def run(*args: str | Path, cwd: Path | None = None) -> Result:
        told.clear()
        if cwd:
            monkeypatch.chdir(cwd)
        torchsmith.cli.console.ANSWERED.set(False)
        monkeypatch.setattr(sys, "argv", ["torchsmith", *map(str, args)])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err, "".join(told))

    return run
