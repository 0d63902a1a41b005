"""Which job next: the longest chain first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter


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


def longest_chain_first(chains: Chains) -> Priority:
    """By the work on the longest chain from a task to the end, then by how much waits for it in all."""

    def priority(task: Task) -> tuple[object, ...]:
        key = task.key
        return (-(task.seconds + chains.tail[key]), -len(chains.after[key]), task.name, key)

    return priority
