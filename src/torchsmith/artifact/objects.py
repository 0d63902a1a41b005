"""A sample of compiled objects held against a variant's promise: recorded flags and GPU targets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from torchsmith.artifact.check import Check
from torchsmith.artifact.cpu_promise import flags_check
from torchsmith.artifact.elf import read_elf
from torchsmith.artifact.readers import containers_of
from torchsmith.artifact.recorded import RecordedLine, recorded_lines
from torchsmith.artifact.source import Damaged, open_file
from torchsmith.catalog import Catalog
from torchsmith.core.text import counted
from torchsmith.matrix.variant import Variant


def check_objects(folder: Path, variant: Variant, catalog: Catalog) -> Iterator[Check]:
    """What the objects of a sample show: the command lines that they record, and their GPU code."""
    holding, targets, lines = 0, set[str](), dict[RecordedLine, None]()
    for path in sorted(folder.rglob("*.o")):
        try:
            with open_file(path) as source:
                elf = read_elf(source)
                archs = {entry.target.arch for part in containers_of(elf) for entry in part.entries}
                lines |= dict.fromkeys(recorded_lines(elf))
        except Damaged as fault:
            yield Check("objects", "wrong", f"{path.name} cannot be read: {fault.message}")
            continue
        holding += bool(archs)
        targets |= archs
    isa = catalog.isas.get(variant.isa)
    if isa is not None and catalog.backends[variant.backend].compiler == "gcc":
        yield flags_check(list(lines), isa, torch=variant.package.is_torch)
    if variant.arch:
        yield _gpu_code(holding, targets, variant.arch)


def _gpu_code(holding: int, targets: set[str], arch: str) -> Check:
    if not holding:
        return Check("gpu", "unjudged", "no object of the sample holds GPU code")
    names = ", ".join(sorted(targets))
    text = f"{names} in {counted(holding, 'object')}"
    if targets == {arch}:
        return Check("gpu", "right", text)
    return Check("gpu", "wrong", f"{text}, the name says {arch}")
