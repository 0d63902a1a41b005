"""What a run prints: its plan, and a line for each thing that happens."""

from __future__ import annotations

import dataclasses
import io
import re
import sys

import pytest

from torchsmith.building.events import JobRetried, JobSteps, RunStarted
from torchsmith.building.farm import Builder, require_able
from torchsmith.building.job import Job
from torchsmith.building.plan import BuildPlan, Share
from torchsmith.cli.build_screen import BuildLog
from torchsmith.cli.console import Foot, table
from torchsmith.cli.reporter import Terminal, cut
from torchsmith.core.problem import Problem
from torchsmith.core.text import counted
from torchsmith.record import Expected
from torchsmith.verbs.build import print_plan

NAME = "pytorch-python313-cuda13_0-sm120-avx512vnni"
X86 = "x86_64-linux"


def job(key: str, isa: str = "", recipes: tuple[str, ...] = ()) -> Job:
    return Job(key, key, (key,), "pytorch", True, X86, recipes=recipes, isa=isa)


def plan(*jobs: Job) -> BuildPlan:
    expected = Expected(seconds=3600.0, memory_gb=1.0, build_gb=1.0, store_gb=1.0, steps=0, basis="guess")
    return BuildPlan(jobs, {job.key: expected for job in jobs}, Share(1, 1, 1.0), largest_gb=1.0)


def test_a_log_has_a_line_for_every_tenth_of_a_job(capsys: pytest.CaptureFixture[str]) -> None:
    view = BuildLog({NAME: NAME})
    for done in range(0, 31, 2):
        view.show(JobSteps(job=NAME, done=done, total=30))
    lines = capsys.readouterr().err.splitlines()
    steps = [re.search(r"(\d+) of 30", line) for line in lines]
    assert [int(found[1]) for found in steps if found] == [4, 6, 10, 12, 16, 18, 22, 24, 28, 30]


def test_a_job_that_rests_before_its_next_attempt_says_how_long(capsys: pytest.CaptureFixture[str]) -> None:
    view = BuildLog({NAME: NAME})
    view.show(JobRetried(job=NAME, name=NAME, detail="the remote builder went away", attempt=2, seconds=61.0))
    view.show(JobRetried(job=NAME, name=NAME, detail="not enough memory", attempt=3, cores=2))
    waits, fewer = capsys.readouterr().err.splitlines()
    assert "attempt 2 in 1 min 01 s" in waits
    assert "again with 2 cores" in fewer


def test_a_name_is_cut_from_the_left() -> None:
    assert cut("abcdef", 4) == "…def"
    assert cut("abc", 4) == "abc"


def test_recipes_stand_before_what_they_need_and_long_jobs_before_short_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    planned = plan(job("ninja"), job("magma"), job(NAME, recipes=(NAME,)))
    short = dataclasses.replace(planned.expected["ninja"], seconds=60.0, memory_gb=0.2)
    print_plan(dataclasses.replace(planned, expected={**planned.expected, "ninja": short}))
    text = capsys.readouterr().out
    assert text.index(NAME) < text.index("magma") < text.index("ninja")
    assert " 0 GB" not in text
    assert "1 builds" not in text


def test_a_job_without_an_estimate_states_no_hours(capsys: pytest.CaptureFixture[str]) -> None:
    planned = plan(job(NAME, recipes=(NAME,)), job("magma"))
    unknown = dataclasses.replace(planned.expected[NAME], basis="not_estimated", guesses=("seconds",))
    print_plan(dataclasses.replace(planned, expected={**planned.expected, NAME: unknown}))
    text = capsys.readouterr().out
    text = " ".join(text.split())
    assert f"? 1 GB 1 GB {NAME} {X86}, not estimated" in text
    assert "1 h 00 min of work one after the other without the 1 not estimated" in text


def test_jobs_that_no_builder_can_take_are_grouped_and_the_rest_is_offered() -> None:
    here = Builder("", frozenset((X86,)), isas=frozenset(("avx2",)))
    wrong = [job(f"w{number}", "avx512", (f"w{number}",)) for number in range(9)]
    with pytest.raises(Problem) as caught:
        require_able([here], [*wrong, job("ninja"), job("r", "avx2", ("r",))])
    assert caught.value.message.count("\n") == 1, "one reason, one line"
    assert "and 6 more" in caught.value.message
    assert "'!avx512'" in caught.value.hint
    with pytest.raises(Problem) as caught:
        require_able([here], wrong)
    assert "avx512" not in caught.value.hint, "nothing would be left to build"


def test_jobs_that_no_builder_can_take_are_named_by_their_recipes() -> None:
    here = Builder("", frozenset((X86,)))
    arm = [
        dataclasses.replace(one, system="aarch64-linux") for one in (job("nvcc"), job("w", recipes=("w",)))
    ]
    with pytest.raises(Problem) as caught:
        require_able([here], arm)
    assert "2 of 2 jobs" in caught.value.message
    assert caught.value.message.endswith("aarch64-linux: w")


def test_the_line_at_the_foot_is_drawn_in_place_of_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "20")
    with Foot() as foot:
        foot.draw("one")
        foot.draw("a line that is longer than the terminal")
        assert screen.lines() == ["a line that is long"]
    assert screen.lines() == []


class Screen(io.StringIO):
    """A terminal that knows how to go up and to erase what is below."""

    def isatty(self) -> bool:
        return True

    def lines(self) -> list[str]:
        shown: list[str] = []
        for part in re.split(r"(\x1b\[\d+A\x1b\[J)", self.getvalue()):
            up = re.fullmatch(r"\x1b\[(\d+)A\x1b\[J", part)
            shown = shown[: -int(up[1])] if up else shown + part.splitlines()
        return shown


def test_a_table_breaks_the_columns_that_may_be_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    rows = [("TS401", "some words about a rule that take more than a line", "12"), ("TS5", "short", "3")]
    table(("rule", "what", "count"), rows, right=("count",), broken=("what",))
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 40 for line in lines)
    assert lines[0].split() == ["rule", "what", "count"]
    assert lines[1].endswith("   12")
    assert lines[2].startswith("       ")  # below its own column
    assert lines[-1].endswith("    3")


def test_one_job_is_singular() -> None:
    view = BuildLog({})
    started = [view._line(RunStarted(counts={"waiting": count}))[0] for count in (0, 1, 2)]
    assert started == ["", "1 job", "2 jobs"]
    assert counted(1, "hash", "hashes") == "1 hash"
    assert counted(0, "hash", "hashes") == "0 hashes"


def test_a_long_read_is_announced_once_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    for total, lines in ((900_000_000, 1), (90_000_000, 0)):
        with Terminal().progress() as read:
            read("libtriton.so", 0, total)
            read("libtriton.so", 5, total)
        assert capsys.readouterr().err.splitlines() == ["reading 900 MB"] * lines
