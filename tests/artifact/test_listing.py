"""What is there is listed, whoever made it and however it is packed, and a broken member is told."""

from __future__ import annotations

import os
import struct
import time
import zipfile
from pathlib import Path

import pytest

from tests.artifact import elves
from torchsmith.artifact import elf
from torchsmith.artifact.report import Report, verify
from torchsmith.catalog import builtin_catalog

CATALOG = builtin_catalog()
GPU = elves.gpu_library(elves.container(elves.entry(90), elves.entry(120)))
METADATA = "Metadata-Version: 2.4\nName: gsplat\nVersion: 1.5.3\n"


def wheel(folder: Path, members: dict[str, bytes | str], method: int = zipfile.ZIP_DEFLATED) -> Path:
    path = folder / "gsplat-1.5.3-py3-none-manylinux_2_28_x86_64.whl"
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in {"gsplat-1.5.3.dist-info/METADATA": METADATA, **members}.items():
            archive.writestr(name, data)
    return path


def listed(report: Report) -> dict[str, int]:
    return {str(row.target): row.entries for row in report.gpu}


def wrong(report: Report) -> list[str]:
    return [check.text for check in report.checks if check.status == "wrong"]


def cubin(layout: int, flags: int, note: bytes = b"") -> bytes:
    head = bytearray(elves.Library([elves.Part(".note.nv.tkinfo", note)], machine=190).build())
    head[8] = layout
    struct.pack_into("<I", head, 48, flags)
    return bytes(head)


def test_a_package_s_own_libraries_are_listed_where_auditwheel_moved_them(tmp_path: Path) -> None:
    members: dict[str, bytes | str] = {
        "ctranslate2/_ext.so": elves.Library().build(),
        "ctranslate2.libs/libctranslate2-d3638643.so.4": GPU,
        "ctranslate2.libs/libcudart-c3a75b33.so.12": GPU,  # NVIDIA's own is none of the package's
    }
    assert listed(verify(wheel(tmp_path, members), None, CATALOG)) == {"90": 1, "120": 1}


@pytest.mark.parametrize(
    ("more", "verb"), [({}, "is"), ({"b-2.dist-info/METADATA": "Name: b\nVersion: 2\n"}, "are")]
)
def test_one_package_is_listed_and_several_are(more: dict[str, str], verb: str, tmp_path: Path) -> None:
    report = verify(wheel(tmp_path, {"gsplat/csrc.so": GPU, **more}), None, CATALOG)
    assert [f" {verb} listed" in check.text for check in report.checks if check.id == "package"] == [True]


def test_gpu_code_in_files_of_its_own_is_listed(tmp_path: Path) -> None:
    members: dict[str, bytes | str] = {
        "cubins/new.cubin": cubin(8, 100 << 8 | 2, b"-arch sm_100a -m 64"),
        "cubins/old.cubin": cubin(7, 0x500 | 86),
    }
    report = verify(wheel(tmp_path, members), None, CATALOG)
    assert listed(report) == {"86": 1, "100a": 1}
    assert not wrong(report)


def test_a_wheel_without_any_library_is_said_to_hold_none(tmp_path: Path) -> None:
    report = verify(wheel(tmp_path, {"gsplat/kernels.cu": "__global__ void f() {}"}), None, CATALOG)
    assert report.ok
    assert report.versions == {"gsplat": "1.5.3"}
    assert not report.libraries


@pytest.mark.parametrize("kind", ["library", "wheel"])
@pytest.mark.parametrize(
    ("code", "known"), [(b"\x0f\x58\xd1", True), (b"\x62\xf1\x6d\x48\xfc\xd9", False), (b"\x06", False)]
)
def test_of_code_that_no_known_package_owns_all_is_read_and_no_more_is_claimed(
    kind: str, code: bytes, known: bool, tmp_path: Path
) -> None:
    data = elves.code_library({"PyInit_ext": b"\xc3", "sort_simd": code})
    path = tmp_path / "ext.so"
    path.write_bytes(data)
    if kind == "wheel":
        path = wheel(tmp_path, {"gsplat/ext.so": data})
    cpu = verify(path, None, CATALOG).cpu
    assert cpu is not None
    assert (cpu.features, cpu.complete, "runs on any" in cpu.text) == ((), known, known)
    assert verify(path, None, CATALOG, cpu=False).cpu is None


def test_a_foreign_library_with_more_names_than_are_read_is_not_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elf, "MOST_SYMBOLS", 1)
    path = wheel(tmp_path, {"gsplat/ext.so": elves.code_library({"a": b"\xc3", "b": b"\xc3"})})
    report = verify(path, None, CATALOG)
    assert (report.ok, report.cpu and report.cpu.complete) == (True, False)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED])
@pytest.mark.parametrize("name", ["gsplat.libs/libgomp.so.1", "gsplat/data.bin", "gsplat/csrc.so", "lib/a.a"])
def test_a_flipped_byte_breaks_the_wheel_wherever_it_stands(name: str, method: int, tmp_path: Path) -> None:
    payload = os.urandom(5000)
    code = {
        "gsplat.libs/libgomp.so.1": elves.Library([elves.Part(".rodata", payload)]).build(),
        "gsplat/data.bin": payload,
        "gsplat/csrc.so": elves.Library([elves.Part(".rodata", payload)]).build(),
        "lib/a.a": b"!<arch>\n" + payload,
    }
    path = wheel(tmp_path, {**code, "gsplat/ext.so": GPU}, method)
    assert not wrong(verify(path, None, CATALOG))
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        member = archive.getinfo(name)
    data[member.header_offset + 30 + len(name) + 3000] ^= 1
    path.write_bytes(data)
    assert [text for text in wrong(verify(path, None, CATALOG)) if text.startswith(name)]


@pytest.mark.parametrize("name", ["../evil.so", "/etc/evil.so", "a/../../evil.txt"])
def test_names_that_lead_out_of_a_wheel_are_told(name: str, tmp_path: Path) -> None:
    report = verify(wheel(tmp_path, {"gsplat/csrc.so": GPU, name: GPU}), None, CATALOG)
    assert [text for text in wrong(report) if name in text]


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_members_of_one_name_are_told(tmp_path: Path) -> None:
    path = wheel(tmp_path, {"gsplat/csrc.so": GPU})
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("gsplat/csrc.so", GPU)
    assert [text for text in wrong(verify(path, None, CATALOG)) if "gsplat/csrc.so" in text]


def test_a_link_upwards_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "gsplat").mkdir()
    (tmp_path / "gsplat/csrc.so").write_bytes(GPU)
    (tmp_path / "gsplat/root").symlink_to("/")
    start = time.process_time()
    report = verify(tmp_path / "gsplat", None, CATALOG)
    assert time.process_time() - start < 5
    assert listed(report) == {"90": 1, "120": 1}
    assert [check.status for check in report.checks if check.id == "contents"] == ["unjudged"]


def test_many_broken_libraries_fill_no_screen(tmp_path: Path) -> None:
    for number in range(500):
        (tmp_path / f"broken{number}.so").write_bytes(b"\x7fELF\x02\x01\x01cut off")
    report = verify(tmp_path, None, CATALOG)
    assert not report.ok
    assert len(report.checks) < 30
    assert any("480" in text for text in wrong(report))
