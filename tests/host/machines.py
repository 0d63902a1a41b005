"""Machines for tests: the corpus, and one whose files and commands are written down."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import msgspec

from torchsmith.catalog import PythonVersion, builtin_catalog
from torchsmith.core.process import Finished
from torchsmith.host.detect import ThisMachine, detect
from torchsmith.host.facts import HostFacts, merge
from torchsmith.host.read_report import read_report
from torchsmith.host.stated import stated_facts


def stated(**words: str) -> HostFacts:
    """What a person states of a machine."""
    return stated_facts(builtin_catalog(), "a test", **words)


CORPUS = Path(__file__).parent / "corpus"


@dataclass
class Recorded(ThisMachine):
    """A machine that is written down: its files, and what its commands would answer. None: it hangs."""

    files: dict[str, str] = field(default_factory=dict)
    commands: dict[str, Finished] = field(default_factory=dict)
    kernel: tuple[str, str] = ("Linux", "x86_64")
    asked: list[str] = field(default_factory=list)

    def uname(self) -> tuple[str, str]:
        return self.kernel

    def read(self, path: str) -> str | None:
        return self.files.get(path)

    def glob(self, pattern: str) -> list[str]:
        return sorted(path for path in self.files if fnmatch(path, pattern))

    def run(self, argv: Sequence[str], limit: float) -> Finished | None:
        self.asked.append(argv[0])
        return self.commands.get(argv[0])

    def python(self) -> PythonVersion | None:
        return None

    def glibc(self) -> str | None:
        return "2.39"


def answer(program: str, code: int, stdout: str, *, hangs: bool = False) -> Finished:
    return Finished((program,), code, stdout, "", 0.0, timed_out=hangs)


class Report(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tool: str
    text: str


class Command(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    program: str
    code: int = 0
    stdout: str = ""
    hangs: bool = False


class Written(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    uname: tuple[str, str]
    files: dict[str, str]
    commands: tuple[Command, ...] = ()


class Expectation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    profile: str
    variants: tuple[str, ...]
    because: str  # stands in the reasons of the choice, or of the nearest miss where there is none
    workload: str = "general"
    unserved: tuple[str, ...] = ()
    create: tuple[str, ...] = ()


class Known(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A machine of the corpus and what must be picked for it."""

    title: str
    about: str
    expect: tuple[Expectation, ...]
    notes: tuple[str, ...] = ()
    reports: tuple[Report, ...] = ()
    machine: Written | None = None
    captured: str = ""  # when and where its reports were taken; empty: they were written by hand

    def facts(self) -> HostFacts:
        if self.machine is None:
            return merge(read_report(report.text, report.tool) for report in self.reports)
        commands = {
            command.program: answer(command.program, command.code, command.stdout, hangs=command.hangs)
            for command in self.machine.commands
        }
        return detect(Recorded(self.machine.files, commands, self.machine.uname))


@cache
def corpus() -> dict[str, Known]:
    return {
        path.stem: msgspec.convert(tomllib.loads(path.read_text()), Known)
        for path in sorted(CORPUS.glob("*.toml"))
    }
