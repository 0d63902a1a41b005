"""Small parts of reading machine code and GPU code, each by a few bytes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from torchsmith.artifact import interpreter
from torchsmith.artifact.identity import toolkits_of
from torchsmith.artifact.interpreter import interpreter_for
from torchsmith.artifact.known import Owners
from torchsmith.catalog import builtin_catalog
from torchsmith.core.problem import NotFound


def test_only_the_version_file_of_a_known_package_states_a_release() -> None:
    files = {"torch/version.py": "13.0", "torch/config.py": "12.1", "numpy/version.py": "11.8"}
    texts = {name: f"cuda: str = '{release}'" for name, release in files.items()}
    [stated] = toolkits_of(texts, (), Owners.of(builtin_catalog()))
    assert (str(stated.release), stated.by) == ("13.0", "torch/version.py")


def test_other_outputs_of_a_store_path_are_those_that_nix_has_on_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built, other, deriver = tmp_path / "a-torch", tmp_path / "b-torch-dev", tmp_path / "c-torch.drv"
    built.mkdir()
    other.mkdir()
    deriver.touch()
    answers = {"--deriver": f"{deriver}\n", "--outputs": f"{built}\n{other}\n"}
    monkeypatch.setattr(interpreter, "find", lambda _: "nix-store")
    monkeypatch.setattr(interpreter, "run", lambda words, timeout: SimpleNamespace(stdout=answers[words[2]]))
    for store, outputs in ((tmp_path, [built, other]), (tmp_path / "elsewhere", [])):
        monkeypatch.setattr(interpreter, "_store", lambda store=store: store)
        assert list(interpreter._outputs(built)) == outputs


def test_what_is_not_there_cannot_be_run(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="does not exist"):
        interpreter_for(tmp_path / "result", builtin_catalog())
