"""AMD's and Apple's GPU code: listed for what it is, judged by the name, and never believed."""

from __future__ import annotations

import contextlib
import json
import random
import struct
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.artifact import elves, standin
from tests.artifact.test_bad_input import look, source_of
from tests.artifact.test_verdict import check, judged, native, service, site
from tests.cli.conftest import Call
from torchsmith.artifact.contents import GPU_FILES
from torchsmith.artifact.macho import read_macho
from torchsmith.artifact.readers import is_read
from torchsmith.artifact.report import Report, verify
from torchsmith.artifact.source import Damaged
from torchsmith.catalog import builtin_catalog
from torchsmith.core.problem import MissingRequirement

CATALOG = builtin_catalog()
ROCM = "pytorch-python313-rocm6_4-gfx942-avx512"
VERSION = "__version__ = '2.9.1'\ncuda: Optional[str] = None\nhip: Optional[str] = '6.4.43483-0'\n"
COMPRESSIONS = [(version, method) for version in (1, 2, 3) for method in (0, 1)]
BOTH = elves.bundle("gfx942", "gfx1100")
SEVERAL = elves.hip_library(BOTH, elves.compressed(BOTH), elves.compressed(BOTH, 1, 0), BOTH)


def torch(folder: Path, library: bytes, **files: bytes) -> Path:
    """A torch for ROCm with AVX-512 code and this library."""
    places = {
        f"torch/lib/{name.replace('__', '/').replace('_co', '.co')}": data for name, data in files.items()
    }
    libraries = dict.fromkeys(("torch/lib/libtorch_cpu.so", "torch/_C.so"), standin.CPU_LIBRARY)
    libraries |= {"torch/lib/libtorch_hip.so": library}
    return site(folder, {"torch/version.py": VERSION, **libraries, **places})


def listed(report: Report) -> dict[str, int]:
    return {f"{row.kind} {row.target}": row.entries for row in report.gpu}


def test_a_build_for_its_target_is_verified(tmp_path: Path) -> None:
    report = judged(torch(tmp_path, elves.hip_library(*[elves.bundle("gfx942")] * 3)), ROCM)
    assert report.verified, report.checks
    assert (check(report, "gpu").status, check(report, "rocm").status) == ("right", "right")
    assert native(report) == ["gfx942"]
    assert report.releases == {"ROCm": "6.4"}


@pytest.mark.parametrize(("version", "method"), COMPRESSIONS)
def test_compressed_bundles_are_read_like_plain_ones(version: int, method: int, tmp_path: Path) -> None:
    packed = elves.compressed(elves.bundle("gfx942:sramecc+:xnack-", "gfx1100"), version, method)
    report = judged(torch(tmp_path, elves.hip_library(packed, packed)), ROCM)
    assert listed(report) == {"hsaco gfx942:sramecc+:xnack-": 2, "hsaco gfx1100": 2}
    assert check(report, "gpu").status == "right"
    assert check(report, "waste").status == "note"
    assert report.sizes.gpu_code <= 2 * len(packed)


@pytest.mark.parametrize(
    ("bundles", "verdict"),
    [
        ([["gfx1100"]], "no"),
        ([["gfx90a"], ["gfx1030", "gfx1100"]], "no"),
        ([["gfx942"], ["gfx1100"]], "partly"),
        ([["gfx942:xnack+"]], "no"),  # runs with HSA_XNACK=1 alone
        ([["gfx942:sramecc-"]], "no"),
    ],
)
def test_a_target_that_is_not_there_throughout_is_missing(
    bundles: list[list[str]], verdict: str, tmp_path: Path
) -> None:
    library = elves.hip_library(*(elves.bundle(*targets) for targets in bundles))
    report = judged(torch(tmp_path, library), ROCM)
    assert (check(report, "gpu").status, service(report, "gfx942").verdict) == ("wrong", verdict)


def test_generic_code_runs_but_is_not_what_was_promised(tmp_path: Path) -> None:
    path = torch(tmp_path, elves.hip_library(elves.bundle("gfx11-generic")))
    report = judged(path, ROCM.replace("gfx942", "gfx1100"))
    assert check(report, "gpu").status == "wrong"
    assert not service(report, "gfx1100").exact
    assert set(native(report)) == {
        name for name, gfx in CATALOG.gfx.items() if gfx.generic == "gfx11-generic"
    }


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("rocm6_4-gfx942", set()),
        ("rocm6_4-gfx1100", {"gpu"}),
        ("rocm7_1-gfx942", {"rocm"}),
        ("cuda13_0-sm90", {"gpu", "cuda", "rocm"}),
        ("cpu", {"gpu", "rocm"}),
    ],
)
def test_a_build_is_refused_under_every_other_name(name: str, wrong: set[str], tmp_path: Path) -> None:
    path = torch(tmp_path, elves.hip_library(elves.bundle("gfx942")))
    report = judged(path, ROCM.replace("rocm6_4-gfx942", name))
    assert {found.id for found in report.checks if found.status == "wrong"} == wrong
    assert report.verified == (not wrong)


def test_a_build_with_cuda_is_refused_under_a_name_with_rocm(tmp_path: Path) -> None:
    library = elves.gpu_library(elves.container(elves.entry(90)))
    report = judged(site(tmp_path, {"torch/lib/libtorch_cuda.so": library}), ROCM)
    assert {found.id for found in report.checks if found.status == "wrong"} >= {"gpu", "cuda", "rocm"}


@pytest.mark.parametrize("target", ["gfx942", "gfx1100"])
def test_a_library_that_came_along_without_the_target_is_named_as_not_judged(
    target: str, tmp_path: Path
) -> None:
    path = torch(tmp_path, elves.hip_library(elves.bundle("gfx942")))
    place = path / "lib/python3.13/site-packages/torch/lib/librocsolver.so.0"
    place.write_bytes(elves.hip_library(elves.bundle(target)))
    report = judged(path, ROCM)
    unjudged = [found.text for found in report.checks if found.status == "unjudged" and found.blocking]
    assert report.ok
    assert [place.name in text for text in unjudged] == ([True] if target == "gfx1100" else [])
    assert report.verified == (target == "gfx942")


def test_no_gpu_code_at_all_is_wrong(tmp_path: Path) -> None:
    assert check(judged(torch(tmp_path, elves.Library().build()), ROCM), "gpu").status == "wrong"


@pytest.mark.parametrize("files", [("gfx1100",), ("gfx942", "gfx1100")])
def test_files_that_rocblas_loads_by_the_gpu_s_name_are_judged_together(
    files: tuple[str, ...], tmp_path: Path
) -> None:
    kernels = {
        f"rocblas__library__Tensile_{target}_co": elves.compressed(elves.bundle(target), 2, 1)
        for target in files
    }
    report = judged(torch(tmp_path, elves.hip_library(elves.bundle("gfx942")), **kernels), ROCM)
    assert check(report, "gpu").status == ("right" if "gfx942" in files else "wrong")
    assert len(report.gpu_by_library) == 2


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.8, 0.99])
@pytest.mark.parametrize("packed", [False, True])
def test_a_truncated_bundle_is_wrong(share: float, packed: bool, tmp_path: Path) -> None:
    whole = elves.compressed(BOTH) if packed else BOTH
    left = whole[: int(share * len(whole))]
    report = judged(torch(tmp_path, elves.Library([elves.Part(".hip_fatbin", left)]).build()), ROCM)
    assert check(report, "intact").status == "wrong"
    assert "libtorch_hip.so" in check(report, "intact").text
    assert not report.verified


@pytest.mark.parametrize(
    "data",
    [
        elves.bundle(gfx942=elves.code_object("gfx1100")),
        elves.bundle(**{"gfx942:xnack-": elves.code_object("gfx942:xnack+")}),
        elves.bundle(gfx942=b"no code object at all" * 9),
        elves.compressed(BOTH, size=len(BOTH) + 1),
        elves.compressed(BOTH, size=len(BOTH) - 1),
        elves.compressed(BOTH)[:-9] + b"\xff" * 9,
        elves.compressed(b"no bundle" * 100),
    ],
)
def test_a_bundle_that_contradicts_itself_is_wrong(data: bytes, tmp_path: Path) -> None:
    assert check(judged(torch(tmp_path, elves.hip_library(data)), ROCM), "intact").status == "wrong"


def test_a_code_object_of_an_older_version_says_its_target_without_modes(tmp_path: Path) -> None:
    old = elves.code_object("gfx942", flags=0x4C | 0x100, abi=1)
    report = judged(torch(tmp_path, elves.hip_library(elves.bundle(gfx942=old))), ROCM)
    assert check(report, "gpu").status == "right"


@pytest.mark.parametrize("method", [0, 1])
def test_a_bomb_is_refused_before_it_is_unpacked(method: int) -> None:
    bomb = elves.compressed(bytes(1 << 30), 3, method)
    start = time.process_time()
    with pytest.raises(Damaged) as caught:
        look(elves.hip_library(bomb))
    assert "bomb" in caught.value.message
    assert time.process_time() - start < 5


def test_a_thousand_small_bombs_are_refused() -> None:
    bomb = elves.compressed(BOTH + bytes(20 << 20), 1)
    with pytest.raises(Damaged) as caught:
        look(elves.hip_library(*[bomb] * 1000))
    assert "bomb" in caught.value.message


def test_what_follows_a_bomb_is_not_part_of_it() -> None:
    bomb = elves.compressed(BOTH + bytes(20 << 20), 1)  # which does not say where it ends
    with pytest.raises(Damaged) as caught:
        look(elves.hip_library(bomb, bytes(1 << 20)))
    assert "bomb" in caught.value.message


@pytest.mark.parametrize(("objects", "refused"), [(1000, False), (1001, True)])
def test_a_bundle_of_more_than_a_thousand_objects_is_refused(objects: int, refused: bool) -> None:
    data = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", objects) + bytes(24 * objects)
    with pytest.raises(Damaged) if refused else contextlib.nullcontext():
        look(elves.hip_library(data))


@settings(max_examples=200)
@given(st.integers(0, 2**32), st.integers(1, 8))
def test_flipped_bytes_raise_nothing_but_a_problem(seed: int, count: int) -> None:
    source = random.Random(seed)
    data = bytearray(SEVERAL)
    for _ in range(count):
        data[source.randrange(len(data))] = source.randrange(256)
    with contextlib.suppress(Damaged):
        look(bytes(data))


def test_bundles_are_found_where_sections_have_no_names(tmp_path: Path) -> None:
    whole = elves.hip_library(BOTH, elves.compressed(BOTH), elves.compressed(BOTH, 1, 0))
    path = tmp_path / "libtorch_hip.so"
    path.write_bytes(whole[:40] + bytes(8) + whole[48:58] + bytes(6) + whole[64:])  # no section table
    assert listed(verify(path, None, CATALOG)) == {"hsaco gfx942": 3, "hsaco gfx1100": 3}


@pytest.mark.parametrize(
    ("name", "data", "code"),
    [
        ("k.hsaco", elves.code_object("gfx90a:sramecc+:xnack-"), {"hsaco gfx90a:sramecc+:xnack-": 1}),
        ("k.co", elves.compressed(BOTH, 2), {"hsaco gfx942": 1, "hsaco gfx1100": 1}),
        ("k.hipfb", BOTH, {"hsaco gfx942": 1, "hsaco gfx1100": 1}),
        ("k.metallib", elves.metallib(), {"metallib macos14.0": 1}),
    ],
)
def test_a_file_of_gpu_code_is_listed_without_a_name(
    name: str, data: bytes, code: dict[str, int], tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(data)
    report = verify(tmp_path / name, None, CATALOG)
    assert (report.ok, listed(report)) == (True, code)
    (tmp_path / name).write_bytes(data[:40])
    assert not verify(tmp_path / name, None, CATALOG).ok


def test_every_place_that_a_backend_names_is_read() -> None:
    for backend in CATALOG.backends.values():
        assert is_read(backend.code) == bool(backend.code)
        for place in backend.code:
            assert not place.startswith("*.") or GPU_FILES.search(place)
    assert not is_read([".nova_code"])


def test_without_zstd_only_what_is_compressed_by_it_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torchsmith.artifact.bundle.zstd", None)
    for name, data in {"plain": BOTH, "zlib": elves.compressed(BOTH, 2, 0)}.items():
        assert judged(torch(tmp_path / name, elves.hip_library(data)), ROCM).verified
    with pytest.raises(MissingRequirement) as caught:
        judged(torch(tmp_path / "zstd", elves.hip_library(elves.compressed(BOTH))), ROCM)
    assert "backports.zstd" in caught.value.hint


MAC = "pytorch-python313-darwin-mps"


def mac(folder: Path, library: bytes) -> Path:
    """A torch for a Mac, whose other library is right."""
    files: dict[str, bytes | str] = {
        "torch/version.py": "__version__ = '2.9.1'\ncuda: Optional[str] = None\nhip: Optional[str] = None\n",
        "torch/lib/libtorch_cpu.dylib": library,
        "torch/_C.cpython-313-darwin.so": elves.macho(),
    }
    return site(folder, files)


@pytest.mark.parametrize(
    ("library", "wrong"),
    [
        (elves.macho(inside=elves.metallib()), set()),
        (elves.macho(), set()),  # its shaders are compiled when it runs
        (elves.macho(inside=elves.metallib(system=0x82)), {"gpu"}),
        (elves.macho(cpu=0x01000007), {"system", "architecture"}),
        (elves.macho(platform=2), {"intact"}),
        (elves.macho()[:40], {"intact"}),
        (elves.Library().build(), {"system", "architecture"}),
        (elves.hip_library(BOTH), {"system", "architecture", "gpu"}),
    ],
)
def test_a_build_for_a_mac_is_judged_by_its_libraries_and_metal_s(
    library: bytes, wrong: set[str], tmp_path: Path
) -> None:
    report = judged(mac(tmp_path, library), MAC)
    assert {found.id for found in report.checks if found.status == "wrong"} == wrong
    assert report.verified == (not wrong), report.checks


@pytest.mark.parametrize(
    ("library", "runs"),
    [
        (elves.macho(inside=elves.metallib()), True),
        (elves.macho(), True),
        (elves.macho(cpu=0x01000007), False),
        (elves.Library().build(), False),
    ],
)
def test_whether_a_mac_runs_it_is_answered_by_the_name_of_its_chip(
    library: bytes, runs: bool, call: Call, tmp_path: Path
) -> None:
    path = mac(tmp_path, library)
    asked = call("verify", str(path), "--gpu", "Apple M1 + RTX 4090", "--json")
    assert [(row["sm"], row["runs"]) for row in json.loads(asked.out)["gpus"]] == [
        ("mps", runs),
        ("sm89", False),
    ]


def test_of_another_package_for_a_mac_it_is_not_known_what_it_compiles_when_it_runs(
    call: Call, tmp_path: Path
) -> None:
    path = tmp_path / "_C.so"
    path.write_bytes(elves.macho())
    asked = call("verify", str(path), "--gpu", "Apple M1", "--json")
    assert [row["runs"] for row in json.loads(asked.out)["gpus"]] == [None]
    assert asked.code == 0


@pytest.mark.parametrize(
    "name", [ROCM, "pytorch-python313-cpu-armv9", "pytorch-python313-cuda13_0-sm90-avx2"]
)
def test_a_build_for_a_mac_is_refused_under_every_other_name(name: str, tmp_path: Path) -> None:
    report = judged(mac(tmp_path, elves.macho(inside=elves.metallib())), name)
    assert "wrong" in {found.status for found in report.checks if found.id in ("machine", "system")}


@settings(max_examples=100)
@given(st.binary(max_size=200))
def test_no_bytes_of_a_library_of_macos_raise_anything_but_a_problem(data: bytes) -> None:
    with source_of(b"\xcf\xfa\xed\xfe" + data) as source, contextlib.suppress(Damaged):
        read_macho(source)
