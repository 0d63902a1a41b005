"""For every machine of the corpus: the variant it must get, why, and what must be said about its facts."""

from __future__ import annotations

from functools import cache

import pytest

from tests.host.machines import Expectation, Known, corpus
from torchsmith.host.pick import Pick, pick
from torchsmith.workspace.load import Workspace, open_workspace

CASES = [(name, number) for name, known in corpus().items() for number in range(len(known.expect))]


@cache
def workspace(profile: str) -> Workspace:
    return open_workspace(None, profile)


def picked(known: Known, expected: Expectation) -> Pick:
    opened = workspace(expected.profile)
    workload = opened.catalog.workloads[expected.workload]
    return pick(known.facts(), opened.matrix.cells, opened.catalog, workload)


def test_the_corpus_holds_at_least_forty_machines() -> None:
    assert len(corpus()) >= 40


def test_what_is_called_real_was_captured() -> None:
    captured = {name for name, known in corpus().items() if known.captured}
    assert captured == {name for name in corpus() if name.startswith("real-")}
    assert captured


@pytest.mark.parametrize(("name", "number"), CASES)
def test_a_known_machine_gets_its_variant_for_the_right_reason(name: str, number: int) -> None:
    known = corpus()[name]
    expected = known.expect[number]
    answer = picked(known, expected)
    chosen = [one.fit for one in answer.choice.variants]
    assert tuple(fit.variant.name for fit in chosen) == expected.variants
    assert tuple(map(str, answer.choice.unserved)) == expected.unserved
    reasons = [reason for fit in chosen for reason in fit.reasons]
    if not chosen:
        reasons = [str(reason) for miss in answer.ranking.misses for reason in miss.reasons]
    assert any(expected.because in reason for reason in reasons), reasons
    if expected.create:
        assert tuple(fit.variant.name for fit in answer.wanted) == expected.create


@pytest.mark.parametrize("name", [name for name, known in corpus().items() if known.notes])
def test_what_was_not_used_is_said(name: str) -> None:
    known = corpus()[name]
    notes = [str(note) for note in picked(known, known.expect[0]).facts.notes]
    for text in known.notes:
        assert any(text in note for note in notes), notes


def test_graviton3_never_gets_armv9_and_alder_lake_never_avx512() -> None:
    for name, word in (("graviton3", "armv9"), ("alderlake-rtx4090", "avx512")):
        known = corpus()[name]
        for workload in workspace("wide").catalog.workloads:
            answer = picked(known, Expectation("wide", (), "", workload))
            assert not [fit for fit in answer.ranking.fits if word in fit.variant.isa]


def test_a_driver_of_570_never_gets_cuda_13() -> None:
    answers = [picked(known, Expectation("wide", (), "")) for known in corpus().values()]
    older = [one for one in answers if one.host.driver is not None and one.host.driver.parts[0] < 580]
    cudas = [fit.variant.cuda for answer in older for fit in answer.ranking.fits]
    majors = {cuda.major for cuda in cudas if cuda is not None}
    assert majors == {12}
