"""apply touches only what is its own, whole or not at all, and a second run finishes the job."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Call
from torchsmith.auditing.run import audit
from torchsmith.catalog import builtin_catalog
from torchsmith.core.files import exclusive
from torchsmith.core.problem import Conflict, Exit, NotFound, Problem, Refused
from torchsmith.core.state import state_folder
from torchsmith.recipe.header import owner_of
from torchsmith.verbs.apply import ApplyRequest, apply
from torchsmith.verbs.plan import ChangeReport
from torchsmith.workspace.change import Change
from torchsmith.workspace.journal import held
from torchsmith.workspace.reconcile import phase_of

SMALL = """
format = 1
packages = ["pytorch", "torchvision"]
[[matrix]]
line = "2.10"
python = ["3.13"]
cuda = ["13.0"]
sm = ["sm90", "sm120"]
isa = ["avx2", "avx512"]
"""
RECIPE = "build-pytorch/.flox/pkgs/pytorch-python313-cuda13_0-sm90-avx2.nix"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "torchsmith.toml").write_text(SMALL)
    return tmp_path


def run(root: Path, **options: object) -> ChangeReport:
    return apply(ApplyRequest(workspace=root, **{"yes": True, **options}))  # type: ignore[arg-type]


def kinds(report: ChangeReport) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for change in report.changes:
        if change.pending:
            found.setdefault(change.kind, []).append(change.path)
    return found


def git(repo: Path, *args: str) -> str:
    done = subprocess.run(["git", "-C", repo, *args], capture_output=True, text=True, check=True)
    return done.stdout


def tree(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): path.read_text()
        for path in root.rglob("*")
        if path.is_file() and ".git/" not in str(path) and ".torchsmith" not in str(path)
    }


def test_a_second_run_changes_nothing(root: Path) -> None:
    run(root)
    before = tree(root)
    assert kinds(run(root)) == {}
    assert tree(root) == before


def test_each_repository_knows_its_files_and_nothing_is_committed(root: Path) -> None:
    run(root)
    for repo in ("build-pytorch", "build-torchvision"):
        known = set(git(root / repo, "ls-files").splitlines())
        on_disk = {path.removeprefix(f"{repo}/") for path in tree(root) if path.startswith(repo)}
        assert known == on_disk
        assert subprocess.run(["git", "-C", root / repo, "rev-parse", "HEAD"], capture_output=True).returncode


def test_a_file_lost_from_gits_index_is_added_again(root: Path) -> None:
    run(root)
    inner = RECIPE.removeprefix("build-pytorch/")
    git(root / "build-pytorch", "rm", "--cached", "--quiet", inner)
    run(root)
    assert inner in git(root / "build-pytorch", "ls-files").splitlines()


def test_a_cell_that_is_wanted_no_more_is_deleted(root: Path) -> None:
    run(root)
    (root / "torchsmith.toml").write_text(SMALL.replace('"sm90", "sm120"', '"sm120"'))
    found = kinds(run(root))
    assert [path for path in found["delete"] if path.startswith("build-pytorch")] == [
        RECIPE,
        RECIPE.replace("avx2", "avx512"),
    ]
    assert not (root / RECIPE).exists()
    assert "sm90" not in git(root / "build-pytorch", "ls-files")


def test_hand_edits_and_strangers_are_reported_and_left(root: Path) -> None:
    run(root)
    edited = root / RECIPE
    edited.write_text(edited.read_text().replace("-mfma", "-mno-fma"))
    stranger = root / RECIPE.replace("avx2", "avx512")
    stranger.write_text("{ }: null\n")
    own = root / "build-pytorch/.flox/pkgs/my-own.nix"
    own.write_text("{ }: null\n")
    before = {path: path.read_text() for path in (edited, stranger, own)}
    report = run(root)
    assert {change.path: change.owner for change in report.skipped} == {
        RECIPE: "edited",
        RECIPE.replace("avx2", "avx512"): "foreign",
    }
    assert {change.code for change in report.skipped} == {"broken"}
    assert all(change.rules for change in report.skipped)
    for path, text in before.items():
        assert path.read_text() == text


def test_an_edited_file_that_is_wanted_no_more_is_left(root: Path) -> None:
    run(root)
    edited = root / RECIPE
    edited.write_text(edited.read_text() + "# mine\n")
    (root / "torchsmith.toml").write_text(SMALL.replace('"sm90", "sm120"', '"sm120"'))
    report = run(root)
    assert edited.exists()
    (change,) = [change for change in report.changes if change.path == RECIPE]
    assert (change.kind, change.code) == ("keep", "not-wanted-valid")


def test_adopting_keeps_a_copy_in_git_or_beside_the_file(root: Path) -> None:
    run(root, commit=True)
    committed = root / RECIPE
    committed.write_text("{ }: 1\n")
    git(root / "build-pytorch", "commit", "--all", "--quiet", "--message", "mine")
    loose = root / RECIPE.replace("avx2", "avx512")
    loose.write_text("{ }: 2\n")
    report = run(root, adopt=("all",))
    taken = [change for change in report.pending if change.owner == "foreign"]
    assert sorted(change.path for change in taken) == sorted([RECIPE, RECIPE.replace("avx2", "avx512")])
    assert owner_of(committed.read_text()) == owner_of(loose.read_text()) == "ours"
    assert not committed.with_name(committed.name + ".orig").exists()
    assert loose.with_name(loose.name + ".orig").read_text() == "{ }: 2\n"


def test_adopting_keeps_a_copy_of_what_a_person_edited_in_a_file_of_ours(root: Path) -> None:
    run(root, commit=True)
    edited = root / RECIPE
    text = edited.read_text() + "# mine\n"
    edited.write_text(text)
    assert run(root, adopt=("all",)).pending == []  # a valid recipe stays
    report = run(root, adopt=("build-pytorch",))
    assert [change.path for change in report.pending if change.owner == "edited"] == [RECIPE]
    assert owner_of(edited.read_text()) == "ours"
    assert edited.with_name(edited.name + ".orig").read_text() == text


def test_adopting_keeps_a_copy_of_an_edit_that_git_was_told_not_to_see(root: Path) -> None:
    run(root, commit=True)
    edited = root / RECIPE
    edited.write_text("{ }: 1\n")
    inner = str(edited.relative_to(root / "build-pytorch"))
    git(root / "build-pytorch", "update-index", "--assume-unchanged", inner)
    run(root, adopt=("build-pytorch",))
    assert owner_of(edited.read_text()) == "ours"
    assert edited.with_name(edited.name + ".orig").read_text() == "{ }: 1\n"


def test_an_environment_of_flox_is_adopted_by_its_name_alone(root: Path) -> None:
    run(root)
    manifest = root / "build-pytorch/.flox/env/manifest.toml"
    manifest.write_text(own := 'version = 1\n[install]\nhello.pkg-path = "hello"\n')
    for adopt in ("all", "."):
        kept = [one.path for one in run(root, adopt=(adopt,)).changes if one.code == "unmanaged"]
        assert kept == [str(manifest.relative_to(root))]
    assert manifest.read_text() == own
    run(root, adopt=(str(manifest),))
    assert manifest.read_text() != own


def test_check_diff_and_dry_run_write_nothing(root: Path) -> None:
    report = run(root, dry_run=True)
    assert len(report.pending) == len(report.changes) > 20
    assert set(tree(root)) == {"torchsmith.toml"}
    assert not (state_folder(root)).exists()


def test_commit_makes_one_commit_for_each_phase_in_each_repository(root: Path) -> None:
    report = run(root, commit=True)
    assert [
        (commit.repo, re.findall(r"recipes for GPUs on x86|files", commit.message))
        for commit in report.commits
    ] == [
        (repo, [phase])
        for repo in ("build-pytorch", "build-torchvision")
        for phase in ("recipes for GPUs on x86", "files")
    ]
    assert report.new_repos == ["build-pytorch", "build-torchvision"]
    assert "pytorch-python313-cuda13_0-sm90-avx2" in git(root / "build-pytorch", "log", "--format=%B")
    assert git(root / "build-pytorch", "status", "--porcelain") == ""
    assert not run(root, commit=True).commits


def test_commits_are_printed_with_their_revisions(root: Path, call: Call) -> None:
    done = call("apply", "--commit", "--yes", "-w", root)
    lines = [line for line in f"{done.out}{done.err}".splitlines() if line.startswith("committed ")]
    log = [git(root / repo, "log", "--format=%H") for repo in ("build-pytorch", "build-torchvision")]
    revisions = "".join(log).split()
    assert len(lines) == len(revisions)
    assert all(any(full.startswith(line.split()[1]) for full in revisions) for line in lines)


def test_a_commit_needs_a_branch(root: Path) -> None:
    run(root, commit=True)
    git(root / "build-pytorch", "checkout", "--quiet", "--detach")
    (root / "torchsmith.toml").write_text(SMALL.replace('"avx2", "avx512"', '"avx2"'))
    with pytest.raises(Refused, match="build-pytorch switch BRANCH"):
        run(root, commit=True, yes=True)
    assert git(root / "build-pytorch", "status", "--porcelain") == ""
    git(root / "build-pytorch", "switch", "--quiet", "main")
    assert run(root, commit=True, yes=True).new_repos == []


def test_libraries_of_recipes_are_not_ignored(root: Path) -> None:
    run(root)
    paths = [".flox/pkgs/lib/x.nix", ".flox/lib/x", ".flox/run/x"]
    ignored = [
        subprocess.run(("git", "-C", root / "build-pytorch", "check-ignore", "-q", path)) for path in paths
    ]
    assert [done.returncode for done in ignored] == [1, 0, 0]


def test_a_workspace_that_is_in_use_says_how_to_wait(root: Path, call: Call) -> None:
    with held(root):
        busy = call("apply", "-w", root)
    assert (busy.code, busy.error) == (3, "busy")
    assert "--wait 60" in busy.err


def test_options_that_contradict_each_other_are_refused(root: Path) -> None:
    with pytest.raises(Conflict):
        run(root, commit=True, git=False)


def test_uncommitted_changes_matter_only_to_a_commit(root: Path) -> None:
    run(root, commit=True)
    (root / "build-pytorch/notes.txt").write_text("mine")
    (root / "torchsmith.toml").write_text(SMALL.replace('"sm90", "sm120"', '"sm120"'))
    with pytest.raises(Refused, match=r"notes\.txt"):
        run(root, commit=True)
    assert run(root).written
    assert run(root, commit=True, allow_dirty=True).commits


def test_a_commit_without_a_committer_says_what_to_set(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "EMAIL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(root))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "user.useConfigOnly")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "true")
    with pytest.raises(Problem) as caught:
        run(root, commit=True)
    assert "git config" in caught.value.hint
    run(root)  # nothing was begun that would have to be committed first


def test_a_repository_of_another_user_is_told_with_gits_advice(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(root)
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(Problem, match="dubious ownership") as caught:
        run(root)
    assert caught.value.exit is Exit.ENVIRONMENT
    assert caught.value.hint.startswith("git config --global --add safe.directory ")


def test_no_link_leads_outside_the_workspace(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (root / "build-pytorch").symlink_to(outside)
    with pytest.raises(Problem, match="build-pytorch"):
        run(root)
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("commit", [False, True])
def test_what_git_ignores_is_named_and_the_rest_is_added(root: Path, commit: bool, call: Call) -> None:
    (root / "build-pytorch").mkdir()
    git(root / "build-pytorch", "init", "-q")
    (root / "build-pytorch/.gitignore").write_text("*-sm90-avx2.nix\n")
    for _ in range(3):
        done = call("apply", *["--commit", "--allow-dirty"] * commit, "-w", root, "--json")
        report = json.loads(done.out or done.err)
        assert (done.code, report["ignored"]) == (1, [RECIPE])
    known = git(root / "build-pytorch", "ls-files").splitlines()
    assert RECIPE.removeprefix("build-pytorch/") not in known
    assert RECIPE.removeprefix("build-pytorch/").replace("sm90", "sm120") in known
    planned = call("plan", "--check", "-w", root, "--json")
    assert (planned.code, json.loads(planned.out)["ignored"]) == (1, [RECIPE])
    (found,) = audit((root / "build-pytorch",)).findings
    assert (found.rule, found.where.file) == ("TS007", str(root / RECIPE))
    git(root / "build-pytorch", "add", "-f", ".")
    assert not run(root).ignored
    git(root / "build-pytorch", "commit", "-qm", "all")
    git(root / "build-pytorch", "rm", "-q", "--cached", RECIPE.removeprefix("build-pytorch/"))
    done = call("apply", "--commit", "--allow-dirty", "-w", root, "--json")
    assert (done.code, json.loads(done.out)["ignored"]) == (1, [RECIPE])
    (root / "build-pytorch/.gitignore").unlink()
    assert (run(root).ignored, call("apply", "-w", root).code) == ([], 0)


def test_a_linked_file_is_not_followed(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    victim = tmp_path_factory.mktemp("outside") / "victim"
    victim.write_text("precious")
    (root / RECIPE).parent.mkdir(parents=True)
    (root / RECIPE).symlink_to(victim)
    report = run(root, adopt=("all",))
    assert [change.path for change in report.skipped] == [RECIPE]
    with pytest.raises(Refused):
        run(root, adopt=(RECIPE,))
    assert victim.read_text() == "precious"
    named = audit((root / RECIPE,))
    assert [(one.rule, one.where.file) for one in named.findings] == [("TS008", str(root / RECIPE))]


def test_a_name_in_a_catalog_cannot_lead_outside(root: Path) -> None:
    (root / "catalog").mkdir()
    (root / "catalog/isas.toml").write_text(
        '["../../../evil"]\ntitle = "x"\nplatform = "x86_64-linux"\nlevel = 1\nflags = []\nmacros = []\n'
        'features = []\nfirst_cpus = []\nsource = "x"\n'
    )
    with pytest.raises(Problem, match="evil") as caught:
        run(root)
    assert caught.value.where is not None
    assert caught.value.where.line == 1


def test_two_runs_at_once_exclude_each_other(root: Path) -> None:
    run(root)
    with (
        exclusive(root / ".torchsmith/lock", what="test"),
        pytest.raises(Problem, match=str(os.getpid())) as caught,
    ):
        run(root)
    assert caught.value.exit is Exit.ENVIRONMENT
    assert kinds(run(root)) == {}


def killed_after(seconds: float, root: Path) -> bool:
    """Whether a run in a process of its own was killed before it had ended."""
    began, telling = os.pipe()
    child = os.fork()  # a new interpreter would take ten times as long to load as to generate
    if child == 0:
        try:
            os.write(telling, b"!")
            run(root, git=False)
            os._exit(0)
        finally:
            os._exit(1)
    os.read(began, 1)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    os.close(began)
    os.close(telling)
    return os.WIFSIGNALED(status)


def test_killed_at_any_moment_every_file_is_old_or_new_and_a_second_run_finishes(root: Path) -> None:
    """Fifty starts, each killed at a moment of its own, while two texts of the workspace take turns."""
    texts = (SMALL, SMALL.replace("packages", "max_jobs = 8\npackages"))
    finals = []
    for text in texts:
        (root / "torchsmith.toml").write_text(text)
        run(root, git=False)
        finals.append(tree(root))
    dice = random.Random(3)
    killed = 0
    for turn in range(50):
        (root / "torchsmith.toml").write_text(texts[turn % 2])
        killed += killed_after(dice.random() * 0.06, root)
        now = tree(root)
        for path, text in now.items():
            if path != "torchsmith.toml":
                assert text in (finals[0][path], finals[1][path]), path
    run(root, git=False)
    assert tree(root) == finals[1]
    assert not (state_folder(root) / "journal.json").exists()
    assert killed > 3, "the runs must not all have ended before they were killed"


def test_without_a_workspace_file_there_is_nowhere_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotFound, match=r"torchsmith\.toml"):
        apply(ApplyRequest())


def test_a_repository_that_a_full_disk_left_half_made_is_made_again(tmp_path: Path) -> None:
    (tmp_path / "torchsmith.toml").write_text(
        'format = 1\n[[matrix]]\npython = ["3.13"]\ncuda = ["cpu"]\nisa = ["avx2"]\n'
    )
    (tmp_path / "build-pytorch/.git/refs").mkdir(parents=True)
    apply(ApplyRequest(workspace=tmp_path))
    assert git(tmp_path / "build-pytorch", "ls-files")


def test_a_matrix_without_cells_is_refused_and_deletes_nothing(root: Path) -> None:
    run(root)
    text = SMALL.replace("format = 1\n", 'format = 1\nexclude = ["gpu"]\n')
    (root / "torchsmith.toml").write_text(text)
    with pytest.raises(Problem) as caught:
        run(root)
    assert caught.value.exit == 2
    assert (root / RECIPE).is_file()


def test_builds_for_macos_have_a_phase_of_their_own() -> None:
    names = {
        "pytorch-python313-darwin-mps": "macOS",
        "pytorch-python313-cuda13_0-sm121-armv9": "GPU on ARM",
        "pytorch-python313-cpu-avx2": "CPU only",
    }
    catalog = builtin_catalog()
    assert {name: phase_of(Change("create", f"{name}.nix", recipe=True), catalog) for name in names} == names
