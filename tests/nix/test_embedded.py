"""Without Nix, the embedded evaluator tells the same values, and a recipe can do nothing else there."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nixeval
import pytest

from tests.nix.conftest import MINI
from tests.recipe.conftest import Make, make  # noqa: F401
from torchsmith.core.problem import Exit, Problem
from torchsmith.nix import embedded
from torchsmith.nix.embedded import Evaluator, NoValues, Question, Values, ask_all
from torchsmith.nix.evaluate import EvaluationOptions, EvaluationRequest, evaluate
from torchsmith.nix.tool import Nix
from torchsmith.workspace.checkout import recipes_in

CELLS = """
format = 1
cudatoolkit = ["13.0"]
[[matrix]]
python = ["3.13"]
cuda = ["13.0", "12.8"]
sm = ["sm120", "sm90"]
isa = ["avx512"]
[[matrix]]
python = ["3.12"]
cuda = ["cpu"]
isa = ["avx2"]
"""


@pytest.fixture(scope="module")
def evaluator() -> Iterator[Evaluator]:
    with Evaluator(seconds=3, memory=1 << 30) as made:
        yield made


def values(evaluator: Evaluator, text: str, path: Path = Path("/w/x.nix")) -> Values | NoValues:
    return evaluator.values_of([Question(path, text.encode())])[0]


@pytest.mark.parametrize("layout", ["standalone", "shared"])
@pytest.mark.needs("nix")
def test_values_are_those_of_real_nix(layout: str, make: Make, nix: Nix) -> None:  # noqa: F811
    folder = make(CELLS.replace("format = 1", f'format = 1\nlayout = "{layout}"'))
    recipes = recipes_in(folder)
    told = {one.name: one for one in ask_all([(one.name, one.path, one.system) for one in recipes])}
    real = evaluate(
        [EvaluationRequest(one.name, one.path, one.system) for one in recipes],
        nix,
        EvaluationOptions(trees={"default": MINI}),
    )
    compared = 0
    for result in real:
        assert result.evaluated is not None
        if "python" not in result.name:
            continue  # packages of CUDA itself, whose values are nixpkgs' own
        answer = told[result.name].values
        assert answer is not None, told[result.name].reason
        assert answer.attributes["pname"] == result.evaluated.facts.pname
        assert answer.version == result.evaluated.facts.version
        assert tuple(answer.meta["platforms"]) == result.evaluated.facts.platforms
        sm = next((word[2:] for word in result.name.split("-") if word.startswith("sm")), None)
        assert answer.gpu_targets == ((f"{sm[:-1]}.{sm[-1]}",) if sm else ())
        compared += 1
    assert compared == 15


def test_phases_hold_the_flags_that_the_recipe_passes(make: Make, evaluator: Evaluator) -> None:  # noqa: F811
    folder = make(CELLS)
    file = folder / "build-pytorch/.flox/pkgs/pytorch-python313-cuda13_0-sm120-avx512.nix"
    told = evaluator.values_of([Question(file, file.read_bytes())])[0]
    assert isinstance(told, Values)
    flags = "-mavx512f -mavx512dq -mavx512vl -mavx512bw -mfma"
    assert f'CXXFLAGS="{flags} ${{CXXFLAGS:-}}"' in told.attributes["preConfigure"]
    assert told.attributes["src"]["fetcher"] == "fetchFromGitHub"
    assert told.attributes["src"]["arguments"]["hash"].startswith("sha256-")


TORCH = "(import 1 { }).python3Packages.torch.overrideAttrs (_: { pname = @; })"


@pytest.mark.parametrize(
    "expression",
    [
        "builtins.readFile /etc/hostname",
        "builtins.readDir /etc",
        'builtins.toString (builtins.readFile "/proc/self/environ")',
        'builtins.fetchurl "https://example.invalid"',
        "builtins.path { path = /etc; }",
        "builtins.filterSource (_: _: true) /etc",
        "builtins.toString builtins.currentTime",
        'builtins.derivation { name = "x"; }',
        'builtins.findFile [ ] "x"',
        'builtins.hashFile "sha256" /etc/hostname',
    ],
)
def test_a_recipe_has_no_builtin_that_reaches_outside(expression: str, evaluator: Evaluator) -> None:
    assert isinstance(values(evaluator, TORCH.replace("@", '"harmless"')), Values)
    assert isinstance(values(evaluator, TORCH.replace("@", expression)), NoValues)


def test_a_recipe_sees_no_environment(evaluator: Evaluator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "token")
    text = (
        '(import 1 { }).python3Packages.torch.overrideAttrs (_: { pname = "x" + builtins.getEnv "SECRET"; })'
    )
    told = values(evaluator, text)
    assert isinstance(told, Values)
    assert told.attributes["pname"] == "x"


def test_the_child_cannot_open_a_file_even_with_the_real_builtins(evaluator: Evaluator) -> None:
    values(evaluator, "1")  # started
    told = evaluator._ask('builtins.toJSON [ (builtins.readFile "/etc/hostname") ]')
    assert isinstance(told, str), "an error, and no list of values"
    assert evaluator._ask('builtins.toJSON [ (builtins.getEnv "PATH") ]') == [""]


def test_a_recipe_that_loops_is_stopped_and_the_next_one_answered() -> None:
    inner = "builtins.foldl' (b: j: b + j) a l"
    slow = f"let l = builtins.genList (x: x) 30000; in builtins.foldl' (a: i: {inner}) 0 l"
    with Evaluator(seconds=1) as evaluator:
        told = values(evaluator, slow)
        assert told == NoValues("does not end within 1 s", lasting=False)
        assert isinstance(values(evaluator, "(import 1 { }).python3Packages.torch"), Values)


def test_a_recipe_that_eats_memory_is_stopped_and_the_next_one_answered() -> None:
    hungry = "builtins.length (builtins.genList (x: toString x) 300000000)"
    with Evaluator(seconds=20, memory=256 << 20) as evaluator:
        told = values(evaluator, hungry)
        assert isinstance(told, NoValues)
        assert "256 MiB" in told.reason
        assert isinstance(values(evaluator, "(import 1 { }).python3Packages.torch"), Values)


def test_one_bad_recipe_among_many_costs_no_other(evaluator: Evaluator) -> None:
    good = "(import 1 { }).python3Packages.torch"
    texts = [good, "{ a = ; }", good, "(import 1 { }).nonsense.x.y", good, 'throw "no"', "1"]
    told = evaluator.values_of([Question(Path("/w/x.nix"), text.encode()) for text in texts])
    assert [isinstance(one, Values) for one in told] == [True, False, True, False, True, False, False]
    reasons = [one.reason for one in told if isinstance(one, NoValues)]
    assert "Nix" in reasons[0]
    assert '"no"' in reasons[2]
    assert reasons[3].endswith(" int")


def test_a_file_outside_the_repository_is_not_put_into_a_recipe(tmp_path: Path, evaluator: Evaluator) -> None:
    (tmp_path / "secret.nix").write_text('{ pname = "secret"; }')
    repo = tmp_path / "repo"
    (repo / ".git").mkdir(parents=True)
    text = "(import 1 { }).python3Packages.torch.overrideAttrs (_: import ../secret.nix)"
    assert "secret" not in str(values(evaluator, text, repo / "x.nix"))
    (repo / "inner.nix").write_text('{ pname = "inner"; }')
    assert "inner" in str(values(evaluator, text.replace("../secret", "./inner"), repo / "x.nix"))


def test_an_evaluator_that_only_pythonpath_finds_is_found() -> None:
    child = Path(embedded.__file__).with_name("embedded_child.py")
    home = Path(nixeval.__file__).parents[1]
    asked = [sys.executable, "-I", "-S", str(child), str(512 << 20), str(home)]
    told = subprocess.run(asked, input=b'"builtins.toJSON [ 1 ]"\n', capture_output=True, check=True).stdout
    assert json.loads(told) == {"values": [1]}


def test_without_the_evaluator_there_are_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "available", lambda: False)
    with pytest.raises(Problem) as caught:
        Evaluator()
    assert caught.value.exit is Exit.LACKING
    assert "nixeval" in caught.value.hint
