"""What functions need is the same, however many processes read them and whatever becomes of those."""

from __future__ import annotations

import sys
import time
from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest

from torchsmith.artifact import iced, reading
from torchsmith.artifact.elf import Elf, code_of, functions_of, place_of, read_elf
from torchsmith.artifact.reading import Needs, Piece, read_needs, read_piece, scan
from torchsmith.artifact.source import Damaged, FileSlice, open_file
from torchsmith.core.process import run

CODE = """
void add(float *a, const float *b, float c, int n) { for (int i = 0; i < n; ++i) a[i] += b[i] * c; }
void fill(int *a, int v, int n) { for (int i = 0; i < n; ++i) a[i] = v; }
"""
X86_COMPILER = "x86_64-linux-gnu-g++"
pytestmark = pytest.mark.needs("cross-gcc")
Read = list[tuple[tuple[str, ...], bool]]


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[Elf]:
    """The compiler's C++ library for x86, cut into many pieces."""
    path = Path(run([X86_COMPILER, "-print-file-name=libstdc++.so.6"]).stdout.strip())
    monkeypatch.setattr(reading, "PIECE_BYTES", 8 << 10)
    with open_file(path) as source:
        yield read_elf(source)


def rows_of(elf: Elf) -> array[int]:
    rows = functions_of(elf).rows
    return array("Q", [number for row in rows for number in place_of(elf, row)])


def needs(elf: Elf, processes: int) -> Read:
    return list(read_needs(elf.source, elf.machine, rows_of(elf), processes))


def test_one_process_and_three_read_the_same(library: Elf, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = needs(library, 1)
    assert 2 * len(alone) == len(rows_of(library)) > 2000
    assert ((), False) in alone
    read_here: list[Piece] = []

    def slowly(piece: Piece) -> Needs:
        time.sleep(0.1)  # so that the others have their part
        read_here.append(piece)
        return read_piece(piece)

    monkeypatch.setattr(reading, "read_piece", slowly)
    assert needs(library, 3) == alone
    assert 0 < len(read_here) < len(reading._cuts(rows_of(library))) - 1


@pytest.mark.parametrize("program", ["/bin/false", "/bin/cat", "/nowhere/python"])
def test_a_helper_that_fails_leaves_its_work_to_this_process(
    program: str, library: Elf, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = needs(library, 1)
    monkeypatch.setattr(sys, "executable", program)
    assert needs(library, 3) == alone


def test_a_file_that_ends_early_is_damaged_for_several_processes_too(library: Elf) -> None:
    source = FileSlice(library.source.handle, library.source.start, library.source.size // 2)
    with pytest.raises(Damaged):
        list(read_needs(source, library.machine, rows_of(library), 3))


@pytest.mark.parametrize("flags", ["-O2", "-O2 -mavx2 -mfma", "-O3 -mavx512f -mavx512vl"])
def test_features_without_places_are_those_with_places(flags: str, tmp_path: Path) -> None:
    source = tmp_path / "code.cpp"
    source.write_text(CODE)
    library = tmp_path / "code.so"
    assert run([X86_COMPILER, "-shared", "-fPIC", *flags.split(), "-o", library, source]).ok
    with open_file(library) as file:
        elf = read_elf(file)
        codes = [code_of(elf, row) for row in functions_of(elf).rows]
    for code in (*codes, *(code[:-1] + b"\x06" for code in codes)):  # 06 is no instruction
        undecoded = any(instruction.code == iced.INVALID for instruction in iced.iced_x86.Decoder(64, code))
        assert iced.features_x86(code) == (tuple(sorted(scan(elf.machine, code))), undecoded)
