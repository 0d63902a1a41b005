"""The compiler's command lines that a library records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torchsmith.artifact.elf import Elf
from torchsmith.catalog.recorded import CXX_MARK, HOST_MARK
from torchsmith.core.text import printable

SECTION = ".GCC.command.line"
MOST_BYTES = 16 << 20  # a line has 200, and libtorch_cpu.so some dozens
SEED = "-frandom-seed="  # differs between builds of one object
# How a unit was reached: by CFLAGS or CXXFLAGS, as the host half of a CUDA unit, or by neither.
Mark = Literal["cxx", "host", ""]


@dataclass(frozen=True, slots=True)
class RecordedLine:
    """A command line, less the seed, which differs between builds of one object."""

    text: str

    @property
    def mark(self) -> Mark:
        """How the unit was reached; nvcc's host compiler may get CXXFLAGS too."""
        words = self.text.split()
        return "host" if HOST_MARK in words else "cxx" if CXX_MARK in words else ""

    @property
    def machine_options(self) -> list[str]:
        """The options that choose the instructions."""
        words = self.text.split()
        return [word for word in words if word.startswith("-m") and not word.startswith("-mtune")]


def recorded_lines(elf: Elf) -> tuple[RecordedLine, ...]:
    """The command lines that the objects of a library record, each once. Raises Damaged."""
    texts = (
        text.decode("utf-8", "replace")
        for section in elf.named(SECTION)
        for text in elf.bytes_of(section, MOST_BYTES).split(b"\0")
    )
    words = ([word for word in printable(text).split() if not word.startswith(SEED)] for text in texts)
    return tuple(RecordedLine(line) for line in dict.fromkeys(" ".join(line) for line in words if line))
