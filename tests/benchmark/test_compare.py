"""Two builds take turns: what differs is found, what is wrong is left out, and a crash stays alone."""

from __future__ import annotations

import json
import os
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.benchmark import standin
from tests.cli.conftest import Call
from torchsmith.artifact.interpreter import Interpreter
from torchsmith.benchmark import measure
from torchsmith.benchmark.compare import BuildComparison, MeasureRow, compare_builds
from torchsmith.benchmark.cores import choose
from torchsmith.benchmark.measure import MeasuringPlan, first_in
from torchsmith.benchmark.subject import BuildSubject, subject, variables
from torchsmith.catalog import builtin_catalog
from torchsmith.core.problem import Broken, Problem
from torchsmith.verbs import compare as verb
from torchsmith.verbs.compare import _amount, print_builds

CATALOG = builtin_catalog()
CORE = min(os.sched_getaffinity(0))
SHORT_TURN = 1e-4  # seconds: what is measured does not matter


def compared(folder: Path, runs: int = 11, stop: int = 99, **planted: str) -> BuildComparison:
    """B as it is, A with something planted, both by a probe of known noise; Ctrl-C in round `stop`."""

    def progress(done: int, total: int) -> None:
        if done == stop < total:
            raise KeyboardInterrupt

    probe = folder / "probe.py"
    probe.write_text(standin.PROBE)
    environment = standin.environment(folder / "env")
    file = next(environment.glob("lib/*/site-packages/torch/__init__.py"))
    subjects = []
    for label, extra in (("A", planted), ("B", {"NOISE": planted.get("NOISE", "0.005")})):
        told = {"FILE": str(file), "COUNT": str(folder / label), "SEED": label, **extra}
        subjects.append(BuildSubject(label, environment, Interpreter(Path(sys.executable), ()), told, probe))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measure, "TURNS", 2)
        return compare_builds(subjects, MeasuringPlan(runs, (CORE,), 30), {CORE: 0.0}, progress)


def row(comparison: BuildComparison, name: str) -> MeasureRow:
    return next(one for one in comparison.rows if one.name == name)


def outcomes(comparison: BuildComparison) -> dict[str, str]:
    return {one.name: one.outcome for one in comparison.rows}


def test_equal_builds_are_the_same(tmp_path: Path) -> None:
    found = compared(tmp_path)
    assert set(outcomes(found).values()) == {"same"}
    assert len(found.rows) == 23
    assert (row(found, "import torch").where, row(found, "op7").where) == ("start", "cpu")
    assert found.noise is not None
    assert found.noise < 0.05


@pytest.fixture(scope="module")
def slower(tmp_path_factory: pytest.TempPathFactory) -> BuildComparison:
    """A takes 5 % more in one operation."""
    return compared(tmp_path_factory.mktemp("slower"), SLOW="op7")


def test_a_slowdown_of_five_percent_in_one_operation_is_found_there(slower: BuildComparison) -> None:
    assert {name for name, said in outcomes(slower).items() if said != "same"} == {"op7"}
    slow = row(slower, "op7")
    assert slow.outcome == "higher"
    assert slow.low
    assert slow.high
    assert slow.low < 1.05 < slow.high


def test_an_import_is_timed_with_its_bytecode_at_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it came with the build, or could be kept beside it, says nothing about the build."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    seen = tmp_path / "seen"
    words = "f'{sys.dont_write_bytecode} {sys.pycache_prefix}\\n'"
    tell = f"import sys; open({str(seen)!r}, 'a').write({words})"
    monkeypatch.setattr(standin, "PROBE", tell + standin.PROBE)
    compared(tmp_path, runs=2)
    [(kept, folder)] = {tuple(line.split()) for line in seen.read_text().splitlines()}
    assert kept == "False"
    assert not Path(folder).exists()  # gone with the comparison


def test_the_interval_is_a_share_of_the_ratio() -> None:
    """A ratio of 200 that is known to a tenth is not off by 2,000 %."""
    measured = MeasureRow("cpu", "GEMM", "s", "higher", a=2.0, b=0.01, ratio=200.0, low=180.0, high=220.0)
    assert measured.within == pytest.approx(0.1)
    assert MeasureRow("cpu", "GEMM", "s", "noisy", ratio=200.0).within is None


def test_noise_that_could_hide_it_is_said(tmp_path: Path) -> None:
    found = compared(tmp_path, SLOW="op7", NOISE="0.3")
    assert row(found, "op7").outcome == "noisy"
    noisy = [*outcomes(found).values()].count("noisy")
    assert any(f"judge {noisy} of {len(found.rows)}" in note for note in found.notes)


def test_too_few_rounds_claim_nothing(tmp_path: Path) -> None:
    found = compared(tmp_path, runs=3, SLOW="op7")
    assert not {"lower", "higher"} & set(outcomes(found).values())
    assert any("--runs 10" in note for note in found.notes)


def test_a_build_for_a_gpu_that_is_not_here_is_compared_on_the_cpu_and_the_notes_say_so(
    tmp_path: Path,
) -> None:
    found = compared(tmp_path, runs=3, HIP="6.4.43483")
    assert [note for note in found.notes if note.startswith("A: ") and "ROCm" in note]
    assert not [note for note in found.notes if note.startswith("B: ")]


def test_ctrl_c_ends_it_with_what_was_measured(tmp_path: Path) -> None:
    found = compared(tmp_path, runs=20, stop=12, SLOW="op7")
    assert found.runs == 11
    assert outcomes(found)["op7"] == "higher"
    assert any("11 of 20" in note for note in found.notes)


def test_ctrl_c_before_anything_was_measured_is_ctrl_c(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        compared(tmp_path, stop=2)


@pytest.mark.parametrize(
    ("planted", "said"),
    [({"WRONG": "op3"}, "wrong"), ({"FAIL": "op3"}, "failed"), ({"CRASH": "op3"}, "failed")],
)
def test_an_operation_that_is_not_right_is_left_out(
    planted: dict[str, str], said: str, tmp_path: Path
) -> None:
    found = compared(tmp_path, 3, 99, **planted)
    bad = row(found, "op3")
    assert (bad.outcome, bad.ratio) == (said, None)
    assert bad.faulty == ("A",)
    assert bad.detail.startswith("A")
    assert ("SIGABRT" in bad.detail) is ("CRASH" in planted)
    assert row(found, "op4").ratio is not None


@pytest.mark.parametrize("build", ["A", "B"])
def test_the_exit_code_goes_by_the_build_at_fault_not_by_the_words(
    build: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = compared(tmp_path, 2, 99, FAIL="op3")
    bad = replace(row(found, "op3"), detail=f"{build}: CUDA error, as in AVX", faulty=(build,))
    monkeypatch.setattr(verb, "compare", lambda *_: replace(found, rows=(bad,)))
    ended: Any = pytest.raises(SystemExit) if build == "A" else nullcontext()
    with ended:
        verb.run(request=verb.CompareRequest(a=tmp_path, b=tmp_path), json=True)


def test_a_build_that_cannot_be_imported_is_a_problem(tmp_path: Path) -> None:
    with pytest.raises(Broken, match=r"^A .*libmissing"):
        compared(tmp_path, FAIL="load")


@pytest.mark.parametrize(("crash", "fail"), [("open", ""), ("", "form")])
def test_a_build_that_cannot_start_or_answers_in_another_form_is_a_problem(
    crash: str, fail: str, tmp_path: Path
) -> None:
    with pytest.raises(Broken, match=r"^A"):
        compared(tmp_path, CRASH=crash, FAIL=fail)


def test_the_table_has_a_line_for_each_measure_and_the_last_line_counts_them(
    slower: BuildComparison, capsys: pytest.CaptureFixture[str]
) -> None:
    print_builds(slower)
    shown = f" {' '.join(capsys.readouterr().out.split())} "
    assert all(f" {side.label}: {side.path} " in shown for side in (slower.a, slower.b))
    assert all(f" {one.name} " in shown for one in slower.rows)
    assert " A takes, of 23 measures: 1 more, 22 same " in shown


@pytest.mark.parametrize(
    ("seconds", "shown"), [(1.5, "1.5 s"), (0.8, "800 ms"), (0.0008, "800 µs"), (8e-7, "800 ns")]
)
def test_a_time_has_the_unit_in_which_it_is_short(seconds: float, shown: str) -> None:
    assert _amount(seconds, "s") == shown


def test_both_begin_equally_often() -> None:
    begins = [first_in(round_) for round_ in range(1, 13)]
    assert sum(begins) == 6


def test_idle_cores_come_first_and_siblings_last() -> None:
    shares = {0: 0.0, 1: 0.9, 2: 0.1, 3: 0.0}
    pairs = {0: (0, 1), 1: (0, 1), 2: (2, 3), 3: (2, 3)}
    assert choose(shares, 1, pairs) == [3]
    assert choose(shares, 2, pairs) == [0, 3]
    with pytest.raises(Problem, match="5 cores"):
        choose(shares, 5, pairs)


@pytest.mark.parametrize("word", ["NAME", "=value"])
def test_a_variable_needs_a_name_and_a_value(word: str) -> None:
    assert variables(["A=1", "B="]) == {"A": "1", "B": ""}
    with pytest.raises(Problem, match="NAME=VALUE"):
        variables([word])


def test_an_interpreter_is_a_build(tmp_path: Path) -> None:
    python = standin.environment(tmp_path / "env") / "bin" / "python3"
    assert subject("A", python, CATALOG, {}).interpreter == Interpreter(python, ())


def test_the_command_line_asks_real_processes(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The probe itself, with a torch that agrees to everything."""
    monkeypatch.setattr(measure, "TURN_SECONDS", SHORT_TURN)
    build = standin.environment(tmp_path / "env")
    done = call("compare", build, build, "--runs", "2", "--json")
    assert done.code == 0, done.err
    document = json.loads(done.out)
    assert document["a"]["cpu_capability"] == "SAMPLE"
    assert {one["name"] for one in document["rows"]} >= {"GEMM 256", "sort", "embedding", "small add"}


def test_a_program_that_is_not_python_is_a_problem(call: Call) -> None:
    """It ends before it reads the first question."""
    done = call("compare", "/bin/true", "/bin/true", "--json")
    assert (done.code, done.error) == (1, "broken")


def test_a_path_without_a_build_is_a_problem(tmp_path: Path, call: Call) -> None:
    done = call("compare", tmp_path, tmp_path / "none", "--json")
    assert (done.code, done.error) == (2, "invalid")
