"""Whether kernels of our objects have the machine code that they have in the wheel."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from tools.gpu_half.work import Unit, Work
from torchsmith.artifact.elf import HEADER, NOBITS, SECTION

CODE = ".text."
# nvcc names what is local to a file by hashes of its path and options, and sometimes by a number.
LOCAL = re.compile(r"(\d+)(_GLOBAL__N__|_INTERNAL_)[0-9a-f]{8}(_\d+_\w+?_cu)_")
# Thrust names its namespace by the architectures that a build is for.
BUILT_FOR = re.compile(r"\d+(THRUST_\d+)_SM_[0-9_]+_NS")


@dataclass
class Comparison:
    """Kernels of one unit by what the wheel has under their name."""

    unit: Unit
    same: int = 0
    different: list[str] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    bytes: Counter[str] = field(default_factory=Counter)

    @property
    def kernels(self) -> int:
        return self.same + len(self.different) + len(self.absent)


def kernels(cubin: bytes) -> Iterator[tuple[str, bytes]]:
    """Each kernel and device function of a cubin, by a name without paths and architectures, and its code."""
    fields = HEADER.unpack_from(cubin)
    table, count, names_index = fields[6], fields[12], fields[13]
    rows = [SECTION.unpack_from(cubin, table + SECTION.size * index) for index in range(count)]
    names = rows[names_index][4]
    for row in rows:
        name = cubin[names + row[0] : cubin.index(b"\0", names + row[0])].decode()
        if name.startswith(CODE) and row[1] != NOBITS:
            name = BUILT_FOR.sub(r"\1", without_hashes(name.removeprefix(CODE)))
            yield name, cubin[row[4] : row[4] + row[5]]


def without_hashes(name: str) -> str:
    """A mangled name in which what is local to a file is named by the file alone."""
    parts, done = [], 0
    for found in LOCAL.finditer(name):
        parts += [name[done : found.start()], found[2], found[3]]
        done = found.end(1) + int(found[1])
    return "".join([*parts, name[done:]])


def code_of(library: Path, cuobjdump: Path, arch: str) -> dict[str, dict[bytes, int]]:
    """Every kernel of a library or object for one architecture: its codes by digest, with their size."""
    found: dict[str, dict[bytes, int]] = defaultdict(dict)
    with tempfile.TemporaryDirectory() as folder:
        command = [str(cuobjdump), "-xelf", f"{arch}.cubin", str(library.resolve())]
        subprocess.run(command, cwd=folder, check=False, capture_output=True)
        for cubin in Path(folder).iterdir():
            for name, code in kernels(cubin.read_bytes()):
                found[name][sha256(code).digest()] = len(code)
    return found


def compare(work: Work, site: Path, arch: str) -> Iterator[Comparison]:
    """Compare each object that is there and has kernels."""
    cuobjdump = work.cuda / "bin/cuobjdump"
    wheel = code_of(site / "torch/lib/libtorch_cuda.so", cuobjdump, arch)
    for unit in work.compiled(work.plan()):
        found = Comparison(unit)
        for name, codes in code_of(work.build / unit.object, cuobjdump, arch).items():
            for digest, size in codes.items():
                kind = "absent" if name not in wheel else "same" if digest in wheel[name] else "different"
                found.bytes[kind] += size
                if kind == "same":
                    found.same += 1
                else:
                    getattr(found, kind).append(name)
        if found.kernels:
            yield found
