"""What programs may import: listed, loaded late, and shown by examples that run."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import pytest

import torchsmith
from tests.artifact.toy import make_environment
from tests.building.conftest import ARM
from tools.public_names import functions
from torchsmith.cli.console import print_json
from torchsmith.cli.panels import VERBS
from torchsmith.cli.request import Request
from torchsmith.core.problem import Usage

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/python.md").read_text()
ON_ARM = ('cells = ("cpu", "avx2")', 'cells = ("sm121", "armv8_2")')  # a machine builds for its own CPUs
BLOCK = re.compile(r"^```python\n(.*?)^```", re.M | re.S)


@pytest.mark.needs("nix")
def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nix_here: Path) -> None:
    """All blocks of the page in their order."""
    monkeypatch.chdir(tmp_path)
    make_environment(tmp_path / ".venv")
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()) as output:
        for block in BLOCK.findall(PAGE):
            exec(compile(block.replace(*ON_ARM) if ARM else block, "docs/python.md", "exec"), names)
    printed = output.getvalue()
    assert names["picked"].served
    assert re.search(r"^\['pytorch-python313-cuda12_\d-sm89-avx512", printed, re.MULTILINE)
    assert len(names["fleet"].plan.variants) == 3
    assert names["done"].written
    assert len(names["todo"].pending) == len(names["todo"].changes)
    assert {change.kind for change in names["done"].changes} == {"create"}
    assert names["checked"].named == len(names["workspace"].matrix.cells)
    assert not [one for one in names["checked"].findings if one.severity is torchsmith.Severity.ERROR]
    assert names["proved"].report.checks
    assert names["tried"].results
    assert printed.count("/nix/store/") >= 3
    assert re.search(r"^[1-9]\d* jobs$", printed, re.M)
    assert names["built"].state == "done"
    assert len(names["built"].results) >= 3


def test_a_program_of_ten_lines_picks_audits_and_verifies(tmp_path: Path) -> None:
    [program] = re.findall(r"^```python program\n(.*?)^```", PAGE, re.M | re.S)
    assert len(program.splitlines()) <= 10
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes/torchsmith.toml").write_text('format = 1\nprofile = "real"\n')
    torchsmith.apply(torchsmith.ApplyRequest(workspace=tmp_path / "recipes"))
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == ["pytorch-python313-cuda13_0-sm120-avx512", "0", "True"]


@pytest.mark.long  # mypy is not in the extra [test]
def test_the_examples_have_the_annotated_types(tmp_path: Path) -> None:
    file = tmp_path / "examples.py"
    file.write_text("\n".join(re.findall(r"^```python(?: program)?\n(.*?)^```", PAGE, re.M | re.S)))
    argv = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--no-incremental", str(file)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_verb_is_a_function_or_has_some() -> None:
    covered = {one.module.rpartition(".")[2] for one in functions() if one.module.startswith("verbs.")}
    assert {verb.replace("-", "_") for verb in VERBS} <= covered


def test_everything_public_is_there_and_documented() -> None:
    page = PAGE + (ROOT / "docs/python-functions.md").read_text()
    packages = {path.name for path in (ROOT / "src/torchsmith").iterdir() if path.is_dir()}
    for name in torchsmith.__all__:
        assert getattr(torchsmith, name) is not None
        assert f"`{name}" in page, name
    assert torchsmith.__all__ == dir(torchsmith)
    assert not packages & {*torchsmith.__all__}, "an imported package hides a name"
    with pytest.raises(AttributeError):
        torchsmith.nonsense  # type: ignore[attr-defined]  # noqa: B018


def test_a_request_takes_a_value_for_a_sequence_and_a_string_for_a_path() -> None:
    machine = torchsmith.MachineOptions(gpu="RTX 5090", cpu="zen4")
    assert machine.gpu == ("RTX 5090",)
    assert torchsmith.VerifyRequest(path="sample").path == Path("sample")  # type: ignore[arg-type]
    [chosen] = torchsmith.pick(torchsmith.PickRequest(machine=machine)).choice
    assert "sm120" in chosen.name


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("MachineOptions", {"driver": 580}),
        ("MachineOptions", {"gpu": [80]}),
        ("MachineOptions", {"graphics": "RTX 5090"}),
        ("PickRequest", {"machine": "RTX 5090"}),
        ("PickRequest", {"explain": "yes"}),
        ("CompareRequest", {"a": "x", "b": "y", "runs": "2"}),
        ("VerifyRequest", {"path": None}),
    ],
)
def test_a_wrong_argument_is_a_type_error_that_names_it(kind: str, fields: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="|".join(fields)):
        getattr(torchsmith, kind)(**fields)


@pytest.mark.parametrize(
    ("function", "given", "kind"),
    [
        ("pick", "RTX 4090", "PickRequest"),
        ("verify", {}, "VerifyRequest"),
        ("plan", {}, "PlanRequest"),
        ("build", None, "BuildRequest"),
        ("pick", None, "PickRequest"),
    ],
)
def test_a_function_takes_its_own_request_alone(function: str, given: object, kind: str) -> None:
    with pytest.raises(TypeError, match=rf"{function}\(\) takes a torchsmith\.{kind}, not "):
        getattr(torchsmith, function)(given)


def test_a_workspace_is_opened_by_a_string_too(tmp_path: Path) -> None:
    torchsmith.init(torchsmith.InitRequest(folders=(tmp_path / "w",)))
    assert torchsmith.open_workspace(str(tmp_path / "w")).matrix.cells


def test_importing_starts_nothing_and_reads_nothing(tmp_path: Path) -> None:
    script = (
        "import sys\nopened = []\n"
        "def told(event, args):\n"
        "    if event == 'open' and not str(args[0]).endswith(('.py', '.pyc')): opened.append(args[0])\n"
        "    assert event not in ('subprocess.Popen', 'os.exec', 'socket.connect'), event\n"
        "sys.addaudithook(told)\n"
        "import torchsmith\n"
        "loaded = [name for name in sys.modules if name.startswith('torchsmith.')]\n"
        "assert not loaded, loaded\n"
        "assert not opened, opened\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)


def test_every_request_checks_its_types() -> None:
    kinds = [getattr(torchsmith, name) for name in torchsmith.__all__ if name.endswith("Request")]
    assert all(issubclass(kind, Request) for kind in kinds)
    assert torchsmith.AuditRequest(paths=(Path("builds"),)).paths == ("builds",)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="jobs"):
        torchsmith.BuildRequest(jobs="2")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"MachineOptions\.gpu takes Sequence\[str\], not \[80\]"):
        torchsmith.MachineOptions(gpu=[80])  # type: ignore[list-item]


def test_a_request_without_required_fields_may_be_left_out() -> None:
    for one in functions():
        fields = signature(getattr(torchsmith, one.request)).parameters.values()
        needed = any(field.default is Parameter.empty for field in fields)
        request = signature(getattr(torchsmith, one.name)).parameters["request"]
        assert (request.default is Parameter.empty) is needed, one.name
    assert torchsmith.doctor() == torchsmith.doctor(torchsmith.DoctorRequest())


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("BuildRequest", {"jobs": -5}),
        ("BuildRequest", {"timeout": -3}),
        ("NixOptions", {"memory": float("nan")}),
        ("NixOptions", {"memory": float("inf")}),
        ("CoverRequest", {"fleet": "sample", "best": 0}),
        ("CompareRequest", {"a": "x", "b": "y", "runs": -1}),
        ("ApplyRequest", {"wait": -1}),
        ("AuditRequest", {"paths": [""]}),
        ("PlanRequest", {"workspace": ""}),
        ("ShowRequest", {"name": " "}),
        ("LineUpdateRequest", {"line": "2.10", "rev": ""}),
        ("LineUpdateRequest", {"line": "2.10", "sha256": ""}),
        ("LineAddRequest", {"name": "2.14", "torch": ""}),
        ("LineAddRequest", {"name": "2.14", "like": ""}),
        *(("PackageAddRequest", {"name": "x", text: ""}) for text in ("attr", "title", "source", "version")),
    ],
)
def test_an_empty_or_impossible_value_is_a_problem_that_names_it(kind: str, fields: dict[str, Any]) -> None:
    with pytest.raises(Usage, match=rf"{kind}\.{[*fields][-1]}"):
        getattr(torchsmith, kind)(**fields)


def test_a_report_as_json_is_what_the_verb_prints(capsys: pytest.CaptureFixture[str]) -> None:
    facts = torchsmith.pick_facts(torchsmith.PickRequest(machine=torchsmith.MachineOptions(gpu="sm90")))
    print_json(facts)
    assert capsys.readouterr().out == torchsmith.to_json(facts) + "\n"
