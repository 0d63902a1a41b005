"""What the probe does in a build's process before it looks at the clock."""

from __future__ import annotations

import random
from itertools import cycle
from types import SimpleNamespace
from typing import Any

import pytest

from torchsmith.worth.subject import PROBE


class Memory:
    """A tensor of bytes at an address, as far as places go."""

    dtype = shape = None

    def __init__(self, address: int, size: int) -> None:
        self.address, self.nbytes = address, size

    def __getitem__(self, part: slice) -> Memory:
        assert 0 <= part.start <= part.stop <= self.nbytes
        return Memory(self.address + part.start, part.stop - part.start)

    def data_ptr(self) -> int:
        return self.address

    def view(self, _: object) -> Memory:
        return self

    copy_ = view


@pytest.fixture
def probe() -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(PROBE.read_text().removesuffix("main()\n"), names)
    return names


@pytest.mark.parametrize("inputs", [1, 2, 3])
def test_no_input_lies_a_little_before_a_result(probe: dict[str, Any], inputs: int) -> None:
    dice = random.Random(inputs)

    def empty(size: int, dtype: object = None) -> Memory:
        return Memory(64 * dice.randrange(1 << 20), size)

    torch = SimpleNamespace(empty=empty, uint8=None)
    places: set[int] = set()
    for _ in range(50):
        values = (*(empty(1 << 12) for _ in range(inputs)), (512,))
        results = cycle([empty(64), empty(64)])  # malloc goes to and fro between two places
        copies = probe["kept_apart"](torch, lambda *_, results=results: next(results), values, 4)
        assert copies[-1] == (512,)
        for copy in copies[:-1]:
            assert all((next(results).address - copy.address) % 4096 > 1024 for _ in range(2))
            places.add(copy.address % 4096)
    assert len(places) > 20  # and not always in the same place
