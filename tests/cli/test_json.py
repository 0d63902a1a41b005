"""Every document of --json has its format and is as its schema in docs/json says."""

from __future__ import annotations

import errno
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import msgspec
import pytest

from tests.cli.conftest import Call, check_document
from tools.json_pages import schema_name
from tools.pages import DOCUMENTS, ROOT
from tools.reference import kinds
from torchsmith.cli.panels import VERBS
from torchsmith.cli.parser import find_command
from torchsmith.core.problem import CannotWrite

BY_HAND = Path(__file__).parents[1] / "edit/by-hand/pytorch-python313-cuda13_0-sm110-armv9.nix"
NAME = "pytorch-python313-cuda13_0-sm120-avx512"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_with_json_is_described(verb: str) -> None:
    command, _ = find_command([verb], VERBS)
    commands = [command, *(find_command([verb, name], VERBS)[0] for name in command.commands)]
    gives = any(parameter.name == "json" for one in commands for parameter in one.parameters())
    assert gives == any(name.split()[0] == verb for name in DOCUMENTS)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("list", ["sm120"]),
        ("list --left-out", ["--left-out", "--profile", "real"]),
        ("show", [NAME]),
        ("show gpu", ["RTX 4090"]),
        ("pick --facts", ["--facts"]),
        ("pick", ["--cpu", "zen4", "--gpu", "RTX 5090", "--driver", "580.65.06"]),
        ("cover", ["sample", "--curve", "2"]),
        ("init", ["another"]),
        ("apply", ["--dry-run"]),
        ("line list", ["list"]),
        ("package list", ["list"]),
        ("verify", ["sample"]),
        ("doctor", []),
        ("diagnose", ["sample"]),
        ("plan", []),
        ("audit", [str(BY_HAND)]),
        ("audit --explain", ["--explain", "TS401"]),
        ("page", ["-o", "page.html"]),
        ("runs", []),
        ("runs", ["--history"]),
    ],
)
def test_a_document_holds_what_its_type_says(
    document: str, words: list[str], call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call("init", str(tmp_path)).code == 0
    monkeypatch.chdir(tmp_path)
    data = json.loads(call(document.split()[0], *words, "--json").out)
    schema = json.loads((ROOT / "docs/json" / schema_name(document)).read_text())
    jsonschema.validate(data, schema)
    assert data["format"] == getattr(DOCUMENTS[document], "FORMAT", 1)
    assert "page" not in document or Path("page.html").is_file()


def test_an_error_is_a_document_too(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "torchsmith", "show", "nothing", "--json"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    told = json.loads(done.stdout)
    check_document("show", done.stdout)
    with pytest.raises(AssertionError):
        check_document("show", '{"format": 1, "error": "bad-name"}')
    assert (done.returncode, told["format"], told["error"]["exit"]) == (2, 1, 2)
    assert told["error"]["code"] == "bad-name"
    assert told["error"]["message"] in " ".join(done.stderr.split())


@pytest.mark.parametrize("words", [("--format", "json"), ("--format=json",), ("-f", "json")])
def test_an_error_of_audit_is_json_as_its_format_says(tmp_path: Path, words: tuple[str, ...]) -> None:
    called = [sys.executable, "-m", "torchsmith", "audit", "nowhere/", *words]
    done = subprocess.run(called, cwd=tmp_path, capture_output=True, text=True, check=False)
    told = json.loads(done.stdout)
    assert (done.returncode, told["error"]["code"], told["error"]["exit"]) == (2, "not-found", 2)


def test_build_prints_json_lines_to_the_end(tmp_path: Path) -> None:
    called = [sys.executable, "-m", "torchsmith", "build", "--json"]
    done = subprocess.run(called, cwd=tmp_path, capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines[-1]["error"]["exit"] == done.returncode != 0


def test_every_schema_has_an_id_of_its_own_with_its_format() -> None:
    schemas = {name: json.loads((ROOT / "docs/json" / schema_name(name)).read_text()) for name in DOCUMENTS}
    assert len({schema["$id"] for schema in schemas.values()}) == len(schemas)
    assert schemas["error"]["$id"] == "urn:torchsmith:error:1"
    for name in set(schemas) - {"build"}:
        assert schemas[name]["$id"].endswith(f":{schemas[name]['properties']['format']['const']}")


def test_every_kind_of_error_has_one_exit_code() -> None:
    assert all("exit" not in inspect.signature(kind.__init__).parameters for kind in kinds())


def test_the_codes_of_errors_stay_as_they_are() -> None:
    codes = """bad-name broken busy cannot-build cannot-read cannot-write conflict contradiction damaged
        empty exists failed incomplete invalid missing-requirement not-built not-elf not-found not-known
        refused template-error too-large unreadable usage"""
    assert sorted(kind.code() for kind in kinds()) == codes.split()


def test_an_answer_that_was_printed_is_not_followed_by_a_second_document(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, text: str) -> None:
        raise CannotWrite(f"cannot write {path}: {os.strerror(errno.ENOSPC)}")

    monkeypatch.setattr("torchsmith.verbs.cover.write_atomic", full)
    result = call("cover", "sample", "--json", "--write", str(tmp_path / "below.toml"))
    assert (result.code, result.error) == (3, "cannot-write")
    assert json.loads(result.out)["plan"]
    assert "below.toml" in result.err


def test_page_makes_no_folder(tmp_path: Path, call: Call) -> None:
    assert call("page", "-p", "seed", "-o", str(tmp_path / "new/page.html")).error == "not-found"
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("cover", "sample", "--write", "there"),
        ("cover", "sample", "--write", "there/below"),
        ("page", "-p", "seed", "-o", "there"),
        ("page", "-p", "seed", "-o", "there/below", "--json"),
    ],
    ids=" ".join,
)
def test_a_file_that_cannot_be_written_is_refused_before_the_answer(
    words: tuple[str, ...], tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").write_text("somebody's")
    result = call(*words)
    assert result.error in ("exists", "cannot-write")
    assert not result.out or json.loads(result.out).keys() == {"format", "error"}
    assert (tmp_path / "there").read_text() == "somebody's"


def test_only_errors_are_called_error() -> None:
    """Programs distinguish an error from an answer by that key."""
    documents = [one for verb, one in DOCUMENTS.items() if verb not in ("build", "error")]
    _, types = msgspec.json.schema_components(documents, schema_hook=lambda _: {"type": "string"})
    assert not [one for one in documents if "error" in types[one.__name__]["properties"]]
