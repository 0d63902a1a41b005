"""A sample of compiled objects held against a variant's promise: GPU targets and CPU flags."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from torchsmith.artifact.check import Check
from torchsmith.artifact.commands import ObjectCommand
from torchsmith.artifact.elf import read_elf
from torchsmith.artifact.readers import containers_of
from torchsmith.artifact.source import Damaged, open_file
from torchsmith.catalog import Catalog, Isa, Sm
from torchsmith.core.text import counted, some_of
from torchsmith.matrix.variant import Variant

MOST_NAMES = 3


def check_objects(
    folder: Path, commands: Sequence[ObjectCommand], variant: Variant, catalog: Catalog
) -> list[Check]:
    """What a sample shows of a build: the GPU code in its objects, and the commands of all."""
    isa, checks = catalog.isas.get(variant.isa), list[Check]()
    if isa is not None:
        checks += _cpu_flags(commands, isa)
    if variant.sm is not None:
        checks += _gpu_flags(commands, variant.sm)
    if variant.arch:
        checks += _gpu_code(folder, variant.arch)
    return checks


def _cpu_flags(commands: Sequence[ObjectCommand], isa: Isa) -> Iterator[Check]:
    """Every unit of the CPU gets the flags of the instruction set; dispatched ones add their own."""
    plain = [command for command in commands if not command.cuda]
    if not plain:
        return
    spellings = [set(isa.flags), *map(set, isa.other_flags)]
    without = [command for command in plain if not any(flags <= set(command.flags) for flags in spellings)]
    flags = " ".join(isa.flags)
    if not without:
        yield Check("cpu-flags", "right", f"{flags} reached all {len(plain)} units of the CPU")
    elif len(without) == len(plain):
        text = f"{flags} reached none of {len(plain)} units of the CPU"
        hint = "the recipe's CXXFLAGS and CFLAGS must be exported before setup.py runs"
        yield Check("cpu-flags", "wrong", text, hint)
    else:
        reached = f"{len(plain) - len(without)} of {len(plain)} units of the CPU"
        yield Check("cpu-flags", "note", f"{flags} reached {reached}, not {_names(without)}")


def _gpu_flags(commands: Sequence[ObjectCommand], sm: Sm) -> Iterator[Check]:
    cuda = [command for command in commands if command.cuda]
    if not cuda:
        hint = "CUDA was not found or is switched off"
        yield Check("gpu-flags", "wrong", "no unit is compiled by nvcc", hint)
        return
    lacking = [command for command in cuda if not any(target.sm == sm for target in command.targets)]
    other = sorted({str(target.sm) for command in cuda for target in command.targets if target.sm != sm})
    if lacking:
        text = f"nvcc lacks {sm} in {len(lacking)} of {len(cuda)}: {_names(lacking)}"
        yield Check("gpu-flags", "wrong", text)
    elif other:
        yield Check("gpu-flags", "wrong", f"nvcc also compiles for {', '.join(other)}")
    else:
        yield Check("gpu-flags", "right", f"nvcc compiles all {len(cuda)} units for {sm} only")


def _gpu_code(folder: Path, arch: str) -> Iterator[Check]:
    """The GPU architecture in the GPU code of the objects that were compiled."""
    holding, targets = 0, set[str]()
    for path in sorted(folder.rglob("*.o")):
        try:
            with open_file(path) as source:
                archs = {
                    entry.target.arch for part in containers_of(read_elf(source)) for entry in part.entries
                }
        except Damaged as fault:
            yield Check("objects", "wrong", f"{path.name} cannot be read: {fault.message}")
            continue
        holding += bool(archs)
        targets |= archs
    if not holding:
        yield Check("gpu-code", "unjudged", "no object of the sample holds GPU code")
        return
    if targets == {arch}:
        yield Check("gpu-code", "right", f"{arch} alone, in {counted(holding, 'object')}")
    else:
        text = f"{', '.join(sorted(targets))} in {counted(holding, 'object')}, the name says {arch}"
        yield Check("gpu-code", "wrong", text)


def _names(commands: Sequence[ObjectCommand]) -> str:
    return some_of([command.source.rpartition("/")[2] for command in commands], MOST_NAMES)
