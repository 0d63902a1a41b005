"""Who calls a function: direct calls and jumps out of other functions' code."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator

from torchsmith.artifact.elf import Elf, Function, code_of

LONGEST_CALLER = 256 << 10
X86_CALL = re.compile(rb"[\xe8\xe9]")  # CALL and JMP with 32 bits of distance
RELATIVE = struct.Struct("<i")
AARCH64_CALL = re.compile(rb"[\x14-\x17\x94-\x97]")  # the highest byte of B and BL


def callers_of(elf: Elf, functions: Iterable[Function], wanted: list[set[int]]) -> dict[int, Function]:
    """Who calls a wanted address, until one of each set is known to be called."""
    found: dict[int, Function] = {}
    targets = _x86_targets if elf.machine == "x86_64" else _aarch64_targets
    left, addresses = wanted, {address for one in wanted for address in one}
    for function in functions:
        hits = addresses.intersection(targets(code_of(elf, function, LONGEST_CALLER), function.address))
        if hits:
            found.update((address, function) for address in hits if address not in found)
            left = [one for one in left if not hits.intersection(one)]
            if not left:
                break
    return found


def _x86_targets(code: bytes, address: int) -> Iterator[int]:
    end = len(code) - 5
    for call in X86_CALL.finditer(code):
        at = call.start()
        if at <= end:
            yield address + at + 5 + int(RELATIVE.unpack_from(code, at + 1)[0])


def _aarch64_targets(code: bytes, address: int) -> Iterator[int]:
    for call in AARCH64_CALL.finditer(code[3::4]):
        at = 4 * call.start()
        distance = int.from_bytes(code[at : at + 4], "little") & 0x3FFFFFF
        yield address + at + 4 * (distance - (distance << 1 & 0x4000000))
