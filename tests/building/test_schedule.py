"""The order of jobs: never before what they need, close to what no order can beat."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from bench.simulation import Schedule, Slot, Task, lower_bound, nix_order, our_order, simulate

X86, ARM = "x86_64-linux", "aarch64-linux"
BOTH = frozenset((X86, ARM))


@st.composite
def tasks(draw: st.DrawFn) -> list[Task]:
    """Any acyclic set of tasks: each may need some before it."""
    found: list[Task] = []
    for number in range(draw(st.integers(1, 14))):
        needs = draw(st.sets(st.sampled_from([task.key for task in found]), max_size=3)) if found else set()
        seconds = draw(st.integers(1, 50))
        found.append(
            Task(f"k{number}", f"n{number}", seconds, draw(st.sampled_from((X86, ARM))), frozenset(needs))
        )
    return found


@st.composite
def slots(draw: st.DrawFn) -> list[Slot]:
    """Slots that can run everything between them."""
    count = draw(st.integers(1, 4))
    mixed = [Slot(f"s{number}", BOTH) for number in range(count)]
    apart = [Slot(f"x{number}", frozenset((X86,))) for number in range(count)] + [
        Slot("a", frozenset((ARM,)))
    ]
    return draw(st.sampled_from((mixed, apart)))


def check(schedule: Schedule, work: Sequence[Task], places: Sequence[Slot]) -> None:
    by_key = {task.key: task for task in work}
    placed = {one.key: one for one in schedule.placed}
    systems = {slot.name: slot.systems for slot in places}
    assert placed.keys() == by_key.keys()
    for key, one in placed.items():
        assert by_key[key].system in systems[one.slot]
        assert all(placed[need].end <= one.start for need in by_key[key].needs)
    for slot in places:
        own = sorted((one for one in schedule.placed if one.slot == slot.name), key=lambda one: one.start)
        assert all(first.end <= second.start for first, second in pairwise(own))


@given(tasks(), slots())
def test_every_order_waits_for_what_it_needs_and_none_beats_the_bound(
    work: list[Task], places: list[Slot]
) -> None:
    bound = max(lower_bound(work, places).values())
    for priority in (our_order(work), nix_order):
        schedule = simulate(work, places, priority)
        check(schedule, work, places)
        assert schedule.makespan >= bound - 1e-6
        assert schedule.makespan <= sum(task.seconds for task in work)


def test_the_longest_chain_goes_first_where_names_would_not() -> None:
    short = [Task(f"a{n}", f"a{n}", 10, X86) for n in range(4)]
    chain = [Task("z0", "z0", 10, X86), Task("z1", "z1", 30, X86, frozenset(("z0",)))]
    places = [Slot("one", BOTH), Slot("two", BOTH)]
    ours = simulate([*short, *chain], places, our_order([*short, *chain]))
    theirs = simulate([*short, *chain], places, nix_order)
    assert ours.makespan == 40
    assert theirs.makespan > ours.makespan
    assert max(lower_bound([*short, *chain], places).values()) == 40


def test_the_bound_counts_waiting_for_a_shared_dependency() -> None:
    shared = Task("magma", "magma", 100, X86)
    users = [Task(f"t{n}", f"t{n}", 60, X86, frozenset(("magma",))) for n in range(4)]
    assert max(lower_bound([shared, *users], [Slot(f"s{n}", BOTH) for n in range(2)]).values()) == 220


def test_the_bound_counts_that_long_jobs_cannot_be_cut() -> None:
    jobs = [Task(f"t{n}", f"t{n}", 60, X86) for n in range(5)]
    assert max(lower_bound(jobs, [Slot(f"s{n}", BOTH) for n in range(4)]).values()) == 120
