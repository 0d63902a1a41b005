"""Keeps paths of the store from being collected as garbage while torchsmith runs.

What Nix instantiates is safe only while the process that did so lives. A process of Nix that serves a store,
as over ssh, can hold paths until it ends; it ends with torchsmith.
"""

from __future__ import annotations

import contextlib
import struct
import subprocess
import threading
from collections.abc import Collection, Iterable
from typing import Self

from torchsmith.core.problem import Problem
from torchsmith.core.process import ChildProcess
from torchsmith.nix.tool import Nix

HELLO, WELCOME = 0x390C9DEB, 0x5452EECB
VERSION = 0x200 | 4  # of the protocol that we speak; every Nix since 2.0 does
QUERY_VALID = 1


class Keeper:
    """Holds on to paths until it is closed. If Nix serves no store, nothing is held."""

    def __init__(self, nix: Nix) -> None:
        self._lock = threading.Lock()
        self._child: ChildProcess | None = None
        pipe = subprocess.PIPE
        with contextlib.suppress(Problem, OSError, EOFError):
            command = nix.command("nix-store", "--serve", "--write")
            self._child = child = ChildProcess(command, stdin=pipe, stdout=pipe, env=nix.environment())
            child.send(_number(HELLO) + _number(VERSION))
            if _read_number(child) == WELCOME:
                _read_number(child)  # its version
                return
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def keep(self, paths: Iterable[str]) -> frozenset[str]:
        """Hold on to paths. Returns those of them that exist, and now stay."""
        wanted = list(dict.fromkeys(paths))
        with self._lock:
            child = self._child
            if child is None or not wanted:
                return frozenset(wanted)
            try:
                hold, substitute = _number(1), _number(0)
                child.send(_number(QUERY_VALID) + hold + substitute + _texts(wanted))
                return frozenset(_read_text(child) for _ in range(_read_number(child)))
            except (OSError, EOFError):
                self.close()
                return frozenset(wanted)

    def close(self) -> None:
        """Let go of everything."""
        child, self._child = self._child, None
        if child is not None:
            child.end()


def _read_number(child: ChildProcess) -> int:
    value: int = struct.unpack("<Q", child.read(8))[0]
    return value


def _read_text(child: ChildProcess) -> str:
    length = _read_number(child)
    return child.read(length + -length % 8)[:length].decode()


def _number(value: int) -> bytes:
    return struct.pack("<Q", value)


def _texts(values: Collection[str]) -> bytes:
    raw = [value.encode() for value in values]
    return _number(len(raw)) + b"".join(_number(len(text)) + text + bytes(-len(text) % 8) for text in raw)
