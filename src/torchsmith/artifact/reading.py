"""What functions need, read off their code: by several processes where a library is large."""

from __future__ import annotations

import os
import sys
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from subprocess import PIPE
from threading import Thread

import msgspec

from torchsmith.artifact import iced
from torchsmith.artifact.elf import ElfMachine
from torchsmith.artifact.features import Use, scan_aarch64
from torchsmith.artifact.source import FileSlice
from torchsmith.core.problem import Failed
from torchsmith.core.process import ChildProcess, python_command

PIECE_BYTES = 1 << 20  # of code that are read in one go
FUNCTION_BYTES = 64  # that a function counts besides, so that a piece of empty ones is not endless
PROCESS_BYTES = 8 << 20  # of code that justify another process, which takes a quarter of a second to start
MOST_PROCESSES = 8
PIECE_SECONDS = 120.0  # allowed for a piece, which takes a tenth of a second

Row = tuple[int, int]  # a function: its place in the file, its bytes


@dataclass(frozen=True, slots=True)
class Piece:
    """Functions to read, and all that a process needs for that."""

    source: FileSlice
    machine: ElfMachine
    rows: list[Row]


@dataclass(frozen=True, slots=True)
class Needs:
    """What the functions of a piece need."""

    features: list[tuple[str, ...]]  # different ones only
    each: list[int]  # for each function its place among them
    undecoded: list[int]  # functions that hold bytes that are no instruction


def scan(machine: ElfMachine, code: bytes) -> dict[str, Use]:
    """The first instruction that needs each feature."""
    return iced.scan_x86(code) if machine == "x86_64" else scan_aarch64(code)


def read_piece(piece: Piece) -> Needs:
    places: dict[tuple[str, ...], int] = {}
    each, undecoded = [], []
    for index, code in enumerate(_codes(piece)):
        if piece.machine == "x86_64":
            features, lost = iced.features_x86(code)
            if lost:
                undecoded.append(index)
        else:
            features = tuple(scan_aarch64(code))
        each.append(places.setdefault(features, len(places)))
    return Needs(list(places), each, undecoded)


def _codes(piece: Piece) -> Iterator[bytes]:
    """The code of each function; where they lie side by side, read in one go."""
    begin = min(at for at, _ in piece.rows)
    length = max(at + size for at, size in piece.rows) - begin
    whole = piece.source.read(begin, length) if length <= 4 * PIECE_BYTES else b""
    for at, size in piece.rows:
        yield whole[at - begin : at - begin + size] if whole else piece.source.read(at, size)


def read_needs(
    source: FileSlice,
    machine: ElfMachine,
    rows: array[int],
    processes: int | None = None,
) -> Iterator[tuple[tuple[str, ...], bool]]:
    """The features of each function, and whether it holds bytes that are no instruction; `rows` has two
    numbers for each (a Row)."""
    cuts = _cuts(rows)

    def piece(index: int) -> Piece:
        numbers = iter(rows[2 * cuts[index] : 2 * cuts[index + 1]])
        return Piece(source, machine, list(zip(numbers, numbers, strict=True)))

    if processes is None:
        processes = min(_cores(), MOST_PROCESSES, sum(rows[1::2]) // PROCESS_BYTES)
    known: dict[tuple[str, ...], tuple[str, ...]] = {}  # equal ones are one value
    for needs in _read_all(piece, len(cuts) - 1, processes - 1, source.handle):
        features = [known.setdefault(names, names) for names in needs.features]
        undecoded = set(needs.undecoded)
        for index, place in enumerate(needs.each):
            yield features[place], index in undecoded


def _cuts(rows: array[int]) -> list[int]:
    """Where pieces begin among the functions, and the end."""
    cuts, left = [0], PIECE_BYTES
    for index in range(0, len(rows), 2):
        left -= rows[index + 1] + FUNCTION_BYTES
        if left <= 0 or index + 2 == len(rows):
            cuts.append(index // 2 + 1)
            left = PIECE_BYTES
    return cuts


def _cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _read_all(piece: Callable[[int], Piece], count: int, helpers: int, handle: int) -> list[Needs]:
    """All pieces, by this process and its helpers in turn; one that fails leaves its work to the rest."""
    waiting = deque(range(count))
    answers: dict[int, Needs] = {}

    def ask(helper: ChildProcess) -> None:
        while (index := _next(waiting)) is not None:
            try:
                answer = helper.ask(msgspec.json.encode(piece(index)), PIECE_SECONDS)
                answers[index] = msgspec.json.decode(answer, type=Needs)
            except (OSError, msgspec.MsgspecError):
                waiting.append(index)
                return

    with ExitStack() as started:
        dialogues = list(_start(helpers, started, handle))
        threads = [Thread(target=ask, args=(helper,), daemon=True) for helper in dialogues]
        for thread in threads:
            thread.start()
        for _ in range(2):  # the second time for what a helper left
            while (index := _next(waiting)) is not None:
                answers[index] = read_piece(piece(index))
            for thread in threads:
                thread.join()
    return [answers[index] for index in range(count)]


def _next(waiting: deque[int]) -> int | None:
    try:
        return waiting.popleft()
    except IndexError:
        return None


def _start(count: int, started: ExitStack, handle: int) -> Iterator[ChildProcess]:
    """Processes that read pieces; they end with this one. Where none can be started, this one reads alone."""
    argv = python_command("torchsmith.artifact.reading")
    for _ in range(count):
        try:
            helper = ChildProcess(argv, stdin=PIPE, stdout=PIPE, cwd="/", pass_fds=(handle,))
        except Failed:
            return
        started.callback(helper.end)
        yield helper


def main() -> None:
    """Answer each piece, a line of JSON, with what its functions need."""
    for line in sys.stdin.buffer:
        needs = read_piece(msgspec.json.decode(line, type=Piece))
        sys.stdout.buffer.write(msgspec.json.encode(needs) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
