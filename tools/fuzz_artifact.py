"""`python -m tools.fuzz_artifact SECONDS`: libraries damaged at random; anything but Damaged is a bug."""

from __future__ import annotations

import random
import sys
import time
import traceback
from pathlib import Path

from tests.artifact import elves
from tests.artifact.test_bad_input import GOOD, look
from torchsmith.artifact.source import Damaged

SLOW = 2.0  # seconds that no input of a few kilobytes may take
CODE = b"\xc5\xf8\x77\x62\xf1\x6d\x48\xfc\xd9\x0f\x58\xd1\xc3"
NUMBERS = (0, 1, 2, 7, 8, 63, 64, 0xFF, 0xFFFF, 1 << 31, (1 << 32) - 1, 1 << 40, 1 << 63, (1 << 64) - 1)
SEEDS = (
    GOOD,
    elves.code_library({"_ZN2at1fEv": CODE}, {"_ZN2at1fEv": "A.cpp"}),
    elves.code_library({"_ZN2at1fEv": b"\xe0\xe3\x18\x25" * 4}, machine=elves.AARCH64),
    elves.hip_library(*(elves.compressed(elves.bundle("gfx942"), version) for version in (1, 2, 3))),
    elves.hip_library(elves.bundle("gfx942", "gfx1100"), elves.compressed(elves.bundle("gfx90a"), 2, 0)),
)


def mutated(source: random.Random) -> bytes:
    """A good library with a few things wrong."""
    data = bytearray(source.choice(SEEDS))
    for _ in range(source.randint(1, 6)):
        at = source.randrange(len(data))
        match source.randrange(5):
            case 0:
                data[at] = source.randrange(256)
            case 1:
                data[at : at + 8] = source.choice(NUMBERS).to_bytes(8, "little")
            case 2:
                data[at : at + 4] = (source.choice(NUMBERS) & 0xFFFFFFFF).to_bytes(4, "little")
            case 3:
                del data[at : at + source.randrange(1, 64)]
            case 4:
                other = source.choice(SEEDS)
                start = source.randrange(len(other))
                data[at:at] = other[start : start + source.randrange(1, 200)]
        if not data:
            return b""
    return bytes(data)


def main(seconds: float, seed: int) -> int:
    """Try inputs until the time is over; 1 at the first that breaks something."""
    source, tried, damaged, end = random.Random(seed), 0, 0, time.monotonic() + seconds
    while (start := time.monotonic()) < end:
        data = mutated(source)
        tried += 1
        try:
            look(data)
        except Damaged:
            damaged += 1
        except Exception:
            traceback.print_exc()
            Path("fuzz-failure.so").write_bytes(data)
            print(f"input {tried} of seed {seed} is kept in fuzz-failure.so")
            return 1
        if time.monotonic() - start > SLOW:
            print(f"input {tried} of seed {seed} took {time.monotonic() - start:.1f} s")
            return 1
    print(f"{tried} inputs tried (seed {seed}): {damaged} damaged, {tried - damaged} readable")
    return 0


if __name__ == "__main__":
    sys.exit(main(float((sys.argv[1:] or ["60"])[0]), int((sys.argv[2:] or ["1"])[0])))
