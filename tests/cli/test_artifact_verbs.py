"""`verify` and `test` on the command line: answers, JSON, and an exit code that a script can trust."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.artifact import standin
from tests.cli.conftest import Call

NAME = "pytorch-python313-cuda13_0-sm120-avx512"


def test_a_build_that_keeps_its_promise_exits_0(call: Call, tmp_path: Path) -> None:
    result = call("verify", str(standin.build(tmp_path)), "--variant", NAME)
    assert result.code == 0
    assert f"{NAME} promises" in result.out
    assert "✓ gpu: " in result.out


def test_the_promise_in_the_paths_name_is_checked_without_being_asked_for(call: Call, tmp_path: Path) -> None:
    path = standin.build(tmp_path).rename(tmp_path / "result-pytorch-python313-cuda13_0-sm90-avx512")
    result = call("verify", str(path), "--json")
    assert result.code == 1
    checks = json.loads(result.out)["report"]["checks"]
    assert "gpu" in {check["id"] for check in checks if check["status"] == "wrong"}


def test_what_was_left_out_is_not_called_verified(call: Call, tmp_path: Path) -> None:
    path = standin.build(tmp_path)
    result = call("verify", str(path), "--variant", NAME, "--no-cpu")
    assert "? cpu: " in result.out
    assert result.out.rstrip().endswith("not everything could be checked (cpu)")
    assert "promises" not in result.out
    report = json.loads(call("verify", str(path), "--variant", NAME, "--no-cpu", "--json").out)["report"]
    assert (report["ok"], report["verified"]) == (True, False)


def test_json_holds_the_verdict_and_the_code_by_target(call: Call, tmp_path: Path) -> None:
    path = standin.build(tmp_path)
    answer = json.loads(call("verify", str(path), "--variant", NAME, "--json").out)
    report = answer["report"]
    assert report["ok"] is True
    assert report["variant"] == NAME
    assert report["gpu"] == [{"kind": "cubin", "target": "120", "entries": 1, "size": 128, "containers": 1}]
    assert {check["id"]: check["status"] for check in report["checks"]}["flags"] == "right"


@pytest.mark.parametrize(
    ("words", "code", "error", "named"),
    [
        (["verify", "missing"], 2, "not-found", "missing"),
        (["verify", "notes.txt"], 2, "not-elf", "notes.txt"),
        (["verify", "empty"], 2, "invalid", "empty"),
        (["verify", "result", "--variant", "pytorch-sm120"], 2, "bad-name", "pytorch-sm120"),
        (["verify", "result", "--variant", "pytorch-python313-cpu-avx9"], 2, "not-known", "avx9"),
        (["verify", "result", "--variant", "pytorch-python313-cuda13_0-sm99-avx2"], 2, "not-known", "sm99"),
        (["verify", "text.whl"], 2, "invalid", "it is text"),
        (["verify", "bad.whl"], 1, "damaged", "cut off"),
        (["verify", "wheels"], 2, "invalid", "torchsmith verify wheels/a.whl"),
        (["test", "missing"], 2, "not-found", "missing"),
        (["test", "empty"], 2, "invalid", "empty"),
        (["test", "result", "--python", "/nowhere/python3"], 2, "invalid", "/nowhere/python3"),
    ],
)
def test_a_wrong_request_gets_a_message_and_its_exit_code(
    words: list[str],
    code: int,
    error: str,
    named: str,
    call: Call,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    standin.build(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("no library\n")
    (tmp_path / "text.whl").write_text("no wheel\n")
    (tmp_path / "bad.whl").write_bytes(b"PK\3\4 and no table")
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels/a.whl").touch()
    result = call(*words)
    assert (result.code, result.error) == (code, error)
    assert named in result.err


def test_a_run_prints_every_step(call: Call, tmp_path: Path) -> None:
    result = call("test", str(standin.build(tmp_path)))
    assert result.code == 0
    assert {"✓", "–"} <= {line.split()[0] for line in result.out.splitlines() if line.strip()}
    assert "in float32, " in result.out


def test_a_run_that_is_not_the_variant_fails(call: Call, tmp_path: Path) -> None:
    result = call("test", str(standin.build(tmp_path)), "--variant", NAME, "--json")
    assert result.code == 1
    steps = {row["step"]: row["outcome"] for row in json.loads(result.out)["results"]}
    assert steps.pop("CUDA release") == "failed"
    assert "passed" in steps.values()


def test_a_folder_that_cannot_be_read_is_said_to_be_unreadable(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: object) -> list[str]:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("torchsmith.artifact.contents.os.listdir", refuse)  # root may read any folder
    result = call("verify", str(tmp_path))
    assert (result.code, result.error) == (2, "cannot-read")
    assert "Permission denied" in result.err


def test_a_companion_without_torch_is_said_to_need_one(call: Call, tmp_path: Path) -> None:
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision/__init__.py").touch()
    result = call("test", str(tmp_path), "--python", sys.executable)
    assert result.code == 1
    assert "TorchVision needs a torch beside it" in result.out
