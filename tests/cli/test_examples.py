"""The example of every verb runs and fits a terminal; the word sample is something to try a verb on."""

from __future__ import annotations

import importlib
import os
import re
import shlex
import shutil
import sys
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.artifact import standin
from tests.artifact.toy import make_environment
from tests.cli.conftest import Call
from torchsmith.benchmark import measure
from torchsmith.cli.console import wrapped
from torchsmith.cli.panels import VERBS
from torchsmith.cli.samples import HERE

ASKING_NIX = ("eval", "graph", "impact", "build", "rehearse", "fix-hashes")
RUNNING_BUILDS = ("test", "compare")
# What answers a question or prints a document is its own end; some have a next step, not of their example.
NO_NEXT = """pick host show ci history log compare page
    align test diagnose farm line package pin impact publish verify"""
PROGRAMS = (str(Path(sys.executable).parent), os.environ["PATH"])
SIGNATURE = ("AUTHOR_NAME", "AUTHOR_EMAIL", "COMMITTER_NAME", "COMMITTER_EMAIL")
COMMAND = re.compile(r"(next:| )\s*torchsmith ")
ANYBODY = {f"GIT_{name}": "x@example.invalid" for name in SIGNATURE}


@pytest.mark.parametrize(
    "verb",
    [pytest.param(verb, marks=pytest.mark.needs("nix") if verb in ASKING_NIX else ()) for verb in VERBS],
)
def test_the_example_of_a_verb_runs_verbatim_in_a_clean_folder_without_a_network(
    verb: str, clean: Path, prepared: dict[str, Path], call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = importlib.import_module(f"torchsmith.verbs.{verb.replace('-', '_')}").EXAMPLE
    assert example in " ".join(call(verb, "--help").out.split())
    monkeypatch.setenv("COLUMNS", "80")
    before, _, last = example.rpartition(" && ")
    assert last.startswith(f"torchsmith {verb}")
    if verb == "build" and os.uname().machine == "aarch64":  # a machine builds for its own CPUs
        last = last.replace("sm120 avx2", "sm121 armv8_2")
    monkeypatch.chdir(clean)
    monkeypatch.setattr(measure, "TURN_SECONDS", 1e-4)  # what compare measures here does not matter
    for name in ("result", ".venv") if verb in RUNNING_BUILDS else ():
        make_environment(clean / name)
    if before in prepared:
        shutil.copytree(prepared[before], clean, symlinks=True, dirs_exist_ok=True)
    elif before:
        for command in before.split(" && "):
            program, *words = shlex.split(command)
            assert (program, call(*words).code) == ("torchsmith", 0)
        prepared[before] = Path(shutil.copytree(clean, clean.with_name("prepared"), symlinks=True))
    command, _, file = last.partition(" > ")
    done = call(*shlex.split(command)[1:])
    assert "next: torchsmith " in done.err or verb in NO_NEXT.split(), done.err
    # Publishing wants Flox and a remote, which a test machine has not; it says so.
    assert done.code in ((1, 3) if verb == "publish" else (0,)), done.out + done.err
    assert done.out or not file
    lines = (done.err if file else done.out + done.err).splitlines()
    assert not [line for line in lines if len(line) > 80 and not cannot_be_broken(line)]


@pytest.fixture
def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of a user who has set nothing, and whose network leads nowhere."""
    for name in [name for name in os.environ if name.startswith("TORCHSMITH")]:
        monkeypatch.delenv(name)
    settings = {f"{kind}_proxy": "http://127.0.0.1:9" for kind in ("http", "https", "all")} | ANYBODY
    settings |= {"HOME": str(tmp_path / "home"), "PATH": os.pathsep.join(PROGRAMS)}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "clean").mkdir()
    return tmp_path / "clean"


@pytest.fixture(scope="module")
def prepared() -> dict[str, Path]:
    """What the commands before an example's last one make, by those commands."""
    return {}


def cannot_be_broken(line: str) -> bool:
    """A path, an address or a name with at most a label before it, a command to copy, a line of a script;
    a row of a table whose last word alone is too much."""
    words = line.lstrip(" │").split()
    fits = line.rstrip().rpartition("  ")[0] and len(line) - len(words[-1]) <= 80
    return len(words) <= 2 or bool(fits) or line.startswith("    +") or bool(COMMAND.match(line))


@given(st.text("ab é\x1b", max_size=200), st.integers(8, 40), st.integers(0, 6))
def test_a_line_is_broken_between_words_alone(text: str, room: int, hang: int) -> None:
    text = text.replace("\x1b", "\x1b[1mc\x1b[0m")
    lines = wrapped(text, room, hang)
    assert " ".join(lines).split() == text.split()
    seen = [re.sub(r"\x1b\[\d+m", "", line).split() for line in lines]
    shown = [re.sub(r"\x1b\[\d+m", "", line).rstrip() for line in lines]
    assert not [line for line, words in zip(shown, seen, strict=True) if len(line) > room and len(words) > 2]


@pytest.mark.parametrize("words", ["cover sample --curve 8", "line list", "package list", "verify sample"])
def test_nothing_is_cut_or_broken_without_a_terminal(
    words: str, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS")
    piped = call(*words.split()).out
    assert not re.search(r"\S…", piped)
    monkeypatch.setenv("COLUMNS", "40")
    narrow = call(*words.split()).out
    assert len(narrow.splitlines()) > len(piped.splitlines())  # so a terminal's width would have broken it


def test_the_sample_of_a_build_holds_what_its_libraries_were_made_of() -> None:
    with zipfile.ZipFile(HERE / "torch.whl") as sample:
        for name in ("lib/libtorch_cpu.so", "_C.so"):
            assert sample.read(f"torch/{name}") == standin.CPU_LIBRARY
        assert sample.read("torch/lib/libtorch_cuda.so") == standin.GPU_LIBRARY


def test_an_environment_that_has_torchsmith_is_not_judged_by_its_sample(call: Call, tmp_path: Path) -> None:
    site = make_environment(tmp_path / "venv").joinpath("lib").glob("*/site-packages")
    shutil.copytree(HERE, next(site) / "torchsmith" / "samples", ignore=shutil.ignore_patterns("nixpkgs"))
    assert "GPU code" not in call("verify", tmp_path / "venv").out


def test_a_file_called_sample_comes_before_ours(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("diagnose", "sample").code == 0
    Path("sample").write_text("all is well\n")
    assert call("diagnose", "sample").code == 2
