"""x86-64 instructions: where each one ends, and which of its bytes tell the CPU feature it needs.

Lengths follow from prefixes, opcode map and ModRM alone, so that instructions newer than any disassembler
are stepped over rightly; what an opcode needs is data (data/x86.toml).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

LEGACY, VEX, EVEX = "legacy", "vex", "evex"
PREFIXES = frozenset((0x26, 0x2E, 0x36, 0x3E, 0x64, 0x65, 0x66, 0x67, 0xF0, 0xF2, 0xF3))

# Per opcode of the one-byte map: ModRM follows; bytes of immediate, where -1 is 4 (2 with prefix 66).
MODRM1 = bytes(
    (op < 0x40 and op & 7 < 4)
    or op in (0x63, 0x69, 0x6B, 0xC0, 0xC1, 0xC6, 0xC7, 0xF6, 0xF7, 0xFE, 0xFF)
    or 0x80 <= op <= 0x8F
    or 0xD0 <= op <= 0xD3
    or 0xD8 <= op <= 0xDF
    for op in range(256)
)
ONE_BYTE = frozenset(
    (*range(0x04, 0x40, 8), 0x6A, 0x6B, *range(0x70, 0x81), 0x82, 0x83, 0xA8, *range(0xB0, 0xB8))
) | {0xC0, 0xC1, 0xC6, 0xCD, 0xD4, 0xD5, *range(0xE0, 0xE8), 0xEB}
FOUR_BYTES = frozenset((*range(0x05, 0x40, 8), 0x68, 0x69, 0x81, 0xA9, *range(0xB8, 0xC0), 0xC7, 0xE8, 0xE9))
BRANCHES = frozenset((0xE8, 0xE9))  # keep four bytes with prefix 66

NO_MODRM2 = frozenset(
    (*range(0x05, 0x0D), 0x0E, *range(0x30, 0x38), 0x77, *range(0x80, 0x90), *range(0xC8, 0xD0))
) | {0xA0, 0xA1, 0xA2, 0xA8, 0xA9, 0xAA}
ONE_BYTE2 = frozenset((0x0F, 0x70, 0x71, 0x72, 0x73, 0xA4, 0xAC, 0xBA, 0xC2, 0xC4, 0xC5, 0xC6))
PP = {0: 0, 0x66: 1, 0xF3: 2, 0xF2: 3}


def _operand_bytes(modrm: int, sib: int) -> int:
    """How many bytes an operand takes: ModRM, SIB and displacement."""
    mode, register = modrm >> 6, modrm & 7
    if mode == 3:
        return 1
    displacement = (0, 1, 4)[mode]
    if register == 4:
        return 2 + (4 if mode == 0 and sib & 7 == 5 else displacement)
    return 1 + (4 if mode == 0 and register == 5 else displacement)


OPERAND = [_operand_bytes(modrm, 0) for modrm in range(256)]
OPERAND_BASE5 = [_operand_bytes(modrm, 5) for modrm in range(256)]


class Instruction(NamedTuple):
    """What tells the feature of an instruction; `encoding` says how it was written."""

    encoding: str
    map: int  # opcode map: 1 for 0F, 2 for 0F 38, 3 for 0F 3A
    opcode: int
    prefix: int  # 0 none, 1 for 66, 2 for F3, 3 for F2
    wide: int  # W
    length: int  # vector length: 0, 1, 2 for 128, 256, 512 bits
    memory: int  # 1 when an operand is in memory


class Lost(Exception):
    """Bytes that are no instruction: data among code."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at


def telling(code: bytes) -> Iterator[tuple[int, int, Instruction]]:
    """Offset, size and content of every instruction outside the one-byte map; Lost where decoding fails."""
    at, end = 0, len(code)
    code += b"\0" * 16  # a last instruction that is cut off must not read beyond
    while at < end:
        start = at
        size16 = repeat = rex = 0
        byte = code[at]
        while byte in PREFIXES:
            if byte == 0x66:
                size16 = byte
            elif byte >= 0xF2:
                repeat = byte
            at += 1
            byte = code[at]
            if at - start > 14:
                raise Lost(start)
        if byte & 0xF0 == 0x40:
            rex = byte
            at += 1
            byte = code[at]
        if byte == 0x0F:
            at, found = _two_byte(code, at + 1, size16, repeat, rex)
        elif byte == 0xC5 or byte == 0xC4:
            at, found = _vex(code, at)
        elif byte == 0x62:
            at, found = _evex(code, at)
        else:
            at = _one_byte(code, at, byte, size16, rex)
            if at < 0:
                raise Lost(start)
            continue
        if found is None:
            raise Lost(start)
        yield start, at - start, found


def _one_byte(code: bytes, at: int, opcode: int, size16: int, rex: int) -> int:
    """The end of an instruction of the one-byte map, or -1."""
    at += 1
    if opcode == 0x8F and code[at] & 0x1F >= 8:  # AMD's XOP
        table = code[at] & 0x1F
        return at + 3 + _operand(code, at + 3) + (1 if table == 8 else 4 if table == 10 else 0)
    modrm = code[at]
    if MODRM1[opcode]:
        at += _operand(code, at)
    if opcode in ONE_BYTE:
        return at + 1
    if opcode in FOUR_BYTES:
        if 0xB8 <= opcode < 0xC0 and rex & 8:
            return at + 8
        return at + (2 if size16 and not rex & 8 and opcode not in BRANCHES else 4)
    if opcode == 0xF6 and not modrm & 0x30:
        return at + 1
    if opcode == 0xF7 and not modrm & 0x30:
        return at + (2 if size16 and not rex & 8 else 4)
    if opcode in (0xC2, 0xCA):
        return at + 2
    if 0xA0 <= opcode <= 0xA3:
        return at + 8
    if opcode == 0xC8:
        return at + 3
    if opcode in (0x06, 0x07, 0x0E, 0x16, 0x17, 0x1E, 0x1F, 0x27, 0x2F, 0x37, 0x3F, 0x60, 0x61, 0x9A, 0xEA):
        return -1
    return at


def _operand(code: bytes, at: int) -> int:
    return OPERAND_BASE5[code[at]] if code[at + 1] & 7 == 5 else OPERAND[code[at]]


def _rest(code: bytes, at: int, table: int, opcode: int, *, operand: bool = True) -> tuple[int, int]:
    """Where an instruction ends, from the end of its opcode, and whether an operand is in memory."""
    memory = 0
    if operand:
        memory = int(code[at] < 0xC0)
        at += _operand(code, at)
    return at + (table == 3 or (table == 1 and opcode in ONE_BYTE2)), memory


def _two_byte(code: bytes, at: int, size16: int, repeat: int, rex: int) -> tuple[int, Instruction | None]:
    table, opcode = 1, code[at]
    if opcode == 0x38 or opcode == 0x3A:
        table = 2 if opcode == 0x38 else 3
        at += 1
        opcode = code[at]
    at, memory = _rest(code, at + 1, table, opcode, operand=table > 1 or opcode not in NO_MODRM2)
    if table == 1 and 0x80 <= opcode < 0x90:
        at += 4
    return at, Instruction(LEGACY, table, opcode, PP[repeat or size16], rex >> 3 & 1, 0, memory)


def _vex(code: bytes, at: int) -> tuple[int, Instruction | None]:
    if code[at] == 0xC5:
        table, last, wide = 1, code[at + 1], 0
        at += 2
    else:
        table, last = code[at + 1] & 0x1F, code[at + 2]
        wide = last >> 7
        at += 3
        if table not in (1, 2, 3):
            return at, None
    opcode = code[at]
    at, memory = _rest(code, at + 1, table, opcode, operand=table != 1 or opcode != 0x77)
    return at, Instruction(VEX, table, opcode, last & 3, wide, last >> 2 & 1, memory)


def _evex(code: bytes, at: int) -> tuple[int, Instruction | None]:
    table, second, third, opcode = code[at + 1] & 7, code[at + 2], code[at + 3], code[at + 4]
    if code[at + 1] & 8 or not second & 4 or table not in (1, 2, 3, 5, 6):
        return at, None
    at, memory = _rest(code, at + 5, table, opcode)
    rounding = third & 0x10 and not memory  # then the length bits hold the rounding mode
    length = 2 if rounding else third >> 5 & 3
    return at, Instruction(EVEX, table, opcode, second & 3, second >> 7, length, memory)
