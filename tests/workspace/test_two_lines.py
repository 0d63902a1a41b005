"""Two torch releases in one workspace: one of them has its release in its names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Call
from torchsmith.core.problem import Problem
from torchsmith.workspace.load import Workspace, open_workspace
from torchsmith.workspace.wanted import wanted_repos

CELL = "python313-cuda12_9-sm90-avx2"
BLOCK = """
[[matrix]]
line = "{line}"
python = ["3.13"]
cuda = ["12.9"]
sm = ["sm90"]
isa = ["avx2"]
"""
ONE, OTHER = BLOCK.format(line="2.10"), BLOCK.format(line="2.8")


def opened(folder: Path, *blocks: str) -> Workspace:
    text = 'format = 1\npackages = ["pytorch", "torchvision"]\n'
    (folder / "torchsmith.toml").write_text(text + "".join(blocks))
    return open_workspace(folder)


def texts(workspace: Workspace) -> dict[str, str]:
    repos = wanted_repos(workspace)
    return {file.name: file.text for repo in repos for file in repo.files if file.path.endswith(".nix")}


def test_both_lie_in_one_repository_and_the_plain_ones_do_not_change(tmp_path: Path) -> None:
    alone = texts(opened(tmp_path, ONE))
    both = opened(tmp_path, ONE, OTHER + "prefix = true\n")
    names = {cell.name: cell.line for cell in both.matrix.cells}
    assert names == {
        f"pytorch-{CELL}": "2.10",
        f"torchvision-{CELL}": "2.10",
        f"pytorch28-{CELL}": "2.8",
        f"torchvision023-{CELL}": "2.8",
    }
    made = texts(both)
    for name in (f"pytorch-{CELL}", f"torchvision-{CELL}"):
        assert made[name] == alone[name]
    vision = made[f"torchvision023-{CELL}"]
    assert f'pname = "pytorch28-{CELL}"' in vision
    assert f'pname = "torchvision023-{CELL}"' in vision
    assert f'variant = "pytorch28-{CELL}"' in vision
    section = made[f"pytorch28-{CELL}"].partition("# ---- torch")[2].partition("# ---- end of torch")[0]
    assert section in vision, "the two share one torch"


def test_a_plan_names_the_nixpkgs_without_a_hash_in_one_line(tmp_path: Path, call: Call) -> None:
    opened(tmp_path, ONE, OTHER + "prefix = true\n")
    [line] = [line for line in call("plan", "-w", tmp_path).err.splitlines() if "no hash" in line]
    assert "nixpkgs 6a030d5 and fe5e41d" in line
    assert "line update 2.10 --rev 6a030d5" in line


def test_a_selector_picks_a_line_and_the_name_states_it(tmp_path: Path) -> None:
    both = opened(tmp_path, ONE, OTHER + "prefix = true\n")
    assert [cell.name for cell in both.select(["line:2.8", "package:torchvision"]).cells] == [
        f"torchvision023-{CELL}"
    ]
    assert len(both.select(["package:pytorch"]).cells) == 2


def test_one_plain_name_in_two_lines_is_refused_and_told_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(Problem) as caught:
        _ = opened(tmp_path, ONE, OTHER).matrix
    assert "prefix = true" in caught.value.hint
    assert f"pytorch28-{CELL}" in caught.value.hint
    with pytest.raises(Problem, match="prefix"):
        _ = opened(tmp_path, ONE.replace('line = "2.10"\n', "prefix = true\n")).matrix


def test_a_cell_can_be_included_by_a_name_that_states_its_line(tmp_path: Path) -> None:
    head = f'include = ["pytorch28-{CELL}"]\n'
    (tmp_path / "torchsmith.toml").write_text(f'format = 1\nline = "2.10"\n{head}')
    cells = open_workspace(tmp_path).matrix.cells
    assert [(cell.name, cell.line) for cell in cells] == [(f"pytorch28-{CELL}", "2.8")]
    bad = head.replace("12_9", "13_0")
    (tmp_path / "torchsmith.toml").write_text(f"format = 1\n{bad}")
    with pytest.raises(Problem, match=r"2\.8\.0.*13\.0"):
        _ = open_workspace(tmp_path).matrix
