"""A way to call the command line as a user does, without a process each time."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import jsonschema
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


@cache
def _validators(verb: str) -> dict[str, jsonschema.Draft202012Validator]:
    """The published schemas of what a verb prints with --json, by name of the document."""
    from tools.json_pages import schema_name
    from tools.pages import DOCUMENTS, ROOT

    names = [name for name in DOCUMENTS if verb in (part.split()[0] for part in name.split(", "))]
    return {
        name: jsonschema.Draft202012Validator(
            json.loads((ROOT / "docs/json" / schema_name(name)).read_text())
        )
        for name in names
    }


def check_document(verb: str, text: str) -> None:
    """Fail unless a JSON document of a verb is as one of its schemas says, and an error as its own."""
    lines = text.splitlines() if verb == "build" and text.startswith('{"') else [text]
    for document in map(json.loads, filter(None, lines)):
        schemas = _validators("error" if "error" in document else verb)
        faults = {name: next(schema.iter_errors(document), None) for name, schema in schemas.items()}
        assert None in faults.values(), faults


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
        monkeypatch.setattr(sys, "argv", ["torchsmith", *map(str, args)])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        finally:
            torchsmith.cli.console.ANSWERED.set(False)
        captured = capsys.readouterr()
        if "--json" in args:
            check_document(str(args[0]), captured.out)
        return Result(code, captured.out, captured.err, "".join(told))

    return run
