"""Which jobs run: those that are ready, the longest chain first, as far as slots and memory reach."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from torchsmith.building.job import Job
from torchsmith.building.schedule import Chains, Task, longest_chain_first
from torchsmith.record import Expected


@dataclass(frozen=True, slots=True)
class Limits:
    """What may run at once: jobs of each system, and for builds on this machine their memory."""

    slots: Mapping[str, int]  # by system; jobs of a system that is not here do not start
    total: int
    cores: int  # of each job
    memory_gb: float = float("inf")


class JobQueue:
    """Jobs by their key: waiting, running, and how they ended. Starts nothing itself."""

    def __init__(self, jobs: Sequence[Job], expected: Mapping[str, Expected], limits: Limits) -> None:
        self.jobs, self.expected, self.limits = jobs, expected, limits
        self.waiting = {job.key: job for job in jobs}
        self.running: dict[str, Job] = {}
        self.done: dict[str, Job] = {}
        self.failed: dict[str, Job] = {}
        self.skipped: dict[str, Job] = {}
        self.cores = dict.fromkeys(self.waiting, limits.cores)
        tasks = [Task(job.key, job.name, expected[job.key].seconds, job.system, job.needs) for job in jobs]
        first = longest_chain_first(Chains(tasks))
        self._order = [task.key for task in sorted(tasks, key=first)]

    @property
    def counts(self) -> dict[str, int]:
        """How many jobs are in each state."""
        states = ("done", "running", "waiting", "failed", "skipped")
        return {state: len(getattr(self, state)) for state in states}

    def startable(self, resting: Collection[str] = ()) -> list[Job]:
        """The jobs to start now; those that rest before another attempt are passed over."""
        chosen: list[Job] = []
        held = list(self.running.values())
        used = {system: sum(job.system == system for job in held) for system in self.limits.slots}
        memory = sum(map(self._memory, held))
        for job in (self.waiting[key] for key in self._order if key in self.waiting):
            if len(held) + len(chosen) >= self.limits.total:
                break
            if job.key in resting or any(need in self.waiting or need in self.running for need in job.needs):
                continue
            fits = memory + self._memory(job) <= self.limits.memory_gb or not (held or chosen)
            if used.get(job.system, 0) >= self.limits.slots.get(job.system, 0) or not fits:
                continue
            chosen.append(job)
            used[job.system] += 1
            memory += self._memory(job)
        return chosen

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
