"""A build under comparison: where its Python is, and a fresh process of it that answers questions."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torchsmith.artifact.interpreter import Interpreter, interpreter_for
from torchsmith.catalog import Catalog
from torchsmith.core.problem import Invalid, Problem
from torchsmith.core.process import ChildProcess, signal_name
from torchsmith.core.text import printable

PROBE = Path(__file__).with_name("probe.py")
START = (
    "import os, sys; os.sched_setaffinity(0, map(int, sys.argv[2].split(','))); path = sys.argv[1];"
    " exec(compile(open(path).read(), path, 'exec'))"
)
# For a torch with an allocator of its own; see the probe for malloc.
KEEP_MEMORY = {"MIMALLOC_PURGE_DELAY": "-1"}
# torch.compile in the process itself: its workers would be on the same core.
IN_PROCESS = {"TORCHINDUCTOR_COMPILE_THREADS": "1"}
MOST_ANSWER = 1 << 20  # bytes
STDERR_TAIL_BYTES = 2000


class Died(Exception):
    """A process that no longer answers, and how it ended."""


@dataclass(frozen=True, slots=True)
class BuildSubject:
    """One of the two builds, and the extra environment of its processes."""

    label: str  # A or B
    path: Path
    interpreter: Interpreter
    extra: Mapping[str, str] = field(default_factory=dict)
    probe: Path = PROBE
    compiled: str = ""  # a folder where its processes keep what they compile: Python, and GPU kernels


def subject(label: str, path: Path, catalog: Catalog, extra: Mapping[str, str]) -> BuildSubject:
    """An environment, a result link, a store path, or the interpreter that has the build."""
    if path.is_file() and os.access(path, os.X_OK):
        return BuildSubject(label, path, Interpreter(path.absolute(), ()), extra)
    return BuildSubject(label, path, interpreter_for(path, catalog), extra)


def variables(assignments: Iterable[str]) -> dict[str, str]:
    """Environment variables from NAME=VALUE assignments. Raises Invalid."""
    pairs = {}
    for assignment in assignments:
        name, sign, value = assignment.partition("=")
        if not name or not sign:
            raise Invalid(f"{assignment} is not NAME=VALUE")
        pairs[name] = value
    return pairs


class BuildProcess:
    """A fresh process of a build, pinned to cores; it answers one question at a time."""

    def __init__(self, subject: BuildSubject, cores: Iterable[int], limit: float) -> None:
        self.subject, self.limit = subject, limit
        pinned = sorted(cores)
        environment = subject.interpreter.environment(dict(os.environ))
        if subject.compiled:
            environment.pop("PYTHONDONTWRITEBYTECODE", None)
            environment["PYTHONPYCACHEPREFIX"] = subject.compiled
            environment["TORCHINDUCTOR_CACHE_DIR"] = f"{subject.compiled}/inductor"
            environment["TRITON_CACHE_DIR"] = f"{subject.compiled}/triton"
        environment |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(len(pinned)))
        environment |= {**KEEP_MEMORY, **IN_PROCESS, **subject.extra}
        affinity = ",".join(map(str, pinned))
        argv = [str(subject.interpreter.python), "-s", "-c", START, str(subject.probe), affinity]
        self._errors = tempfile.TemporaryFile(prefix="torchsmith-")  # noqa: SIM115 closed with the process
        try:
            pipe = subprocess.PIPE
            self._child = ChildProcess(
                argv, stdin=pipe, stdout=pipe, stderr=self._errors, cwd="/", env=environment
            )
        except Problem:
            self._errors.close()
            raise

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """The answer to a request; its `failed` says why there is none. Raises Died."""
        try:
            line = self._child.ask(json.dumps({"do": do, **arguments}).encode(), self.limit, MOST_ANSWER)
        except TimeoutError:
            raise Died(f"{do} was still running after {self.limit:.0f} s; --timeout raises that") from None
        except OSError:
            line = b""
        if not line:
            raise Died(self._ending(do))
        try:
            answer = json.loads(line)
        except ValueError:
            raise Died(f"it answered {do} with something that is not JSON") from None
        if not isinstance(answer, dict):
            raise Died(f"it answered {do} with something that is not an object")
        return answer

    def _ending(self, do: str) -> str:
        self._child.kill()
        code = self._child.process.returncode or 0
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(self._errors.tell() - STDERR_TAIL_BYTES, 0))
        lines = [printable(line) for line in self._errors.read().decode(errors="replace").splitlines()]
        how = f"crashed with {signal_name(code)}" if code < 0 else f"ended with exit code {code}"
        return f"{do}: it {how}. {' '.join(lines[-3:])}".strip()

    def close(self) -> None:
        """End it and whatever it started."""
        self._child.end()
        self._errors.close()
