"""A benchmark that cannot run says so in its row, and the others run all the same."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from bench import __main__ as bench
from bench.measure import Row, Timing
from tools import browser


def module(name: str, error: Exception | None) -> ModuleType:
    def rows() -> Iterator[Row]:
        yield Row(f"row of {name}", "nothing", Timing((1.0,)), Timing((2.0,)), 1.0, "lower")
        if error:
            raise error

    made = ModuleType(f"bench.{name}")
    made.rows = rows  # type: ignore[attr-defined]
    return made


def test_a_failure_is_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "FILE", tmp_path / "bench.json")
    monkeypatch.setitem(sys.modules, "bench.page", module("page", browser.NoBrowser("no browser here")))
    monkeypatch.setitem(sys.modules, "bench.load", module("load", None))
    monkeypatch.setenv("COLUMNS", "200")
    assert bench.main(["page", "load"]) == 0
    printed = capsys.readouterr().out
    assert "page could not run: NoBrowser: no browser here" in printed
    written = json.loads((tmp_path / "bench.json").read_text())
    assert [row["what"] for row in written["rows"]] == ["row of page", "row of load"]
    assert list(written["could_not_run"]) == ["page"]


def test_a_machine_without_the_browser_is_told_which_program_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(browser.NoBrowser, match=browser.PROGRAM), browser.chromium():
        pass
