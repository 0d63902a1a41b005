"""What the probe does in a build's process before it looks at the clock."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from torchsmith.benchmark.subject import PROBE


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


def test_memory_that_was_freed_is_taken_again_without_asking_the_kernel() -> None:
    code = (
        "import ctypes, re, sys\n"
        "names = {}\n"
        "exec(open(sys.argv[1]).read().removesuffix('main()\\n'), names)\n"
        "names['keep_memory']()\n"
        "libc = ctypes.CDLL(None)\n"
        "libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]\n"
        "places = [libc.malloc(64 << 20) for _ in range(2)]\n"
        "[libc.free(place) for place in places]\n"
        "heap = re.search(r'(\\w+)-(\\w+) .*\\[heap\\]', open('/proc/self/maps').read())\n"
        "low, high = (int(number, 16) for number in heap.groups())\n"
        "print(all(low < place < high - (64 << 20) for place in places))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, PROBE], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def test_every_turn_has_its_own_places(probe: dict[str, Any]) -> None:
    heap = 1 << 30
    torch = SimpleNamespace(empty=lambda size, dtype: Memory(heap, size), uint8=None)
    values = (Memory(heap, 1 << 20), (512,))
    turns = [probe["scattered"](torch, values) for _ in range(50)]
    assert {(copy.nbytes, other) for copy, other in turns} == {(1 << 20, (512,))}
    places = {copy.data_ptr() for copy, _ in turns}
    assert all(place % 64 == 0 for place in places)  # as torch aligns its own
    assert len({place // 4096 for place in places}) > 25
    assert len({place % 4096 for place in places}) > 25


@pytest.mark.parametrize(("options", "period"), [({}, 65537), ({"distinct": True}, 1048573)])
def test_inputs_repeat_unless_they_must_be_distinct(
    probe: dict[str, Any], options: dict[str, bool], period: int
) -> None:
    torch = MagicMock()
    probe["numbers"](torch, (128, 128), **options)
    index = torch.arange.return_value.__mul__.return_value.__add__.return_value
    index.__mod__.assert_called_once_with(period)


def test_a_result_that_is_off_by_a_tenth_is_wrong_in_every_operation(probe: dict[str, Any]) -> None:
    limits = {name: limit for name, (_, _, limit) in probe["table"](MagicMock()).items()}
    assert len(limits) > 20
    assert max(limits.values()) < 0.1


@pytest.mark.parametrize(("device", "compiled"), [("cuda", 2), ("cpu", 0)])
def test_on_a_gpu_with_triton_some_operations_are_compiled_too(
    probe: dict[str, Any], monkeypatch: pytest.MonkeyPatch, device: str, compiled: int
) -> None:
    """Their reference is computed without torch.compile, which may be what is wrong."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name == "triton")
    measured = probe["Measured"]()
    measured.torch = torch = MagicMock()
    opened = measured.open(device)
    names = [name for name in opened["operations"] if name.endswith(", compiled")]
    assert len(names) == compiled
    for name in names:
        _, action, plain, _ = measured.operations[f"{device} {name}"]
        assert action is torch.compile.return_value
        assert plain is measured.operations[f"{device} {name.removesuffix(', compiled')}"][1]
    assert opened["memory"] > 0
