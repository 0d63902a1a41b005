"""Compile the units of a plan within a time limit, resumable, and link the libraries."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.gpu_half.work import Plan, Unit, Work
from torchsmith.artifact.elf import links_of, read_elf
from torchsmith.artifact.source import open_file
from torchsmith.core.problem import Problem

CPU_HALF = ("libc10.so", "libtorch_cpu.so", "libtorch_nvshmem.so")  # linked to, and left as they are
EMPTY_ARCHIVE = b"!<arch>\n"
RPATH = re.compile(r"-Wl,-rpath,\S*")


class Compiler:
    """Runs units until a deadline; a unit that is cut off leaves no object."""

    def __init__(self, work: Work, plan: Plan, limit: float) -> None:
        self.work, self.environment = work, {**os.environ, **plan.environment}
        self.deadline = time.monotonic() + limit
        self.lock = threading.Lock()
        self.failed: list[Unit] = []

    def compile(self, unit: Unit) -> None:
        """Make one object, and note its seconds; nothing once the deadline has passed."""
        start = time.monotonic()
        if start >= self.deadline:
            return
        made = self.work.build / unit.object
        made.parent.mkdir(parents=True, exist_ok=True)
        process = subprocess.Popen(
            unit.command,
            shell=True,
            cwd=self.work.build,
            env=self.environment,
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            output, _ = process.communicate(timeout=self.deadline - start)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            made.unlink(missing_ok=True)
            return
        with self.lock:
            if process.returncode:
                made.unlink(missing_ok=True)
                self.failed.append(unit)
                print(f"{unit.object}\n{output[-4000:]}", flush=True)
            with self.work.seconds.open("a") as file:
                file.write(f"{time.monotonic() - start:.1f}\t{process.returncode}\t{unit.object}\n")


def compile_units(work: Work, jobs: int, limit: float, only: str) -> tuple[int, int]:
    """Compile what has no object yet; how many units are done and how many failed."""
    plan = work.plan()
    done = set(work.compiled(plan))
    compiler = Compiler(work, plan, limit)
    wanted = [unit for unit in plan.units if unit not in done and re.search(only, unit.object)]
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(compiler.compile, wanted))
    return len(work.compiled(plan)), len(compiler.failed)


def link(work: Work, site: Path) -> None:
    """Link the libraries against the wheel's CPU half, to find CUDA as the wheel's do. Raises Problem."""
    plan = work.plan()
    if left := len(plan.units) - len(work.compiled(plan)):
        raise Problem(f"{left} of {len(plan.units)} units are not compiled")
    folder = work.build / "lib"
    folder.mkdir(exist_ok=True)
    for name in CPU_HALF:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to((site / "torch/lib" / name).resolve())
    (folder / "libprotobuf.a").write_bytes(EMPTY_ARCHIVE)  # named by the command; nothing needs it
    for name, command in plan.links.items():
        (folder / name).unlink(missing_ok=True)
        steps = [step for step in command.split(" && ") if not step.split()[0].endswith("cmake")]
        linking = (
            _search_as(site / "torch/lib" / name, " && ".join(steps))
            if name.endswith(".so")
            else " && ".join(steps)
        )
        if subprocess.run(linking, shell=True, cwd=work.build, check=False).returncode:
            raise Problem(f"{name} cannot be linked; the last lines say why")


def _search_as(library: Path, command: str) -> str:
    """The command, with the folders in which another library looks for what it needs."""
    with open_file(library) as source:
        folders = ":".join(links_of(read_elf(source)).runpath)
    return RPATH.sub(lambda _: f"-Wl,--disable-new-dtags,-rpath,{shlex.quote(folders)}", command)
