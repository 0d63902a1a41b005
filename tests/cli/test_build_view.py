"""A run on a terminal of eighty columns: GPU and instruction set visible, failures at once."""

from __future__ import annotations

import io
from typing import Any, cast

import pytest
from rich.console import Console
from rich.live import Live

from torchsmith.api.build_plan import BuildPlanReport, PlannedJob
from torchsmith.building.events import JobBuilding, JobEnded, JobRetried, JobStarted, JobSteps
from torchsmith.building.farm import Builder, require_able
from torchsmith.building.job import Job
from torchsmith.building.plan import Share
from torchsmith.cli.build_view import LiveView, print_plan
from torchsmith.cli.remaining import Remaining, cut, moment
from torchsmith.core.problem import Problem
from torchsmith.record import Expected

NAME = "pytorch-python313-cuda13_0-sm120-avx512vnni"
X86 = "x86_64-linux"


def job(key: str, isa: str = "", recipes: tuple[str, ...] = ()) -> Job:
    return Job(key, key, (key,), "pytorch", True, X86, recipes=recipes, isa=isa)


def plan(*jobs: Job) -> BuildPlanReport:
    expected = Expected(seconds=3600.0, memory_gb=1.0, build_gb=1.0, store_gb=1.0, steps=0, basis="a guess")
    planned = [
        PlannedJob(
            key=job.key,
            name=job.name,
            package=job.package,
            targets=job.targets,
            recipes=job.recipes,
            builds=1,
            system=X86,
            needs=[],
            expected=expected,
        )
        for job in jobs
    ]
    return BuildPlanReport(
        recipes=(),
        present=(),
        fetched=(),
        download_mib=0.0,
        broken=(),
        share=Share(1, 1, 1.0),
        jobs=planned,
        per_core_gb=1.0,
        own_builds=0,
        builds_below=0,
        problem=None,
    )


def shown(view: LiveView) -> str:
    console = Console(file=io.StringIO(), width=80)
    console.print(view._table())
    return str(cast("Any", console.file).getvalue())


def test_gpu_and_isa_stay_visible_and_failures_count_at_once() -> None:
    live = Live(console=Console(file=io.StringIO(), width=80), auto_refresh=False)
    view = LiveView(live, plan(job(NAME), job("b")), slots=2)
    view.tell(JobStarted(job=NAME, name=NAME, expected=3600.0))
    view.tell(JobBuilding(job=NAME, derivation="torch", builder="ssh://builder@arm1.example.org"))
    view.tell(JobSteps(job=NAME, done=3911, total=7093))
    text = shown(view)
    assert "cuda13_0-sm120-avx512vnni" in text
    assert all(len(line) <= 80 for line in text.splitlines())
    view.tell(JobEnded(job="b", name="b", state="failed", words="no"))
    assert "1 failed" in " ".join(shown(view).split())


def test_a_job_that_rests_before_its_next_attempt_says_how_long() -> None:
    live = Live(console=Console(file=io.StringIO(), width=80), auto_refresh=False)
    view = LiveView(live, plan(job(NAME)))
    view.tell(JobStarted(job=NAME, name=NAME, attempt=1))
    view.tell(JobRetried(job=NAME, name=NAME, words="the remote builder went away", attempt=2, seconds=61.0))
    assert "attempt 2 in 1 min 01 s" in str(cast("Any", live.console.file).getvalue())
    assert "1 min" in shown(view)
    assert "sm120-avx512vnni" in shown(view)
    assert all(len(line) <= 80 for line in shown(view).splitlines())
    view.tell(JobStarted(job=NAME, name=NAME, attempt=2))
    assert "1 min" not in shown(view)


def test_what_is_left_is_learnt_from_steps_and_siblings_and_spread_over_slots() -> None:
    remaining = Remaining({"a": 100.0, "b": 100.0, "c": 100.0}, dict.fromkeys("abc", "pytorch"), slots=2)
    assert remaining.rest({}) == 150.0
    assert remaining.of("a", elapsed=50.0, done=50, total=100) == 50.0
    assert remaining.of("a", elapsed=50.0, done=1, total=100) == 50.0
    remaining.finished("a", 300.0)
    assert remaining.of("b") == 300.0
    assert remaining.rest({"b": (10.0, 10, 1000)}) == 300.0
    remaining.dropped("b")
    assert remaining.rest({}) == 300.0


def test_the_end_is_told_with_its_day() -> None:
    now = 1_800_000_000.0
    assert len(moment(0.0, now)) == 5
    assert len(moment(48 * 3600.0, now).split()) == 4
    assert cut("abcdef", 4) == "…def"
    assert cut("abc", 4) == "abc"


def test_recipes_stand_before_what_they_need(capsys: pytest.CaptureFixture[str]) -> None:
    print_plan(plan(job("magma"), job(NAME, recipes=(NAME,))))
    text = capsys.readouterr().out
    assert text.index(NAME) < text.index("magma")


def test_jobs_that_no_builder_can_take_are_grouped_and_the_rest_is_offered() -> None:
    here = Builder("", frozenset((X86,)), isas=frozenset(("avx2",)))
    wrong = [job(f"w{number}", "avx512", (f"w{number}",)) for number in range(9)]
    with pytest.raises(Problem) as caught:
        require_able([here], [*wrong, job("r", "avx2", ("r",))])
    assert caught.value.message.count("\n") == 1, "one reason, one line"
    assert "and 6 more" in caught.value.message
    assert "torchsmith build '!avx512'" in caught.value.hint
