"""How well an order of builds does: simulated on builders, against Nix' own order and a lower bound."""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import TopologicalSorter
from itertools import combinations

from torchsmith.building.job import Job
from torchsmith.building.jobs import jobs_of
from torchsmith.building.queue import longest_chain_first
from torchsmith.catalog import Catalog
from torchsmith.core.text import counted
from torchsmith.nix.derivation import name_of
from torchsmith.nix.graph import Graph
from torchsmith.record import Past, expect
from torchsmith.record.estimate import OTHER

CORES = 16  # of a simulated builder, as the catalog's estimates have
X86, ARM = "x86_64-linux", "aarch64-linux"


@dataclass(frozen=True, slots=True)
class Task:
    """A job with its expected duration."""

    key: str
    name: str
    seconds: float
    system: str
    needs: frozenset[str] = frozenset()


Priority = Callable[[Task], tuple[object, ...]]  # the least goes first


class Chains:
    """What waits for each task: all of it, and the longest chain in seconds."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self.tasks = {task.key: task for task in tasks}
        self.needs = {key: task.needs & self.tasks.keys() for key, task in self.tasks.items()}
        self.users: dict[str, set[str]] = {key: set() for key in self.tasks}
        for key, needs in self.needs.items():
            for need in needs:
                self.users[need].add(key)
        self.order = list(TopologicalSorter(self.needs).static_order())
        self.after = reached(self.order[::-1], self.users)
        self.tail = self.longest(self.order[::-1], self.users)

    def longest(self, order: Sequence[str], edges: Mapping[str, Iterable[str]]) -> dict[str, float]:
        """The longest chain along the edges from each task, the task itself left out."""
        lengths: dict[str, float] = {}
        for key in order:
            chains = (lengths[other] + self.tasks[other].seconds for other in edges[key])
            lengths[key] = max(chains, default=0.0)
        return lengths


def reached(order: Sequence[str], edges: Mapping[str, Iterable[str]]) -> dict[str, frozenset[str]]:
    """All that the edges lead to from each task."""
    sets: dict[str, frozenset[str]] = {}
    for key in order:
        sets[key] = frozenset().union(*(sets[other] | {other} for other in edges[key]))
    return sets


@dataclass(frozen=True, slots=True)
class Slot:
    """A place where one job runs at a time."""

    name: str
    systems: frozenset[str]
    speed: float = 1.0


@dataclass(frozen=True, slots=True)
class Placed:
    """A task on a slot, with its time."""

    key: str
    slot: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Schedule:
    """Where and when each task runs."""

    placed: tuple[Placed, ...]

    @property
    def makespan(self) -> float:
        return max((one.end for one in self.placed), default=0.0)


def our_order(tasks: Sequence[Task]) -> Priority:
    """The order in which `build` starts jobs."""
    jobs = [Job(task.key, task.name, (), OTHER, False, task.system, task.needs) for task in tasks]
    order = longest_chain_first(jobs, {task.key: task.seconds for task in tasks})
    places = {job.key: place for place, job in enumerate(order)}
    return lambda task: (places[task.key],)


def nix_order(task: Task) -> tuple[object, ...]:
    """Nix' own: its worker wakes builds in the order of their derivations' names, then paths."""
    return (task.name, task.key)


def simulate(tasks: Sequence[Task], slots: Sequence[Slot], priority: Priority) -> Schedule:
    """Hand tasks out: whenever a slot is free, the first ready task that it can run."""
    stranded = [task.name for task in tasks if not any(task.system in slot.systems for slot in slots)]
    if stranded:
        raise ValueError(f"no slot runs {stranded[0]}")
    chains = Chains(tasks)
    missing = {key: len(needs) for key, needs in chains.needs.items()}
    ready = [(priority(task), task.key) for task in tasks if not missing[task.key]]
    heapq.heapify(ready)
    fastest_first = [(-slot.speed, len(slot.systems), index) for index, slot in enumerate(slots)]
    free = sorted(range(len(slots)), key=fastest_first.__getitem__)
    running: list[tuple[float, int, str]] = []
    placed: list[Placed] = []
    now = 0.0
    while ready or running:
        passed_over = []
        while ready and free:
            entry = heapq.heappop(ready)
            task = chains.tasks[entry[1]]
            at = next((index for index in free if task.system in slots[index].systems), None)
            if at is None:
                passed_over.append(entry)
                continue
            free.remove(at)
            end = now + task.seconds / slots[at].speed
            placed.append(Placed(task.key, slots[at].name, now, end))
            heapq.heappush(running, (end, at, task.key))
        for entry in passed_over:
            heapq.heappush(ready, entry)
        now, at, key = heapq.heappop(running)
        bisect.insort(free, at, key=fastest_first.__getitem__)
        for user in chains.users[key]:
            missing[user] -= 1
            if not missing[user]:
                heapq.heappush(ready, (priority(chains.tasks[user]), user))
    return Schedule(tuple(placed))


def lower_bound(tasks: Sequence[Task], slots: Sequence[Slot]) -> dict[str, float]:
    """No order can be faster than this: for each system and, if slots run several, all together.

    Tasks of a group wait for what they need (heads) and leave work behind them (tails). However they are
    placed, the m slots of a group stay idle for at least its m shortest heads and tails, so their sum and the
    work itself, shared out over m slots, bound the time; and one slot has to run several of the longest. The
    bound is taken for every group that thresholds on heads and tails cut out.
    """
    chains = Chains(tasks)
    systems = sorted({task.system for task in tasks})
    bounds: dict[str, float] = {}
    for size in range(1, len(systems) + 1):
        for group in combinations(systems, size):
            own = [task for task in tasks if task.system in group]
            if able := [slot for slot in slots if slot.systems & set(group)]:
                bounds[" + ".join(group)] = _bound(own, able, chains)
    return bounds


def _bound(tasks: Sequence[Task], slots: Sequence[Slot], chains: Chains) -> float:
    speed = max(slot.speed for slot in slots)
    count = len(slots)
    longest, before = chains.longest(chains.order, chains.needs), reached(chains.order, chains.needs)
    heads = {task.key: _forced(longest, before, task, chains, count) for task in tasks}
    tails = {task.key: _forced(chains.tail, chains.after, task, chains, count) for task in tasks}
    best = max((heads[task.key] + task.seconds + tails[task.key] for task in tasks), default=0.0)
    for head in sorted(set(heads.values())):
        for tail in sorted(set(tails.values())):
            part = [task for task in tasks if heads[task.key] >= head and tails[task.key] >= tail]
            if len(part) < count:
                break  # a higher threshold leaves fewer still
            idle_before = sum(sorted(heads[task.key] for task in part)[:count])
            idle_after = sum(sorted(tails[task.key] for task in part)[:count])
            work = sum(task.seconds for task in part)
            best = max(best, (idle_before + work + idle_after) / count)
            around = min(heads[task.key] for task in part) + min(tails[task.key] for task in part)
            best = max(best, around + _rounds(sorted((task.seconds for task in part), reverse=True), count))
    return best / speed


def _rounds(longest_first: Sequence[float], count: int) -> float:
    """Of the k * count + 1 longest tasks some slot runs k + 1, at best the shortest of them."""
    rounds = range(1, (len(longest_first) - 1) // count + 1)
    return max((sum(longest_first[k * count - k : k * count + 1]) for k in rounds), default=0.0)


def _forced(
    longest: Mapping[str, float], all_of: Mapping[str, frozenset[str]], task: Task, chains: Chains, count: int
) -> float:
    """The longest chain, or all the work on that side shared out over the slots, whichever is more."""
    sides = (chains.tasks[key] for key in all_of[task.key])
    return max(longest[task.key], sum(one.seconds for one in sides if one.system == task.system) / count)


@dataclass(frozen=True, slots=True)
class Simulated:
    """One farm: the time of both orders in hours, and the bounds by system."""

    farm: str
    ours: float
    nix: float
    bounds: dict[str, float]
    bound: float  # the largest of them
    gap: float  # how much longer our order takes
    nix_gap: float


def without_bundles(jobs: Sequence[Job]) -> list[Job]:
    """Recipes and long builds alone; what they need through a small build they need themselves."""
    needs: dict[str, frozenset[str]] = {}
    light = {job.key for job in jobs if job.package == OTHER and not job.recipes}
    for job in jobs:
        through = (needs[key] if key in light else frozenset((key,)) for key in job.needs)
        needs[job.key] = frozenset().union(*through)
    return [replace(job, needs=needs[job.key]) for job in jobs if job.key not in light]


def simulated_jobs(graph: Graph, catalog: Catalog) -> list[Job]:
    """Everything that takes long, built from nothing; the rest comes from a binary cache."""
    return without_bundles(jobs_of(graph, graph.derivations.keys(), catalog))


def tasks_of(jobs: Sequence[Job], catalog: Catalog, past: Sequence[Past]) -> list[Task]:
    """Jobs with their expected durations, named as Nix names them."""
    return [
        Task(job.key, name_of(job.key), expect(job.work, past, catalog, CORES).seconds, job.system, job.needs)
        for job in jobs
    ]


def farms(tasks: Sequence[Task], counts: Sequence[int]) -> dict[str, list[Slot]]:
    """So many builders for everything; with ARM cells also so many with ARM builders beside them."""
    systems = frozenset(task.system for task in tasks)
    everywhere = {count: [Slot(f"builder {i}", systems) for i in range(count)] for count in counts}
    found = {counted(count, "builder"): slots for count, slots in everywhere.items()}
    if systems == {X86, ARM}:
        for count in counts:
            arm = max(1, count // 8)
            slots = [Slot(f"x86 {i}", frozenset((X86,))) for i in range(count)]
            slots += [Slot(f"arm {i}", frozenset((ARM,))) for i in range(arm)]
            found[f"{count} x86 + {arm} ARM"] = slots
    return found


def simulate_farms(tasks: Sequence[Task], counts: Sequence[int]) -> list[Simulated]:
    """Both orders on each farm, against the bound."""
    order = our_order(tasks)
    rows = []
    for name, slots in farms(tasks, counts).items():
        ours = simulate(tasks, slots, order).makespan / 3600
        theirs = simulate(tasks, slots, nix_order).makespan / 3600
        bounds = {system: seconds / 3600 for system, seconds in lower_bound(tasks, slots).items()}
        bound = max(bounds.values(), default=0.0)
        gap, nix_gap = (hours / bound - 1 if bound else 0.0 for hours in (ours, theirs))
        rows.append(Simulated(name, ours, theirs, bounds, bound, gap, nix_gap))
    return rows
