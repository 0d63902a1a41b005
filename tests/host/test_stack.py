"""pick and cover answer for a stack: the cell where all of it exists, and what comes with it."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from tests.cli.conftest import Call
from torchsmith.catalog import builtin_catalog
from torchsmith.matrix import Accepted, Rejected, Variant, assess

TOML = """\
format = 1
packages = ["pytorch", "torchvision", "flash-attn", "vllm", "onnxruntime"]

[[matrix]]
line = "2.10"
python = ["3.13"]
cuda = ["12.8", "13.0"]
sm = ["sm80", "sm86", "sm90"]
isa = ["avx2", "avx512"]
"""
H100 = ("--gpu", "H100", "--cpu", "zen4", "--driver", "580.65.06")
RTX = ("--gpu", "RTX 3090", "--cpu", "zen4", "--driver", "580.65.06")


@pytest.fixture
def root(tmp_path: Path) -> str:
    (tmp_path / "torchsmith.toml").write_text(TOML)
    return str(tmp_path)


def names(call: Call, *words: str) -> list[str]:
    return [one["name"] for one in json.loads(call("pick", *words, "--json").out)["choice"]]


def test_a_stack_is_picked_where_all_of_it_exists(root: str, call: Call) -> None:
    """torch alone would be the one for CUDA 13.0, where vLLM has no cell; on sm86 FlashAttention has none."""
    here = ("--workspace", root)
    assert names(call, *H100, *here) == ["pytorch-python313-cuda13_0-sm90-avx512"]
    assert names(call, "--package", "vllm", *H100, *here) == ["vllm-python313-cuda12_8-sm90-avx512"]
    assert names(call, "--package", "vllm", *RTX, *here) == ["vllm-python313-cuda12_8-sm86-avx512"]
    both = ("--package", "flash-attn", "--package", "vllm")
    assert names(call, *both, *RTX, *here) == ["vllm-python313-cuda12_8-sm80-avx512"]
    also = ("--package", "onnxruntime", "--package", "vllm")
    assert names(call, *also, *H100, *here) == ["vllm-python313-cuda12_8-sm90-avx512"]


def test_what_comes_with_a_stack_is_what_it_needs(root: str, call: Call) -> None:
    told = json.loads(call("pick", "--package", "vllm", *H100, "--workspace", root, "--json").out)
    cell = "python313-cuda12_8-sm90-avx512"
    assert told["choice"][0]["companions"] == [f"pytorch-{cell}", f"torchvision-{cell}"]


def test_a_matrix_without_it_is_told_which_cell_could_be_made(call: Call) -> None:
    result = call("pick", "--package", "vllm", *H100, "--json")
    told = json.loads(result.out)
    assert (result.code, told["choice"]) == (1, [])
    assert [one["name"] for one in told["create"]] == ["vllm-python313-cuda12_9-sm90-avx512"]


def written_names(file: Path) -> list[str]:
    table = tomllib.loads(file.read_text())
    blocks = [f"{name}-" for block in table.get("matrix", []) for name in block["packages"]]
    return [*blocks, *table.get("include", [])]


def test_a_fleet_is_covered_with_a_stack(root: str, call: Call, tmp_path: Path) -> None:
    (tmp_path / "fleet.csv").write_text(
        "name,count,cpu,gpu,driver\na,4,zen4,H100,580\nb,3,zen4,RTX 3090,580\n"
    )
    words = ("cover", str(tmp_path / "fleet.csv"), "--workspace", root)
    plain = json.loads(call(*words, "--json").out)
    assert {name.partition("-")[0] for name in plain["plan"]["variants"]} == {"pytorch"}
    both = json.loads(call(*words, "--package", "vllm", "--package", "flash-attn", "--json").out)
    found = set(both["plan"]["variants"])
    assert {name.rpartition("-")[0] for name in found} == {
        "vllm-python313-cuda12_8-sm80",
        "vllm-python313-cuda12_8-sm90",
    }, "no cell of sm86 has both"
    written = tmp_path / "plan.toml"
    assert call(*words, "--package", "vllm", "--write", str(written)).code == 0
    packages = {name.partition("-")[0] for name in written_names(written)}
    assert packages == {"pytorch", "torchvision", "vllm"}, "what it needs, and nothing besides"


@pytest.mark.parametrize(
    ("name", "line", "offered"),
    [
        ("vllm-python313-cuda12_8-sm90-avx2", "2.8", False),
        ("vllm-python312-cuda12_8-sm90-avx2", "2.8", True),
        ("vllm-python314-cuda12_8-sm90-avx2", "2.10", False),
        ("bitsandbytes-python313-cpu-avx2", "2.8", False),
        ("bitsandbytes-python313-cpu-avx2", "2.10", True),
        ("bitsandbytes-python313-cuda12_8-sm90-avx2", "2.8", True),
        ("onnxruntime-python313-cuda12_8-sm87-armv8_2", "2.8", False),
        ("onnxruntime-python313-cuda12_8-sm87-armv8_2", "2.9", True),
    ],
)
def test_what_nix_refuses_is_not_offered(name: str, line: str, offered: bool) -> None:
    catalog = builtin_catalog()
    decision = assess(Variant.parse(name, catalog), catalog, line)
    assert isinstance(decision, Accepted if offered else Rejected)
    if isinstance(decision, Rejected):
        assert [(one.code, "Nix: " in one.text) for one in decision.reasons] == [("package-limit", True)]


@pytest.mark.parametrize(
    ("machine", "cell", "why"),
    [
        (("--gpu", "GH200", "--cpu", "neoverse_v2", "--driver", "580.65.06"), "sm90-armv9", "tensorflow-bin"),
        (("--gpu", "none", "--cpu", "zen3"), "cpu-avx2", "CUDA"),
    ],
)
def test_a_machine_that_a_stack_cannot_serve_is_told_why(
    machine: tuple[str, ...], cell: str, why: str, root: str, call: Call
) -> None:
    told = call("pick", "--package", "vllm", *machine, "--workspace", root)
    assert told.code == 1
    line = next(line for line in told.out.splitlines() if line.startswith("vllm-"))
    assert cell in line
    assert why in line
    assert "vllm-" not in call("pick", *machine, "--workspace", root).out


def test_all_of_a_stack_is_built(root: str, call: Call) -> None:
    also = ("--package", "onnxruntime", "--package", "vllm")
    (chosen,) = json.loads(call("pick", *also, *H100, "--workspace", root, "--json").out)["choice"]
    assert all(name in chosen["commands"]["build"] for name in ("vllm-python313", "onnxruntime-python313"))
