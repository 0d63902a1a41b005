"""Whatever is named, `verify` ends with words, within 512 MiB, and reads nothing that has no end."""

from __future__ import annotations

import errno
import json
import os
import re
import resource
import struct
import subprocess
import sys
import zipfile
import zlib
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.artifact import elves, standin
from torchsmith.artifact.contents import _refuse_bomb
from torchsmith.artifact.elf import MOST_OVERLAP, MOST_SYMBOLS, SYMBOL
from torchsmith.artifact.source import MOST_RATIO, Damaged

MOST_MEMORY = 512 << 20
HANGS = 300  # seconds; a guard against waiting for ever, far from what anything takes
GOOD = elves.gpu_library(elves.container(elves.entry(120)))
VERSION = "__version__ = '2.10.0'\n"


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    text: str


def verify(path: Path, *words: str, out: int = subprocess.PIPE, memory: int = MOST_MEMORY) -> Ended:
    """`torchsmith verify PATH` in a process that cannot have more memory than it should need."""
    done = subprocess.run(
        [sys.executable, "-m", "torchsmith", "verify", path, *words],
        stdout=out,
        stderr=subprocess.PIPE,
        timeout=HANGS,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (memory, memory)),
    )
    text = f"{(done.stdout or b'').decode()}{done.stderr.decode()}"
    assert "Traceback" not in text
    assert "MemoryError" not in text
    return Ended(done.returncode, text)


def wheel(path: Path, files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def copies(path: Path, names: list[str], data: bytes) -> Path:
    """A wheel whose members all hold the same bytes, packed once."""
    packer = zlib.compressobj(wbits=-15)
    packed, crc = packer.compress(data) + packer.flush(), zlib.crc32(data)
    table = b""
    with open(path, "wb") as file:
        for name in names:
            common = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 0, crc, len(packed), len(data), len(name), 0)
            table += b"PK\1\2\x14\0" + common + bytes(10) + struct.pack("<I", file.tell()) + name.encode()
            file.write(b"PK\3\4" + common + name.encode() + packed)
        start, count = file.tell(), len(names)
        file.write(table + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, count, count, len(table), start, 0))
    return path


@pytest.mark.parametrize("name", ["z.whl", "libtorch_cpu.so"])
def test_a_link_to_a_device_without_an_end_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).symlink_to("/dev/zero")
    ended = verify(tmp_path / name)
    assert ended.code == 2


@pytest.mark.parametrize("name", ["z.whl", "libtorch_cpu.so"])
def test_a_pipe_is_refused_and_not_waited_for(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    ended = verify(tmp_path / name)
    assert ended.code == 2


@pytest.mark.parametrize("make", ["pipe", "device"])
def test_a_library_of_a_build_that_is_no_file_is_a_fault_of_the_build(make: str, tmp_path: Path) -> None:
    path = standin.build(tmp_path)
    library = path / "lib" / "python3.13" / "site-packages" / "torch" / "lib" / "libtorch_extra.so"
    os.mkfifo(library) if make == "pipe" else library.symlink_to("/dev/zero")
    ended = verify(path)
    assert ended.code == 1
    assert "libtorch_extra.so" in ended.text


def test_a_link_to_itself_is_a_message(tmp_path: Path) -> None:
    loop = tmp_path / "result"
    loop.symlink_to(loop)
    ended = verify(loop)
    assert ended.code == 2
    assert os.strerror(errno.ELOOP) in " ".join(ended.text.split())


@pytest.mark.parametrize(("size", "code"), [(1 << 20, 1), (150 << 10, 0)])  # by its ratio a bomb, and not
def test_thousands_of_version_files_take_no_memory(size: int, code: int, tmp_path: Path) -> None:
    names = [f"d{index}/torch/version.py" for index in range(2000)]
    path = copies(tmp_path / "torch-1.whl", names, os.urandom(1 << 10) + bytes(size))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("torch/lib/libtorch_cpu.so", GOOD)
    assert path.stat().st_size < 10 << 20
    assert verify(path, memory=MOST_MEMORY // 2).code == code  # they unpack to 293 MiB or more


def test_a_table_of_contents_that_claims_gigabytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "torch-1.whl"
    end = b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 1, 1, 3 << 30, 0, 0)
    with path.open("wb") as file:
        file.seek((4 << 30) - len(end))
        file.write(end)
    ended = verify(path)
    assert ended.code == 1
    assert f"{3 << 30} bytes" in ended.text, "it was not read"


def test_many_small_members_that_unpack_to_gigabytes_are_refused(tmp_path: Path) -> None:
    names = [f"torch/lib/libtorch_{index}.so" for index in range(40)]
    path = copies(tmp_path / "torch-1.whl", names, bytes(15 << 20))
    ended = verify(path)
    assert ended.code == 1
    assert "zip bomb" in ended.text


@pytest.mark.parametrize(("more", "refused"), [(0, False), (1, True)])
def test_a_member_is_a_bomb_from_the_first_byte_beyond_the_ratio(more: int, refused: bool) -> None:
    member = zipfile.ZipInfo("libtorch_cpu.so")
    member.compress_size, member.compress_type = 1 << 20, zipfile.ZIP_DEFLATED
    member.file_size = MOST_RATIO * member.compress_size + more
    ended: Any = pytest.raises(Damaged, match="zip bomb") if refused else nullcontext()
    with ended:
        _refuse_bomb(member)


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_a_member_packed_as_no_wheel_is_does_not_end_the_look(method: int, tmp_path: Path) -> None:
    path = wheel(tmp_path / "torch-1.whl", {"torch/lib/libtorch_cpu.so": bytes(1 << 20)}, method)
    data = bytearray(path.read_bytes())
    data[60:90] = b"\xff" * 30
    path.write_bytes(data)
    ended = verify(path)
    assert ended.code == 1
    assert f"method {method}" in ended.text


def test_a_corrupt_member_does_not_keep_the_others_from_being_judged(tmp_path: Path) -> None:
    bad, good = os.urandom(4000), {"torch/lib/libtorch_cuda.so": GOOD}
    path = wheel(tmp_path / "torch-1.whl", {"torch/lib/libtorch_cpu.so": bad, **good})
    data = bytearray(path.read_bytes())
    data[200:300] = b"\xff" * 100
    path.write_bytes(data)
    ended = verify(path, "--json", "--variant", "pytorch-python313-cuda13_0-sm120-avx2")
    assert ended.code == 1
    checks = {check["id"]: check for check in json.loads(ended.text)["report"]["checks"]}
    assert (checks["intact"]["status"], checks["gpu"]["status"]) == ("wrong", "right")
    assert "libtorch_cpu.so" in checks["intact"]["text"]


def test_bad_characters_in_a_members_own_header_are_a_fault(tmp_path: Path) -> None:
    name = "torch/lib/libtorch_cpü.so"
    path = wheel(tmp_path / "torch-1.whl", {name: GOOD})
    data = path.read_bytes()
    path.write_bytes(data.replace(name.encode(), name.encode().replace(b"\xc3", b"\xff"), 1))
    ended = verify(path)
    assert ended.code == 1
    assert "libtorch_cp" in ended.text


def test_a_full_disk_under_the_answer_is_a_message(tmp_path: Path) -> None:
    path = standin.build(tmp_path)
    for words in ([], ["--json"]):
        with open("/dev/full", "wb") as full:
            ended = verify(path, *words, out=full.fileno())
        assert ended.code == 3
        assert os.strerror(errno.ENOSPC) in ended.text


def named_library(symbols: int, strings: bytes, path: Path) -> Path:
    """A library whose functions' names begin one after the other in the same text."""
    table = b"".join(
        SYMBOL.pack(1 + index % (len(strings) - 5000), 0x12, 0, 1, index, 1) for index in range(symbols)
    )
    parts = [
        elves.Part(".text", b"\xc3" * symbols, flags=6),
        elves.Part(".symtab", bytes(SYMBOL.size) + table, kind=2, link=3),
        elves.Part(".strtab", strings, kind=3),
    ]
    path.write_bytes(elves.Library(parts).build())
    return path


def test_names_that_overlap_are_not_read_again_and_again(tmp_path: Path) -> None:
    text = b"\0" + b"_ZN2at6native1" * 100_000 + b"\0"
    ended = verify(named_library(300_000, text, tmp_path / "libtorch_cpu.so"))
    assert ended.code == 1
    assert f"{MOST_OVERLAP} times" in ended.text


def test_more_symbols_than_any_library_has_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "libtorch_cpu.so"
    path.write_bytes(elves.code_library({"_ZN2at1fEv": b"\xc3"}))
    data = bytearray(path.read_bytes())
    table = re.search(rb"\x02\0\0\0\x02\0{7}", data)  # the header of .symtab: its kind and flags
    assert table
    size = table.start() + 28
    data[size : size + 8] = struct.pack("<Q", 2_900_000 * SYMBOL.size)
    path.write_bytes(data)
    os.truncate(path, 600 << 20)
    ended = verify(path)
    assert ended.code == 1
    assert f"{2_900_000 * SYMBOL.size} bytes" in ended.text


@pytest.mark.long
def test_as_many_symbols_as_are_read_fit_into_memory(tmp_path: Path) -> None:
    name = b"_ZN2at6native" + b"f" * 130
    count = MOST_SYMBOLS - 1
    path = tmp_path / "libtorch_cpu.so"
    places = [SYMBOL.pack(1 + index * (len(name) + 1), 0x12, 0, 1, index, 1) for index in range(count)]
    parts = [
        elves.Part(".text", b"\xc3" * count, flags=6),
        elves.Part(".symtab", bytes(SYMBOL.size) + b"".join(places), kind=2, link=3),
        elves.Part(".strtab", b"\0" + (name + b"\0") * count, kind=3),
    ]
    path.write_bytes(elves.Library(parts).build())
    ended = verify(path)
    assert ended.code == 0


def test_too_little_memory_is_a_finding_and_the_others_are_still_judged(tmp_path: Path) -> None:
    lib = tmp_path / "torch" / "lib"
    lib.mkdir(parents=True)
    named_library(10, b"\0" + b"_ZN2at6native1" * 10_000_000 + b"\0", lib / "libtorch_cpu.so")
    (lib / "libtorch_cuda.so").write_bytes(GOOD)
    ended = verify(tmp_path, "--json", memory=128 << 20)
    report = json.loads(ended.text)["report"]
    assert ended.code == 1
    assert any("not enough memory" in check["text"] for check in report["checks"])
    assert report["gpu"]


def test_a_library_that_may_not_be_read_is_one_fault_among_the_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torchsmith.artifact.inspect import inspect

    path = standin.build(tmp_path)
    really = os.open

    def denied(name: object, *args: int, **words: int) -> int:
        if str(name).endswith("libtorch_cpu.so"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return really(name, *args, **words)  # type: ignore[arg-type]

    monkeypatch.setattr("torchsmith.artifact.source.os.open", denied)
    faults = {library.name.rsplit("/")[-1]: library.fault for library in inspect(path).libraries}
    assert os.strerror(errno.EACCES) in faults["libtorch_cpu.so"]
    assert faults["libtorch_cuda.so"] == ""


def test_names_of_files_cannot_steer_the_terminal(tmp_path: Path) -> None:
    path = wheel(tmp_path / "torch-1.whl", {"torch/lib/\x1b[2Jlibtorch\x9b31m.so": b"no library"})
    ended = verify(path)
    assert ended.code == 1
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", ended.text)
