"""Which jobs run: those that are ready, the longest chain first, as far as slots and memory reach."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from torchsmith.building.job import Job
from torchsmith.core.text import grouped
from torchsmith.record import Expected

MAX_OVERTAKEN = 8  # jobs that start before one that is ready and too large for the memory that is free


@dataclass(frozen=True, slots=True)
class Limits:
    """What may run at once: jobs of each system, and for builds on this machine their memory."""

    slots: Mapping[str, int]  # by system; jobs of a system that is not here do not start
    total: int
    cores: int  # of each job
    memory_gb: float = float("inf")


class JobQueue:
    """Jobs by their key: waiting, running, done, failed and skipped. It only chooses; `Run` starts them."""

    def __init__(self, jobs: Sequence[Job], expected: Mapping[str, Expected], limits: Limits) -> None:
        self.jobs, self.expected, self.limits = jobs, expected, limits
        self.waiting = {job.key: job for job in jobs}
        self.running: dict[str, Job] = {}
        self.done: dict[str, Job] = {}
        self.failed: dict[str, Job] = {}
        self.skipped: dict[str, Job] = {}
        self.overtaken = Counter[str]()
        self.cores = dict.fromkeys(self.waiting, limits.cores)
        costs = {key: cost.seconds + cost.cached_seconds for key, cost in expected.items()}
        self._order = _one_gpu_after_the_other(longest_chain_first(jobs, costs))

    @property
    def counts(self) -> dict[str, int]:
        """How many jobs are in each state."""
        states = ("done", "running", "waiting", "failed", "skipped")
        return {state: len(getattr(self, state)) for state in states}

    def startable(self, resting: Collection[str] = ()) -> list[Job]:
        """The jobs to start now; those that rest before another attempt are passed over."""
        started = list(self.running.values())
        used = {system: sum(job.system == system for job in started) for system in self.limits.slots}
        memory = sum(map(self._memory, started))
        cached = {objects for job in self.done.values() for objects in job.objects}
        compiling = {objects for job in started for objects in job.objects} - cached
        ready = (self.waiting[key] for key in self._order if key in self.waiting and key not in resting)
        too_large: list[str] = []
        later: list[Job] = []  # what they compile another compiles now, and a cache has it once that is done
        for job in chain(ready, later):
            if len(started) >= self.limits.total:
                break
            if any(need in self.waiting or need in self.running for need in job.needs):
                continue
            if compiling.intersection(job.objects) and job not in later:
                later.append(job)
                continue
            if used.get(job.system, 0) >= self.limits.slots.get(job.system, 0):
                continue
            if started and memory + self._memory(job) > self.limits.memory_gb:
                if self.overtaken[job.key] >= MAX_OVERTAKEN:
                    break
                too_large.append(job.key)
                continue
            started.append(job)
            self.overtaken.update(too_large)
            used[job.system] += 1
            memory += self._memory(job)
            compiling |= set(job.objects) - cached
        return started[len(self.running) :]

    def _memory(self, job: Job) -> float:
        return self.expected[job.key].memory_gb * self.cores[job.key] / max(self.limits.cores, 1)

    def start(self, job: Job) -> None:
        self.running[job.key] = self.waiting.pop(job.key)

    def skip_users(self, failed: Job) -> list[Job]:
        """Take what needs a failed job off the queue."""
        gone, skipped = {failed.key}, list[Job]()
        for job in self.jobs:
            if job.key in self.waiting and job.needs & gone:
                gone.add(job.key)
                skipped.append(self.waiting.pop(job.key))
        self.skipped |= {job.key: job for job in skipped}
        return skipped


def longest_chain_first(jobs: Sequence[Job], seconds: Mapping[str, float]) -> list[Job]:
    """By the work on the longest chain from a job to the end, then by how much waits for it in all. Jobs come
    after what they need."""
    tail = dict.fromkeys(seconds, 0.0)  # the longest chain behind each job
    waiting: dict[str, set[str]] = {job.key: set() for job in jobs}  # for each job, directly or not
    for job in reversed(jobs):
        for need in job.needs & waiting.keys():
            tail[need] = max(tail[need], seconds[job.key] + tail[job.key])
            waiting[need] |= {job.key, *waiting[job.key]}
    return sorted(
        jobs,
        key=lambda job: (-(seconds[job.key] + tail[job.key]), -len(waiting[job.key]), job.name, job.key),
    )


def _one_gpu_after_the_other(jobs: Sequence[Job]) -> list[str]:
    """Jobs that share CUDA objects follow the first of them, so that a small cache still holds these."""
    groups = grouped((job.objects[0] if job.objects else job.key, job.key) for job in jobs)
    return [key for keys in groups.values() for key in keys]
