"""The alignment table of several repositories, and creating what is missing."""

from __future__ import annotations

import json
import subprocess
from itertools import dropwhile
from pathlib import Path

import pytest

from tests.cli.conftest import Call
from torchsmith.auditing.finding import Severity
from torchsmith.auditing.run import audit
from torchsmith.core.problem import Problem
from torchsmith.edit.align import align_repositories
from torchsmith.verbs.apply import ApplyRequest, apply
from torchsmith.workspace.load import open_workspace
from torchsmith.workspace.reconcile import CheckedRecipe, reconcile
from torchsmith.workspace.start import derive_workspace
from torchsmith.workspace.wanted import wanted_repos

TOML = """format = 1
[[matrix]]
line = "2.10"
python = ["3.13"]
cuda = ["13.0", "cpu"]
sm = ["sm90", "sm120"]
isa = ["avx2"]
"""


@pytest.fixture
def apart(tmp_path: Path) -> Path:
    """Three repositories without a workspace; torchvision lacks one cell, torch another."""
    (tmp_path / "torchsmith.toml").write_text(TOML)
    apply(ApplyRequest(workspace=tmp_path, git=False))
    (tmp_path / "torchsmith.toml").unlink()
    (tmp_path / "build-torchvision/.flox/pkgs/torchvision-python313-cuda13_0-sm90-avx2.nix").unlink()
    (tmp_path / "build-pytorch/.flox/pkgs/pytorch-python313-cpu-avx2.nix").unlink()
    return tmp_path


def test_what_is_missing_is_marked_on_its_side(apart: Path) -> None:
    rows = align_repositories((apart,)).cells
    assert {row.cell: [Path(repo).name for repo in row.missing] for row in rows if row.missing} == {
        "python313-cpu-avx2": ["build-pytorch"],
        "python313-cuda13_0-sm90-avx2": ["build-torchvision"],
    }


def test_what_is_missing_can_be_created_and_is_right(apart: Path) -> None:
    written = align_repositories((apart,), create=True).written
    assert len(written) == 2
    assert align_repositories((apart,)).missing == 0
    report = audit(tuple(written))
    assert report.of(Severity.ERROR, Severity.WARNING) == []
    assert 'version = "0.25.0"' in next(path for path in written if "vision" in path.name).read_text()


def test_recipes_that_no_row_can_hold_are_named(apart: Path, call: Call) -> None:
    pkgs = apart / "build-pytorch/.flox/pkgs"
    cell = "python313-cuda13_0-sm90-avx2"
    for name in ("pytorch-python313-xpu-arc", f"pytorch-{cell}-magma", f"torchvision-{cell}"):
        (pkgs / f"{name}.nix").write_text("{ }: null\n")
    left = {one.path.stem: one.why for one in align_repositories((apart,)).unmatched}
    assert set(left) == {"pytorch-python313-xpu-arc", f"pytorch-{cell}-magma", f"torchvision-{cell}"}
    assert "xpu" in left["pytorch-python313-xpu-arc"]
    shown = call("align", apart)
    assert [name for name in left if name not in shown.err] == []
    assert len(json.loads(call("align", apart, "--json").out)["unmatched"]) == 3


def test_recipes_of_other_packages_are_named_in_the_same_order_every_time(apart: Path) -> None:
    others = ["bitsandbytes", "onnxruntime", "torchaudio", "torchsde", "torchvision", "xformers"]
    for name in others:
        recipe = apart / f"build-pytorch/.flox/pkgs/{name}-python313-cuda13_0-sm90-avx2.nix"
        recipe.write_text("{ }: null\n")
    assert [one.path.stem.partition("-")[0] for one in align_repositories((apart,)).unmatched] == others


def test_nothing_is_made_of_a_release_that_nobody_states(apart: Path) -> None:
    sibling = apart / "build-pytorch/.flox/pkgs/pytorch-python313-cuda13_0-sm90-avx2.nix"
    sibling.write_text("{ }: null\n")
    for file in (apart / "build-torchaudio").rglob("*sm90-avx2.nix"):
        file.unlink()
    reasons = [one.why for one in align_repositories((apart,), create=True).not_written]
    assert len(reasons) == 2
    assert len(set(reasons)) == 1
    assert "pytorch-python313-cuda13_0-sm90-avx2" in reasons[0]


def test_one_repository_cannot_be_aligned(apart: Path) -> None:
    with pytest.raises(Problem) as caught:
        align_repositories((apart / "build-pytorch",))
    assert "torchsmith align" in caught.value.hint


def test_packages_of_one_repository_are_aligned_with_each_other(apart: Path, call: Call) -> None:
    one = apart / "build-pytorch"
    for recipe in apart.glob("build-torch*/.flox/pkgs/*.nix"):
        recipe.rename(one / ".flox/pkgs" / recipe.name)
    shown = call("align", one)
    assert f"pytorch in {one} lacks 1 build\n  python313-cpu-avx2" in shown.out
    assert f"torchvision in {one} lacks 1 build\n  python313-cuda13_0-sm90-avx2" in shown.out
    assert "not compared" not in shown.err
    assert len(align_repositories((one,), create=True).written) == 2
    assert align_repositories((one,)).missing == 0


def test_the_verb_says_it_and_creates_it(apart: Path, call: Call) -> None:
    shown = call("align", "build-pytorch", "build-torchvision", cwd=apart)
    assert shown.code == 1
    assert [line for line in shown.out.splitlines() if not line.startswith("1 of 3 builds ")] == [
        "build-pytorch lacks 1 build",
        "  python313-cpu-avx2",
        "build-torchvision lacks 1 build",
        "  python313-cuda13_0-sm90-avx2",
    ]
    rows = json.loads(call("align", apart, "--json").out)["cells"]
    assert sum(len(row["missing"]) for row in rows) == 2
    assert call("align", apart, "--create").code == 0
    assert call("align", apart).code == 0


def test_what_repositories_lack_alike_is_printed_once(tmp_path: Path, call: Call) -> None:
    names = {"pytorch": ("python312", "python313"), "torchvision": (), "torchaudio": ()}
    for package, pythons in names.items():
        pkgs = tmp_path / f"build-{package}/.flox/pkgs"
        pkgs.mkdir(parents=True)
        for name in (*(f"{python}-cpu-avx512" for python in pythons), "python313-cpu-avx2"):
            (pkgs / f"{package}-{name}.nix").write_text("{ }: null\n")
    repos = [f"build-{package}" for package in names]
    assert call("align", *repos, cwd=tmp_path).out.splitlines()[:2] == [
        "build-torchvision and build-torchaudio lack 2 builds",
        "  python312, python313-cpu-avx512",
    ]


def test_a_cell_that_a_package_cannot_have_is_not_missing(tmp_path: Path, call: Call) -> None:
    (tmp_path / "torchsmith.toml").write_text(
        TOML.replace("format = 1", 'format = 1\npackages = ["pytorch", "vllm"]').replace(
            '"13.0", "cpu"', '"12.9", "13.0"'
        )
    )
    apply(ApplyRequest(workspace=tmp_path, git=False))
    assert call("align", tmp_path).code == 0
    assert call("align", "-w", tmp_path).code == 0
    (tmp_path / "build-vllm/.flox/pkgs/vllm-python313-cuda12_9-sm90-avx2.nix").unlink()
    shown = call("align", cwd=tmp_path)
    assert shown.code == 1
    assert shown.out.splitlines()[:2] == ["build-vllm lacks 1 build", "  python313-cuda12_9-sm90-avx2"]
    assert "build-vllm cannot have 2 builds" in shown.err
    said = json.loads(call("align", tmp_path, "--json").out)
    assert sum(len(row["missing"]) for row in said["cells"]) == 1
    cannot = {row["cell"]: why for row in said["cells"] for why in row["cannot"].values()}
    assert set(cannot) == {f"python313-cuda13_0-{sm}-avx2" for sm in ("sm90", "sm120")}
    assert all("cuDNN" in why for why in cannot.values())
    created = call("align", tmp_path, "--create")
    assert created.out.count("create  ") == 1


def test_a_right_recipe_that_nobody_can_ask_for_is_not_to_be_included(tmp_path: Path) -> None:
    text = TOML.replace("format = 1", 'format = 1\npackages = ["pytorch", "vllm"]').replace(
        '"13.0"', '"12.9"'
    )
    (tmp_path / "torchsmith.toml").write_text(text)
    apply(ApplyRequest(workspace=tmp_path, git=False))
    for cell in ("sm90-armv9", "sm90-avx512"):
        (tmp_path / f"build-vllm/.flox/pkgs/vllm-python313-cuda12_9-{cell}.nix").write_text("{ }: null\n")
    opened = open_workspace(tmp_path)
    repos = wanted_repos(opened)
    found = reconcile(opened, repos, check=lambda recipe: CheckedRecipe())
    why = {
        Path(one.path).stem.rpartition("-")[2]: one.why
        for one in found
        if "/vllm-" in one.path and one.owner == "foreign"
    }
    assert "tensorflow-bin" in why["armv9"]
    assert ["include" in why[isa] for isa in ("armv9", "avx512")] == [False, True]


def test_what_align_creates_is_kept_by_apply(tmp_path: Path) -> None:
    (tmp_path / "torchsmith.toml").write_text(TOML)
    apply(ApplyRequest(workspace=tmp_path, git=False))
    cell = "python313-cuda13_0-sm89-avx2"
    sibling = (tmp_path / "build-pytorch/.flox/pkgs/pytorch-python313-cuda13_0-sm90-avx2.nix").read_text()
    theirs = "# torchsmith: line 2.10\n" + "".join(sibling.partition("{")[1:])
    (tmp_path / f"build-pytorch/.flox/pkgs/pytorch-{cell}.nix").write_text(theirs)
    written = align_repositories((tmp_path,), create=True).written
    assert {path.stem for path in written} == {f"torchaudio-{cell}", f"torchvision-{cell}"}
    assert open_workspace(tmp_path).lines[f"torchvision-{cell}"] == "2.10"
    opened = open_workspace(tmp_path)
    changes = reconcile(opened, wanted_repos(opened))
    assert not [change for change in changes if change.pending and change.recipe]
    assert align_repositories((tmp_path,)).missing == 0


def test_what_align_creates_is_known_to_git(tmp_path: Path, call: Call) -> None:
    (tmp_path / "torchsmith.toml").write_text(TOML)
    apply(ApplyRequest(workspace=tmp_path, commit=True))
    names = sorted(path.name for path in (tmp_path / "build-torchvision/.flox/pkgs").iterdir())
    (gone := tmp_path / "build-torchvision/.flox/pkgs" / names[0]).unlink()
    git = ("git", "-C", str(gone.parent))
    subprocess.run((*git, "commit", "-aqm", "without"), check=True)
    assert call("align", tmp_path, "--create").code == 0
    status = subprocess.run((*git, "status", "--porcelain", "."), check=True, capture_output=True, text=True)
    assert status.stdout.split() == ["A", f".flox/pkgs/{gone.name}"]


def test_what_the_workspace_excludes_is_not_created(tmp_path: Path) -> None:
    excluded = TOML.replace("format = 1", 'format = 1\nexclude = ["sm89"]')
    (tmp_path / "torchsmith.toml").write_text(excluded)
    apply(ApplyRequest(workspace=tmp_path, git=False))
    recipe = tmp_path / "build-pytorch/.flox/pkgs/pytorch-python313-cuda13_0-sm89-avx2.nix"
    recipe.write_text("# torchsmith: line 2.10\n{ }: null\n")
    with pytest.raises(Problem):
        align_repositories((tmp_path,), create=True)
    assert (tmp_path / "torchsmith.toml").read_text() == excluded


def test_every_verb_gives_one_reason_for_a_cell_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "torchsmith.toml").write_text(TOML.replace('"13.0"', '"12.9"'))
    apply(ApplyRequest(workspace=tmp_path, git=False))
    good = (tmp_path / "build-pytorch/.flox/pkgs/pytorch-python313-cuda12_9-sm90-avx2.nix").read_text()
    text = "# torchsmith: line 2.10\n" + "".join(good.partition("{")[1:]).replace("9.0", "6.1")
    (tmp_path / "build-pytorch/.flox/pkgs/pytorch-python313-cuda12_9-sm61-avx2.nix").write_text(text)
    opened = open_workspace(tmp_path)
    (reason,) = {why for row in align_repositories((tmp_path,)).cells for why in row.cannot.values()}
    changes = reconcile(opened, wanted_repos(opened), check=lambda recipe: CheckedRecipe())
    derived = derive_workspace([tmp_path / "build-pytorch", tmp_path / "build-torchvision"])
    assert reason
    assert [change.why for change in changes if "sm61" in change.path] == [reason]
    assert [left.why for left in derived.left_out] == [reason]


def test_what_repositories_had_is_asked_for_with_what_is_created(
    apart: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in (apart / "build-torchvision/.flox/pkgs").glob("*sm120*.nix"):
        file.write_text(
            "".join(dropwhile(lambda line: line.startswith("#"), file.read_text().splitlines(keepends=True)))
        )
    monkeypatch.chdir(apart)
    assert call("init", "--from", "build-pytorch").code == 0
    recipes = {path for path in apart.rglob("*.nix") if ".flox" in path.parts}
    assert call("align", "build-pytorch", "build-torchvision", "--create").code == 0
    changes = json.loads(call("apply", "--dry-run", "--json").out)["changes"]
    assert [change for change in changes if change["kind"] == "delete"] == []
    assert call("apply", "--yes").code == 0
    assert [path for path in recipes if not path.exists()] == []
