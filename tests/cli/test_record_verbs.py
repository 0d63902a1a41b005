"""Verbs that show what the record holds: results that are gone, a record that cannot be read."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.building.conftest import Place
from tests.building.conftest import _pattern as _pattern
from tests.building.conftest import place as place
from tests.cli.conftest import Call
from torchsmith.cli.completion import candidates
from torchsmith.core.state import state_folder
from torchsmith.record import JobRow, open_record
from torchsmith.verbs.build import BuildRequest


def test_status_says_which_results_the_store_no_longer_has(
    place: Place, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, gone = tmp_path / "there", tmp_path / "gone"
    there.mkdir()
    record = open_record(place.root)
    number = record.start_run("nix", ())
    about = {"package": "pytorch", "gpu": True, "system": "x", "targets": ()}
    record.add_jobs(
        JobRow(run=number, key=name, name=name, state="done", attempts=1, outputs=(str(path),), **about)  # type: ignore[arg-type]
        for name, path in (("one", there), ("two", gone))
    )
    assert json.loads(call(*place.words("runs", "--json")).out)["state"] == "running"
    record.end_run(number, "done")
    assert json.loads(call(*place.words("runs", "--json")).out)["missing"] == [str(gone)]
    out = call(*place.words("runs")).out
    assert re.match(r"run 1 \(everything, nix\) of \d{4}-\d\d-\d\d \d\d:\d\d is done\n", out)
    for words in (("runs", "three"), ("runs", "three", "--history")):
        wrong = call(*place.words(*words))
        assert (wrong.code, wrong.error) == (2, "not-found")
        assert "known: one, two" in wrong.err
    lines = [line for line in out.splitlines() if str(tmp_path) in line]
    assert [line.strip() == str(there) for line in lines] == [True, False]
    assert call(*place.words("runs", "log")).out.split() == ["one", "two"]
    monkeypatch.chdir(place.root)
    assert [name for name, _ in candidates(("runs", "log", ""))] == ["one", "two"]
    assert [name for name, _ in candidates(("runs", ""))] == ["log", "one", "two"]


def test_what_remains_of_a_run_is_built_with_the_nixpkgs_of_the_run(place: Place, call: Call) -> None:
    record = open_record(place.root)
    spec = BuildRequest(recipes=("sm120",), nixpkgs=("sample",)).spec
    record.end_run(record.start_run(spec.backend, spec.selectors, spec.nixpkgs), "stopped")
    words = f"build sm120 --nixpkgs sample -w {place.root} "
    assert f"next: torchsmith {words}" in call(*place.words("runs")).err


def test_page_says_on_the_terminal_that_a_record_is_damaged(place: Place, tmp_path: Path, call: Call) -> None:
    open_record(place.root).close()
    file = next((state_folder(place.root)).glob("*.sqlite*"))
    file.write_bytes(b"SQLite format 3\0" + b"\xff" * 4096)
    answer = call(*place.words("page", "-o", str(tmp_path / "page.html")))
    assert answer.code == 0
    assert file.name in answer.err
