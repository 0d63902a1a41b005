"""What an artifact says of itself: versions, Python, BLAS, MAGMA and the flags of its compiler."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

from torchsmith.artifact.elf import DYNSYM, NOBITS, SYMTAB, Elf, Links
from torchsmith.artifact.known import Provider, known, package_of
from torchsmith.artifact.source import Source
from torchsmith.catalog import CudaVersion, Package, PythonVersion

FLAGS = b"-fvisibility-inlines-hidden"  # in the flags of every PyTorch build
LONGEST_FLAGS = 64 << 10
CHUNK = 4 << 20
ALLOCATED, EXECUTABLE = 2, 4


def versions_of(texts: dict[str, str]) -> dict[Package, str]:
    """The release of each package in the artifact, from its version.py."""
    found: dict[Package, str] = {}
    for name, text in sorted(texts.items()):
        package = package_of(name)
        parts = PurePosixPath(name).parts
        if package is None or parts[-1] != "version.py" or parts[-2] not in package.modules[:1]:
            continue
        version = re.search(r"^__version__\s*=\s*['\"]([\w.+!-]{1,60})['\"]", text, re.MULTILINE)
        if version:
            found[package] = version[1]
    return found


def cuda_of(texts: dict[str, str], links: Iterable[Links]) -> CudaVersion | int | None:
    """The CUDA release that torch names, or else the major release of the run time that is linked."""
    for name, text in sorted(texts.items()):
        if name.endswith("torch/version.py"):
            stated = re.search(r"^cuda\b[^=\n]*=\s*['\"](\d{1,3}\.\d{1,3})", text, re.MULTILINE)
            if stated:
                return CudaVersion.parse(stated[1])
    for needed in (name for link in links for name in link.needed):
        linked = re.fullmatch(r"libcudart[\w.-]*\.so\.(\d{1,3})(\.\d+)*", needed)
        if linked:
            return int(linked[1])
    return None


def python_of(libraries: Iterable[str], texts: dict[str, str]) -> PythonVersion | None:
    """The Python that extension modules are for, by their names, the wheel's tag, or the folder."""
    for name in [*libraries, *texts]:
        found = re.search(r"\.cpython-(3)(\d{1,2})[a-z]*-", name) or re.search(
            r"/python(3)\.(\d{1,2})/", name
        )
        if found:
            return PythonVersion(int(found[1]), int(found[2]))
    for name, text in texts.items():
        tag = re.search(r"^Tag: cp(3)(\d{1,2})-cp", text, re.MULTILINE) if name.endswith("/WHEEL") else None
        if tag:
            return PythonVersion(int(tag[1]), int(tag[2]))
    return None


def holds_symbol(elf: Elf, symbol: str) -> bool:
    """Whether any symbol's name begins so."""
    wanted = b"\0" + symbol.encode()
    tables = [section for section in elf.sections if section.kind in (SYMTAB, DYNSYM)]
    return any(wanted in elf.strings_of(table) for table in tables)


def provided(elf: Elf, links: Links, provider: Provider) -> str:
    """How a library is there: the name that is linked to, "linked in", or an empty string."""
    for needed in links.needed:
        if needed.startswith(provider.library):
            return needed
    return "linked in" if provider.symbol and holds_symbol(elf, provider.symbol) else ""


def compile_flags(elf: Elf) -> str:
    """The flags that a PyTorch library embeds as text, empty where it has none."""
    for section in elf.sections:
        wanted = section.flags & ALLOCATED and not section.flags & EXECUTABLE and section.kind != NOBITS
        if wanted and section.name.startswith((".rodata", ".lrodata")):
            at = _find(elf.source, section.offset, section.offset + section.size)
            if at >= 0:
                return _text_around(elf.source, at, section.offset, section.offset + section.size)
    return ""


def _find(source: Source, start: int, end: int) -> int:
    while start < end:
        block = source.read(start, min(CHUNK + len(FLAGS), end - start))
        found = block.find(FLAGS)
        if found >= 0:
            return start + found
        start += CHUNK
    return -1


def _text_around(source: Source, at: int, start: int, end: int) -> str:
    first, last = max(start, at - LONGEST_FLAGS), min(end, at + LONGEST_FLAGS)
    block = source.read(first, last - first)
    begin = block.rfind(b"\0", 0, at - first) + 1
    stop = block.find(b"\0", at - first)
    text = block[begin : stop if stop >= 0 else len(block)].decode("ascii", "replace")
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def blas_of(elf: Elf, links: Links) -> str:
    """The linear algebra library behind a library, and how it is there."""
    for name, provider in known().blas.items():
        found = provided(elf, links, provider)
        if found:
            return f"{name} ({found})"
    return ""
