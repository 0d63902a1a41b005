"""What a person reads, verb by verb: what is said of a report, and what comes next."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Call
from tests.host.machines import stated
from torchsmith.catalog import builtin_catalog
from torchsmith.cli.console import command
from torchsmith.cli.machine_options import MachineOptions
from torchsmith.cli.pick_report import _nearest
from torchsmith.edit.facts import EditReport
from torchsmith.host.pick import pick as rank_machine
from torchsmith.matrix import Cell, Variant
from torchsmith.verbs.cover import CoverRequest, cover
from torchsmith.verbs.line import print_edit
from torchsmith.verbs.pick import PickRequest, pick
from torchsmith.verbs.plan import ChangeReport, print_changes
from torchsmith.workspace.change import Change

TOML = """format = 1
packages = ["pytorch"]
[[matrix]]
line = "2.10"
python = ["3.13"]
cuda = ["cpu"]
isa = ["avx2", "avx512"]
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "torchsmith.toml").write_text(TOML)
    return tmp_path


def test_recipes_that_were_written_are_to_be_built(call: Call, workspace: Path) -> None:
    done = call("apply", "-w", str(workspace), "--no-git")
    assert [line.split()[2] for line in done.err.splitlines() if line.startswith("next: ")] == ["build"]


def test_the_next_step_follows_the_answer_where_both_go_into_one_file(workspace: Path) -> None:
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-m", "torchsmith", "plan"]
    both = subprocess.run(
        command, cwd=workspace, env=buffered, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ).stdout.splitlines()
    assert [line.startswith("next: ") for line in both[-2:]] == [False, True]


@pytest.mark.parametrize("verbose", [False, True])
def test_files_that_are_alike_share_a_line_unless_all_are_asked_for(
    verbose: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = [
        Change("create", f"r/{name}.nix", "it is missing", recipe=True, phase="CPU only")
        for name in "abcdefghi"
    ]
    report = ChangeReport(Path("w"), False, changes)
    counted = print_changes(report, verbose=True) if verbose else print_changes(report)
    assert counted is not verbose
    assert capsys.readouterr().out.count(".nix\n") == (9 if verbose else 0)


def test_files_with_different_reasons_share_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    def broken(name: str, why: str) -> Change:
        return Change("rewrite", name, why, recipe=True, skipped=True, rules=("TS012",), code="broken")

    changes = [broken("a", "broken: x"), broken("b", "broken: y"), broken("c", "broken: x")]
    changes += [Change("rewrite", f"t{n}", "changes cpuFlags", code="text") for n in (1, 2)]
    changes += [Change("replace", f"r{n}", "an old name", old=f"r/o{n}", code="old-name") for n in (1, 2)]
    print_changes(ChangeReport(Path("w"), False, changes))
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    for name, why in (
        ("skip    a and 1 more", "would rewrite (needs --adopt): broken: x"),
        ("skip    b", "would rewrite (needs --adopt): broken: y"),
        ("rewrite t1 and 1 more", "changes cpuFlags"),
        ("replace r1 (now o1) and 1 more", "an old name"),
    ):
        assert lines[lines.index(name) + 1] == why


def test_files_of_facts_are_written_or_deleted(capsys: pytest.CaptureFixture[str]) -> None:
    files = [Change("rewrite", "catalog/lines.toml"), Change("delete", "catalog/packages.toml")]
    for written, verbs in ((True, ["wrote", "deleted"]), (False, ["would write", "would delete"])):
        print_edit(EditReport(name="2.29", written=written, files=files))
        expected = [f"{verb} {file.path}" for verb, file in zip(verbs, files, strict=True)]
        assert capsys.readouterr().out.splitlines() == expected


def test_a_page_is_summarised_in_a_line_and_printed_as_json_with_json(call: Call, workspace: Path) -> None:
    output = workspace / "page.html"
    done = call("page", "-w", str(workspace), "-o", str(output))
    assert done.out.startswith(f"{output}, ")
    assert "2 PyTorch builds for 2 kinds of machine, none built yet" in done.out
    printed = json.loads(call("page", "-w", str(workspace), "--json").out)
    assert [cell["name"] for cell in printed["cells"]] == [
        "pytorch-python313-cpu-avx2",
        "pytorch-python313-cpu-avx512",
    ]


def test_a_new_line_is_reported(call: Call, workspace: Path) -> None:
    pairs = ("--pair", "torchvision=0.29.0", "--pair", "torchaudio=2.29.0")
    words = ("2.29", "--torch", "2.29.1", "--from", "2.10", *pairs, "-w", str(workspace), "--dry-run")
    said = call("line", "add", *words)
    assert "would write catalog/lines.toml" in said.out
    assert "line 2.29: torchvision 0.29.0\n" in said.out
    assert json.loads(call("line", "add", *words, "--json").out)["name"] == "2.29"


def test_a_dash_is_standard_input_and_no_option(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    assert call("diagnose", "-").error == "empty"


def test_a_second_is_enough_for_a_recipe(call: Call, workspace: Path) -> None:
    assert call("eval", "-w", str(workspace), "--timeout", "1").error == "not-found"  # no recipe, as yet
    assert call("eval", "-w", str(workspace), "--timeout", "0.5").error == "usage"


def test_equal_gpus_are_counted() -> None:
    machine = MachineOptions(system="x86_64", cpu="zen4", gpu=["2x H100 + L4"], driver="580")
    assert "; 2 x H100, L4; " in pick(PickRequest(machine=machine)).machine


def test_machines_that_no_variant_serves_have_a_reason(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.csv"
    fleet.write_text(
        "name,count,system,cpu,gpu,driver\nold,1,x86_64,zen3,Tesla K80,470\nnew,1,x86_64,zen3,none,\n"
    )
    rows = {row.label.split()[0]: row for row in cover(CoverRequest(fleet=fleet)).served}
    assert {label: (row.variant is None, bool(row.why)) for label, row in rows.items()} == {
        "old": (True, True),
        "new": (False, False),
    }


def test_machines_whose_gpu_is_not_known_are_counted(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.csv"
    fleet.write_text("name,count,system,cpu\nvague,3,x86_64,zen3\n")
    assert cover(CoverRequest(fleet=fleet)).unknown_gpus == 3


def test_a_command_to_copy_names_a_workspace_elsewhere_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command("build", workspace=tmp_path) == command("build") == "torchsmith build"
    assert command("build", workspace=tmp_path / "w") == f"torchsmith build -w {tmp_path}/w"


def test_of_many_entries_that_are_not_read_the_rest_is_counted(tmp_path: Path, call: Call) -> None:
    rows = "".join(f"{number},no such GPU {number}\n" for number in range(20))
    (tmp_path / "fleet.csv").write_text(f"name,gpu\nfine,H100\n{rows}")
    said = call("cover", str(tmp_path / "fleet.csv")).err
    assert said.count("not read: ") == 13
    assert "not read: 8 more\n" in said


def test_the_only_build_that_comes_near_is_named() -> None:
    catalog = builtin_catalog()
    cell = Cell(Variant.parse("pytorch-python313-cuda13_0-sm90-avx2", catalog), "2.10")
    machine = stated(cpu="zen4", gpu="H100", driver="470.1")
    [near] = _nearest(rank_machine(machine, [cell], catalog, catalog.workloads["general"]))
    assert near.name == cell.name
