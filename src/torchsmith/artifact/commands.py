"""Compile commands of a configured tree: which flags reached which compiler, and nvcc's host compiler."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path, PurePosixPath

import msgspec

from torchsmith.artifact.source import printable
from torchsmith.catalog import GpuTarget
from torchsmith.catalog.axes import BadValue
from torchsmith.core.problem import CannotRead, Invalid, Where
from torchsmith.core.text import grouped

LAUNCHERS = ("ccache", "sccache", "distcc", "env", "cmake", "-E", "nice")
ASSIGNED = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*=")
TELLING = re.compile(r"^-(m(?!d$|md$|f$|t$|q$)|O|std=|f(PIC|openmp|lto)|g\d?$)")  # of a compiler's many flags
QUOTING = re.compile(r"""["'\\]""")
# nvcc takes these itself; what it does not know it hands on where -forward-unknown-to-host-compiler is given.
NVCC_OWN = re.compile(r"^-(O\d|std=|g$|G$|c$|o$|x$|I|D|U|isystem|gencode|arch|code|M|l|L|-)")


class CompileCommand(msgspec.Struct, frozen=True):
    """One entry of compile_commands.json, or of `ninja -t compdb`."""

    file: str
    command: str = ""
    arguments: list[str] = []
    output: str = ""

    @property
    def words(self) -> list[str]:
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
    """A compiler, how many objects it makes, and which telling flags reached how many of them."""

    compiler: str
    objects: int
    flags: dict[str, int]
    host_flags: dict[str, int]  # what nvcc hands on to the compiler of the CPU's half


@dataclass(frozen=True, slots=True)
class ObjectCommand:
    """How one object is compiled."""

    output: str
    source: str
    compiler: str
    flags: tuple[str, ...]
    host_flags: tuple[str, ...]
    targets: tuple[GpuTarget, ...]  # of nvcc

    @property
    def cuda(self) -> bool:
        return self.compiler == "nvcc"


def read_commands(path: Path) -> list[ObjectCommand]:
    """The objects of a compile_commands.json."""
    try:
        entries = msgspec.json.decode(path.read_bytes(), type=list[CompileCommand])
    except OSError as error:
        raise CannotRead(f"cannot read {path}: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise Invalid(f"these are no compile commands: {error}", where=Where(str(path))) from error
    return [one for one in map(object_command, entries) if one is not None]


def object_command(entry: CompileCommand) -> ObjectCommand | None:
    """How an object is compiled; None for an entry that compiles none."""
    words = _compiling(entry.words)
    while words and (words[0].rsplit("/", 1)[-1] in LAUNCHERS or ASSIGNED.match(words[0])):
        words = words[1:]
    if not words:
        return None
    compiler = printable(PurePosixPath(words[0]).name)
    nvcc = compiler == "nvcc"
    given = _expanded(words[1:]) if nvcc else words[1:]
    output = entry.output or next((after for word, after in pairwise(given) if word == "-o"), "")
    return ObjectCommand(
        output=printable(output),
        source=printable(entry.file),
        compiler=compiler,
        flags=tuple(word for word in given if TELLING.match(word)),
        host_flags=tuple(_host_flags(given)) if nvcc else (),
        targets=tuple(_targets(given)) if nvcc else (),
    )


def _compiling(words: Sequence[str]) -> Sequence[str]:
    """Of several commands in a row, the one that compiles."""
    parts = (list(part) for between, part in groupby(words, ("&&", ";").__contains__) if not between)
    return next((part for part in parts if "-c" in part), [])


def _expanded(words: Sequence[str]) -> list[str]:
    """nvcc's long options by their short names, and `option=value` as two words where it may be either."""
    long = {"--compiler-options": "-Xcompiler", "--generate-code": "-gencode", "--gpu-architecture": "-arch"}
    found: list[str] = []
    for word in words:
        name, sign, value = word.partition("=")
        name = long.get(name, name)
        if sign and name in ("-Xcompiler", "-gencode", "-arch", "-code"):
            found += [name, value]
        else:
            found.append(long.get(word, word))
    return found


def _host_flags(words: Sequence[str]) -> Iterable[str]:
    forwards = any(word.lstrip("-") == "forward-unknown-to-host-compiler" for word in words)
    for previous, word in pairwise(["", *words]):
        if previous == "-Xcompiler":
            yield from (one for one in word.split(",") if TELLING.match(one))
        elif forwards and not previous.startswith("-X") and TELLING.match(word) and not NVCC_OWN.match(word):
            yield word


def _targets(words: Sequence[str]) -> Iterable[GpuTarget]:
    for word, after in pairwise(words):
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
    """Compilers, the busiest first, with their telling flags."""
    found = grouped((command.compiler, command) for command in commands)
    return [
        CompilerUse(
            compiler,
            len(objects),
            dict(Counter(flag for one in objects for flag in dict.fromkeys(one.flags)).most_common()),
            dict(Counter(flag for one in objects for flag in dict.fromkeys(one.host_flags)).most_common()),
        )
        for compiler, objects in sorted(found.items(), key=lambda item: -len(item[1]))
    ]
