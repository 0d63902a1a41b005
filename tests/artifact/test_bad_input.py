"""A file that is not what it claims gets a message, in little time and memory, and never a traceback."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.artifact import elves
from torchsmith.artifact.contents import open_contents
from torchsmith.artifact.cpu import OwnSpaces, cpu_code
from torchsmith.artifact.elf import HEADER, NotElf, links_of, read_elf
from torchsmith.artifact.inspect import inspect
from torchsmith.artifact.known import Owners
from torchsmith.artifact.readers import containers_of
from torchsmith.artifact.recorded import recorded_lines
from torchsmith.artifact.source import EXPECTED, Damaged, FileSlice, open_file
from torchsmith.catalog import builtin_catalog
from torchsmith.core.problem import CannotRead, Exit, Invalid

GOOD = elves.gpu_library(
    elves.container(elves.entry(90), elves.entry(120)), elves.container(elves.entry(120))
)


@contextlib.contextmanager
def source_of(data: bytes) -> Iterator[FileSlice]:
    """Bytes as the file that they would be."""
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        yield FileSlice(file.fileno(), 0, len(data))


def look(data: bytes) -> int:
    """Everything that is ever read of a library; the number of its GPU code containers."""
    with source_of(data) as source:
        elf = read_elf(source)
        links_of(elf)
        recorded_lines(elf)
        cpu_code(elf, "x", OwnSpaces(("at", "torch")))
        return len(list(containers_of(elf)))


def test_code_with_several_names_is_read_once() -> None:
    library = elves.code_library({"_ZN2at3addEv": b"\x90" * 16}, aliases=["_ZN2at3sumEv", "_ZN2at4plusEv"])
    with source_of(library) as source:
        code = cpu_code(read_elf(source), "x", OwnSpaces(("at", "torch")))
    assert (code.complete, code.own.functions) == (True, 1)


def test_a_section_without_bytes_in_the_file_is_not_read() -> None:
    """Such as every section of a file with debug information alone."""
    gpu = elves.Part(".nv_fatbin", elves.container(elves.entry(90)), kind=8)
    assert look(elves.Library([gpu]).build()) == 0


def test_data_that_looks_like_gpu_code_is_none_where_sections_have_names() -> None:
    data = elves.container(elves.entry(90))
    assert look(elves.Library([elves.Part(".rodata", data)]).build()) == 0
    assert look(elves.Library([elves.Part(".nv_fatbin", data)]).build()) == 1


def test_a_good_library_is_read() -> None:
    assert look(GOOD) == 2


@pytest.mark.parametrize(
    ("data", "kind", "said"),
    [
        (b"", NotElf, "empty"),
        (b"#!/bin/sh\n", NotElf, "ELF"),
        (b"\x7fELF", Damaged, "4 bytes"),
        (GOOD[: HEADER.size - 1], Damaged, f"{HEADER.size - 1} bytes"),
        (b"\x7fELF\x01" + GOOD[5:], NotElf, "64-bit"),
        (elves.Library(machine=8).build(), NotElf, "machine"),
        (GOOD[:-10], Damaged, "beyond"),
        (GOOD[: HEADER.size], Damaged, f"{HEADER.size} bytes"),
        (elves.Library(section_count=60000).build(), Damaged, "60000 sections"),
        (elves.Library(section_offset=1 << 60).build(), Damaged, hex(1 << 60)),
        (elves.Library(names_index=7).build(), Damaged, "section 7 of "),
        (elves.gpu_library(b"\xff" * 64), Damaged, "container"),
        (elves.gpu_library(elves.container(elves.entry(90), size=1 << 40)), Damaged, "section"),
        (elves.gpu_library(elves.container(elves.entry(90, header=0))), Damaged, "beyond"),
        (elves.gpu_library(elves.container(elves.entry(90)[:20])), Damaged, "piece"),
        (elves.gpu_library(elves.container(elves.entry(90))[:12]), Damaged, "container"),
        (elves.gpu_library(bytes(2 << 20)), Damaged, "zeros"),
    ],
)
def test_what_is_wrong_is_said(data: bytes, kind: type[Damaged], said: str, tmp_path: Path) -> None:
    path = tmp_path / "lib.so"
    path.write_bytes(data)
    with open_file(path) as source, pytest.raises(Damaged) as caught:
        list(containers_of(read_elf(source)))
    assert type(caught.value) is kind
    assert said in caught.value.message


def test_an_endless_list_of_empty_pieces_ends() -> None:
    pieces = elves.container(elves.entry(90, payload=0) * 20000)
    with source_of(elves.gpu_library(pieces)) as source:
        assert len(next(containers_of(read_elf(source))).entries) == 20000


@settings(max_examples=400)
@given(st.binary(max_size=400))
def test_no_bytes_whatever_raise_anything_but_a_problem(data: bytes) -> None:
    for file in (data, elves.gpu_library(data), elves.code_library({"_ZN2at1fEv": data})):
        with contextlib.suppress(Damaged):
            look(file)


@settings(max_examples=400)
@given(st.integers(0, 2**32), st.integers(1, 12))
def test_flipped_bytes_raise_nothing_but_a_problem(seed: int, count: int) -> None:
    source = random.Random(seed)
    for good in (GOOD, elves.code_library({"_ZN2at1fEv": b"\xc5\xf8\x77\xc3"}, {"_ZN2at1fEv": "A.cpp"})):
        data = bytearray(good)
        for _ in range(count):
            data[source.randrange(len(data))] = source.randrange(256)
        with contextlib.suppress(Damaged):
            look(bytes(data))


@settings(max_examples=200)
@given(st.integers(0, len(GOOD) - 1))
def test_a_file_cut_off_anywhere_is_damaged(length: int) -> None:
    with pytest.raises(Damaged):
        look(GOOD[:length])


def test_a_library_of_10_gigabytes_is_read_in_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "large.so"
    path.write_bytes(GOOD)
    os.truncate(path, 10 << 30)
    code = (
        "import re, sys; from pathlib import Path; from torchsmith.artifact.inspect import inspect;"
        "seen = inspect(Path(sys.argv[1])); assert len(seen.containers) == 2;"
        # Not ru_maxrss: a child starts with the size of the process that it was forked from.
        "print(re.search(r'VmHWM:\\s+(\\d+)', Path('/proc/self/status').read_text())[1])"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 80_000  # KiB, the interpreter and its modules included


def test_a_zip_bomb_is_refused_before_it_unpacks(tmp_path: Path) -> None:
    wheel = tmp_path / "torch-1.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("torch/lib/libtorch_cuda.so", bytes(64 << 20))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    library = inspect(wheel).libraries[0]
    assert "zip bomb" in library.fault
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


def test_a_member_that_is_longer_than_it_claims_is_damaged(tmp_path: Path) -> None:
    wheel = tmp_path / "torch-1.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("torch/lib/libtorch.so", GOOD)
    data = wheel.read_bytes()
    size = len(GOOD).to_bytes(4, "little")
    wheel.write_bytes(data.replace(size, (100).to_bytes(4, "little")))
    assert inspect(wheel).libraries[0].fault


def test_a_damaged_library_of_another_package_in_the_wheel_is_a_fault_too(tmp_path: Path) -> None:
    wheel = tmp_path / "torch-1.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("torch/lib/libtorch.so", GOOD)
        archive.writestr("somebody/elses.so", bytes(range(256)) * 20)
    assert not inspect(wheel).faults
    wheel.write_bytes(wheel.read_bytes().replace((5120).to_bytes(4, "little"), (100).to_bytes(4, "little")))
    assert [fault.partition(":")[0] for fault in inspect(wheel).faults] == ["somebody/elses.so"]


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_wheel_is_read_without_unpacking_it_by_name(compression: int, tmp_path: Path) -> None:
    wheel = tmp_path / "torch-1.whl"
    with zipfile.ZipFile(wheel, "w", compression) as archive:
        archive.writestr("../../torch/lib/libtorch_cuda.so", GOOD)
    assert len(inspect(wheel).containers) == 2
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["torch-1.whl"]


def test_a_wheel_cut_in_half_is_named_as_such(tmp_path: Path) -> None:
    wheel = tmp_path / "torch-1.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("torch/lib/libtorch.so", GOOD)
    wheel.write_bytes(wheel.read_bytes()[:-40])
    with pytest.raises(Damaged):
        inspect(wheel)


def test_a_loop_of_links_is_walked_once(tmp_path: Path) -> None:
    folder = tmp_path / "site-packages" / "torch" / "lib"
    folder.mkdir(parents=True)
    (folder / "libtorch_cuda.so").write_bytes(GOOD)
    (folder / "again").symlink_to(tmp_path)
    (folder / "libtorch_self.so").symlink_to("libtorch_self.so")
    with open_contents(tmp_path, Owners.of(builtin_catalog())) as contents:
        assert [item.name for item in contents.libraries] == ["site-packages/torch/lib/libtorch_cuda.so"]
        assert [fault.split()[0].rpartition("/")[2] for fault in contents.faults] == ["libtorch_self.so"]


def test_links_between_paths_of_a_store_elsewhere_stay_in_it(tmp_path: Path) -> None:
    """Nix writes /nix/store into the links of a store in another folder."""
    store = tmp_path / "nix/store"
    (store / "torch/torch").mkdir(parents=True)
    (store / "torch-lib/lib").mkdir(parents=True)
    (store / "torch-lib/lib/libtorch_cuda.so").write_bytes(GOOD)
    (store / "torch-all").mkdir()
    (store / "torch-all/lib").symlink_to("/nix/store/torch-lib/lib")
    (store / "torch/torch/lib").symlink_to("/nix/store/torch-all/lib")
    (store / "torch/torch/libtorch_self.so").symlink_to("/nix/store/torch/torch/libtorch_self.so")
    with open_contents(store / "torch", Owners.of(builtin_catalog())) as contents:
        assert [item.name for item in contents.libraries] == ["torch/lib/libtorch_cuda.so"]
        assert [fault.split()[0] for fault in contents.faults] == ["torch/libtorch_self.so"]


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "libtorch.so"
    os.mkfifo(pipe)
    with pytest.raises(CannotRead), open_file(pipe):
        pass


def test_a_file_that_is_no_library_is_a_problem_and_not_a_crash(tmp_path: Path) -> None:
    script = tmp_path / "libtorch.so"
    script.write_text("GROUP ( libtorch.so.1 )\n")
    with pytest.raises(NotElf) as caught:
        inspect(script)
    assert caught.value.exit == Exit.BAD_REQUEST
    (tmp_path / "torch").mkdir()
    script.rename(tmp_path / "torch" / "libtorch.so")
    assert "ELF" in inspect(tmp_path).libraries[0].fault


def test_a_folder_without_pytorch_says_what_is_expected(tmp_path: Path) -> None:
    with pytest.raises(Invalid) as caught:
        inspect(tmp_path)
    assert caught.value.hint == EXPECTED
