"""The verbs that ask Nix: data on stdout, words on stderr, and one clear message for each bad input."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Call
from torchsmith.catalog import builtin_catalog
from torchsmith.cli.nix_options import read_trees
from torchsmith.cli.samples import HERE
from torchsmith.verbs.apply import ApplyRequest, apply

MINI = HERE / "nixpkgs"
CELLS = """format = 1
[[matrix]]
packages = ["pytorch", "torchvision"]
python = ["3.13"]
cuda = ["cpu"]
isa = ["avx2", "avx512"]
"""
AVX2, AVX512 = "pytorch-python313-cpu-avx2", "pytorch-python313-cpu-avx512"


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TORCHSMITH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TORCHSMITH_NIXPKGS", str(MINI))
    builds = tmp_path / "builds"
    builds.mkdir()
    (builds / "torchsmith.toml").write_text(CELLS)
    apply(ApplyRequest(workspace=builds))
    monkeypatch.chdir(builds)
    return builds


@pytest.mark.needs("nix")
def test_eval_prints_a_line_for_each_recipe_and_keeps_the_results(workspace: Path, call: Call) -> None:
    first, second = call("eval"), call("eval")
    assert first.code == second.code == 0
    assert len(first.out.splitlines()) == 4
    assert all(line.endswith(".drv") for line in first.out.splitlines())
    rows = json.loads(call("eval", "--json").out)["recipes"]
    assert [row["cached"] for row in rows] == [True] * 4
    assert len({row["evaluated"]["drv_path"] for row in rows}) == 4


@pytest.mark.needs("nix")
def test_another_release_than_the_lines_is_said_and_proves_nothing(
    workspace: Path, call: Call, tmp_path: Path
) -> None:
    file = workspace / "torchsmith.toml"
    file.write_text(file.read_text().replace("format = 1", 'format = 1\nline = "2.9"'))
    (workspace / "catalog").mkdir()
    (workspace / "catalog/lines.toml").write_text('["2.9".cpu]\nunproved = "new"\nclaimed = true\n')
    apply(ApplyRequest(workspace=workspace, yes=True))
    newer = shutil.copytree(MINI, tmp_path / "newer")
    text = (newer / "releases.nix").read_text()
    (newer / "releases.nix").write_text(text.replace('torch = "2.9.1"', 'torch = "2.14.1"'))
    said = call("eval", AVX2, "--nixpkgs", newer)
    assert said.code == 0
    assert f"{AVX2}: release 2.14.1 with this nixpkgs, not 2.9.1 of line 2.9" in said.err
    assert "release 2.14.1" in call("build", "--dry-run", AVX2, "--nixpkgs", newer).err
    answer = json.loads(call("eval", AVX2, "--nixpkgs", newer, "--json").out)
    assert list(answer["other_releases"]) == [AVX2]
    assert answer["proved"] == 0
    sample = call("eval", AVX2, "--nixpkgs", "sample", "--json")
    assert json.loads(sample.out)["proved"] == 0
    assert "the sample" in sample.err
    assert "unproved" in json.loads(call("show", AVX2, "--json").out)["codes"]
    right = json.loads(call("eval", AVX2, "--json").out)
    assert (right["other_releases"], right["proved"]) == ({}, 1)
    shown = json.loads(call("show", AVX2, "--json").out)
    assert (shown["verdict"], shown["codes"], shown["build"]["unproved"]) == ("accepted", [], [])
    recipe = workspace / f"build-pytorch/.flox/pkgs/{AVX2}.nix"
    by_hand = recipe.read_text().partition("\n")[2].replace("torchsmith = {", "mine = {")
    recipe.write_text(by_hand)
    assert f"{AVX2}: release 2.14.1" in call("eval", AVX2, "--nixpkgs", newer).err


@pytest.mark.needs("nix")
def test_eval_as_json_holds_what_a_program_needs(workspace: Path, call: Call) -> None:
    [row] = json.loads(call("eval", "--json", AVX2).out)["recipes"]
    assert row["name"] == AVX2
    derivation = row["evaluated"]
    assert derivation["drv_path"].startswith("/nix/store/")
    assert derivation["facts"]["variant"] == AVX2
    assert derivation["system"] == "x86_64-linux"
    assert set(derivation["outputs"]) == {"out", "dev", "lib", "cxxdev", "dist"}
    assert row["cached"] is False


@pytest.mark.needs("nix")
@pytest.mark.parametrize(("narrow", "others"), [("all", False), ("torch", True)])
def test_the_graph_names_libraries_that_are_compiled_for_other_gpus(
    narrow: str, others: bool, workspace: Path, call: Call
) -> None:
    cells = CELLS.replace('"cpu"', '"13.0"').replace('"avx2", "avx512"]', '"avx2"]\nsm = ["sm90"]')
    (workspace / "torchsmith.toml").write_text(
        cells.replace("format = 1", f'format = 1\nnarrow = "{narrow}"')
    )
    apply(ApplyRequest(workspace=workspace, yes=True))
    graph = json.loads(call("eval", "sm90", "--graph", "--json").out)["graph"]
    assert bool(graph["foreign_targets"]) is others


@pytest.mark.needs("nix")
def test_impact_says_what_a_change_costs(workspace: Path, call: Call) -> None:
    apply(ApplyRequest(workspace=workspace, commit=True))
    same = json.loads(call("impact", "--json").out)
    assert same["hours"] == 0
    toml = workspace / "torchsmith.toml"
    toml.write_text(toml.read_text().replace("format = 1", "format = 1\nmax_jobs = 7"))
    changed = json.loads(call("impact", "--json").out)
    row = builtin_catalog().estimates["pytorch-cpu"]
    assert changed["hours"] >= 2 * row.hours


def test_a_build_is_proposed_after_fix_hashes_where_a_source_has_no_hash(workspace: Path, call: Call) -> None:
    def proposed() -> list[str]:
        steps = [line for line in call("apply", "--yes").err.splitlines() if line.startswith("next: ")]
        return [step.split()[2] for step in steps if step.split()[2] in ("fix-hashes", "build")]

    assert proposed() == ["build"]
    toml = workspace / "torchsmith.toml"
    toml.write_text(toml.read_text().replace("[[matrix]]", '[[matrix]]\nline = "2.12"'))
    assert proposed() == ["fix-hashes", "build"]


@pytest.mark.needs("nix")
def test_what_is_ended_from_outside_leaves_nothing_behind(workspace: Path, tmp_path: Path) -> None:
    """As by `timeout`, or by CI that has waited long enough."""
    places = tmp_path / "places"
    places.mkdir()
    endless = workspace / "build-pytorch/.flox/pkgs" / f"{AVX2}.nix"
    endless.write_text("let f = n: f (n + 1); in { ... }: builtins.seq (f 0) null\n")
    env = {**os.environ, "TMPDIR": str(places)}
    argv = [sys.executable, "-m", "torchsmith", "eval", str(endless)]
    with subprocess.Popen(argv, env=env, stderr=subprocess.PIPE, text=True) as child:
        while child.poll() is None and not list(places.glob("torchsmith-eval-*/*")):
            time.sleep(0.01)
        child.send_signal(signal.SIGTERM)
        assert child.wait(timeout=60) == 130
    assert list(places.iterdir()) == []


@pytest.mark.needs("nix")
def test_a_failing_recipe_is_named_with_its_line_and_the_others_are_printed(
    workspace: Path, call: Call
) -> None:
    recipe = workspace / f"build-pytorch/.flox/pkgs/{AVX2}.nix"
    lines = recipe.read_text().splitlines()
    place = next(number for number, line in enumerate(lines) if "pname =" in line)
    recipe.write_text("\n".join([*lines[:place], "pname = pkgs.nonsense;", *lines[place + 1 :]]))
    result = call("eval")
    assert result.code == 1
    assert len(result.out.splitlines()) == 3
    assert f"{recipe}:{place + 1}:" in result.err
    assert "'nonsense'" in result.err
    rows = json.loads(call("eval", "--json").out)["recipes"]
    assert [row["name"] for row in rows if row["cause"]] == [AVX2]


@pytest.mark.needs("nix")
def test_where_all_that_failed_are_downloads_the_environment_lacks_them(
    workspace: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    pin = builtin_catalog().pins["6a030d5"].rev
    monkeypatch.setenv("TORCHSMITH_NIXPKGS", f"{pin}={MINI}")
    monkeypatch.setenv("NIX_CONFIG", "download-attempts = 1")
    for kind in ("http", "https", "all"):
        monkeypatch.setenv(f"{kind}_proxy", "http://127.0.0.1:9")
    unknown = workspace / f"build-pytorch/.flox/pkgs/{AVX2}.nix"
    unknown.write_text(unknown.read_text().replace(pin, "1" * 40))
    for words in (["eval"], ["eval", "--graph"]):
        result = call(*words, "pytorch")
        assert result.code == 3, result.err
        assert "1" * 40 in result.err
        assert AVX512 in result.out
    assert call("rehearse", "pytorch", "--dry-run").code == 3
    wrong = workspace / f"build-pytorch/.flox/pkgs/{AVX512}.nix"
    wrong.write_text(wrong.read_text().replace("pname =", "pname = pkgs.nonsense; was ="))
    assert call("eval", "pytorch").code == 1
    assert call("rehearse", "pytorch", "--dry-run").code == 1


def test_without_nix_the_verbs_say_so(workspace: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    for words in (["eval"], ["eval", "--graph"], ["impact"]):
        result = call(*words)
        assert result.code == 3
        assert "nix-bin" in result.err
        assert result.out == ""


@pytest.mark.needs("nix")
@pytest.mark.parametrize(
    ("words", "next"),
    [
        (["rehearse", AVX2, "--dry-run"], f"rehearse {AVX2} --nixpkgs sample -w builds"),
    ],
)
def test_commands_to_copy_name_the_workspace_and_the_tree(
    words: list[str], next: str, workspace: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TORCHSMITH_NIXPKGS")
    monkeypatch.chdir(workspace.parent)
    result = call(*words, "--nixpkgs", "sample", "-w", "builds")
    assert f"torchsmith {next}" in " ".join((result.out + result.err).split())


@pytest.mark.needs("nix")
def test_the_graph_shows_what_is_shared(workspace: Path, call: Call) -> None:
    graph = json.loads(call("eval", "--graph", "--json").out)["graph"]
    torches = [one for one in graph["long_builds"] if one["kind"] == "pytorch"]
    assert [len(one["recipes"]) for one in torches] == [2, 2]
    assert sorted(torches[0]["recipes"]) == [AVX2, AVX2.replace("pytorch", "torchvision")]
    assert "2 pytorch, 1 triton" in call("eval", "--graph").err


@pytest.mark.needs("nix")
@pytest.mark.parametrize(
    ("words", "code", "error", "named"),
    [
        (["eval", "--nixpkgs", "nowhere"], 2, "not-found", "nowhere"),
        (["eval", "--nixpkgs", "1234567=x"], 2, "invalid", "'1234567'"),
        (["eval", "sm90"], 2, "empty", "sm90"),
        (["eval", "missing.nix"], 2, "not-found", "missing.nix"),
        (["eval", "torchsmith.toml"], 2, "not-found", "torchsmith.toml is not a recipe"),
        (["impact", "nothing"], 2, "not-found", "has no commit yet"),
        (["impact", "--", "--output=stolen"], 2, "not-found", "has no commit yet"),
    ],
)
def test_bad_requests_get_one_clear_message(
    words: list[str], code: int, error: str, named: str, workspace: Path, call: Call
) -> None:
    result = call(*words)
    assert (result.code, result.error) == (code, error), result.err
    assert named in " ".join(result.err.split())
    assert result.out == ""


@pytest.mark.needs("nix")
@pytest.mark.parametrize("verb", ["eval", "build", "fix-hashes"])
def test_a_download_that_fails_is_exit_3_with_the_way_out(
    verb: str, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TORCHSMITH_NIXPKGS", raising=False)
    monkeypatch.setenv("TORCHSMITH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    call("init", str(tmp_path), "--cell", "pytorch-python313-cpu-avx2")
    call("apply", "-w", str(tmp_path))
    result = call(verb, "-w", str(tmp_path), "--json")
    error = json.loads(result.out)["error"]
    assert (result.code, error["exit"]) == (3, 3)
    assert "https://github.com/NixOS/nixpkgs/" in error["message"]
    assert "--nixpkgs" in error["hint"]


def test_a_tree_may_be_of_a_revision_that_the_catalog_lacks(tmp_path: Path) -> None:
    assert read_trees([f"{'0' * 40}={tmp_path}"]) == {"0" * 40: tmp_path}
