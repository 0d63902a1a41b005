"""Compile commands of a configured tree: which flags reached which compiler."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path, PurePosixPath

import msgspec

from torchsmith.catalog import GpuTarget
from torchsmith.catalog.axes import BadValue
from torchsmith.core.problem import CannotRead, Invalid, Where
from torchsmith.core.text import grouped, printable

LAUNCHERS = ("ccache", "sccache", "distcc", "env", "cmake", "-E", "nice")
ASSIGNED = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*=")
REPORTED = re.compile(r"^-(m(?!d$|md$|f$|t$|q$)|O|std=|f(PIC|openmp|lto)|g\d?$)")
QUOTING = re.compile(r"""["'\\]""")


class CompileCommand(msgspec.Struct, frozen=True):
    """One entry of compile_commands.json, or of `ninja -t compdb`."""

    file: str
    command: str = ""
    arguments: list[str] = []

    @property
    def argv(self) -> list[str]:
        if self.arguments:
            return self.arguments
        if not QUOTING.search(self.command):
            return self.command.split()  # twenty times faster, and a tree has thousands
        try:
            return shlex.split(self.command)
        except ValueError:
            return self.command.split()


@dataclass(frozen=True, slots=True)
class CompilerUse:
    """A compiler, how many objects it makes, and how many of them got each reported flag."""

    compiler: str
    objects: int
    flags: dict[str, int]


@dataclass(frozen=True, slots=True)
class ObjectCommand:
    """How one object is compiled."""

    source: str
    compiler: str
    flags: tuple[str, ...]
    targets: tuple[GpuTarget, ...]  # of nvcc

    @property
    def cuda(self) -> bool:
        return self.compiler == "nvcc"


def read_commands(path: Path) -> list[ObjectCommand]:
    """The objects of a compile_commands.json. Raises CannotRead, Invalid."""
    try:
        entries = msgspec.json.decode(path.read_bytes(), type=list[CompileCommand])
    except OSError as error:
        raise CannotRead(f"cannot read {path}: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise Invalid(f"these are no compile commands: {error}", where=Where(str(path))) from error
    return [command for command in map(object_command, entries) if command is not None]


def object_command(entry: CompileCommand) -> ObjectCommand | None:
    """How an object is compiled; None for an entry that compiles none."""
    argv = _compiling(entry.argv)
    while argv and (argv[0].rsplit("/", 1)[-1] in LAUNCHERS or ASSIGNED.match(argv[0])):
        argv = argv[1:]
    if not argv:
        return None
    compiler = printable(PurePosixPath(argv[0]).name)
    nvcc = compiler == "nvcc"
    arguments = _expanded(argv[1:]) if nvcc else argv[1:]
    return ObjectCommand(
        source=printable(entry.file),
        compiler=compiler,
        flags=tuple(flag for flag in arguments if REPORTED.match(flag)),
        targets=tuple(_targets(arguments)) if nvcc else (),
    )


def _compiling(argv: Sequence[str]) -> Sequence[str]:
    """Of several commands in a row, the one that compiles."""
    parts = (list(part) for between, part in groupby(argv, ("&&", ";").__contains__) if not between)
    return next((part for part in parts if "-c" in part), [])


def _expanded(arguments: Sequence[str]) -> list[str]:
    """nvcc's long options by their short names, and `option=value` as two words where it may be either."""
    long = {"--generate-code": "-gencode", "--gpu-architecture": "-arch"}
    expanded: list[str] = []
    for argument in arguments:
        name, sign, value = argument.partition("=")
        name = long.get(name, name)
        if sign and name in ("-gencode", "-arch", "-code"):
            expanded += [name, value]
        else:
            expanded.append(long.get(argument, argument))
    return expanded


def _targets(arguments: Sequence[str]) -> Iterable[GpuTarget]:
    for word, after in pairwise(arguments):
        if word not in ("-gencode", "-arch", "-code"):
            continue
        stated = re.search(r"code=\[?([^\]]*)", after)
        for name in (stated[1] if stated else after).split(","):
            number = re.fullmatch(r"sm_(\w+)", name)
            if number is None:
                continue
            try:
                yield GpuTarget.parse(f"sm{number[1]}")
            except BadValue:
                continue


def uses(commands: Iterable[ObjectCommand]) -> list[CompilerUse]:
    """Compilers, the busiest first, with their reported flags."""
    by_compiler = grouped((command.compiler, command) for command in commands)
    return [
        CompilerUse(
            compiler,
            len(objects),
            _counts(command.flags for command in objects),
        )
        for compiler, objects in sorted(by_compiler.items(), key=lambda item: -len(item[1]))
    ]


def _counts(flags: Iterable[tuple[str, ...]]) -> dict[str, int]:
    """How many objects have each flag, the most frequent first."""
    return dict(Counter(flag for own in flags for flag in dict.fromkeys(own)).most_common())
