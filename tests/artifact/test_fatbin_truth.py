"""What is read of GPU code is what NVIDIA's own tools put there and list, entry by entry."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.artifact import toolkit
from torchsmith.artifact.container import Container
from torchsmith.artifact.elf import read_elf
from torchsmith.artifact.readers import containers_of, containers_of_file
from torchsmith.artifact.source import open_file
from torchsmith.catalog import GpuTarget

pytestmark = pytest.mark.needs("cross-gcc")  # a linker makes the libraries

COMPRESSIONS = {
    "not compressed": ("--compress=false",),
    "as nvcc does": (),
    "everything compressed": ("--compress-all",),
    "for size": ("--compress-all", "--compress-mode=size"),
}


def read(path: Path) -> list[Container]:
    with open_file(path) as source:
        return list(containers_of(read_elf(source)))


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> list[toolkit.Image]:
    """A cubin for every target that any CUDA of 12 and 13 compiles for, and PTX for some."""
    folder = tmp_path_factory.mktemp("images")
    made: dict[GpuTarget, toolkit.Image] = {}
    texts = []
    for kit in toolkit.toolkits():
        for target in kit.targets:
            made[target] = toolkit.cubin(kit, target, folder)
        texts += [toolkit.ptx(kit, kit.targets[index], folder) for index in (0, -1)]
    return [*made.values(), *texts]


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_every_target_and_form_is_read_as_cuobjdump_lists_it(
    compression: str, images: list[toolkit.Image], tmp_path: Path
) -> None:
    container = toolkit.fatbin(images, tmp_path / "all.fatbin", *COMPRESSIONS[compression])
    found = read(toolkit.library(tmp_path / "all.so", [container], []))
    asked = [("cubin" if image.kind == "elf" else "ptx", image.target) for image in images]
    assert [(entry.kind, entry.target) for entry in found[0].entries] == asked
    assert toolkit.listed(found) == toolkit.cuobjdump(tmp_path / "all.so")


def test_a_cubin_in_a_file_of_its_own_is_read_for_what_ptxas_was_told(images: list[toolkit.Image]) -> None:
    found = {}
    for image in images:
        if image.kind == "elf":
            with open_file(image.file) as source:
                (container,) = containers_of_file(source, "kernel.cubin")
            found[image.target] = container.entries[0].target
    assert len(found) > 20
    assert {target: read for target, read in found.items() if read != target} == {}


def test_several_containers_in_both_sections_are_told_apart(
    images: list[toolkit.Image], tmp_path: Path
) -> None:
    first = toolkit.fatbin(images[:3], tmp_path / "first.fatbin")
    second = toolkit.fatbin(images[3:4], tmp_path / "second.fatbin")
    third = toolkit.fatbin(images[-2:], tmp_path / "third.fatbin")
    path = toolkit.library(tmp_path / "several.so", [first, second, first], [third, second], gap=256)
    found = read(path)
    assert [len(container.entries) for container in found] == [3, 1, 3, 2, 1]
    assert [container.section for container in found] == [".nv_fatbin"] * 3 + ["__nv_relfatbin"] * 2
    assert toolkit.listed(found) == toolkit.cuobjdump(path)


def test_a_container_holds_as_many_bytes_as_its_entries_say(
    images: list[toolkit.Image], tmp_path: Path
) -> None:
    container = toolkit.fatbin(images, tmp_path / "all.fatbin")
    found = read(toolkit.library(tmp_path / "all.so", [container], []))
    header = 16
    assert header + sum(entry.size for entry in found[0].entries) == container.stat().st_size
