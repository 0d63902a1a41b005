"""The plan of a half-migrated repo is the one that its maintainers reached by days of reading."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Call
from torchsmith.core.problem import Problem, Refused
from torchsmith.edit.plan import WorkspacePlan, plan_workspace
from torchsmith.recipe.header import owner_of
from torchsmith.verbs.apply import ApplyRequest, apply
from torchsmith.verbs.plan import PlanRequest
from torchsmith.verbs.plan import plan as plan_report
from torchsmith.workspace.change import Change

BY_HAND = Path(__file__).parent / "by-hand"
PKGS = "build-pytorch/.flox/pkgs"
CELL = "pytorch-python313-cuda13_0"


def git(repo: Path, *args: str) -> str:
    done = subprocess.run(["git", "-C", repo, *args], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def drifted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """build-pytorch with its six recipes, committed, and a workspace file that asks for the plan."""
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Maintainer")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "maintainer@example.org")
    repo = tmp_path / "build-pytorch"
    (repo / ".flox/pkgs").mkdir(parents=True)
    for file in BY_HAND.glob("*.nix"):
        shutil.copy(file, repo / ".flox/pkgs")
    (repo / "README.md").write_text("# build-pytorch\n\n6 variants.\n")
    git(tmp_path, "init", "--quiet", "--initial-branch=main", "build-pytorch")
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "--message", "By hand")
    (tmp_path / "torchsmith.toml").write_text('format = 1\nprofile = "seed"\npackages = ["pytorch"]\n')
    return tmp_path


def recipes(plan: WorkspacePlan, *kinds: str) -> list[Change]:
    return [change for change in plan.changes if change.recipe and (change.kind in kinds or not kinds)]


def verdicts(plan: WorkspacePlan) -> dict[str, int]:
    return {kind: len(recipes(plan, kind)) for kind in ("keep", "rewrite", "replace", "delete", "create")}


def test_the_verdicts_are_those_of_the_maintainers(drifted: Path) -> None:
    plan = plan_workspace(drifted)
    assert verdicts(plan) == {"keep": 1, "rewrite": 2, "replace": 1, "delete": 2, "create": 40}
    assert len(recipes(plan, "keep", "create", "rewrite", "replace")) == 44
    by_kind = {
        kind: sorted(Path(one.path).name for one in recipes(plan, kind))
        for kind in ("keep", "rewrite", "delete")
    }
    assert by_kind == {
        "keep": [f"{CELL}-sm120-avx512.nix"],
        "rewrite": [f"{CELL}-sm110-armv8_2.nix", f"{CELL}-sm110-armv9.nix"],
        "delete": [f"{CELL}-sm120-avx.nix", f"{CELL}-sm120-avx512-magma.nix"],
    }
    (replaced,) = recipes(plan, "replace")
    assert replaced.path == f"{PKGS}/{CELL}-sm121-armv9.nix"
    assert replaced.old == f"{PKGS}/{CELL}-sm121-armv9-nightly.nix"


def test_companions_beside_a_kept_torch_are_said_to_have_a_torch_of_their_own(
    drifted: Path, call: Call
) -> None:
    name = f"{CELL}-sm120-avx512"
    toml = drifted / "torchsmith.toml"
    toml.write_text(toml.read_text().replace('["pytorch"]', '["pytorch", "torchvision"]'))
    torch, vision = (
        f"{PKGS}/{name}.nix".replace("pytorch", package) for package in ("pytorch", "torchvision")
    )
    assert plan_workspace(drifted).split_torch[torch] == [vision]
    toml.write_text(toml.read_text() + 'exclude = ["torchvision", "!sm120", "!avx512"]\n')
    assert not plan_workspace(drifted).unhashed_pins  # of the kept recipe's nixpkgs nothing is known
    toml.write_text(toml.read_text().rpartition("exclude")[0])
    said = call("plan", "-w", drifted, "--adopt", "all")
    assert f"{Path(vision).stem}: generated with torchsmith's torch, not that of {name}" in said.out
    assert f"--adopt {torch}" in said.out
    assert not plan_workspace(drifted, adopt=("all", torch)).split_torch
    assert call("apply", "-w", drifted, "--no-git", "--yes").code == 1
    assert plan_workspace(drifted).split_torch[torch] == [vision]


def test_a_recipe_that_is_taken_over_under_another_pname_is_named_with_both(
    drifted: Path, call: Call
) -> None:
    torch = f"{PKGS}/{CELL}-sm120-avx512.nix"
    assert torch not in plan_workspace(drifted, adopt=("all",)).renamed  # it is kept
    assert torch not in plan_workspace(drifted, adopt=(torch,)).renamed  # its pname is right
    text = (drifted / torch).read_text()
    old, new = f"{CELL}-sm120-avx512", f"{CELL}-sm120-avx512".replace("pytorch", "pytorch210")
    (drifted / torch).write_text(text.replace(new, old))
    assert plan_workspace(drifted, adopt=(torch,)).renamed == {torch: (old, new)}
    said = call("plan", "-w", drifted, "--adopt", torch).out
    assert f"the name in the store: {old} becomes {new}" in said


def test_builds_that_no_machine_can_use_are_counted(drifted: Path, call: Call) -> None:
    planned, applied = call("plan", "-w", drifted), call("apply", "-w", drifted, "--no-git", "--yes")
    assert "no machine can use 8 builds" in planned.out
    assert "no machine can use 8 builds" in applied.err
    toml = drifted / "torchsmith.toml"
    toml.write_text(toml.read_text() + "usable = true\n")
    assert "no machine" not in call("plan", "-w", drifted).out


def test_an_old_name_is_redundant_only_where_the_cell_has_another_recipe(drifted: Path) -> None:
    dotted = drifted / PKGS / f"{CELL}-sm90-armv8.2.nix"
    dotted.write_text((drifted / PKGS / f"{CELL}-sm110-armv8_2.nix").read_text())
    toml = drifted / "torchsmith.toml"
    toml.write_text(toml.read_text() + 'exclude = ["sm90"]\n')
    (alone,) = (one for one in plan_workspace(drifted).changes if one.path.endswith("armv8.2.nix"))
    assert not alone.why.startswith("redundant")
    dotted.with_name(f"{CELL}-sm90-armv8_2.nix").write_text(dotted.read_text())
    (twice,) = (one for one in plan_workspace(drifted).changes if one.path.endswith("armv8.2.nix"))
    assert twice.why.startswith("redundant")


OTHER_LAYOUTS = {
    "an unused set of packages": [("{ lib }:", "{ lib, pkgs ? import <nixpkgs> { } }:")],
    "lib from the unpinned set": [
        ("{ lib }:", "{ pkgs ? import <nixpkgs> { } }:\nlet inherit (pkgs) lib; in")
    ],
    "dotted attributes": [
        ("config = {\n      allowUnfree = true;", "config.allowUnfree = true;"),
        (
            "allowBroken = true; # CUDA 13 is newer than what this nixpkgs allows",
            "config.allowBroken = true;",
        ),
        ("cudaSupport = true;\n    };", "config.cudaSupport = true;"),
    ],
    "another name for the pin": [("nixpkgs_pinned", "pkgs")],
    "a with": [("(nixpkgs_pinned.python3Packages", "with nixpkgs_pinned; (python3Packages")],
    "the target where it is used": [("gpuTargets = [ gpuArchSM ]", 'gpuTargets = [ "12.0" ]')],
    "another name for the flags": [("cpuFlags", "simd")],
}


@pytest.mark.parametrize("edits", OTHER_LAYOUTS.values(), ids=OTHER_LAYOUTS)
def test_the_right_recipe_is_kept_however_it_is_written_and_not_where_it_is_wrong(
    drifted: Path, edits: list[tuple[str, str]]
) -> None:
    file = drifted / PKGS / f"{CELL}-sm120-avx512.nix"
    text = file.read_text()
    for old, other in edits:
        assert old in text
        text = text.replace(old, other)
    file.write_text(text)
    expected = {"keep": 1, "rewrite": 2, "replace": 1, "delete": 2, "create": 40}
    assert verdicts(plan_workspace(drifted)) == expected
    file.write_text(text.replace('"12.0"', '"9.0"'))
    assert verdicts(plan_workspace(drifted)) == expected | {"keep": 0, "rewrite": 3}


def test_every_verdict_has_a_reason_that_a_maintainer_would_give(drifted: Path) -> None:
    why = {
        Path(one.old or one.path).name.removeprefix(f"{CELL}-"): one.reason
        for one in plan_workspace(drifted).changes
    }
    assert "fe5e41d" in why["sm110-armv9.nix"]
    assert "redundant" in why["sm120-avx512-magma.nix"]
    assert "broken" in why["sm120-avx.nix"]
    assert "nightly" in why["sm121-armv9-nightly.nix"]
    assert "torch" in why["sm120-avx512.nix"]


@pytest.mark.parametrize("placeholder", ["lib.fakeHash", f'"sha256-{"A" * 43}="'])
def test_a_nightly_that_is_not_finished_is_kept(drifted: Path, placeholder: str) -> None:
    nightly = drifted / PKGS / f"{CELL}-sm121-armv9-nightly.nix"
    text = nightly.read_text()
    assert 'hash = "";' in text
    nightly.write_text(text.replace('hash = "";', f"hash = {placeholder};"))
    toml = drifted / "torchsmith.toml"
    toml.write_text(toml.read_text() + 'exclude = ["sm121"]\n')
    (change,) = (
        one for one in plan_workspace(drifted, adopt=("all",)).changes if one.path.endswith(nightly.name)
    )
    assert change.kind == "keep"


def test_without_adopt_nothing_of_others_is_touched(drifted: Path) -> None:
    before = {file.name: file.read_text() for file in (drifted / PKGS).iterdir()}
    applied = apply(ApplyRequest(workspace=drifted))
    after = {file.name: file.read_text() for file in (drifted / PKGS).iterdir()}
    assert {name: after[name] for name in before} == before
    assert sorted(one.kind for one in applied.skipped if one.recipe) == [
        "delete",
        "delete",
        "replace",
        "rewrite",
        "rewrite",
    ]
    assert len(after) == 46


def test_adopting_carries_the_whole_plan_out_in_phases(drifted: Path) -> None:
    applied = apply(ApplyRequest(workspace=drifted, adopt=("all",), yes=True, commit=True))
    assert not applied.skipped
    assert len(list((drifted / PKGS).glob("*.nix"))) == 44
    assert verdicts(plan_workspace(drifted)) == {
        "keep": 44,
        "rewrite": 0,
        "replace": 0,
        "delete": 0,
        "create": 0,
    }
    log = git(drifted / "build-pytorch", "log", "--format=%s").splitlines()
    assert [re.findall(r"[a-z]+e \d+", subject.partition(": ")[2]) for subject in log[::-1]] == [
        [],  # what was there
        ["delete 2"],
        ["create 35"],
        ["create 1", "rewrite 2", "replace 1"],
        ["create 4"],
        ["create 8"],
    ]
    assert log[0].startswith("build-pytorch: create 8 files: ")
    assert log[1] == "build-pytorch: create 4 recipes for CPUs (torchsmith)"
    body = git(drifted / "build-pytorch", "log", "-1", "--format=%b").splitlines()
    assert sum(line.startswith("- create ") for line in body) == 8
    assert (drifted / "build-pytorch/README.md").read_text() == "# build-pytorch\n\n6 variants.\n"
    assert git(drifted / "build-pytorch", "status", "--porcelain") == ""


def test_adopting_is_scoped_to_the_paths_named_and_a_page_goes_by_its_own_name_alone(drifted: Path) -> None:
    repo = drifted / "build-pytorch"
    broken = Path("build-pytorch/.flox/pkgs") / f"{CELL}-sm110-armv9.nix"
    applied = apply(ApplyRequest(workspace=drifted, adopt=(str(broken),), yes=True, commit=True))
    assert owner_of((drifted / broken).read_text()) == "ours"
    assert sorted(one.kind for one in applied.skipped) == ["delete", "delete", "replace", "rewrite"]
    apply(ApplyRequest(workspace=drifted, adopt=(str(repo),), yes=True, commit=True))
    assert verdicts(plan_workspace(drifted))["keep"] == 44
    assert owner_of((repo / "README.md").read_text()) == "foreign"
    with pytest.raises(Problem, match=r"nowhere\.md"):
        apply(ApplyRequest(workspace=drifted, adopt=("nowhere.md",), yes=True))
    apply(ApplyRequest(workspace=drifted, adopt=(str(repo / "README.md"),), yes=True))
    assert owner_of((repo / "README.md").read_text()) == "ours"


def test_apply_does_what_the_plan_shows(drifted: Path) -> None:
    """Both delete what is no longer in torchsmith.toml; afterwards there is nothing to do."""
    shutil.rmtree(drifted / "build-pytorch")
    toml = 'format = 1\n[[matrix]]\npython = ["3.13"]\ncuda = ["13.0"]\n'
    toml += 'sm = ["sm90"]\nisa = ["avx2", "armv9"]\n'
    (drifted / "torchsmith.toml").write_text(toml)
    apply(ApplyRequest(workspace=drifted, commit=True))
    (drifted / "torchsmith.toml").write_text(toml.replace('"avx2", ', ""))
    wanted = apply(ApplyRequest(workspace=drifted, dry_run=True)).pending
    planned = [change for change in plan_workspace(drifted).changes if change.kind != "keep"]
    assert {(one.kind, one.path) for one in wanted} == {(one.kind, one.path) for one in planned}
    assert sum(one.kind == "delete" for one in wanted) == 3
    apply(ApplyRequest(workspace=drifted, yes=True, commit=True))
    assert apply(ApplyRequest(workspace=drifted, dry_run=True)).pending == []
    assert git(drifted / "build-pytorch", "status", "--porcelain") == ""


@pytest.mark.parametrize("right", [True, False])
def test_a_folder_that_is_the_wanted_package_is_never_doubled(drifted: Path, right: bool) -> None:
    """NAME/default.nix and NAME.nix are one package for Flox: kept where it is right, else replaced."""
    name = f"{CELL}-sm120-avx512" if right else f"{CELL}-sm110-armv9"
    (drifted / PKGS / name).mkdir()
    (drifted / PKGS / f"{name}.nix").rename(drifted / PKGS / name / "default.nix")
    (drifted / PKGS / name / "lib.nix").write_text("{ }: { }\n")
    assert apply(ApplyRequest(workspace=drifted, git=False)).skipped
    assert not (drifted / PKGS / f"{name}.nix").exists()
    (change,) = [one for one in recipes(plan_workspace(drifted)) if f"{name}/" in one.path + one.old]
    if right:
        assert (change.kind, change.path) == ("keep", f"{PKGS}/{name}/default.nix")
    else:
        assert (change.kind, change.old) == ("replace", f"{PKGS}/{name}/default.nix")


@pytest.mark.parametrize(
    ("change", "generated"),
    [
        (Change("create", "a.nix", "", after="text"), True),
        (Change("keep", "a.nix", "", code="up-to-date"), True),
        (Change("rewrite", "a.nix", "", before="theirs", after="text", skipped=True), False),
        (Change("delete", "a.nix", "", before="text"), False),
    ],
)
def test_a_file_is_generated_if_it_has_our_text_afterwards(change: Change, generated: bool) -> None:
    assert change.generated is generated


def test_a_commit_names_the_reason_for_each_file(drifted: Path) -> None:
    why = next(one.reason for one in plan_workspace(drifted).changes if one.path.endswith("sm120-avx.nix"))
    apply(ApplyRequest(workspace=drifted, adopt=("all",), yes=True, commit=True))
    body = git(drifted / "build-pytorch", "log", "-1", "--format=%b", "--grep", "delete .*sm120-avx.nix")
    assert why in body


def test_a_dirty_tree_is_refused_unless_told(drifted: Path) -> None:
    kept = drifted / PKGS / f"{CELL}-sm120-avx512.nix"
    kept.write_text(kept.read_text() + "# a thought\n")
    with pytest.raises(Refused, match=kept.name):
        apply(ApplyRequest(workspace=drifted, adopt=("all",), yes=True, commit=True))
    applied = apply(ApplyRequest(workspace=drifted, adopt=("all",), yes=True, commit=True, allow_dirty=True))
    assert applied.commits
    assert kept.read_text().endswith("# a thought\n")
    assert (
        git(drifted / "build-pytorch", "status", "--porcelain") == f"M {PKGS.partition('/')[2]}/{kept.name}"
    )


def test_copies_that_torchsmith_made_are_no_dirt(drifted: Path) -> None:
    kept = drifted / PKGS / f"{CELL}-sm120-avx512.nix"
    kept.with_name(f"{kept.name}.orig").write_text(kept.read_text())
    assert apply(ApplyRequest(workspace=drifted, adopt=("all",), yes=True, commit=True)).commits


def test_a_commit_takes_in_the_deletions_of_an_apply_without_it(drifted: Path) -> None:
    apply(ApplyRequest(workspace=drifted, adopt=("all",), yes=True, commit=True))
    file = drifted / "torchsmith.toml"
    file.write_text(file.read_text() + 'exclude = ["avx512"]\n')
    gone = {*apply(ApplyRequest(workspace=drifted, yes=True)).deleted}
    assert gone
    assert gone <= {*plan_report(PlanRequest(workspace=drifted)).uncommitted}
    assert apply(ApplyRequest(workspace=drifted, commit=True, yes=True)).commits
    assert git(drifted / "build-pytorch", "status", "--porcelain") == ""


def test_a_commit_takes_in_what_was_written_before_and_no_deletion_of_another(drifted: Path) -> None:
    plan = plan_workspace(drifted)
    half = [one for one in plan.changes if one.kind == "create"][:20]
    for one in half:
        assert one.after is not None
        (drifted / one.path).write_text(one.after)
    deleted = next(one for one in plan.changes if one.kind == "delete")
    shown = plan_report(PlanRequest(workspace=drifted)).uncommitted
    assert sorted(shown) == sorted(one.path for one in half)
    (drifted / deleted.path).unlink()
    with pytest.raises(Refused, match=f"the deletion of {deleted.path}"):
        apply(ApplyRequest(workspace=drifted, adopt=("all",), yes=True, commit=True))
    git(drifted / "build-pytorch", "commit", "--quiet", "--message", "Mine", "--all")
    applied = apply(ApplyRequest(workspace=drifted, adopt=("all",), yes=True, commit=True))
    assert len(applied.pending) < sum(change.kind != "keep" for change in plan.changes)
    assert len(list((drifted / PKGS).glob("*.nix"))) == 44
    assert git(drifted / "build-pytorch", "status", "--porcelain") == ""
    log = git(drifted / "build-pytorch", "log", "--format=%s").splitlines()
    assert [re.findall(r"\w+ \d+", subject) for subject in log[::-1][2:4]] == [["delete 1"], ["create 35"]]
    assert len(log) == 7


def test_a_rewritten_file_that_git_does_not_hold_leaves_a_copy(drifted: Path) -> None:
    file = drifted / PKGS / f"{CELL}-sm110-armv9.nix"
    file.write_text(file.read_text() + "# mine\n")
    apply(ApplyRequest(workspace=drifted, adopt=("all",), yes=True, commit=True, allow_dirty=True))
    assert (file.parent / f"{file.name}.orig").read_text().endswith("# mine\n")


def test_a_recipe_that_is_right_and_not_asked_for_stays(drifted: Path) -> None:
    (drifted / "torchsmith.toml").write_text(
        'format = 1\nprofile = "seed"\npackages = ["pytorch"]\nexclude = ["sm120 avx512"]\n'
    )
    kept = next(one for one in plan_workspace(drifted).changes if one.path.endswith("sm120-avx512.nix"))
    assert kept.kind == "keep"
    assert kept.code == "not-wanted-valid"


def test_a_recipe_that_cannot_be_parsed_and_is_not_asked_for_stays(drifted: Path) -> None:
    recipe = drifted / PKGS / f"{CELL}-sm120-avx.nix"
    recipe.write_text(recipe.read_text() + "}\n")
    (change,) = (
        one for one in plan_workspace(drifted, adopt=("all",)).changes if one.path.endswith(recipe.name)
    )
    assert change.kind == "keep"


def test_a_recipe_that_is_kept_names_the_verb_that_takes_it_over(drifted: Path) -> None:
    (kept,) = recipes(plan_workspace(drifted, adopt=("all",)), "keep")
    assert "--adopt PATH" in kept.why


def test_counts_of_recipes_and_other_files_are_those_of_the_list(drifted: Path, call: Call) -> None:
    toml = drifted / "torchsmith.toml"
    toml.write_text(toml.read_text() + 'cudatoolkit = ["13.0"]\n')
    lines = call("apply", "--dry-run", "-w", drifted).out.splitlines()
    others = int(re.findall(r"other files: (\d+) to create", lines[-1])[0])
    listed = lines[lines.index("Everything else") :]
    created = [
        int(line.split()[-2]) + 1 for line in listed if line.startswith("  create") and " more" in line
    ]
    assert others in created


def test_the_verbs_print_the_plan_and_apply_it(drifted: Path, call: Call) -> None:
    shown = call("plan", "-w", drifted)
    counts = "recipes: 40 to create, 1 to keep, 5 skipped"
    assert counts in " ".join(shown.out.split())  # lines break where the folder's name lets them
    table = json.loads(call("plan", "-w", drifted, "--json").out)
    assert sum(row["kind"] == "create" and row["recipe"] for row in table["changes"]) == 40
    assert call("apply", "-w", drifted, "--dry-run").code == 0
    assert len(list((drifted / PKGS).glob("*.nix"))) == 6
    assert call("apply", "-w", drifted).code == 1
    assert call("apply", "-w", drifted, "--adopt", "all", "--yes").code == 0
    assert call("plan", "-w", drifted, "--check").code == 0


def test_a_matrix_without_cells_is_no_plan_to_delete_everything(drifted: Path) -> None:
    (drifted / "torchsmith.toml").write_text('format = 1\nprofile = "seed"\nexclude = ["cpu", "gpu"]\n')
    with pytest.raises(Problem) as caught:
        plan_workspace(drifted)
    assert caught.value.exit == 2
    with pytest.raises(Problem):
        apply(ApplyRequest(workspace=drifted))
    assert list((drifted / PKGS).glob("*.nix"))


def test_a_reason_names_what_differs_between_two_texts_of_a_recipe(tmp_path: Path, call: Call) -> None:
    (tmp_path / "torchsmith.toml").write_text(f'format = 1\ninclude = ["{CELL}-sm90-avx2"]\n')
    assert call("apply", "-w", tmp_path, "--no-git").code == 0
    file = tmp_path / PKGS / f"{CELL}-sm90-avx2.nix"
    (tmp_path / "torchsmith.toml").write_text(f'format = 1\nmax_jobs = 8\ninclude = ["{CELL}-sm90-avx2"]\n')
    (change,) = recipes(plan_workspace(tmp_path), "rewrite")
    assert (change.code, change.reason) == ("text", "changes maxJobs")
    file.write_text(file.read_text().replace('gpuArchSM = "9.0"', 'gpuArchSM = "12.0"'))
    (change,) = recipes(plan_workspace(tmp_path), "rewrite")
    assert (change.code, change.skipped) == ("broken", True)
    assert change.why == "broken, edited by hand (gpuArchSM, maxJobs)"
