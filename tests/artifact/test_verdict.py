"""A name is a promise: what is there, missing or too much is told, with the GPUs and CPUs concerned."""

from __future__ import annotations

import re
import struct
import zipfile
from pathlib import Path

import pytest

from tests.artifact import elves
from torchsmith.artifact import iced
from torchsmith.artifact.check import Check
from torchsmith.artifact.cpu import clipped
from torchsmith.artifact.elf import HEADER
from torchsmith.artifact.gpu import Service
from torchsmith.artifact.report import Report, verify
from torchsmith.artifact.verdict import variant_in
from torchsmith.catalog import builtin_catalog
from torchsmith.catalog.recorded import CXX_MARK
from torchsmith.core.problem import Problem
from torchsmith.matrix import Variant

CATALOG = builtin_catalog()
AVX2, AVX512, SSE, SVE, NOP_ARM = (
    b"\xc5\xed\xfc\xd9",
    b"\x62\xf1\x6d\x48\xfc\xd9",
    b"\x0f\x58\xd1",
    b"\xe0\xe3\x18\x25",
    b"\x1f\x20\x03\xd5",
)
EXACT, FAMILY = 0x100011, 0x200011


def site(folder: Path, files: dict[str, bytes | str]) -> Path:
    """A site-packages folder with torch in it."""
    root = folder / "lib" / "python3.13" / "site-packages"
    files = {"torch/version.py": "__version__ = '2.10.0'\ncuda: Optional[str] = '13.0'\n", **files}
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
    return folder


def gpu(*targets: list[bytes]) -> bytes:
    return elves.gpu_library(*(elves.container(*entries) for entries in targets))


def judged(path: Path, name: str) -> Report:
    return verify(path, Variant.parse(name, CATALOG), CATALOG)


def check(report: Report, id: str) -> Check:
    return next(check for check in report.checks if check.id == id)


def service(report: Report, sm: str) -> Service:
    return next(found for found in report.services if str(found.sm) == sm)


def native(report: Report) -> list[str]:
    """The GPUs that need to compile nothing."""
    return [service.sm for service in report.services if service.verdict in ("native", "compatible")]


def test_a_build_for_its_gpu_is_right(tmp_path: Path) -> None:
    path = site(tmp_path, {"torch/lib/libtorch_cuda.so": gpu([elves.entry(120)], [elves.entry(120)])})
    report = judged(path, "pytorch-python313-cuda13_0-sm120-avx2")
    assert check(report, "gpu").status == "right"
    assert native(report) == ["sm120"]
    assert not [found for found in report.checks if found.id == "waste"]


def test_code_for_another_gpu_of_the_generation_runs_but_breaks_the_promise(tmp_path: Path) -> None:
    path = site(tmp_path, {"torch/lib/libtorch_cuda.so": gpu([elves.entry(86)])})
    report = judged(path, "pytorch-python313-cuda13_0-sm89-avx2")
    assert "sm89" in native(report)
    assert check(report, "gpu").status == "wrong"
    assert not service(report, "sm89").exact


def test_a_gpu_with_code_of_its_own_in_few_containers_runs_compatible_code(tmp_path: Path) -> None:
    """PyTorch's wheels have code for sm89 in 3 of 568 containers."""
    few, rest = [elves.entry(86), elves.entry(89)], [elves.entry(86)]
    path = site(tmp_path, {"torch/lib/libtorch_cuda.so": gpu(few, *[rest] * 9)})
    report = judged(path, "pytorch-python313-cuda13_0-sm89-avx2")
    found = service(report, "sm89")
    assert (found.verdict, found.native, found.compatible, found.by) == ("compatible", 1, 9, ("sm86",))
    assert service(report, "sm86").verdict == "native"
    assert "1 of 10 compiled files have native code for sm89" in check(report, "gpu").text
    assert not [found for found in report.checks if found.id == "waste"], "a 4090 runs what is for sm86"


def test_code_for_one_maker_is_not_missed_in_libraries_for_another(tmp_path: Path) -> None:
    hip = elves.hip_library(elves.bundle("gfx942"))
    path = site(
        tmp_path, {"torch/lib/libtorch_cuda.so": gpu([elves.entry(90)]), "torch/lib/libtorch_hip.so": hip}
    )
    report = verify(path, None, CATALOG)
    assert (service(report, "sm90").verdict, service(report, "gfx942").verdict) == ("native", "native")


def test_code_for_another_gpu_does_not_run(tmp_path: Path) -> None:
    path = site(tmp_path, {"torch/lib/libtorch_cuda.so": gpu([elves.entry(90)])})
    report = judged(path, "pytorch-python313-cuda13_0-sm120-avx2")
    assert (check(report, "gpu").status, service(report, "sm120").verdict) == ("wrong", "no")


def test_a_container_without_the_target_is_counted(tmp_path: Path) -> None:
    path = site(tmp_path, {"torch/lib/libtorch_cuda.so": gpu([elves.entry(90)], [elves.entry(120)])})
    report = judged(path, "pytorch-python313-cuda13_0-sm120-avx2")
    found = service(report, "sm120")
    assert (check(report, "gpu").status, found.verdict, found.none, found.total) == ("wrong", "partly", 1, 2)


@pytest.mark.parametrize(("others", "status"), [(4, "right"), (5, "wrong")])
def test_the_four_kernels_that_nccl_has_for_one_target_alone_are_not_missing(
    tmp_path: Path, others: int, status: str
) -> None:
    nccl = [[elves.entry(100, flags=FAMILY)]] * others
    path = site(tmp_path, {"torch/lib/libtorch_cuda.so": gpu(*[[elves.entry(90)]] * 9, *nccl)})
    assert check(judged(path, "pytorch-python313-cuda13_0-sm90-avx2"), "gpu").status == status


def test_ptx_alone_is_compiled_at_first_start(tmp_path: Path) -> None:
    path = site(tmp_path, {"torch/lib/libtorch_cuda.so": gpu([elves.entry(90, kind=1)])})
    report = judged(path, "pytorch-python313-cuda13_0-sm120-avx2")
    assert check(report, "gpu").status == "wrong"
    assert native(report) == []
    compiled = {service.sm for service in report.services if service.verdict == "jit"}
    assert compiled == {"sm90", "sm100", "sm103", "sm120"}


def test_code_that_is_still_to_be_linked_is_called_so_and_runs_nowhere(tmp_path: Path) -> None:
    path = site(tmp_path, {"torch/lib/libtorch_cuda.so": gpu([elves.entry(90, kind=8)])})
    report = judged(path, "pytorch-python313-cuda13_0-sm90-avx2")
    assert [row.kind for row in report.gpu] == ["lto"]
    assert check(report, "gpu").status == "wrong"


def test_containers_of_a_library_have_a_limit_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torchsmith.artifact.readers.MOST_ENTRIES", 4)
    faults = {}
    for count in (2, 3):
        library = gpu(*[[elves.entry(90)]] * count)
        report = verify(site(tmp_path / str(count), {"torch/lib/libtorch_cuda.so": library}), None, CATALOG)
        faults[count] = len([check for check in report.checks if check.id == "intact"])
    assert faults[3] == faults[2] + 1


def test_exact_code_serves_one_gpu_and_family_code_its_family(tmp_path: Path) -> None:
    exact = site(tmp_path / "a", {"torch/lib/libtorch_cuda.so": gpu([elves.entry(100, flags=EXACT)])})
    family = site(tmp_path / "f", {"torch/lib/libtorch_cuda.so": gpu([elves.entry(100, flags=FAMILY)])})
    name = "pytorch-python313-cuda13_0-sm100-avx2"
    assert native(judged(exact, name)) == ["sm100"]
    assert native(judged(family, name)) == ["sm100", "sm103"]


def test_code_for_other_targets_is_waste_in_bytes(tmp_path: Path) -> None:
    entries = [
        elves.entry(120, payload=1024),
        elves.entry(90, payload=2 << 20),
        elves.entry(80, payload=1 << 20),
    ]
    path = site(tmp_path, {"torch/lib/libtorch_cuda.so": gpu(entries)})
    waste = check(judged(path, "pytorch-python313-cuda13_0-sm120-avx2"), "waste")
    assert re.fullmatch("3 MiB of 3 MiB .*: sm80, sm90", waste.text)


def test_gpu_code_in_a_cpu_build_is_wrong(tmp_path: Path) -> None:
    path = site(tmp_path, {"torch/lib/libtorch_cuda.so": gpu([elves.entry(90)])})
    report = judged(path, "pytorch-python313-cpu-avx2")
    assert check(report, "gpu").status == "wrong"
    assert check(report, "cuda").status == "wrong"


def test_another_python_or_cuda_than_the_name_says_is_wrong(tmp_path: Path) -> None:
    path = site(tmp_path, {"torch/lib/libtorch_cuda.so": gpu([elves.entry(120)])})
    report = judged(path, "pytorch-python312-cuda12_9-sm120-avx2")
    assert (check(report, "python").status, report.python) == ("wrong", "3.13")
    assert check(report, "cuda").status == "wrong"


def test_a_companions_own_libraries_are_judged_in_an_environment_with_torch(tmp_path: Path) -> None:
    files: dict[str, bytes | str] = {
        "torch/lib/libtorch_cuda.so": gpu([elves.entry(120)]),
        "torchvision/version.py": "__version__ = '0.25.0'\n",
        "torchvision/_C.so": gpu([elves.entry(75), elves.entry(80)]),
        "numpy/core/a.so": b"not looked at",
    }
    path = site(tmp_path, files)
    assert check(judged(path, "torchvision-python313-cuda13_0-sm120-avx2"), "gpu").status == "wrong"
    assert check(judged(path, "pytorch-python313-cuda13_0-sm120-avx2"), "gpu").status == "right"


def functions(code: bytes, count: int, prefix: str = "_ZN2at6native1f") -> dict[str, bytes]:
    return {f"{prefix}{index}Ev": code for index in range(count)}


@pytest.mark.parametrize(("code", "status"), [({}, "note"), (functions(SSE, 1), "right")])
def test_of_no_function_nothing_is_claimed(tmp_path: Path, code: dict[str, bytes], status: str) -> None:
    library = elves.code_library(code | functions(AVX512, 3, "_ZN2at6native6AVX5121f"))
    path = site(tmp_path, {"torch/lib/libtorch_cpu.so": library})
    assert check(judged(path, "pytorch-python313-cpu-avx2"), "within").status == status


AVX512_LINE = f"{CXX_MARK} {' '.join(CATALOG.isas['avx512'].flags)} -O2"
AVX2_LINE = f"{CXX_MARK} {' '.join(CATALOG.isas['avx2'].flags)} -O2"


def test_every_library_of_the_package_is_judged_or_named(tmp_path: Path) -> None:
    name, right = "pytorch-python313-cpu-avx2", elves.code_library(functions(AVX2, 40))
    path = site(tmp_path, {"torch/lib/libtorch_cpu.so": right})
    for data, status, id in (
        (Path("/bin/true").read_bytes(), "wrong", "intact"),
        (elves.code_library(functions(AVX512 * 400, 40, "somebody_")), "unjudged", "within"),
    ):
        site(tmp_path, {"torch/_D.abi3.so": data})
        found = [one for one in judged(path, name).checks if "_D.abi3.so" in one.text and one.id == id]
        assert [one.status for one in found] == [status]
        assert not judged(path, name).verified


@pytest.mark.parametrize(("package", "status"), [("bitsandbytes", "note"), ("xformers", "wrong")])
def test_code_of_a_package_that_asks_the_cpu_itself_may_hold_more(
    package: str, status: str, tmp_path: Path
) -> None:
    names = [f"_ZN5space4run{n}Ev" for n in range(9)]
    code = dict.fromkeys(names[:8], AVX2) | {names[8]: AVX512}
    path = site(tmp_path, {f"{package}/_C.so": elves.code_library(code)})
    assert check(judged(path, f"{package}-python313-cuda13_0-sm90-avx2"), "within").status == status


def test_a_function_beyond_the_set_is_named(tmp_path: Path) -> None:
    code = functions(AVX2, 5) | {"_ZN2at6native4fastEv": b"\x90" + AVX512}
    path = site(tmp_path, {"torch/lib/libtorch_cpu.so": elves.code_library(code)})
    within = check(judged(path, "pytorch-python313-cpu-avx2"), "within")
    assert within.status == "wrong"
    assert "_ZN2at6native4fastEv" in within.text
    assert "libtorch_cpu.so" in within.text
    assert "SIGILL" in within.hint


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("_ZN2at6native6AVX5124fastEv", ""),
        ("_ZN2at6native12_GLOBAL__N_14fastEv", "Sum.cpp.AVX512.cpp"),
        ("mkl_blas_avx512_sgemm", ""),
        ("_ZN4dnnl4impl3cpu3x644fastEv", ""),
        ("xnn_f32_gemm_ukernel__avx512f", ""),
        ("_ZN6caffe248EmbeddingLookupIdx_int32_t_float_float_true__avx512Ev", ""),
    ],
)
def test_code_that_is_chosen_at_run_time_raises_no_alarm(name: str, unit: str, tmp_path: Path) -> None:
    code = functions(AVX2, 5) | {name: AVX512}
    data = elves.code_library(code, {name: unit} if unit else {})
    path = site(tmp_path, {"torch/lib/libtorch_cpu.so": data})
    assert check(judged(path, "pytorch-python313-cpu-avx2"), "within").status == "right"


@pytest.mark.parametrize("unit", ["Sum.cpp", "Sum.cpp.DEFAULT.cpp"])
def test_local_functions_are_judged_by_the_file_they_come_from(unit: str, tmp_path: Path) -> None:
    name = "_ZN2at6native12_GLOBAL__N_14fastEv"
    data = elves.code_library(functions(AVX2, 5) | {name: AVX512}, {name: unit})
    path = site(tmp_path, {"torch/lib/libtorch_cpu.so": data})
    within = check(judged(path, "pytorch-python313-cpu-avx2"), "within")
    assert (within.status, name in within.text) == ("wrong", True)


def test_a_hidden_function_is_not_of_the_file_that_the_table_names_before_it(tmp_path: Path) -> None:
    """PyTorch's linker names no file before the inline functions that it took from dispatched units."""
    name = "_ZN3c1015checked_convertINS_11Float8_e5m2ENS_7complexIdEEEET_T0_PKc"
    code = functions(SSE, 5) | functions(AVX2, 1, "_ZN2at6native4AVX21f") | {name: AVX2}
    path = site(tmp_path, {"torch/lib/libtorch_cpu.so": b""})
    for hidden, features in (((), ("avx", "avx2")), ([name], ())):
        data = elves.code_library(code, {name: "offloadstuff.c"}, hidden=hidden)
        site(tmp_path, {"torch/lib/libtorch_cpu.so": data})
        cpu = verify(path, None, CATALOG).cpu
        assert cpu is not None
        assert cpu.features == features
        assert all(feature in cpu.text for feature in features) or not features
        assert ("runs on any" in cpu.text) == (not features)


def test_sve_in_an_armv8_build_is_found(tmp_path: Path) -> None:
    code = functions(NOP_ARM, 5) | {"_ZN2at6native4fastEv": SVE}
    path = site(tmp_path, {"torch/lib/libtorch_cpu.so": elves.code_library(code, machine=elves.AARCH64)})
    report = judged(path, "pytorch-python313-cpu-armv8_2")
    assert check(report, "within").status == "wrong"
    assert report.cpu
    assert report.cpu.features == ("sve",)
    assert check(judged(path, "pytorch-python313-cpu-armv9"), "within").status == "right"


def test_a_build_for_another_architecture_is_wrong(tmp_path: Path) -> None:
    path = site(tmp_path, {"torch/lib/libtorch_cpu.so": elves.code_library(functions(AVX2, 5))})
    assert "x86_64" in check(judged(path, "pytorch-python313-cpu-armv9"), "machine").text


def test_one_function_among_thousands_is_seen(tmp_path: Path) -> None:
    code = functions(AVX2, 20_000) | {"_ZN2at6native4fastEv": AVX512}
    path = site(tmp_path, {"torch/lib/libtorch_cpu.so": elves.code_library(code)})
    assert "_ZN2at6native4fastEv" in check(judged(path, "pytorch-python313-cpu-avx2"), "within").text


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("_ZNSt6vectorIN2at6TensorESaIS1_EE17_M_realloc_insertIJRS1_EEEvv", ""),
        ("THPVariable_Wrap", ""),
        ("PyInit__C", ""),
        ("_GLOBAL__sub_I_Sum.cpp", "Sum.cpp"),
    ],
)
def test_code_that_runs_everywhere_is_judged_whatever_its_name(name: str, unit: str, tmp_path: Path) -> None:
    local = "_ZN2at6native12_GLOBAL__N_13sumEv"
    units = {local: "Sum.cpp"} | ({name: unit} if unit else {})
    data = elves.code_library(functions(AVX2, 5) | {local: AVX2, name: AVX512}, units)
    path = site(tmp_path, {"torch/lib/libtorch_cpu.so": data})
    assert name in check(judged(path, "pytorch-python313-cpu-avx2"), "within").text


def test_the_library_output_of_a_nix_package_is_found_through_its_link(tmp_path: Path) -> None:
    libraries = tmp_path / "lib-output" / "lib"
    libraries.mkdir(parents=True)
    (libraries / "libtorch_cuda.so").write_bytes(gpu([elves.entry(120)]))
    path = site(tmp_path / "out", {})
    (path / "lib" / "python3.13" / "site-packages" / "torch" / "lib").symlink_to(libraries)
    for output in (path, tmp_path / "lib-output"):
        report = judged(output, "pytorch-python313-cuda13_0-sm120-avx2")
        assert check(report, "gpu").status == "right"


def test_code_from_before_device_linking_is_counted_but_never_launched(tmp_path: Path) -> None:
    parts = [
        elves.Part("__nv_relfatbin", elves.container(elves.entry(80)) + elves.container(elves.entry(80))),
        elves.Part(".nv_fatbin", elves.container(elves.entry(120))),
    ]
    path = site(tmp_path, {"torch/lib/libtorch_nvshmem.so": elves.Library(parts).build()})
    report = judged(path, "pytorch-python313-cuda13_0-sm120-avx2")
    assert (service(report, "sm120").native, service(report, "sm120").total) == (1, 1)
    assert [str(row.target) for row in report.gpu] == ["80", "120"]


def test_a_damaged_library_is_wrong_and_the_others_are_still_judged(tmp_path: Path) -> None:
    files: dict[str, bytes | str] = {
        "torch/lib/libtorch_cpu.so": b"\x7fELF\x02\x01\x01cut off",
        "torch/lib/libtorch_cuda.so": gpu([elves.entry(120)]),
    }
    report = judged(site(tmp_path, files), "pytorch-python313-cuda13_0-sm120-avx2")
    assert (check(report, "intact").status, "libtorch_cpu.so" in check(report, "intact").text) == (
        "wrong",
        True,
    )
    assert check(report, "gpu").status == "right"


@pytest.mark.parametrize(
    ("name", "variant"),
    [
        ("result-pytorch-python313-cuda13_0-sm120-avx512", "pytorch-python313-cuda13_0-sm120-avx512"),
        (
            "abc123-pytorch210-python313-cuda13_0-sm90-avx2-2.10.0-lib",
            "pytorch-python313-cuda13_0-sm90-avx2",
        ),
        ("result-torchvision-python312-cpu-armv9-dev", "torchvision-python312-cpu-armv9"),
        ("torch-2.10.0-cp313-cp313-manylinux_2_28_x86_64.whl", None),
    ],
)
def test_the_promise_is_read_from_the_path(name: str, variant: str | None, tmp_path: Path) -> None:
    found = variant_in(tmp_path / name, CATALOG)
    assert (found.name if found else None) == variant


def test_the_promise_is_read_from_the_store_path_behind_a_link(tmp_path: Path) -> None:
    store = tmp_path / "abc-pytorch210-python313-cpu-avx2-2.10.0"
    store.mkdir()
    (store / "lib").mkdir()
    (tmp_path / "result").symlink_to(store)
    for path in (tmp_path / "result", tmp_path / "result" / "lib"):
        found = variant_in(path, CATALOG)
        assert found is not None
        assert found.name == "pytorch-python313-cpu-avx2"


def linked(*needed: str, runpath: str = "") -> bytes:
    """A library with one container for sm120 that asks the loader for others."""
    strings, rows = b"\0", b""
    for tag, text in [(1, name) for name in needed] + ([(29, runpath)] if runpath else []):
        rows += struct.pack("<qQ", tag, len(strings))
        strings += text.encode() + b"\0"
    parts = [
        elves.Part(".dynamic", rows + bytes(16), kind=6, link=2),
        elves.Part(".dynstr", strings, kind=3),
        elves.Part(".nv_fatbin", elves.container(elves.entry(120))),
    ]
    return elves.Library(parts).build()


def statuses(report: Report, id: str) -> set[str]:
    return {check.status for check in report.checks if check.id == id}


@pytest.mark.parametrize("release", ["12_6", "12_9"])
def test_a_release_built_for_another_minor_release_of_cuda_is_wrong(release: str, tmp_path: Path) -> None:
    files: dict[str, bytes | str] = {
        "torchvision/version.py": "__version__ = '0.25.0+cu128'\n",
        "torchvision/_C.so": linked("libcudart.so.12"),
    }
    path = site(tmp_path, files)
    (path / "lib" / "python3.13" / "site-packages" / "torch" / "version.py").unlink()
    for name, status in ((release, "wrong"), ("12_8", "right")):
        report = judged(path, f"torchvision-python313-cuda{name}-sm120-avx2")
        assert statuses(report, "cuda") == {status}


def test_the_folder_of_the_run_time_tells_the_minor_release_of_cuda(tmp_path: Path) -> None:
    runpath = "/nix/store/abc-cuda12.8-cuda_cudart-12.8.90-lib/lib"
    path = tmp_path / "torchvision"
    path.mkdir()
    (path / "_C.so").write_bytes(linked("libcudart.so.12", runpath=runpath))
    assert "wrong" in statuses(judged(tmp_path, "torchvision-python313-cuda12_6-sm120-avx2"), "cuda")
    assert "wrong" not in statuses(judged(tmp_path, "torchvision-python313-cuda12_8-sm120-avx2"), "cuda")


def test_a_run_time_of_another_cuda_than_version_py_says_is_wrong(tmp_path: Path) -> None:
    path = site(tmp_path, {"torch/lib/libtorch_cuda.so": linked("libcudart.so.12")})
    assert "wrong" in statuses(judged(path, "pytorch-python313-cuda13_0-sm120-avx2"), "cuda")
    alone = verify(path, None, CATALOG)
    assert statuses(alone, "cuda") == {"wrong"}


@pytest.mark.parametrize("how", ["module", "tag", "folder"])
def test_a_build_for_the_free_threaded_python_is_not_for_the_other(how: str, tmp_path: Path) -> None:
    library = elves.gpu_library(elves.container(elves.entry(120)))
    names = {
        "module": "torch/_C.cpython-313t-x86_64-linux-gnu.so",
        "tag": "torch/_C.so",
        "folder": "lib/python3.13t/site-packages/torch/_C.so",
    }
    path = tmp_path / "torch.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(names[how], library)
        if how == "tag":
            archive.writestr("torch-2.10.0.dist-info/WHEEL", "Tag: cp313-cp313t-manylinux_2_28_x86_64\n")
    report = judged(path, "pytorch-python313-cuda13_0-sm120-avx2")
    assert (check(report, "python").status, report.python) == ("wrong", "3.13t")


def test_a_gpu_that_nobody_knows_is_an_error(tmp_path: Path) -> None:
    path = site(tmp_path, {"torch/lib/libtorch_cuda.so": gpu([elves.entry(99)])})
    assert check(judged(path, "pytorch-python313-cuda13_0-sm99-avx2"), "gpu").status == "wrong"


@pytest.mark.parametrize(("lacking", "status"), [(22, "wrong"), (1, "wrong"), (0, "right")])
def test_one_container_without_the_target_is_too_many(lacking: int, status: str, tmp_path: Path) -> None:
    containers = [[elves.entry(80 if index < lacking else 90)] for index in range(456)]
    path = site(tmp_path, {"torch/lib/libtorch_cuda.so": gpu(*containers)})
    report = judged(path, "pytorch-python313-cuda13_0-sm90-avx2")
    found = service(report, "sm90")
    assert (check(report, "gpu").status, found.none, found.total) == (status, lacking, 456)


def test_a_small_library_without_the_target_is_not_hidden_by_a_large_one(tmp_path: Path) -> None:
    files: dict[str, bytes | str] = {
        "torch/lib/libtorch_cuda.so": gpu(*([elves.entry(90)] for _ in range(456))),
        "torch/lib/libtorch_nvshmem.so": gpu([elves.entry(80)]),
    }
    report = judged(site(tmp_path, files), "pytorch-python313-cuda13_0-sm90-avx2")
    wrong = [found.text for found in report.checks if found.id == "gpu"]
    assert [Path(text.partition(":")[0]).name for text in wrong] == ["libtorch_nvshmem.so"]
    assert "sm90" not in native(report)


def test_a_torch_without_its_main_library_is_wrong(tmp_path: Path) -> None:
    library = gpu([elves.entry(120)])
    path = site(tmp_path, {"torch/lib/libtorch_cuda.so": library})
    for name in (None, Variant.parse("pytorch-python313-cuda13_0-sm120-avx2", CATALOG)):
        report = verify(path, name, CATALOG)
        assert not report.ok
        assert "libtorch_cpu" in check(report, "intact").text
    (path / "lib/python3.13/site-packages/torch/lib/libtorch_cpu.so").write_bytes(library)
    (path / "lib/python3.13/site-packages/functorch").mkdir()
    (path / "lib/python3.13/site-packages/functorch/_C.so").write_bytes(library)
    assert "torch/_C" in check(verify(path, None, CATALOG), "intact").text
    (path / "lib/python3.13/site-packages/torch/_C.cpython-313-x86_64-linux-gnu.so").write_bytes(library)
    assert verify(path, None, CATALOG).ok


def without_sections(data: bytes) -> bytes:
    """What `strip --strip-section-headers` leaves."""
    fields = list(HEADER.unpack_from(data))
    fields[6] = fields[12] = fields[13] = 0
    return HEADER.pack(*fields) + data[HEADER.size :]


def test_gpu_code_is_found_where_section_headers_were_removed(tmp_path: Path) -> None:
    library = gpu(*([elves.entry(90), elves.entry(120)] for _ in range(3)))
    path = site(tmp_path, {"torch/lib/libtorch_cuda.so": without_sections(library)})
    report = judged(path, "pytorch-python313-cpu-avx2")
    assert check(report, "gpu").status == "wrong"
    assert [(str(row.target), row.containers) for row in report.gpu] == [("90", 3), ("120", 3)]
    assert check(report, "intact").status == "wrong"


def test_a_number_that_only_looks_like_gpu_code_is_none(tmp_path: Path) -> None:
    noise = b"\x50\xed\x55\xba" * 5000
    library = without_sections(elves.gpu_library(noise + elves.container(elves.entry(120))))
    path = site(tmp_path, {"torch/lib/libtorch_cuda.so": library})
    assert verify(path, None, CATALOG).containers == 1


def complete(folder: Path, files: dict[str, bytes | str] | None = None, line: str = AVX2_LINE) -> Path:
    """A torch for avx2 with all that it needs; every library records how it was compiled."""
    library = elves.code_library(functions(AVX2, 5), recorded=[line])
    parts: dict[str, bytes | str] = {
        "torch/version.py": "__version__ = '2.10.0'\n",
        "torch/lib/libtorch_cpu.so": library,
        "torch/_C.cpython-313-x86_64-linux-gnu.so": library,
    }
    return site(folder, parts | (files or {}))


NAME = "pytorch-python313-cpu-avx2"


def test_without_a_look_at_the_cpu_nothing_is_verified(tmp_path: Path) -> None:
    path, variant = complete(tmp_path), Variant.parse(NAME, CATALOG)
    report = verify(path, variant, CATALOG, cpu=False)
    assert (check(report, "cpu").status, check(report, "cpu").hint) == ("unjudged", "")
    assert (report.ok, report.verified) == (True, False)
    assert verify(path, variant, CATALOG).verified


def test_x86_code_is_not_judged_where_its_decoder_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(iced, "INSTALLED", False)
    report = judged(complete(tmp_path), NAME)
    assert (check(report, "cpu").status, check(report, "cpu").hint) == ("unjudged", iced.MISSING)
    assert not [found for found in report.checks if found.id == "within"]
    assert (check(report, "flags").status, report.verified) == ("right", False)


def test_a_wheel_of_any_package_is_listed(tmp_path: Path) -> None:
    path = tmp_path / "bitsandbytes-0.50.2-py3-none-manylinux_2_24_x86_64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("bitsandbytes/lib_cuda128.so", linked("libcudart.so.12"))
        archive.writestr("bitsandbytes/lib_cuda130.so", linked("libcudart.so.13"))
        archive.writestr("bitsandbytes.libs/libgomp.so.1", elves.Library().build())
        metadata = "Metadata-Version: 2.4\nName: bitsandbytes\nVersion: 0.50.2\n"
        archive.writestr("bitsandbytes-0.50.2.dist-info/METADATA", metadata)
    report = verify(path, None, CATALOG)
    assert report.ok
    assert report.versions == {"bitsandbytes": "0.50.2"}
    assert report.releases["CUDA"] == "12, 13"
    assert [(str(row.target), row.containers) for row in report.gpu] == [("120", 2)]
    assert native(report) == ["sm120"]
    with pytest.raises(Problem) as caught:
        judged(path, "pytorch-python313-cuda13_0-sm120-avx2")
    assert caught.value.exit == 2


def test_what_a_wheel_needs_and_does_not_bring_is_listed(tmp_path: Path) -> None:
    path = tmp_path / "torchvision-0.26.0-cp313-cp313-manylinux_2_28_x86_64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("torchvision/version.py", "__version__ = '0.26.0'\n")
        archive.writestr(
            "torchvision/image.so", linked("libc10.so", "libjpeg.so.8", "libc.so.6", "libcuda.so.1")
        )
        archive.writestr("torchvision.libs/libjpeg.so.8", elves.Library().build())
    found = {need.name: need.found for need in verify(path, None, CATALOG).needs}
    assert found == {
        "libc10.so": "elsewhere",
        "libjpeg.so.8": "present",
        "libc.so.6": "system",
        "libcuda.so.1": "system",
    }


def test_a_torch_without_a_library_of_its_own_is_wrong_in_any_wheel(tmp_path: Path) -> None:
    path = tmp_path / "torch-2.10.0-cp313-cp313-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("torch/version.py", "__version__ = '2.10.0'\n")
        archive.writestr("torch/_C.so", elves.Library().build())
        archive.writestr("torch/lib/libtorch_cpu.so", linked("libc10.so", "libopenblas.so.0"))
    report = verify(path, None, CATALOG)
    [check] = [check for check in report.checks if check.id == "intact" and check.status == "wrong"]
    assert "libc10.so" in check.text
    assert "libopenblas" not in check.text


def test_a_name_that_would_fill_a_screen_keeps_its_two_ends() -> None:
    name = f"void at::native::kernel<{'at::Tensor const&, ' * 40}bool>(double)"
    assert len(clipped(name)) < 130
    assert clipped(name).startswith("void at::native::kernel<")
    assert clipped(name).endswith("bool>(double)")
    assert clipped("at::native::add") == "at::native::add"


@pytest.mark.parametrize("kind", ["folder", "wheel"])
def test_progress_is_counted_within_a_file(kind: str, tmp_path: Path) -> None:
    functions = {f"_ZN2at{len(name)}{name}Ev": b"\x90" * 4000 for name in ("one", "three", "seven")}
    path = site(tmp_path, {"torch/lib/libtorch_cpu.so": elves.code_library(functions)})
    if kind == "wheel":
        path = tmp_path / "torch-2.10.0-cp313-cp313-linux_x86_64.whl"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("torch/lib/libtorch_cpu.so", elves.code_library(functions))
    seen: list[tuple[int, int]] = []
    verify(path, None, CATALOG, lambda name, done, total: seen.append((done, total)))
    within = {done for done, total in seen if 0 < done < total}
    assert len(within) > 3, seen
    assert seen == sorted(seen)
