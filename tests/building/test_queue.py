"""Which jobs start: as many as slots, and as memory reaches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from torchsmith.building.job import Job
from torchsmith.building.queue import MAX_OVERTAKEN, JobQueue, Limits
from torchsmith.record import Expected

X86, ARM = "x86_64-linux", "aarch64-linux"


def queue(limits: Limits, *systems: str, memory_gb: float = 1.0) -> JobQueue:
    jobs = [Job(f"k{at}", f"n{at}", (), "pytorch", True, system) for at, system in enumerate(systems)]
    cost = Expected(seconds=60.0, memory_gb=memory_gb, build_gb=1.0, store_gb=1.0, basis="guess")
    return JobQueue(jobs, {job.key: cost for job in jobs}, limits)


def started(jobs: JobQueue) -> list[str]:
    """Start all that can be started."""
    startable = jobs.startable()
    for job in startable:
        jobs.start(job)
    return [job.system for job in startable]


@pytest.mark.parametrize("slots", [0, 1, 2])
def test_a_system_has_as_many_jobs_as_slots(slots: int) -> None:
    jobs = queue(Limits({X86: slots, ARM: 1}, 10, 4), X86, X86, X86, ARM)
    assert started(jobs) == [*[X86] * slots, ARM]
    assert started(jobs) == []


def test_all_systems_together_have_as_many_jobs_as_the_total() -> None:
    jobs = queue(Limits({X86: 5, ARM: 5}, 3, 4), X86, X86, ARM, ARM)
    assert len(started(jobs)) == 3
    assert started(jobs) == []


def test_memory_is_used_up_and_a_job_that_needs_more_runs_alone() -> None:
    assert len(started(queue(Limits({X86: 5}, 5, 4, memory_gb=4.0), X86, X86, X86, memory_gb=2.0))) == 2
    assert len(started(queue(Limits({X86: 5}, 5, 4, memory_gb=1.0), X86, X86, memory_gb=2.0))) == 1


def test_a_job_of_a_system_without_slots_does_not_start() -> None:
    assert started(queue(Limits({X86: 1}, 5, 4), ARM)) == []


def test_a_large_job_is_overtaken_by_a_bounded_number_of_small_ones() -> None:
    jobs = [Job(f"k{at}", f"n{at}", (), "pytorch", True, X86) for at in range(50)]
    small = Expected(seconds=1.0, memory_gb=1.0, build_gb=1.0, store_gb=1.0, basis="guess")
    costs = {job.key: small for job in jobs}
    costs |= {"k0": replace(small, seconds=9.0), "k1": replace(small, seconds=5.0, memory_gb=8.0)}
    queue = JobQueue(jobs, costs, Limits({X86: 2}, 2, 4, memory_gb=8.0))
    order: list[str] = []
    while queue.waiting or queue.running:
        for job in queue.startable():
            queue.start(job)
            order.append(job.key)
        ended = max(queue.running, key=order.index)  # k0 runs as long as anything else does
        queue.done[ended] = queue.running.pop(ended)
    assert len(order) == len(jobs)
    assert order.index("k1") == MAX_OVERTAKEN + 1
