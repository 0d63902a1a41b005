"""This machine: which files and tools are asked, in which order, and what happens when one is silent."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from torchsmith.catalog import PythonVersion, builtin_catalog
from torchsmith.core.cores import usable_cores
from torchsmith.core.driver import DRIVER_LIBRARIES
from torchsmith.core.files import read_bytes
from torchsmith.core.problem import Problem
from torchsmith.core.process import Finished, find, run
from torchsmith.host.active import active_python
from torchsmith.host.facts import TIME_LIMIT, Fact, GpuFacts, HostFacts, Note, fact_of, merge
from torchsmith.host.read_cpu import read_cpuinfo, system_of_machine
from torchsmith.host.scan import releases_in, scan

BOARD = re.compile(r"\b(Jetson|DRIVE)\b")  # of which the board's name is the GPU's
DRIVER_FILE, GPU_FILES = "/proc/driver/nvidia/version", "/proc/driver/nvidia/gpus"
RELEASE_FILE, PYTHON = "/etc/os-release", "python3 on PATH"
QUERY = "name,driver_version,compute_cap"
OLD_QUERY = "name,driver_version"  # drivers before 510 know no compute_cap


class ThisMachine:
    """All that detection may touch of the machine that this runs on, so that a test can be any machine."""

    def uname(self) -> tuple[str, str]:
        """The kernel's name and the machine's: Linux, x86_64."""
        kernel = os.uname()
        return kernel.sysname, kernel.machine

    def read(self, path: str) -> str | None:
        """A file's text, or None if it cannot be read."""
        try:
            return read_bytes(path).decode(errors="replace")
        except OSError:
            return None

    def glob(self, pattern: str) -> list[str]:
        """Paths that match."""
        return sorted(str(path) for path in Path("/").glob(pattern.lstrip("/")))

    def run(self, argv: Sequence[str], limit: float) -> Finished | None:
        """A command's result, or None if there is no such program."""
        program = find(argv[0])
        if program is None:
            return None
        try:
            return run([str(program), *argv[1:]], timeout=limit, env=os.environ | {"LC_ALL": "C"})
        except Problem:
            return None

    def cores(self) -> int:
        """The cores that programs may use."""
        return usable_cores()

    def python(self) -> PythonVersion | None:
        """The Python of the active environment."""
        return active_python()

    def glibc(self) -> str | None:
        """The C library's version."""
        try:
            text = os.confstr("CS_GNU_LIBC_VERSION")
        except (OSError, ValueError):
            return None
        return text.removeprefix("glibc ") if text else None


def detect(machine: ThisMachine, limit: float = TIME_LIMIT) -> HostFacts:
    """Everything that this machine says of itself."""
    kernel, word = machine.uname()
    if kernel == "Darwin":
        return _mac(machine, word, limit)
    base = HostFacts(
        system=Fact(system_of_machine(word) if kernel == "Linux" else f"{word}-{kernel}".lower(), "uname"),
        glibc=fact_of(machine.glibc(), "the C library"),
        release=_release(machine),
        python=fact_of(machine.python(), PYTHON),
        cores=Fact(machine.cores(), "the scheduler"),
    )
    cpuinfo = machine.read("/proc/cpuinfo")
    cpu = read_cpuinfo(cpuinfo) if cpuinfo else HostFacts(notes=(Note("/proc/cpuinfo", "cannot be read"),))
    return merge([base, cpu, *_nvidia(machine, limit)])


def _release(machine: ThisMachine) -> Fact[str] | None:
    text = machine.read(RELEASE_FILE) or ""
    names = [release.name for release in releases_in(text, builtin_catalog())]
    return Fact(names[0], RELEASE_FILE) if len(names) == 1 else None


def _mac(machine: ThisMachine, word: str, limit: float) -> HostFacts:
    done = machine.run(["sysctl", "-n", "machdep.cpu.brand_string"], limit)
    release = machine.run(["sw_vers", "-productVersion"], limit)
    return HostFacts(
        system=Fact(f"{'aarch64' if word == 'arm64' else word}-darwin", "uname"),
        cpu_name=fact_of(done.stdout.strip() if done else "", "sysctl"),
        macos=fact_of(release.stdout.strip() if release else "", "sw_vers"),
        python=fact_of(machine.python(), PYTHON),
        gpus=Fact((), "uname"),
    )


NOT_INSTALLED = Note("nvidia-smi", "is not installed")
# Where a GPU shows itself even when no tool of its driver is there; /dev/dxg is Windows' subsystem for Linux.
TRACES = ("/proc/driver/nvidia/version", "/dev/nvidia*", "/dev/dxg", *DRIVER_LIBRARIES)


def _nvidia(machine: ThisMachine, limit: float) -> list[HostFacts]:
    """nvidia-smi first, then the files of its driver, then what the PCI bus and the board say."""
    files = [DRIVER_FILE, "/proc/device-tree/model", *machine.glob(f"{GPU_FILES}/*/information")]
    texts = {path: (machine.read(path) or "").strip("\0\n ") for path in files}
    outside = [
        scan(text, path) for path, text in texts.items() if text and (path != files[1] or BOARD.search(text))
    ]
    windows = HostFacts(windows=Fact(True, "/dev/dxg") if machine.glob("/dev/dxg") else None)
    outside += [windows, _pci(machine)]
    seen = merge(outside).gpus is not None or any(machine.glob(path) for path in TRACES)
    if not seen and machine.glob("/sys/bus/pci"):
        return [HostFacts(gpus=Fact((), "/sys/bus/pci"))]
    parts = [_nvidia_smi(machine, limit), *outside]
    known = merge(parts)
    if known.gpus is None:  # nvidia-smi that fails and the driver's files show that there is one
        shown = seen or parts[0].notes != (NOT_INSTALLED,)
        return [*parts, HostFacts(gpus=Fact((GpuFacts(),) * shown, "every source"))]
    if known.gpus.value and not any(machine.glob(path) for path in DRIVER_LIBRARIES):
        text = "was found nowhere, and no program can use the GPU without it (a container needs GPU access)"
        return [*parts, HostFacts(notes=(Note("libcuda.so.1", text),))]
    return parts


def _nvidia_smi(machine: ThisMachine, limit: float) -> HostFacts:
    for program in ("nvidia-smi", "/usr/lib/wsl/lib/nvidia-smi"):
        done = machine.run([program, f"--query-gpu={QUERY}", "--format=csv"], limit)
        if done is not None:
            break
    else:
        return HostFacts(notes=(NOT_INSTALLED,))
    if done.timed_out:
        text = f"did not answer within {limit:g} s and was ended: the driver may hang"
        return HostFacts(notes=(Note("nvidia-smi", text),))
    if "is not a valid field" in done.stdout + done.stderr:
        done = machine.run([program, f"--query-gpu={OLD_QUERY}", "--format=csv"], limit) or done
    output = done.stdout if done.ok or "," in done.stdout else done.stdout + done.stderr
    if not done.ok and not output.strip():
        return HostFacts(notes=(Note("nvidia-smi", f"ended with code {done.code} and said nothing"),))
    return scan(output, "nvidia-smi")


def _pci(machine: ThisMachine) -> HostFacts:
    """NVIDIA GPUs on the PCI bus, with or without a driver; their names are not there."""
    count = 0
    for path in machine.glob("/sys/bus/pci/devices/*/vendor"):
        if (machine.read(path) or "").strip() == "0x10de":
            kind = (machine.read(path.removesuffix("vendor") + "class") or "").strip()
            count += kind.startswith("0x03")
    if not count:
        return HostFacts()
    return HostFacts(gpus=Fact((GpuFacts(),) * count, "/sys/bus/pci"))
