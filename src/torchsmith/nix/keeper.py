"""Keeps paths of the store from being collected as garbage while a command of ours is at work.

What Nix instantiates is safe only while the process that did so lives. A process of Nix that serves a store,
as over ssh, can hold paths until it ends; it ends when its input is closed, so with us, however we end.
"""

from __future__ import annotations

import contextlib
import struct
import subprocess
import threading
from collections.abc import Collection, Iterable
from typing import IO, Self

from torchsmith.core.problem import Problem
from torchsmith.core.process import end_group, spawn
from torchsmith.nix.tool import Nix

HELLO, WELCOME = 0x390C9DEB, 0x5452EECB
VERSION = 0x200 | 4  # of the protocol that we speak; every Nix since 2.0 does
QUERY_VALID = 1


class Keeper:
    """Holds on to paths until it is closed. Where Nix serves no store, nothing is held."""

    def __init__(self, nix: Nix) -> None:
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        pipe = subprocess.PIPE
        try:
            command = nix.command("nix-store", "--serve", "--write")
            self._child = spawn(
                command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=nix.environment()
            )
            self._send(_number(HELLO) + _number(VERSION))
            if self._number() != WELCOME:
                self.close()
            else:
                self._number()  # its version
        except (Problem, OSError, EOFError):
            self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def keep(self, paths: Iterable[str]) -> frozenset[str]:
        """Hold on to paths; those of them that are there, and now stay."""
        wanted = list(dict.fromkeys(paths))
        with self._lock:
            if self._child is None or not wanted:
                return frozenset(wanted)
            try:
                hold, substitute = _number(1), _number(0)
                self._send(_number(QUERY_VALID) + hold + substitute + _texts(wanted))
                return frozenset(self._text() for _ in range(self._number()))
            except (OSError, EOFError):
                self.close()
                return frozenset(wanted)

    def close(self) -> None:
        """Let go of everything."""
        child, self._child = self._child, None
        if child is None:
            return
        for stream in (child.stdin, child.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        end_group(child)

    def _send(self, data: bytes) -> None:
        stream = self._stream("stdin")
        stream.write(data)
        stream.flush()

    def _number(self) -> int:
        value: int = struct.unpack("<Q", self._read(8))[0]
        return value

    def _text(self) -> str:
        length = self._number()
        return self._read(length + -length % 8)[:length].decode()

    def _read(self, size: int) -> bytes:
        data = self._stream("stdout").read(size)
        if len(data) < size:
            raise EOFError
        return data

    def _stream(self, name: str) -> IO[bytes]:
        stream: IO[bytes] | None = getattr(self._child, name, None)
        if stream is None:
            raise EOFError
        return stream


def _number(value: int) -> bytes:
    return struct.pack("<Q", value)


def _texts(values: Collection[str]) -> bytes:
    raw = [value.encode() for value in values]
    return _number(len(raw)) + b"".join(_number(len(text)) + text + bytes(-len(text) % 8) for text in raw)
