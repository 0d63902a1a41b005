"""A line moves to another nixpkgs or torch as a whole, or not at all."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest

from tests.cli.conftest import Call
from tests.recipe.conftest import MINI
from torchsmith.auditing.finding import Severity
from torchsmith.auditing.run import audit
from torchsmith.catalog import builtin_catalog, load_catalog
from torchsmith.cli.reporter import Reporter
from torchsmith.core.problem import CannotBuild, Problem
from torchsmith.edit.facts import FactEdit
from torchsmith.edit.line import propose_line
from torchsmith.edit.pin import Move, propose
from torchsmith.matrix.describe import state_of
from torchsmith.verbs.apply import ApplyRequest, apply
from torchsmith.verbs.line import LineUpdateRequest, update_line
from torchsmith.workspace.load import open_workspace

PROGRAM = str(Path(sys.executable).with_name("torchsmith"))
NEW = "1" * 40
OLD = "6a030d535719c5190187c4cec156f335e95e3211"
TOML = """format = 1
[[matrix]]
line = "2.10"
python = ["3.13"]
cuda = ["13.0", "cpu"]
sm = ["sm120"]
isa = ["avx2"]
[[matrix]]
line = "2.9"
python = ["3.12"]
cuda = ["12.8"]
sm = ["sm90"]
isa = ["avx2"]
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "torchsmith.toml").write_text(TOML)
    apply(ApplyRequest(workspace=tmp_path, git=False))
    return tmp_path


def load_lines(root: Path) -> dict[str, object]:
    return tomllib.loads((root / "catalog/lines.toml").read_text())


def texts(root: Path) -> dict[str, str]:
    return {path.stem: path.read_text() for path in root.rglob("*.nix") if ".flox/pkgs" in str(path)}


def proposed(workspace: Path, move: Move) -> FactEdit:
    return propose(open_workspace(workspace), move)


def updated(workspace: Path, move: Move, *, adopt: tuple[str, ...] = ()) -> FactEdit:
    """The facts of a move, written, and the recipes that follow."""
    edit = proposed(workspace, move)
    edit.write("line update", 0)
    apply(ApplyRequest(workspace=workspace, git=False, adopt=adopt))
    return edit


def test_every_recipe_of_the_line_moves_and_no_other(workspace: Path) -> None:
    updated(workspace, Move("2.10", rev=NEW, sha256="1" * 52))
    moved = {name for name, text in texts(workspace).items() if NEW in text}
    stayed = {name for name, text in texts(workspace).items() if OLD in text}
    assert len(moved) == 6
    assert {name.split("-")[1] for name in stayed} == {"python312"}
    assert audit((workspace,)).of(Severity.ERROR, Severity.WARNING) == []
    assert all(f'sha256 = "{"1" * 52}"' in text for text in texts(workspace).values() if NEW in text)


def test_a_release_that_another_line_has_is_that_lines(workspace: Path) -> None:
    (workspace / "torchsmith.toml").write_text(TOML.replace('"2.9"', '"2.8"'))
    with pytest.raises(CannotBuild) as caught:
        proposed(workspace, Move("2.8", torch="2.9.1"))
    assert 'line = "2.9" in torchsmith.toml asks for builds of torch 2.9.1' in caught.value.hint
    assert "--rev names a nixpkgs that has torch 2.9.1: 6a030d5" in caught.value.hint
    with pytest.raises(CannotBuild):
        propose_line(open_workspace(workspace), "2.9x", Move("2.8", torch="2.9.1"))


def test_a_line_without_builds_is_refused_before_anything_is_asked(workspace: Path, call: Call) -> None:
    said = call("line", "update", "2.8", "-w", workspace)  # no server answers in tests
    assert "no build of this workspace is of line 2.8" in said.err


def test_a_second_move_goes_from_where_the_first_went(workspace: Path) -> None:
    updated(workspace, Move("2.10", rev=NEW))
    updated(workspace, Move("2.10", rev="2" * 40))
    assert not any(NEW in text for text in texts(workspace).values())
    line = open_workspace(workspace).catalog.lines["2.10"]
    assert {line.cuda["13.0"].pin, line.every_build["cpu"].pin} == {"2" * 7}


def test_there_and_back_is_where_it_was(workspace: Path) -> None:
    before = texts(workspace)
    other = next(pin.rev for pin in builtin_catalog().pins.values() if pin.name == "0182a36")
    updated(workspace, Move("2.10", rev=other))
    assert texts(workspace) != before
    updated(workspace, Move("2.10", rev=OLD))
    assert texts(workspace) == before


def test_a_pin_that_nobody_asked_has_no_facts_and_its_cells_say_so(workspace: Path) -> None:
    updated(workspace, Move("2.10", rev=NEW))
    pin = load_catalog(workspace / "catalog").pins[NEW[:7]]
    assert not pin.probed
    assert (pin.torch, pin.versions, pin.cudas, pin.limits, pin.torch_shape) == ("", {}, (), {}, "")
    cells = [cell for cell in open_workspace(workspace).matrix.cells if cell.line == "2.10"]
    assert cells
    assert {reason.code for cell in cells for reason in cell.warnings} == {"unproved"}


def test_a_second_update_to_the_same_revision_changes_nothing(workspace: Path) -> None:
    move = Move("2.10", rev=NEW, probed={"torch": "2.10.0", "source": "asked"})
    updated(workspace, move)
    first = (workspace / "catalog/pins.toml").read_text()
    updated(workspace, move)
    assert (workspace / "catalog/pins.toml").read_text() == first
    assert "unproved" not in first


def test_an_update_goes_on_without_nix_and_says_what_is_not_known(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    remarks: list[str] = []

    class Remarks(Reporter):
        def note(self, text: str) -> None:
            remarks.append(text)

    report = update_line(
        LineUpdateRequest(line="2.10", workspace=workspace, rev=NEW, nixpkgs=[str(MINI)]), Remarks()
    )
    assert report.written
    assert any("not known" in text for text in remarks)
    assert not load_catalog(workspace / "catalog").pins[NEW[:7]].probed


def test_a_plan_says_what_an_update_changes_and_which_recipes_it_does_not(
    workspace: Path, call: Call
) -> None:
    mine = workspace / "build-pytorch/.flox/pkgs/pytorch-python313-cpu-avx2.nix"
    mine.write_text(mine.read_text().partition("\n")[2])
    before = texts(workspace)
    told = call("line", "update", "2.10", "--rev", "0182a36", "-w", workspace)
    assert "CUDA 13.0" in told.out
    assert "CPU" in told.out.partition(": nixpkgs 6a030d5 -> 0182a36")[0]
    assert texts(workspace) == before
    planned = call("plan", "-w", workspace)
    assert "nixpkgs 6a030d5 -> 0182a36" in planned.out
    assert (
        f"kept with nixpkgs 6a030d5 (line 2.10 has 0182a36): build-pytorch/.flox/pkgs/{mine.name}"
        in " ".join(planned.out.split())
    )
    assert call("apply", "-w", workspace, "--no-git").code == 0
    changed = {name for name, text in texts(workspace).items() if text != before[name]}
    assert len(changed) == 5
    assert mine.stem not in changed
    assert call("apply", "-w", workspace, "--no-git", "--adopt", str(mine)).code == 0
    assert "6a030d5" not in mine.read_text()


def test_hashes_that_nobody_knows_are_named_and_left_empty(workspace: Path) -> None:
    move = Move("2.10", torch="2.10.1", versions={"torchvision": "0.25.1", "torchaudio": "2.10.1"})
    proposal = proposed(workspace, move)
    catalog = proposal.after.catalog
    lacks = state_of(catalog.lines["2.10"], catalog).lacks
    assert {"the hash of pytorch 2.10.1", "the hash of torchvision 0.25.1"} <= {*lacks}
    updated(workspace, move)
    torch = texts(workspace)["pytorch-python313-cuda13_0-sm120-avx2"]
    assert 'version = "2.10.1"' in torch
    assert 'hash = "";' in torch
    assert "RKiZLHBCneMtZKRgTEuW1K7" not in torch
    findings = audit((workspace / "build-pytorch",)).findings
    assert "fix-hashes" in next(one.hint for one in findings if one.rule == "TS901")


def test_pairs_and_hashes_that_are_known_come_with_the_release(workspace: Path) -> None:
    proposal = proposed(workspace, Move("2.9", torch="2.10.0"))
    (edit,) = proposal.files
    assert edit.path == "catalog/lines.toml"
    for words in ('torchvision = "0.25.0"', "RKiZLHBCneMtZKRgTEuW1K7", 'prefix = "pytorch210"'):
        assert words in (edit.after or "")
    moved = proposal.after.catalog.lines["2.9"]
    assert moved.cuda["13.0"].fixes == proposal.after.catalog.lines["2.10"].cuda["13.0"].fixes


def test_what_cannot_be_is_said_before_anything_is_written(workspace: Path) -> None:
    with pytest.raises(Problem, match=r"fe5e41d.* 13\.0") as no_cuda:
        proposed(workspace, Move("2.10", rev="fe5e41d"))
    assert "6a030d5" in no_cuda.value.hint
    with pytest.raises(Problem, match=r"2\.10\.9"):
        proposed(workspace, Move("2.10", torch="2.10.9"))
    with pytest.raises(Problem, match="'abc'"):
        proposed(workspace, Move("2.10", torch="abc"))
    with pytest.raises(Problem, match="'short'"):
        proposed(workspace, Move("2.10", rev=NEW, sha256="short"))
    with pytest.raises(Problem, match="'main'"):
        proposed(workspace, Move("2.10", rev="main"))
    with pytest.raises(Problem, match=r"line 2\.8"):
        proposed(workspace, Move("2.8", rev=NEW))
    with pytest.raises(Problem) as no_line:
        proposed(workspace, Move("z", rev=NEW))
    assert "2.10, 2.9, 2.8" in no_line.value.hint, "the newest first"


def test_arguments_and_known_pins_are_checked_before_a_download(workspace: Path, call: Call) -> None:
    """Nothing can be downloaded in tests."""
    for rev, notes in (("0182a36", 0), ("6a030d5", 1)):  # the catalog has the hash of the first
        shown = call("line", "update", "2.10", "-w", workspace, "--rev", rev, "--dry-run")
        assert (shown.code, shown.err.count("download")) == (0, notes)
    assert "goes by the catalog" in shown.err
    wrong = {
        "cannot-build": ("--rev", "fe5e41d"),
        "invalid": ("--rev", NEW, "--sha256", "x"),
    }
    for code, words in wrong.items():
        refused = call("line", "update", "2.10", "-w", workspace, *words)
        assert (refused.error, "download" in refused.err) == (code, False)


def test_what_people_wrote_around_an_entry_stays(workspace: Path) -> None:
    (workspace / "catalog").mkdir()
    lines = workspace / "catalog/lines.toml"
    lines.write_text('# ours\n["2.10".cuda."13.0"]\npin = "6a030d5" # why\n')
    updated(workspace, Move("2.10", rev=NEW))
    assert lines.read_text().startswith('# ours\n["2.10".cuda."13.0"]\npin = "1111111" # why\n')


def test_what_is_there_already_is_not_written_again(workspace: Path) -> None:
    updated(workspace, Move("2.10", rev=NEW))
    again = updated(workspace, Move("2.10", rev=NEW))
    assert again.files == ()


def test_removing_the_changes_of_a_line_brings_its_recipes_back(workspace: Path, call: Call) -> None:
    before = texts(workspace)
    assert call("line", "remove", "2.10", "-w", workspace).error == "not-found"  # nothing was changed
    updated(workspace, Move("2.10", rev=NEW))
    updated(workspace, Move("2.9", rev=NEW))
    shown = call("line", "remove", "2.10", "-w", workspace, "--dry-run")
    assert (shown.code, list(load_lines(workspace))) == (0, ["2.10", "2.9"])
    assert call("line", "remove", "2.10", "-w", workspace).code == 0
    assert list(load_lines(workspace)) == ["2.9"]
    assert call("line", "remove", "2.9", "-w", workspace).code == 0
    assert call("apply", "-w", workspace, "--no-git").code == 0
    assert texts(workspace) == before
    assert not (workspace / "catalog/pins.toml").exists()
    assert not (workspace / "catalog/lines.toml").exists()


def test_a_line_does_not_move_to_a_nixpkgs_that_it_cannot_be_built_from(workspace: Path) -> None:
    (workspace / "torchsmith.toml").write_text(TOML.replace('"2.9"', '"2.8"').replace("3.12", "3.13"))
    with pytest.raises(CannotBuild, match=r"torch 2\.8\S* cannot"):
        proposed(workspace, Move("2.8", rev=OLD))


CELL = "pytorch-python313-cuda13_0-sm120-avx2"
OF_OTHERS = """{ pkgs ? import (builtins.fetchTarball {
    url = "https://github.com/NixOS/nixpkgs/archive/REV.tar.gz";
    sha256 = "HASH";
  }) { config.cudaSupport = true; } # REV
}: pkgs.python3Packages.torch
"""


@pytest.mark.parametrize("hashed", [True, False])
def test_a_recipe_of_others_gets_the_nixpkgs_of_its_line_in_place_if_that_is_asked_for(
    hashed: bool, workspace: Path, call: Call
) -> None:
    text = OF_OTHERS if hashed else OF_OTHERS.replace('    sha256 = "HASH";\n', "")
    file = workspace / f"build-pytorch/.flox/pkgs/{CELL}.nix"
    file.write_text(text.replace("REV", OLD).replace("HASH", "0" * 52))
    new = builtin_catalog().pins["0182a36"]
    move, before = ("line", "update", "2.10", "-w", workspace, "--rev", "0182a36"), file.read_text()
    assert str(file.relative_to(workspace)) in call(*move, "--recipes", "--dry-run").out
    assert call(*move).code == 0
    assert file.read_text() == before, "without the option it stays"
    assert call(*move, "--recipes").code == 0
    after = text.replace("REV", new.rev, 1).replace("HASH", new.sha256).replace("REV", OLD)
    assert file.read_text() == after, "comments are not code"
    assert file.with_name(f"{CELL}.nix.orig").read_text() == before, "git has it not"
    assert call(*move, "--recipes").err.startswith("nothing to write")


def test_a_hash_that_is_not_known_is_not_made_up(workspace: Path, call: Call) -> None:
    file = workspace / f"build-pytorch/.flox/pkgs/{CELL}.nix"
    file.write_text(OF_OTHERS.replace("REV", "2" * 40).replace("HASH", "0" * 52))
    refused = call(
        "line", "update", "2.10", "-w", workspace, "--rev", "6a030d5", "--torch", "2.10.0", "--recipes"
    )
    assert (refused.code, refused.error) == (2, "incomplete"), refused.err
    assert "2" * 40 in file.read_text()


def test_a_line_that_is_removed_takes_the_nixpkgs_of_its_past_with_it(workspace: Path, call: Call) -> None:
    for rev in (NEW, "2" * 40):
        stated = ("--rev", rev, "--sha256", f"sha256-{rev[0] * 42}A=")
        assert call("line", "update", "2.10", "-w", workspace, *stated).code == 0
    assert call("line", "remove", "2.10", "-w", workspace).code == 0
    assert not (workspace / "catalog/pins.toml").exists()
