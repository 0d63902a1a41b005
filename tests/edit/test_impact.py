"""A change is told by what it does to derivations, not by what it does to text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.nix.conftest import MINI, nix  # noqa: F401
from torchsmith.core.problem import Exit, Problem
from torchsmith.core.process import run
from torchsmith.edit.impact import Effect, effects, impact, summary
from torchsmith.nix.errors import Cause
from torchsmith.nix.evaluate import EvalResult, Evaluable, EvaluationOptions, evaluate
from torchsmith.nix.tool import Nix
from torchsmith.nix.worker import DerivationFacts, Evaluated
from torchsmith.verbs.apply import ApplyRequest, apply
from torchsmith.verbs.impact import ImpactReport
from torchsmith.workspace.load import DEFAULT, Workspace, open_workspace

CELLS = """format = 1
max_jobs = 32
[[matrix]]
packages = ["pytorch"]
python = ["3.13"]
cuda = ["cpu"]
isa = ["avx2", "avx512"]
"""


def good(name: str, drv: str) -> EvalResult:
    return EvalResult(name, Path(name), 0.1, Evaluated(drv, name, "x", {}, DerivationFacts()))


def bad(name: str) -> EvalResult:
    return EvalResult(name, Path(name), 0.1, cause=Cause("broken"))


def test_recipes_are_sorted_by_what_became_of_them() -> None:
    before = [good("a", "1"), good("b", "1"), good("c", "1"), bad("d"), bad("e"), good("g", "1")]
    after = [good("a", "1"), good("b", "2"), bad("c"), good("d", "1"), bad("e"), good("f", "1")]
    found = effects(before, after)
    assert {one.name: one.kind for one in found} == {
        "a": "identical",
        "b": "changed",
        "c": "broken",
        "d": "fixed",
        "e": "still broken",
        "f": "new",
        "g": "gone",
    }
    assert summary(found) == ("1 changed, 1 new, 1 gone, 1 broken, 1 fixed, 1 still broken, 1 identical")


def test_recipes_that_cannot_be_downloaded_are_not_compared() -> None:
    off, on = EvalResult("a", Path("a"), 0.1, cause=Cause("cannot download it", code="fetch")), good("a", "1")
    for before, after in (([off], [off]), ([off], [on]), ([on], [off]), ([], [off])):
        report = ImpactReport(summary="", effects=effects(before, after), hours=0.0)
        assert ([effect.kind for effect in report.effects], report.exit) == (["unknown"], Exit.ENVIRONMENT)
    assert [effect.kind for effect in effects([off], [])] == ["gone"]
    assert summary(effects([off], [on])) == "1 unknown"


def test_the_summary_counts_as_a_person_would() -> None:
    same = [good(str(number), "1") for number in range(130)]
    before = [*same, good("x", "1"), good("y", "1")]
    after = [*same, good("x", "2"), good("y", "2")]
    assert summary(effects(before, after)) == "2 changed, 130 identical"
    assert summary([]) == "no recipe"


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    windows = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.autocrlf", "GIT_CONFIG_VALUE_0": "true"}
    for name, value in windows.items():  # line ends as somebody on WSL may have them
        monkeypatch.setenv(name, value)
    (tmp_path / "torchsmith.toml").write_text(CELLS)
    apply(ApplyRequest(workspace=tmp_path, commit=True))
    return tmp_path


@pytest.mark.needs("nix")
def test_a_change_of_the_workspace_is_told_by_derivation(workspace: Path, nix: Nix) -> None:  # noqa: F811
    def asked(requests: Sequence[Evaluable]) -> list[EvalResult]:
        return evaluate(requests, nix, EvaluationOptions(trees={"default": MINI}))

    def told(opened: Workspace | None = None) -> dict[str, int]:
        opened = opened or open_workspace(workspace)
        return Counter(one.kind for one in impact(opened, workspace, "HEAD", asked))

    without_file = open_workspace(DEFAULT)

    assert told() == {"identical": 2}
    # More jobs change the build; the files on disk are still the old ones.
    (workspace / "torchsmith.toml").write_text(CELLS.replace("32", "16"))
    assert told() == {"changed": 2}
    assert told(without_file) == {"identical": 2}
    # A comment changes the text and no derivation.
    recipe = workspace / "build-pytorch/.flox/pkgs/pytorch-python313-cpu-avx2.nix"
    generated = recipe.read_text()
    recipe.write_text("# a word\n" + generated)
    assert told(without_file) == {"identical": 2}
    (workspace / "torchsmith.toml").write_text(CELLS.replace('"avx2", ', ""))
    assert told() == {"identical": 2}, "apply keeps a valid recipe that was edited"
    recipe.write_text(generated)
    assert told() == {"gone": 1, "identical": 1}
    (workspace / "torchsmith.toml").write_text(CELLS.replace('"avx2", ', '"avx512vnni", '))
    assert told() == {"new": 1, "gone": 1, "identical": 1}


def test_a_second_checkout_beside_is_not_compared(workspace: Path) -> None:
    run(["git", "clone", "--quiet", workspace / "build-pytorch", workspace / "build-pytorch-2"])

    def asked(requests: Sequence[Evaluable]) -> list[EvalResult]:
        return [good(one.name, "1") for one in requests]

    assert summary(impact(open_workspace(workspace), workspace, "HEAD", asked)) == "2 identical"


def test_recipes_of_a_package_that_is_no_longer_asked_for_stay(workspace: Path) -> None:
    (workspace / "torchsmith.toml").write_text(CELLS.replace('"pytorch"', '"torchaudio"'))

    def asked(requests: Sequence[Evaluable]) -> list[EvalResult]:
        return [good(one.name, "1") for one in requests]

    told = summary(impact(open_workspace(workspace), workspace, "HEAD", asked))
    assert told == "2 new, 2 identical"


def test_a_recipe_that_two_repositories_had_stays_itself_in_the_one_that_keeps_it(workspace: Path) -> None:
    name = ".flox/pkgs/torchaudio-python313-cpu-avx2.nix"
    both = CELLS.replace('["pytorch"]', '["pytorch", "torchaudio"]')
    (workspace / "torchsmith.toml").write_text(both)
    apply(ApplyRequest(workspace=workspace, commit=True))
    text = (workspace / "build-torchaudio" / name).read_text()
    (workspace / "build-pytorch" / name).write_text(f"# by hand\n{text}")
    for words in (["add", "--all"], ["commit", "--quiet", "--message", "by hand"]):
        run(["git", "-C", workspace / "build-pytorch", *words])
    (workspace / "torchsmith.toml").write_text(both.replace('"avx2", ', ""))

    def asked(requests: Sequence[Evaluable]) -> list[EvalResult]:
        return [good(one.name, "1") for one in requests]

    found = impact(open_workspace(workspace), workspace, "HEAD", asked)
    assert {one.name: one.kind for one in found} == {
        "build-pytorch/torchaudio-python313-cpu-avx2": "identical",
        "build-torchaudio/torchaudio-python313-cpu-avx2": "gone",
        "pytorch-python313-cpu-avx2": "gone",
        "pytorch-python313-cpu-avx512": "identical",
        "torchaudio-python313-cpu-avx512": "identical",
    }


def test_a_revision_that_does_not_exist_is_named(workspace: Path) -> None:
    with pytest.raises(Problem, match=r"build-pytorch.*nowhere"):
        impact(open_workspace(workspace), workspace, "nowhere", lambda _: [])


def test_a_repository_without_a_commit_says_how_to_make_one(tmp_path: Path) -> None:
    (tmp_path / "torchsmith.toml").write_text(CELLS)
    apply(ApplyRequest(workspace=tmp_path))
    with pytest.raises(Problem) as caught:
        impact(open_workspace(tmp_path), tmp_path, "HEAD", lambda _: [])
    assert "apply --commit" in caught.value.hint


def test_a_repository_of_something_else_is_none_to_compare_with(tmp_path: Path) -> None:
    (tmp_path / "torchsmith.toml").write_text(CELLS)
    apply(ApplyRequest(workspace=tmp_path, git=False))
    run(["git", "init", "--quiet", tmp_path / "notes"])
    with pytest.raises(Problem, match="no git repository"):
        impact(open_workspace(tmp_path), tmp_path, "HEAD", lambda requests: [])


def test_all_recipes_are_new_after_a_commit_without_files(tmp_path: Path) -> None:
    (tmp_path / "torchsmith.toml").write_text(CELLS)
    apply(ApplyRequest(workspace=tmp_path))
    run(
        [
            "git",
            "-C",
            tmp_path / "build-pytorch",
            "commit",
            "--quiet",
            "--allow-empty",
            "--message",
            "first",
            "--only",
        ]
    )

    def asked(requests: Sequence[Evaluable]) -> list[EvalResult]:
        return [good(one.name, "1") for one in requests]

    assert summary(impact(open_workspace(tmp_path), tmp_path, "HEAD", asked)) == "2 new"


def test_a_folder_without_git_cannot_be_compared(tmp_path: Path) -> None:
    (tmp_path / "torchsmith.toml").write_text(CELLS)
    with pytest.raises(Problem, match=str(tmp_path)):
        impact(open_workspace(tmp_path), tmp_path, "HEAD", lambda _: [])


def test_a_repository_around_the_workspace_serves_too(workspace: Path, tmp_path: Path) -> None:
    outer = tmp_path / "outer"
    inner = outer / "builds"
    inner.mkdir(parents=True)
    (inner / "torchsmith.toml").write_text(CELLS)
    run(["git", "init", "--quiet", outer])
    apply(ApplyRequest(workspace=inner, git=False))
    run(["git", "-C", outer, "add", "--all"])
    run(["git", "-C", outer, "commit", "--quiet", "--message", "all"])
    seen: list[list[str]] = []

    def asked(requests: Sequence[Evaluable]) -> list[EvalResult]:
        seen.append([one.name for one in requests])
        return [good(name, "1") for name in seen[-1]]

    assert summary(impact(open_workspace(inner), inner, "HEAD", asked)) == "2 identical"
    assert seen[0] == seen[1]


@pytest.mark.parametrize(
    ("effect", "exit"),
    [
        (Effect("a", "changed"), Exit.OK),
        (Effect("a", "broken", cause=Cause("no attribute")), Exit.CHECK_FAILED),
        (Effect("a", "unknown", cause=Cause("no network", code="fetch")), Exit.ENVIRONMENT),
        (Effect("a", "still broken", cause=Cause("no attribute")), Exit.OK),
    ],
)
def test_a_change_that_breaks_a_recipe_fails(effect: Effect, exit: Exit) -> None:
    assert ImpactReport(summary="", effects=[effect], hours=0.0).exit is exit
