"""`verify` on the command line: what it draws, and what it writes down of a cell's last build."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.artifact import elves
from tests.cli.conftest import Call
from torchsmith.catalog import builtin_catalog
from torchsmith.catalog.recorded import CXX_MARK
from torchsmith.core.state import state_folder
from torchsmith.publishing.verified import verify_recipe
from torchsmith.record import Built, VerificationRow, open_record
from torchsmith.workspace.load import open_workspace

NAME = "torchvision-python313-cuda13_0-sm120-avx2"


def library(*entries: bytes) -> bytes:
    return elves.gpu_library(elves.container(*entries))


def built(root: Path, *entries: bytes, names: Sequence[str] = (NAME,)) -> Path:
    """A workspace whose record has a build of one cell, under these names; where that is."""
    (root / "torchsmith.toml").write_text('format = 1\nprofile = "plan"\n')
    module = root / "store/lib/python3.13/site-packages/torchvision/_C.so"
    module.parent.mkdir(parents=True)
    flags = " ".join(builtin_catalog().isas["avx2"].flags)
    code = {"_ZN6vision3runEv": b"\xc3"}
    gpu = elves.container(*entries)
    module.write_bytes(elves.code_library(code, recorded=[f"{CXX_MARK} {flags}"], gpu=gpu))
    (module.parent / "version.py").write_text("__version__ = '0.25.0'\n")
    record = open_record(root)
    for name in names:
        record.note_built(Built(name=name, derivation="/nix/store/a.drv", outputs=(str(root / "store"),)))
    record.close()
    return root / "store"


def verdict(root: Path, name: str = NAME) -> VerificationRow | None:
    record = open_record(root, read_only=True)
    try:
        return record.verdict(str(root / "store"), "/nix/store/a.drv", name)
    finally:
        record.close()


@pytest.mark.parametrize("kind", ["folder", "wheel"])
def test_what_can_be_run_is_offered_to_test(kind: str, call: Call, tmp_path: Path) -> None:
    path = tmp_path / "torchvision-0.25.0-cp313-cp313-linux_x86_64.whl"
    if kind == "folder":
        path = built(tmp_path, elves.entry(120))
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("torchvision/_C.so", library(elves.entry(120)))
    answer = call("verify", str(path))
    assert (answer.code, "torchsmith test" in answer.err) == (0, kind == "folder")


def test_a_cell_that_was_verified_is_written_down(call: Call, tmp_path: Path) -> None:
    built(tmp_path, elves.entry(120))
    assert call("verify", NAME, "-w", str(tmp_path)).code == 0
    found = verdict(tmp_path)
    assert found is not None
    assert (found.ok, found.derivation) == (True, "/nix/store/a.drv")
    report = json.loads((state_folder(tmp_path) / f"reports/{NAME}.json").read_text())
    assert (list(report["targets"]), report["used"]) == (["cubin 120"], ["cubin 120"])


def test_a_build_that_breaks_its_promise_is_written_down_as_wrong(call: Call, tmp_path: Path) -> None:
    built(tmp_path, elves.entry(90))
    assert call("verify", NAME, "-w", str(tmp_path)).code == 1
    found = verdict(tmp_path)
    assert found is not None
    assert not found.ok


@pytest.mark.parametrize("half", ["--no-cpu", "--variant"])
def test_what_does_not_judge_all_that_the_name_promises_is_not_written_down(
    half: str, call: Call, tmp_path: Path
) -> None:
    built(tmp_path, elves.entry(120))
    words = [half, NAME] if half == "--variant" else [half]
    assert call("verify", NAME, *words, "-w", str(tmp_path)).code == 0
    assert verdict(tmp_path) is None
    assert not (state_folder(tmp_path) / "reports").exists()


def test_a_name_that_two_repositories_have_is_verified_with_its_repository(
    call: Call, tmp_path: Path
) -> None:
    mine, theirs = f"mine/{NAME}", f"theirs/{NAME}"
    built(tmp_path, elves.entry(120), names=(mine, theirs))
    answer = call("verify", mine, "-w", str(tmp_path), "--json")
    assert json.loads(answer.out)["report"]["variant"] == NAME
    found = verdict(tmp_path, mine)
    assert found is not None
    assert found.ok
    assert verdict(tmp_path, theirs) is None
    ambiguous = call("verify", NAME, "-w", str(tmp_path), "--json")
    assert (ambiguous.code, ambiguous.error) == (2, "conflict")
    assert {mine, theirs} <= set(ambiguous.err.replace(",", " ").replace('"', " ").split())


def test_a_plain_name_is_enough_if_one_repository_has_built_it(call: Call, tmp_path: Path) -> None:
    built(tmp_path, elves.entry(120), names=(f"mine/{NAME}",))
    assert call("verify", NAME, "-w", str(tmp_path)).code == 0
    assert verdict(tmp_path, f"mine/{NAME}") is not None
    assert call("verify", f"theirs/{NAME}", "-w", str(tmp_path)).code == 3


def test_a_build_of_a_recipe_that_two_repositories_have_is_verified_after_it(tmp_path: Path) -> None:
    output = built(tmp_path, elves.entry(120))
    row = verify_recipe(open_workspace(tmp_path), f"mine/{NAME}", str(output))
    assert row is not None
    assert (row.name, row.ok) == (f"mine/{NAME}", True)


def test_a_build_is_verified_as_one_of_the_line_that_the_workspace_builds_it_with(tmp_path: Path) -> None:
    output = built(tmp_path, elves.entry(120))
    (tmp_path / "torchsmith.toml").write_text(f'format = 1\nline = "2.9"\ninclude = ["{NAME}"]\n')
    row = verify_recipe(open_workspace(tmp_path), NAME, str(output))
    assert row is not None
    assert not row.ok, "it is of the release of 2.10"
