"""Files and folders that a checkout can bring: no verb ends in a traceback or waits for ever."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.building.conftest import Place
from tests.building.conftest import _pattern as _pattern
from tests.building.conftest import _store as _store
from tests.building.conftest import nix_here as nix_here
from tests.building.conftest import place as place
from tests.cli.conftest import Call

VERBS = (("list",), ("plan",), ("audit", "."), ("audit", ".", "--format", "json"), ("page",))


def nested(place: Place) -> None:
    handle = os.open(place.root / "build-pytorch/.flox/pkgs", os.O_RDONLY)
    for _ in range(
        1050
    ):  # deeper than calls may be nested, and a path of them all is longer than Linux takes
        os.mkdir("deep", dir_fd=handle)
        inner = os.open("deep", os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = inner
    os.close(handle)


def not_text(place: Place) -> None:
    folder = os.fsencode(place.root / "build-pytorch/.flox/pkgs")
    Path(os.fsdecode(folder + b"/\xff\xfe.nix")).write_text("{ }: 1")


def digits(place: Place) -> None:
    with (place.root / "torchsmith.toml").open("a") as file:
        file.write(f"\n[more]\nnumber = {'9' * 5000}\n")


def parts(place: Place) -> None:
    with (place.root / "torchsmith.toml").open("a") as file:
        file.write("\n" + ".".join(["a"] * 100_000) + " = 1\n")


def pipes(place: Place) -> None:
    for name in ("README.md", "default.nix", ".flox/pkgs/a.nix"):
        file = place.root / "build-pytorch" / name
        file.unlink(missing_ok=True)
        os.mkfifo(file)


def devices(place: Place) -> None:
    for name in ("README.md", "default.nix", ".flox/pkgs/a.nix"):
        file = place.root / "build-pytorch" / name
        file.unlink(missing_ok=True)
        file.symlink_to("/dev/zero")


def sparse(place: Place) -> None:
    file = place.root / "build-pytorch/.flox/pkgs/a.nix"
    file.touch()
    os.truncate(file, 2 << 30)


BAD = (nested, not_text, digits, parts, pipes, devices, sparse)


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.__name__)
def test_no_verb_ends_in_a_traceback(
    place: Place, call: Call, monkeypatch: pytest.MonkeyPatch, bad: Callable[[Place], None]
) -> None:
    bad(place)
    monkeypatch.chdir(place.root)
    for words in VERBS:
        assert call(*words).code in (0, 1, 2, 3)
    subprocess.run(["rm", "-r", place.root / "build-pytorch"], check=True)  # pytest's own cannot


@pytest.mark.parametrize("words", [("pick", "--from"), ("cover",), ("diagnose",)])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_is_given_as_a_file_must_be_one(
    tmp_path: Path, call: Call, words: tuple[str, ...], kind: str
) -> None:
    os.mkfifo(tmp_path / "pipe")
    named = {"pipe": str(tmp_path / "pipe"), "device": "/dev/zero"}[kind]
    assert call(*words, named).code == 2


@pytest.mark.parametrize("words", [("--version",), ("--help",), ("list",), ("list", "--json")])
def test_output_that_cannot_be_written_is_an_error(words: tuple[str, ...], tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "torchsmith", *words]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) <= 2
