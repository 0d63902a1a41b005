"""A built package is run in a process of its own; whatever happens there is a result that says what to do."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

import pytest

from torchsmith.artifact.interpreter import Interpreter, interpreter_for, propagated
from torchsmith.artifact.junit import junit
from torchsmith.artifact.trial import Result, Trial, interpret, try_out
from torchsmith.catalog import builtin_catalog
from torchsmith.edge.problem import Exit, Problem
from torchsmith.edge.process import Finished
from torchsmith.matrix import Variant

CATALOG = builtin_catalog()
NAME = "pytorch-python313-cuda13_0-sm120-avx512"
FACTS = {
    "event": "facts",
    "torch": "2.10.0",
    "python": "3.13.1",
    "machine": "x86_64",
    "cuda": "13.0",
    "arch_list": ["sm_120"],
    "cpu_capability": "AVX512",
}


def package(folder: Path, source: str) -> Path:
    """A package folder whose torch does what a test wants to see handled."""
    (folder / "torch").mkdir(parents=True)
    (folder / "torch" / "__init__.py").write_text(source)
    return folder


def tried(folder: Path, source: str, limit: float = 30) -> Trial:
    path = package(folder, source)
    return try_out(path, interpreter_for(path, Path(sys.executable)), None, CATALOG, limit)


def told(*events: Mapping[str, object], code: int = 0, stderr: str = "", name: str = NAME) -> Trial:
    """What a child that said these events means."""
    text = "".join(json.dumps(event) + "\n" for event in events)
    done = Finished(("python",), code, text, stderr, 1.0)
    variant = Variant.parse(name, CATALOG)
    return interpret(Path("/x"), Interpreter(Path("python"), ()), done, variant, CATALOG)


def step(trial: Trial, name: str) -> Result:
    return next(result for result in trial.results if name in result.step)


def gpu(name: str, major: int, minor: int) -> dict[str, object]:
    return {"event": "gpu", "device": "cuda:0", "name": name, "capability": [major, minor]}


def test_an_illegal_instruction_is_explained(tmp_path: Path) -> None:
    trial = tried(tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGILL)")
    assert not trial.ok
    assert "crashed: SIGILL" in step(trial, "import torch").detail
    assert "instruction set" in step(trial, "import torch").hint


def test_a_segmentation_fault_is_a_result(tmp_path: Path) -> None:
    trial = tried(tmp_path, "import ctypes; ctypes.string_at(0)")
    assert "crashed: SIGSEGV" in step(trial, "import torch").detail


def test_a_package_that_never_ends_is_ended(tmp_path: Path) -> None:
    trial = tried(tmp_path, "import time; time.sleep(600)", limit=1)
    assert "still running after" in step(trial, "import torch").detail


def test_a_missing_kernel_image_is_explained(tmp_path: Path) -> None:
    trial = tried(
        tmp_path, "raise RuntimeError('CUDA error: no kernel image is available for execution on the device')"
    )
    assert "The cubins are for another GPU" in step(trial, "import torch").hint


def test_what_a_package_prints_is_no_result(tmp_path: Path) -> None:
    trial = tried(
        tmp_path, "print('{\"event\": \"done\"}'); raise ImportError('libcudart.so.13: cannot open')"
    )
    assert [result.outcome for result in trial.results] == ["failed"]
    assert "libcudart.so.13" in trial.results[0].detail


def test_a_package_that_exits_quietly_has_not_passed(tmp_path: Path) -> None:
    trial = tried(tmp_path, "import os; os._exit(0)")
    assert not trial.ok
    assert "exit code 0" in step(trial, "import torch").detail


def test_the_interpreter_of_torchsmith_leaks_nothing_into_the_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "leak"))
    trial = tried(tmp_path / "p", "import os; raise RuntimeError(os.environ['PYTHONPATH'])")
    assert "leak" not in trial.results[0].detail


def test_the_right_gpu_passes() -> None:
    trial = told(FACTS, gpu("RTX 5090", 12, 0), {"event": "done"})
    assert trial.ok
    assert step(trial, "the variant's GPU").detail == "RTX 5090 is sm120"


def test_a_wrong_gpu_fails_and_names_the_variant_to_use() -> None:
    wrong = step(told(FACTS, gpu("H200", 9, 0), {"event": "done"}), "the variant's GPU")
    assert wrong.outcome == "failed"
    assert wrong.hint == "use pytorch-python313-cuda13_0-sm90-avx512"


def test_a_newer_gpu_of_the_generation_passes_and_learns_of_its_own_variant() -> None:
    trial = told(
        FACTS | {"arch_list": ["sm_86"]},
        gpu("L4", 8, 9),
        {"event": "done"},
        name="pytorch-python313-cuda13_0-sm86-avx512",
    )
    compatible = step(trial, "the variant's GPU")
    assert compatible.outcome == "passed"
    assert "sm89-avx512 is made for it" in compatible.detail


def test_another_cuda_python_or_architecture_fails() -> None:
    trial = told(FACTS | {"cuda": "12.8", "python": "3.12.4", "machine": "aarch64"}, {"event": "done"})
    assert step(trial, "CUDA release").detail == "12.8, the variant's name says 13.0"
    assert step(trial, "Python release").outcome == "failed"
    assert step(trial, "CPU architecture").outcome == "failed"


def test_skipped_failed_and_passed_are_three_things_in_junit() -> None:
    ends = [
        {"event": "end", "step": name, "status": status, "detail": f"{status}\x07", "seconds": 0.5}
        for name, status in (("a", "passed"), ("b", "skipped"), ("c", "failed"))
    ]
    root = ElementTree.fromstring(junit(told(FACTS, *ends, {"event": "done"})))
    cases = {case.get("name"): [child.tag for child in case] for case in root}
    assert (cases["a"], cases["b"], cases["c"]) == ([], ["skipped"], ["failure"])
    assert (root.get("failures"), root.get("skipped")) == ("1", "1")


def test_an_interpreter_is_put_together_from_what_a_nix_package_propagates(tmp_path: Path) -> None:
    store = {name: tmp_path / "store" / name for name in ("vision", "torch", "torch-lib", "numpy", "python")}
    for name in ("vision", "torch", "numpy"):
        (store[name] / "lib" / "python3.13" / "site-packages").mkdir(parents=True)
    for name, needs in (("vision", "torch numpy"), ("torch", "numpy python torch-lib"), ("numpy", "torch")):
        (store[name] / "nix-support").mkdir()
        listed = " ".join(str(store[need]) for need in needs.split())
        (store[name] / "nix-support" / "propagated-build-inputs").write_text(listed + "\n")
    (store["python"] / "bin").mkdir(parents=True)
    (store["python"] / "bin" / "python3").symlink_to(sys.executable)
    store["torch-lib"].mkdir()
    found = interpreter_for(store["vision"])
    assert found.python == store["python"] / "bin" / "python3"
    assert [folder.parents[2].name for folder in found.folders] == ["vision", "torch", "numpy"]


def test_the_dev_output_beside_a_result_link_is_asked_too(tmp_path: Path) -> None:
    for name in ("out", "dev", "numpy"):
        (tmp_path / name / "nix-support").mkdir(parents=True)
    (tmp_path / "dev" / "nix-support" / "propagated-build-inputs").write_text(f"{tmp_path / 'numpy'}\n")
    (tmp_path / "result").symlink_to("out")
    (tmp_path / "result-dev").symlink_to("dev")
    assert propagated(tmp_path / "result") == [tmp_path / "numpy"]


def test_no_interpreter_is_a_lack_and_says_how_to_name_one(tmp_path: Path) -> None:
    (tmp_path / "lib" / "python3.99" / "site-packages").mkdir(parents=True)
    with pytest.raises(Problem, match=r"python3\.99") as caught:
        interpreter_for(tmp_path)
    assert caught.value.exit == Exit.LACKING
    assert "--python" in caught.value.hint


@pytest.mark.parametrize("name", ["missing", "file.whl"])
def test_a_path_that_cannot_be_run_is_a_wrong_request(name: str, tmp_path: Path) -> None:
    (tmp_path / "file.whl").touch()
    with pytest.raises(Problem) as caught:
        interpreter_for(tmp_path / name)
    assert caught.value.exit == Exit.BAD_REQUEST
