"""A torch release of the workspace's own: generated, its hashes left to be learned, and nothing guessed."""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.conftest import Call
from torchsmith.auditing.finding import Severity
from torchsmith.auditing.run import audit
from torchsmith.catalog import builtin_catalog
from torchsmith.core.problem import Exists, Problem
from torchsmith.core.state import state_folder
from torchsmith.edit.facts import FactEdit
from torchsmith.edit.line import line_rows, propose_line
from torchsmith.edit.pin import Move, moves
from torchsmith.matrix.describe import explain, state_of
from torchsmith.verbs.apply import ApplyRequest, apply
from torchsmith.verbs.line import LineAddRequest
from torchsmith.verbs.line import add_line as request_line
from torchsmith.workspace.load import DEFAULT, open_workspace
from torchsmith.workspace.proved import remember

TOML = """format = 1
[[matrix]]
line = "2.10"
python = ["3.13"]
cuda = ["13.0", "cpu"]
sm = ["sm120"]
isa = ["avx2"]
"""
PAIRS = {"torchvision": "0.29.0", "torchaudio": "2.29.0"}
NEW = ("2.29", Move("2.10", torch="2.29.1", versions=PAIRS))


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "torchsmith.toml").write_text(TOML)
    apply(ApplyRequest(workspace=tmp_path, git=False))
    return tmp_path


def add_line(workspace: Path, name: str, like: Move, *, matrix: bool = False) -> FactEdit:
    edit = propose_line(open_workspace(workspace), name, like, matrix=matrix)
    edit.write("line add", 0)
    return edit


def ask_for(workspace: Path, line: str) -> None:
    file = workspace / "torchsmith.toml"
    file.write_text(file.read_text().replace('line = "2.10"', f'line = "{line}"'))


def test_a_line_is_added_and_its_recipes_are_of_it(workspace: Path) -> None:
    added = add_line(workspace, *NEW)
    catalog = added.after.catalog
    assert len(state_of(catalog.lines["2.29"], catalog).lacks) >= 3
    ask_for(workspace, "2.29")
    cells = open_workspace(workspace).matrix.cells
    assert {cell.line for cell in cells} == {"2.29"}
    assert all(cell.warnings for cell in cells)
    apply(ApplyRequest(workspace=workspace, git=False, yes=True))
    name = "pytorch-python313-cuda13_0-sm120-avx2"
    text = (workspace / f"build-pytorch/.flox/pkgs/{name}.nix").read_text()
    assert '"2.29.1"' in text
    assert "pytorch229-" in text
    errors = audit((workspace,)).of(Severity.ERROR)
    assert {one.rule for one in errors} == {"TS901"}  # empty hashes, which fix-hashes learns


def test_a_line_that_the_matrix_includes_says_how_many_builds_are_new(workspace: Path, call: Call) -> None:
    pairs = [word for name, version in PAIRS.items() for word in ("--pair", f"{name}={version}")]
    words = ("2.29", "--torch", "2.29.1", "--from", "2.10", *pairs, "-w", workspace, "--matrix")
    before = len(open_workspace(workspace).matrix.cells)
    new = json.loads(call("line", "add", *words, "--json").out)["cells"]
    assert len(new) == len(open_workspace(workspace).matrix.cells) - before > 0


def test_a_release_that_the_catalog_knows_brings_its_pairs(workspace: Path) -> None:
    added = propose_line(open_workspace(workspace), "2.13", Move("2.10", torch="2.13.0"))
    assert added.after.catalog.lines["2.13"].version_of("torchvision") == "0.28.0"
    assert not (workspace / "catalog").exists()


def test_companions_that_the_workspace_does_not_build_need_no_release(workspace: Path) -> None:
    (workspace / "torchsmith.toml").write_text(
        TOML.replace("format = 1", 'format = 1\npackages = ["pytorch"]')
    )
    added = propose_line(open_workspace(workspace), "2.29", Move("2.10", torch="2.29.1"))
    line = added.after.catalog.lines["2.29"]
    assert [line.torch, line.version_of("torchvision")] == ["2.29.1", ""]


def test_a_line_that_is_there_is_named_before_anything_is_asked_for(workspace: Path) -> None:
    with pytest.raises(Exists):
        request_line(LineAddRequest(name="2.10", workspace=workspace))


def test_recipes_follow_by_plan_and_apply(workspace: Path, call: Call) -> None:
    pairs = [word for name, version in PAIRS.items() for word in ("--pair", f"{name}={version}")]
    words = ("2.29", "--torch", "2.29.1", "--from", "2.10", *pairs, "-w", workspace, "--matrix")
    before = sorted(workspace.rglob("*.nix"))
    added = call("line", "add", *words)
    assert [line.split()[2] for line in added.err.splitlines() if "next: " in line] == ["plan"]
    assert "2.29 needs the hash of pytorch 2.29.1, " in added.out
    assert sorted(workspace.rglob("*.nix")) == before
    made = call("apply", "-w", workspace, "--no-git")
    assert [line.split()[2] for line in made.err.splitlines() if "next: " in line] == ["fix-hashes", "build"]


def test_another_nixpkgs_comes_along(workspace: Path) -> None:
    added = add_line(workspace, "2.29", Move("2.10", "1" * 40, torch="2.29.1", versions=PAIRS))
    line = added.after.catalog.lines["2.29"]
    assert {build.pin for build in (line.cpu, *line.cuda.values()) if build} == {"1111111"}


def test_each_cuda_release_of_another_nixpkgs_is_built_as_the_line_builds_it(workspace: Path) -> None:
    added = propose_line(open_workspace(workspace), "2.29", replace(NEW[1], rev="6a030d5"))
    like, own = (added.after.catalog.lines[name].cuda for name in ("2.10", "2.29"))
    assert {cuda for cuda, build in like.items() if build.pin == "6a030d5"} <= own.keys()
    assert {cuda: own[cuda].fixes for cuda in own.keys() & like.keys()} == {
        cuda: like[cuda].fixes for cuda in own.keys() & like.keys()
    }


@pytest.mark.parametrize(
    ("name", "like"),
    [
        ("a line", Move("2.10", torch="2.29.1", versions=PAIRS)),
        ("2.29", Move("2.10", torch="newest", versions=PAIRS)),
        ("2.10", Move("2.9", torch="2.10.0")),  # is there
        ("2.29", Move("2.99", torch="2.29.1", versions=PAIRS)),  # like one that is not
        ("2.29", Move("2.13", torch="2.29.1", versions=PAIRS)),  # like one without a nixpkgs
        ("2.29", Move("2.10", torch="2.29.1")),  # pairs that nobody knows
        ("2.29", Move("2.10", "master", torch="2.29.1", versions=PAIRS)),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_written(workspace: Path, name: str, like: Move) -> None:
    with pytest.raises(Problem):
        add_line(workspace, name, like)
    assert not (workspace / "catalog").exists()


def test_an_evaluation_settles_what_only_the_workspace_claims(workspace: Path) -> None:
    add_line(workspace, *NEW)
    ask_for(workspace, "2.29")
    opened = open_workspace(workspace)
    name = "pytorch-python313-cuda13_0-sm120-avx2"
    assert remember(workspace, opened.matrix.cells, opened.catalog, {name, "another"}) == 1
    assert remember(workspace, opened.matrix.cells, opened.catalog, {name}) == 0
    warned = {cell.name for cell in open_workspace(workspace).matrix.cells if cell.warnings}
    assert len(warned) == len(opened.matrix.cells) - 1
    assert name not in warned
    (state_folder(workspace) / "evaluated").write_text(f"{name} 2.29 0182a36\n")  # at another nixpkgs
    assert all(cell.warnings for cell in open_workspace(workspace).matrix.cells)


OWN = {
    "gpus": """[sm129]
generation = "Later"
title = "X1"
parts = ["X1"]
platforms = ["x86_64-linux"]
min_driver = "600"
source = "us"
""",
    "cuda": """["13.0"]
targets.add = ["129"]
""",
}


def test_a_fact_written_by_hand_is_a_claim_until_an_evaluation(workspace: Path) -> None:
    (workspace / "catalog").mkdir()
    for name, text in OWN.items():
        (workspace / f"catalog/{name}.toml").write_text(text)
    toml = workspace / "torchsmith.toml"
    toml.write_text(toml.read_text().replace('"sm120"', '"sm120", "sm129"'))
    opened = open_workspace(workspace)
    warned = [cell.name for cell in opened.matrix.cells if cell.warnings]
    assert warned
    assert all("sm129" in name for name in warned)  # what is as it was is no claim of the workspace
    assert remember(workspace, opened.matrix.cells, opened.catalog, warned) == len(warned)
    assert not [cell for cell in open_workspace(workspace).matrix.cells if cell.warnings]


def test_the_cells_of_profile_real_follow_without_an_editor(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toml = workspace / "torchsmith.toml"
    toml.write_text(toml.read_text().replace("2.10", "2.9"))  # profile real has another line
    apply(ApplyRequest(workspace=workspace, git=False, yes=True))
    monkeypatch.chdir(workspace)
    added = add_line(workspace, *NEW, matrix=True)
    assert "torchsmith.toml" in [file.path for file in added.files]
    cells = Counter(cell.line for cell in open_workspace(workspace).matrix.cells)
    real = Counter(cell.line for cell in open_workspace(DEFAULT, "real").matrix.cells)
    assert cells["2.29"] == sum(real.values()) > 0
    assert cells["2.9"] == 6  # what was there stays, under its own names
    apply(ApplyRequest(workspace=workspace, git=False))
    assert list(workspace.glob("build-torchaudio/.flox/pkgs/torchaudio229-*.nix"))


def test_all_say_the_same_of_what_a_line_can_be_built_for(workspace: Path) -> None:
    added = add_line(workspace, "2.15", Move("2.12", torch="2.15.0"))
    catalog = added.after.catalog
    line, like = catalog.lines["2.15"], catalog.lines["2.12"]
    assert "13.2" in line.cuda, "the wheels have it"
    assert line.pythons == like.pythons, "the wheels have one more than their nixpkgs"
    [row] = [row for row in line_rows(added.after) if row.name == "2.15"]
    facts = {fact.what: fact.after for fact in moves("2.15", None, catalog)}
    assert line.cudas == row.cudas == facts["CUDA"].split(", ") == ["12.8", "12.9", "13.0", "13.1"]
    for cuda in ("12_6", "13_2"):
        rejected = explain(f"pytorch215-python313-cuda{cuda}-sm90-avx2", catalog)
        assert rejected.verdict == "rejected"
        assert "has 12.8, 12.9, 13.0, 13.1)" in rejected.reasons[0]
        assert "line add" not in rejected.reasons[0]


def test_each_line_says_what_it_lacks_and_what_to_type(workspace: Path) -> None:
    rows = {row.name: row for row in line_rows(open_workspace(workspace))}
    assert rows["2.14"].next == "torchsmith line add 2.14 --matrix"
    assert rows["2.12"].next == "torchsmith apply && torchsmith fix-hashes"
    assert any("pytorch 2.12.1" in lack for lack in rows["2.12"].lacks)
    assert any("Triton" in remark for remark in rows["2.12"].remarks)
    assert rows["2.10"].lacks == []
    assert rows["2.10"].remarks
    assert (rows["2.9"].lacks, rows["2.9"].next) == ([], "")
    add_line(workspace, "2.29", Move("2.9", torch="2.9.1"))
    rows = {row.name: row for row in line_rows(open_workspace(workspace))}
    assert rows["2.29"].next == "torchsmith eval"


def test_the_hashes_of_an_own_line_are_found_where_the_line_is(workspace: Path, call: Call) -> None:
    add_line(workspace, "2.13", Move("2.10", torch="2.13.0"))
    above = workspace.parent
    said = " ".join(call("line", "list", "-w", workspace.name, cwd=above).out.split())
    [include] = re.findall(r"2\.13 needs a build in torchsmith.toml \((include = .*?)\)", said)
    where = f"-w {workspace.name}"
    assert f": torchsmith apply {where} && torchsmith fix-hashes {where}" in said
    file = workspace / "torchsmith.toml"
    file.write_text(file.read_text().replace("format = 1", f"format = 1\n{include}"))
    assert call("apply", "-w", workspace).code == 0
    rows = {row.name: row for row in line_rows(open_workspace(workspace))}
    assert (rows["2.13"].cells, rows["2.13"].next) == (1, "torchsmith fix-hashes")
    assert "torchsmith init mine-2.12 --cell" in call("line", "list", cwd=above).out


@pytest.mark.parametrize("line", ["2.8", "flox"])
def test_a_workspace_of_an_older_line_leaves_out_what_it_cannot_build(
    line: str, tmp_path: Path, call: Call
) -> None:
    assert call("init", tmp_path, "--line", line).code == 0
    cells = open_workspace(tmp_path).matrix.cells
    assert {cell.line for cell in cells} == {line}
    sms = {str(cell.variant.sm) for cell in cells}
    assert "sm89" in sms
    assert "sm110" not in sms, "it needs CUDA 13"


def test_the_drivers_of_the_builds_are_named(tmp_path: Path, call: Call) -> None:
    said = call("init", tmp_path, "--for", "GTX 1080").err
    assert "CUDA 12.6 to 12.9: needs NVIDIA driver 525.60.13 or newer; for an older one" in said


def test_without_a_network_the_hint_is_a_tree_or_a_mirror(workspace: Path) -> None:
    file = workspace / "torchsmith.toml"
    file.write_text(f'{file.read_text()}[sources]\nnixpkgs = "http://127.0.0.1:1/nixpkgs"\n')
    with pytest.raises(Problem) as caught:
        request_line(LineAddRequest(name="2.14", workspace=workspace))
    assert "--rev REV --nixpkgs TREE" in caught.value.hint


def test_a_line_of_the_workspace_is_removed_once_no_cell_needs_it(workspace: Path, call: Call) -> None:
    add_line(workspace, *NEW)
    ask_for(workspace, "2.29")
    assert call("line", "remove", "2.29", "-w", workspace).error == "conflict"
    (workspace / "torchsmith.toml").write_text(TOML)
    assert call("line", "remove", "2.29", "-w", workspace).code == 0
    assert "2.29" not in open_workspace(workspace).catalog.lines
    assert call("line", "remove", "2.29", "-w", workspace).error == "not-known"


def test_a_release_that_torchsmith_only_knows_of_is_not_removed_below_its_builds(
    workspace: Path, call: Call
) -> None:
    add_line(workspace, "2.15", Move("2.12", torch="2.15.0"), matrix=True)
    refused = call("line", "remove", "2.15", "-w", workspace)
    assert refused.error == "conflict"
    assert "torchsmith.toml:9" in refused.err
    assert "line add" not in refused.err


def test_a_line_whose_nixpkgs_has_another_torch_is_refused(workspace: Path, call: Call) -> None:
    words = ("line", "add", "2.14", "-w", workspace, "--rev", "6a030d5", "--nixpkgs", "sample", "--dry-run")
    refused = call(*words)
    assert (refused.code, refused.error) == (2, "not-found")
    assert "--torch VERSION" in refused.err
    assert not (workspace / "catalog").exists()
    assert call(*words, "--torch", "2.14.1").code == 0


def test_only_lines_that_the_workspace_states_are_its_own(workspace: Path) -> None:
    """A line of an older torch changes what is known of the names of newer ones."""
    add_line(workspace, "2.14", Move("2.9", "6a030d5", torch="2.9.1"))
    assert [row.name for row in line_rows(open_workspace(workspace)) if row.own] == ["2.14"]


def test_removing_a_line_leaves_what_the_workspace_says_of_others(tmp_path: Path, call: Call) -> None:
    (tmp_path / "torchsmith.toml").write_text(TOML)
    moved = '\n["2.10".cpu]\npin = "0182a36"\n'
    add_line(tmp_path, *NEW)
    lines = tmp_path / "catalog/lines.toml"
    lines.write_text(lines.read_text() + moved)
    assert call("line", "remove", "2.29", "-w", tmp_path).code == 0
    assert lines.read_text().endswith(moved)
    assert call("line", "remove", "2.10", "-w", tmp_path).code == 0
    assert not lines.exists()


def test_removing_a_line_forgets_the_nixpkgs_that_only_it_used(workspace: Path, call: Call) -> None:
    file = workspace / "torchsmith.toml"
    other = TOML.partition("[[matrix]]")[2].replace("2.10", "2.9").replace("3.13", "3.12")
    file.write_text(f"{file.read_text()}[[matrix]]{other}")
    update = ("line", "update", "-w", workspace, "--sha256")
    assert call(*update, "1" * 52, "2.10", "--rev", "6a030d5").code == 0
    assert call("line", "remove", "2.10", "-w", workspace).error == "not-found"  # line 2.9 uses it too
    file.write_text(TOML)
    assert call(*update, "2" * 52, "2.10", "--rev", "3" * 40).code == 0
    assert call("line", "remove", "2.10", "-w", workspace).code == 0
    assert (workspace / "catalog/pins.toml").read_text().count("sha256") == 1
    assert call("line", "remove", "2.10", "-w", workspace).code == 0
    assert not (workspace / "catalog/pins.toml").exists()


def test_removing_a_line_forgets_every_fact_of_its_pin_but_the_releases_of_own_packages(
    workspace: Path, call: Call
) -> None:
    package = '[{}]\ntitle = "x"\nattr = "x"\nneeds = ["pytorch"]\nsource = "a test"\n'
    add_line(workspace, *NEW)  # makes the folder
    (workspace / "catalog/packages.toml").write_text(package.format("mix"))
    (workspace / "catalog/lines.toml").write_text('["2.10".cpu]\npin = "0182a36"\n')
    pins = workspace / "catalog/pins.toml"
    pins.write_text('["0182a36"]\ncudas = ["12.6"]\ntorch = "2.14.1"\nmix = "1.0"\n')
    assert call("line", "remove", "2.10", "-w", workspace).code == 0
    assert tomllib.loads(pins.read_text()) == {"0182a36": {"mix": "1.0"}}


def test_a_copy_is_kept_of_facts_that_are_removed_and_not_committed(workspace: Path, call: Call) -> None:
    add_line(workspace, *NEW)
    lines = workspace / "catalog/lines.toml"
    lines.write_text(text := f'# ours\n["2.10".cpu]\npin = "0182a36"\n{lines.read_text()}')
    copies = [f"catalog/lines.toml.orig{number}" for number in ("", "2")]
    removed = call("line", "remove", "2.10", "-w", workspace)
    assert (workspace / copies[0]).read_text() == text
    assert copies[0] in removed.err
    again = json.loads(call("line", "remove", "2.29", "-w", workspace, "--json").out)
    assert again["copies"] == copies[1:]
    assert open_workspace(workspace).catalog  # which reads no copy


@pytest.mark.parametrize("words", [("add", "2.14", "--torch", "2.14.1"), ("update", "2.10")])
def test_facts_of_the_sample_are_not_written_about_a_revision(
    words: tuple[str, ...], workspace: Path, call: Call
) -> None:
    refused = call("line", *words, "-w", workspace, "--rev", "0182a36", "--nixpkgs", "sample")
    assert (refused.code, refused.error) == (2, "invalid")
    assert "the sample is not nixpkgs 0182a36" in refused.err
    assert not (workspace / "catalog").exists()


def test_a_hash_of_another_nixpkgs_is_refused(workspace: Path, call: Call) -> None:
    known = next(pin for pin in builtin_catalog().pins.values() if pin.sha256)
    refused = call("line", "update", "2.10", "-w", workspace, "--rev", "1" * 40, "--sha256", known.sha256)
    assert (refused.code, refused.error) == (2, "conflict")
    assert known.name in refused.err
    assert not (workspace / "catalog").exists()


def test_the_command_that_finds_a_nixpkgs_runs_where_it_is_printed(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    needs = "2.15 needs a nixpkgs with this torch: torchsmith"
    assert f"{needs} init mine --line 2.15\n" in call("line", "list").out
    call("init", "w")
    assert f"{needs} line add 2.15 --matrix -w w\n" in call("line", "list", "-w", "w").out
    assert f"{needs} line add 2.15 --matrix\n" in call("line", "list", cwd=tmp_path / "w").out
