"""The example of every verb runs, and the word sample stands for something to try it on."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.artifact import standin
from tests.cli.conftest import Call
from torchsmith.cli.panels import VERBS
from torchsmith.cli.samples import HERE

ASKING_NIX = ("eval", "sbom", "graph", "diff-drv", "impact", "build", "rehearse", "fix-hashes")
# What answers a question or prints a document is its own end; some have a next step, not of their example.
NO_NEXT = """pick host show schema ci sbom facts history log compare page diff-drv
    align test diagnose farm line package pin impact publish"""
PROGRAMS = (str(Path(sys.executable).parent), os.environ["PATH"])
SIGNATURE = ("AUTHOR_NAME", "AUTHOR_EMAIL", "COMMITTER_NAME", "COMMITTER_EMAIL")
ANYBODY = {f"GIT_{name}": "x@example.invalid" for name in SIGNATURE}


@pytest.mark.parametrize(
    "verb",
    [pytest.param(verb, marks=pytest.mark.needs("nix") if verb in ASKING_NIX else ()) for verb in VERBS],
)
def test_the_example_of_a_verb_runs_verbatim_in_a_clean_folder_without_a_network(
    verb: str, call: Call, tmp_path: Path
) -> None:
    example = importlib.import_module(f"torchsmith.cli.verbs.{verb.replace('-', '_')}").EXAMPLE
    assert example in " ".join(call(verb, "--help").out.split())
    assert example.split(" && ")[-1].startswith(f"torchsmith {verb}")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TORCHSMITH")}
    nowhere = {f"{kind}_proxy": "http://127.0.0.1:9" for kind in ("http", "https", "all")}
    env = kept | ANYBODY | nowhere | {"HOME": str(tmp_path / "home"), "PATH": os.pathsep.join(PROGRAMS)}
    (tmp_path / "clean").mkdir()
    done = subprocess.run(
        ["bash", "-c", example], cwd=tmp_path / "clean", env=env, capture_output=True, text=True, check=False
    )
    assert "next: torchsmith " in done.stderr or verb in NO_NEXT.split(), done.stderr
    # Publishing wants Flox and a remote, which a test machine has not; it says so.
    assert done.returncode in ((1, 3) if verb == "publish" else (0,)), done.stdout + done.stderr


def test_the_sample_of_a_build_holds_what_its_libraries_were_made_of() -> None:
    libraries = HERE / "build" / "torch" / "lib"
    assert (libraries / "libtorch_cpu.so").read_bytes() == standin.CPU_LIBRARY
    assert (libraries / "libtorch_cuda.so").read_bytes() == standin.GPU_LIBRARY


def test_a_file_called_sample_comes_before_ours(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("diagnose", "sample").code == 0
    Path("sample").write_text("all is well\n")
    assert call("diagnose", "sample").code == 1
