"""Which flags reached which compiler: compile commands as CMake, ninja and BuildExtension write them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.artifact import elves
from torchsmith.artifact.commands import CompileCommand, object_command, read_commands, uses
from torchsmith.artifact.objects import check_objects
from torchsmith.catalog import builtin_catalog
from torchsmith.core.problem import Problem, Where
from torchsmith.matrix import Variant

CATALOG = builtin_catalog()
VARIANT = Variant.parse("pytorch-python313-cuda13_0-sm90-avx512", CATALOG)
ISA = " ".join(CATALOG.isas["avx512"].flags)
CXX = f"/usr/bin/c++ -DX=1 {ISA} -O2 -fPIC -isystem /i -O3 -DNDEBUG -std=gnu++17 -o a.cpp.o -c /s/a.cpp"
NVCC = (
    "/cuda/bin/nvcc -forward-unknown-to-host-compiler -ccbin=/usr/bin/c++ -DX -Xfatbin -compress-all"
    " -gencode arch=compute_90,code=sm_90 -O3 -std=c++17 -Xcompiler=-fPIC -Xcompiler -Wall,-Wextra"
    " -x cu -c /s/k.cu -o k.cu.o"
)


def one(command: str, file: str = "/s/a.cpp") -> CompileCommand:
    return CompileCommand(file=file, command=command)


@pytest.mark.parametrize(
    ("command", "compiler", "flags", "targets"),
    [
        (CXX, "c++", {"-mavx512f", "-O3", "-fPIC", "-std=gnu++17"}, []),
        (f"cd /b && {CXX}", "c++", {"-mavx512f"}, []),
        (f"/nix/store/x/bin/ccache {CXX}", "c++", {"-mavx512f"}, []),
        (f"LD=1 {CXX}", "c++", {"-mavx512f"}, []),
        (CXX.replace("-DX=1", '-DX="a b"'), "c++", {"-mavx512f"}, []),
        (NVCC, "nvcc", {"-O3"}, ["90"]),
        (f"{NVCC} -gencode arch=compute_90a,code=sm_90a", "nvcc", {"-O3"}, ["90", "90a"]),
        (NVCC.replace("-gencode ", "--generate-code="), "nvcc", {"-O3"}, ["90"]),
        (NVCC.replace("code=sm_90", "code=[compute_90,sm_90]"), "nvcc", {"-O3"}, ["90"]),
        (f"{NVCC} -mavx2", "nvcc", {"-O3"}, ["90"]),
        (f"{NVCC} -Xcompiler=-mavx2,-mfma", "nvcc", {"-O3"}, ["90"]),
        ("nvcc -arch=sm_90 -c k.cu -o k.o -Xcompiler -fPIC", "nvcc", set(), ["90"]),
    ],
)
def test_a_command_is_read(command: str, compiler: str, flags: set[str], targets: list[str]) -> None:
    found = object_command(one(command))
    assert found is not None
    assert found.compiler == compiler
    assert flags <= set(found.flags)
    assert [str(target) for target in found.targets] == targets


@pytest.mark.parametrize("command", ["", "cmake -E touch x", "/usr/bin/c++ a.o -o b.so", '"'])
def test_what_compiles_nothing_is_no_object(command: str) -> None:
    assert object_command(one(command)) is None


def test_arguments_may_be_a_list() -> None:
    found = object_command(CompileCommand(file="a.c", arguments=["cc", "-mavx2", "-c", "a b.c"]))
    assert found is not None
    assert found.flags == ("-mavx2",)


def written(folder: Path, *commands: str) -> Path:
    path = folder / "compile_commands.json"
    entries = [
        {"directory": "/b", "command": command, "file": "/s/k.cu" if "nvcc" in command else "/s/a.cpp"}
        for command in commands
    ]
    path.write_text(json.dumps(entries))
    return path


def checks(folder: Path, *commands: str) -> dict[str, str]:
    read = read_commands(written(folder, *commands))
    return {check.id: check.status for check in check_objects(folder / "none", read, VARIANT, CATALOG)}


def test_flags_are_held_against_the_name(tmp_path: Path) -> None:
    assert checks(tmp_path, CXX, NVCC) == {
        "cpu-flags": "right",
        "gpu-flags": "right",
        "gpu-code": "unjudged",
    }
    assert checks(tmp_path, CXX.replace(ISA, ""), NVCC)["cpu-flags"] == "wrong"
    assert checks(tmp_path, CXX, CXX.replace(ISA, ""), NVCC)["cpu-flags"] == "note"
    assert checks(tmp_path, CXX, NVCC.replace("90", "80"))["gpu-flags"] == "wrong"
    assert checks(tmp_path, CXX, f"{NVCC} -gencode arch=compute_80,code=sm_80")["gpu-flags"] == "wrong"
    assert checks(tmp_path, CXX)["gpu-flags"] == "wrong"


def test_compilers_are_counted_with_their_flags(tmp_path: Path) -> None:
    cxx, nvcc = uses(read_commands(written(tmp_path, CXX, f"{CXX} -msse4", NVCC)))
    assert (cxx.compiler, cxx.objects, cxx.flags["-mavx512f"], cxx.flags["-msse4"]) == ("c++", 2, 2, 1)
    assert (nvcc.objects, nvcc.flags["-O3"]) == (1, 1)


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[{"file": 1}]'])
def test_what_is_no_list_of_commands_is_a_problem(text: str, tmp_path: Path) -> None:
    path = tmp_path / "compile_commands.json"
    path.write_text(text)
    with pytest.raises(Problem) as caught:
        read_commands(path)
    assert caught.value.where == Where(str(path))


@pytest.mark.parametrize(
    ("targets", "status"),
    [(["gfx942"], "right"), (["gfx942", "gfx1100"], "wrong"), (["gfx1100"], "wrong"), ([], "unjudged")],
)
def test_objects_for_amd_gpus_are_held_against_the_name_without_such_a_gpu(
    targets: list[str], status: str, tmp_path: Path
) -> None:
    data = elves.hip_library(elves.compressed(elves.bundle(*targets))) if targets else elves.Library().build()
    (tmp_path / "kernel.hip.o").write_bytes(data)
    variant = Variant.parse("pytorch-python313-rocm6_4-gfx942-avx512", CATALOG)
    checks = {check.id: check.status for check in check_objects(tmp_path, [], variant, CATALOG)}
    assert checks["gpu-code"] == status
    assert "gpu-flags" not in checks  # what nvcc is told
