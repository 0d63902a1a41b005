"""`verify` on the command line: what it draws, and what it writes down of a cell's last build."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.artifact import elves
from tests.cli.conftest import Call
from torchsmith.catalog import builtin_catalog
from torchsmith.catalog.recorded import CXX_MARK
from torchsmith.publishing.verified import verify_recipe
from torchsmith.record import Built, VerificationRow, open_record
from torchsmith.workspace.load import open_workspace

NAME = "torchvision-python313-cuda13_0-sm120-avx2"


def library(*entries: bytes) -> bytes:
    return elves.gpu_library(elves.container(*entries))


def built(root: Path, *entries: bytes, names: Sequence[str] = (NAME,)) -> Path:
    """A workspace whose record has a build of one cell, under these names; where that is."""
    (root / "torchsmith.toml").write_text('format = 1\nprofile = "seed"\n')
    module = root / "store/lib/python3.13/site-packages/torchvision/_C.so"
    module.parent.mkdir(parents=True)
    flags = " ".join(builtin_catalog().isas["avx2"].flags)
    code = {"_ZN6vision3runEv": b"\xc3"}
    gpu = elves.container(*entries)
    module.write_bytes(elves.code_library(code, recorded=[f"{CXX_MARK} {flags}"], gpu=gpu))
    (module.parent / "version.py").write_text("__version__ = '0.25.0'\n")
    record = open_record(root)
    for name in names:
        record.note_built(Built(name=name, derivation="/nix/store/a.drv", outputs=(str(root / "store"),)))
    record.close()
    return root / "store"


def verdict(root: Path, name: str = NAME) -> VerificationRow | None:
    record = open_record(root, read_only=True)
    try:
        return record.verdict(str(root / "store"), "/nix/store/a.drv", name)
    finally:
        record.close()


@pytest.mark.parametrize("kind", ["folder", "wheel"])
def test_what_can_be_run_is_offered_to_test(kind: str, call: Call, tmp_path: Path) -> None:
    path = tmp_path / "torchvision-0.25.0-cp313-cp313-linux_x86_64.whl"
    if kind == "folder":
        path = built(tmp_path, elves.entry(120))
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("torchvision/_C.so", library(elves.entry(120)))
    answer = call("verify", str(path))
    offers = "torchsmith test" in answer.err and "with a torch beside it" in answer.err
    assert (answer.code, offers) == (0, kind == "folder")


def test_a_cell_that_was_verified_is_written_down(call: Call, tmp_path: Path) -> None:
    built(tmp_path, elves.entry(120))
    assert call("verify", NAME, "-w", str(tmp_path)).code == 0
    found = verdict(tmp_path)
    assert found is not None
    assert (found.ok, found.derivation) == (True, "/nix/store/a.drv")


def test_a_build_that_breaks_its_promise_is_written_down_as_wrong(call: Call, tmp_path: Path) -> None:
    built(tmp_path, elves.entry(90))
    assert call("verify", NAME, "-w", str(tmp_path)).code == 1
    found = verdict(tmp_path)
    assert found is not None
    assert not found.ok


@pytest.mark.parametrize("half", ["--no-cpu", "--variant"])
def test_what_does_not_judge_all_that_the_name_promises_is_not_written_down(
    half: str, call: Call, tmp_path: Path
) -> None:
    built(tmp_path, elves.entry(120))
    words = [half, NAME] if half == "--variant" else [half]
    assert call("verify", NAME, *words, "-w", str(tmp_path)).code == 0
    assert verdict(tmp_path) is None


def test_a_name_that_two_repositories_have_is_verified_with_its_repository(
    call: Call, tmp_path: Path
) -> None:
    mine, theirs = f"mine/{NAME}", f"theirs/{NAME}"
    built(tmp_path, elves.entry(120), names=(mine, theirs))
    answer = call("verify", mine, "-w", str(tmp_path), "--json")
    assert json.loads(answer.out)["report"]["variant"] == NAME
    found = verdict(tmp_path, mine)
    assert found is not None
    assert found.ok
    assert verdict(tmp_path, theirs) is None
    ambiguous = call("verify", NAME, "-w", str(tmp_path), "--json")
    assert (ambiguous.code, ambiguous.error) == (2, "conflict")
    assert {mine, theirs} <= set(ambiguous.err.replace(",", " ").replace('"', " ").split())


def test_a_plain_name_is_enough_if_one_repository_has_built_it(call: Call, tmp_path: Path) -> None:
    built(tmp_path, elves.entry(120), names=(f"mine/{NAME}",))
    assert call("verify", NAME, "-w", str(tmp_path)).code == 0
    assert verdict(tmp_path, f"mine/{NAME}") is not None
    assert call("verify", f"theirs/{NAME}", "-w", str(tmp_path)).error == "not-found"


def test_a_build_of_a_recipe_that_two_repositories_have_is_verified_after_it(tmp_path: Path) -> None:
    output = built(tmp_path, elves.entry(120))
    row = verify_recipe(open_workspace(tmp_path), f"mine/{NAME}", str(output))
    assert row is not None
    assert (row.name, row.ok) == (f"mine/{NAME}", True)


def test_a_build_is_verified_as_one_of_the_line_that_the_workspace_builds_it_with(tmp_path: Path) -> None:
    output = built(tmp_path, elves.entry(120))
    (tmp_path / "torchsmith.toml").write_text(f'format = 1\nline = "2.9"\ninclude = ["{NAME}"]\n')
    row = verify_recipe(open_workspace(tmp_path), NAME, str(output))
    assert row is not None
    assert not row.ok, "it is of the release of 2.10"


@pytest.mark.parametrize(
    ("gpu", "code", "text"),
    [
        ("RTX 3090", 0, "RTX 3090 (sm86): yes, native code"),
        ("rtx 4090", 0, "rtx 4090 (sm89): yes, by code for sm86"),
        ("sm75", 0, "sm75: yes, compiled by the driver at the first start from code for sm70"),
        ("GTX 980", 1, "GTX 980 (sm52): no: its code is for sm70, sm86"),
        ("GH200", 1, "GH200 (sm90): no: its libraries are for x86_64, the GPU's machine is aarch64"),
        ("g6.xlarge", 0, "g6.xlarge (sm89): yes, by code for sm86"),
        ("g5g.metal", 1, "g5g.metal (sm75): no: its libraries are for x86_64, the GPU's machine is aarch64"),
        ("MI300X", 1, "MI300X (gfx942): no: its code is for sm70, sm86"),
    ],
)
def test_whether_a_gpu_runs_it_is_answered_in_one_line(
    gpu: str, code: int, text: str, call: Call, tmp_path: Path
) -> None:
    path = tmp_path / "libtorch_cuda.so"
    path.write_bytes(library(elves.entry(86), elves.entry(70, kind=1)))
    answer = call("verify", str(path), "--gpu", gpu)
    assert (answer.code, answer.out.strip()) == (code, text)
    asked = json.loads(call("verify", str(path), "--gpu", gpu, "--json").out)["gpus"]
    assert [row["runs"] for row in asked] == [code == 0]


def test_several_gpus_must_all_run_it(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "libtorch_cuda.so"
    path.write_bytes(library(elves.entry(90)))
    assert call("verify", str(path), "--gpu", "2x H100").code == 0
    assert call("verify", str(path), "--gpu", "H100 + L4").code == 1
    assert call("verify", str(path), "--gpu", "H100, L4").code == 1
    assert call("verify", str(path), "--gpu", "H100", "--gpu", "L4").code == 1


@pytest.mark.parametrize("word", ["none", "sm42", "Apple M99", "RTX 4099", "Arc A770"])
def test_a_word_that_names_no_gpu_is_a_wrong_request(word: str, call: Call) -> None:
    assert call("verify", "sample", "--gpu", word).code == 2


def test_a_gpu_in_the_place_of_a_build_is_told_from_one(call: Call) -> None:
    answer = call("verify", "sample", "--variant", "sm89")
    assert answer.code == 2
    assert "--gpu sm89" in answer.err


def test_a_library_that_can_be_started_is_a_library(call: Call, tmp_path: Path) -> None:
    """glibc's own prints its version if it is run."""
    shutil.copy("/bin/true", tmp_path / "true.so")
    assert call("verify", tmp_path / "true.so").code == 1
    maps = Path("/proc/self/maps").read_text().split()
    libc = call("verify", next(word for word in maps if word.endswith("/libc.so.6")))
    assert libc.code == 0
    assert re.search(r"^GPU code +none$", libc.out, re.MULTILINE)


def test_a_file_that_is_not_right_has_its_faults_counted(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "program.so"
    path.write_bytes(library(elves.entry(90))[:200])
    answer = call("verify", str(path))
    assert answer.code == 1
    assert "1 fault found" in answer.out.splitlines()


def test_code_for_a_gpu_in_some_containers_only_is_not_a_yes(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "libtorch_cuda.so"
    path.write_bytes(elves.gpu_library(elves.container(elves.entry(90)), elves.container(elves.entry(80))))
    answer = call("verify", str(path), "--gpu", "H100")
    assert (answer.code, answer.out.strip()) == (
        1,
        "H100 (sm90): no: 1 of 2 compiled files have no code for it",
    )


FAMILY = elves.container(elves.entry(100, flags=0x200011))


@pytest.mark.parametrize(
    ("extra", "text"),
    [
        (2, "yes, native code\n2 of 5 compiled files are for sm100f alone"),
        (3, "no: 3 of 6 compiled files have no code for it"),
    ],
)
def test_code_for_a_family_of_gpus_beside_the_rest_is_not_missed_on_others(
    extra: int, text: str, call: Call, tmp_path: Path
) -> None:
    """NCCL's wheels have it so; a library that was compiled for others alone has as much of it, or more."""
    path = tmp_path / "libnccl.so.2"
    both = elves.container(elves.entry(90), elves.entry(100))
    path.write_bytes(elves.gpu_library(*[both] * 3, *[FAMILY] * extra))
    answer = call("verify", str(path), "--gpu", "H100")
    assert (answer.code, answer.out.strip()) == (int(text.startswith("no")), f"H100 (sm90): {text}")
    [asked] = json.loads(call("verify", str(path), "--gpu", "B200", "--json").out)["gpus"]
    assert asked["runs"], "all of it is for this GPU"
    assert call("verify", str(path)).out.count("for sm100f alone") == (extra == 2)


def test_code_for_a_family_in_one_library_is_not_an_extra_of_another(call: Call, tmp_path: Path) -> None:
    path = built(tmp_path, elves.entry(90))
    (path / "lib/python3.13/site-packages/torchvision/_D.so").write_bytes(elves.gpu_library(FAMILY))
    answer = call("verify", str(path), "--gpu", "H100")
    assert (answer.code, answer.out.strip()) == (
        1,
        "H100 (sm90): no: 1 of 2 compiled files have no code for it",
    )


@pytest.mark.parametrize(
    ("gpu", "runs", "releases"),
    [("RTX 5090", True, "12.8, 13.0"), ("GTX 1080", True, "11.8"), ("H100", True, ""), ("V100", False, "")],
)
def test_of_libraries_that_differ_in_the_release_of_cuda_alone_one_that_runs_is_enough(
    gpu: str, runs: bool, releases: str, call: Call, tmp_path: Path
) -> None:
    path = tmp_path / "bitsandbytes-0.50.2-py3-none-manylinux_2_24_x86_64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for release, targets in (("118", (61, 90)), ("128", (90, 120)), ("130", (90, 120))):
            code = library(*map(elves.entry, targets))
            archive.writestr(f"bitsandbytes/libbitsandbytes_cuda{release}.so", code)
    [asked] = json.loads(call("verify", str(path), "--gpu", gpu, "--json").out)["gpus"]
    assert asked["runs"] is runs
    assert (f"CUDA {releases} alone" in asked["why"]) == bool(releases)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("bitsandbytes/libother.so", library(elves.entry(80)))
    assert call("verify", str(path), "--gpu", gpu).code == 1


@pytest.mark.parametrize(
    ("wheel", "member", "runs"),
    [("triton-3.9.0", "triton/_C/libtriton.so", None), ("torchvision-0.25.0", "torchvision/_C.so", False)],
)
def test_without_gpu_code_a_package_that_compiles_it_runs_on_no_gpu(
    wheel: str, member: str, runs: bool | None, call: Call, tmp_path: Path
) -> None:
    path, (name, _, release) = tmp_path / f"{wheel}-py3-none-linux_x86_64.whl", wheel.partition("-")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(member, elves.code_library({"PyInit_x": b"\xc3"}))
        archive.writestr(f"{name}/version.py", f"__version__ = '{release}'\n")
        archive.writestr(f"{wheel}.dist-info/METADATA", f"Name: {name}\nVersion: {release}\n")
    answer = call("verify", str(path), "--gpu", "RTX 4090", "--json")
    [asked] = json.loads(answer.out)["gpus"]
    assert (answer.code, asked["runs"]) == (int(runs is False), runs)
    assert ("not applicable" in call("verify", str(path), "--gpu", "RTX 4090").out) == (runs is None)


def test_gpus_have_their_products_beside_them(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "libtorch_cuda.so"
    path.write_bytes(library(elves.entry(86)))
    rows = call("verify", str(path)).out.splitlines()
    assert [" ".join(row.split()) for row in rows if " code for " in row][:2] == [
        "native code for sm86 (RTX 30 series)",
        "compatible code for sm89 (RTX 40 series) by code for sm86",
    ]


def test_the_cpus_that_run_it_are_named_in_one_line(call: Call, tmp_path: Path) -> None:
    path = built(tmp_path, elves.entry(120))
    answer = call("verify", str(path), "--variant", NAME)
    assert [row.split(None, 1)[1] for row in answer.out.splitlines() if row.startswith("CPU")] == [
        "runs on any x86_64"
    ]
    assert "functions" not in answer.out.partition("✓")[0]


def test_a_wheel_for_windows_is_refused(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "some-1.0-cp313-cp313-win_amd64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("some/x.cp313-win_amd64.pyd", b"MZ")
    found = call("verify", str(path))
    assert (found.code, found.error) == (2, "invalid")
    assert "for Windows" in found.err
