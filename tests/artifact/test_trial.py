"""A built package is run in a process of its own; whatever happens there is a result that says what to do."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.artifact import standin
from torchsmith.artifact.interpreter import Interpreter, interpreter_for, propagated
from torchsmith.artifact.smoke_test import SmokeTest, StepResult, explain, interpret, smoke_test
from torchsmith.catalog import builtin_catalog
from torchsmith.core.problem import Exit, Problem
from torchsmith.core.process import Finished, run
from torchsmith.core.text import CONTROL
from torchsmith.matrix import Variant
from torchsmith.verbs import test as verb

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


def tried(folder: Path, source: str, limit: float = 30) -> SmokeTest:
    path = package(folder, source)
    return smoke_test(path, interpreter_for(path, CATALOG, Path(sys.executable)), None, CATALOG, limit)


def told(*events: Mapping[str, object], code: int = 0, stderr: str = "", name: str = NAME) -> SmokeTest:
    """What a child that said these events means."""
    text = "".join(json.dumps(event) + "\n" for event in events)
    done = Finished(("python",), code, text, stderr, 1.0)
    variant = Variant.parse(name, CATALOG)
    return interpret(Path("/x"), Interpreter(Path("python"), ()), done, variant, CATALOG)


def step(trial: SmokeTest, name: str) -> StepResult:
    return next(result for result in trial.results if name in result.step)


def gpu(name: str, major: int, minor: int) -> dict[str, object]:
    return {"event": "gpu", "device": "cuda:0", "name": name, "capability": [major, minor]}


def standing_in(folder: Path, change: str) -> SmokeTest:
    """A torch that computes, with something changed in it."""
    return tried(folder, standin.TORCH + change)


def test_a_build_that_computes_right_passes(tmp_path: Path) -> None:
    trial = standing_in(tmp_path, "")
    assert trial.ok, trial.results


WRONG = {  # what is wrong in a torch, by the step that finds it
    "matrix product": (
        "right = Tensor.__matmul__\n"
        "Tensor.__matmul__ = lambda a, b: Tensor([[v + 0.5 for v in row] for row in right(a, b).values])",
    ),
    "convolution": (
        "rightly = functional.conv2d\n"
        "def conv(images, kernels, padding):\n"
        "    made = rightly(images, kernels, padding)\n"
        "    made.values[1][7][15][15] *= 1.5\n"
        "    return made\n"
        "functional.conv2d = conv",
    ),
    "softmax": (
        "functional.softmax = lambda rows, dim: Tensor([[0.01] * 100] * 64)",
        "functional.layer_norm = lambda rows, shape: rows",
    ),
    "linear algebra": (
        "linalg.inv = lambda matrix: matrix",
        "linalg.eigvalsh = lambda matrix: Tensor([float('nan')] * 48)",
        "linalg.eigvalsh = lambda matrix: Tensor([1.0])",
    ),
}


@pytest.mark.parametrize("number", range(3))
def test_an_operation_that_is_wrong_in_every_type_fails(number: int, tmp_path: Path) -> None:
    """Several at once, each in a step of its own."""
    changes = {name: words[number] for name, words in WRONG.items() if number < len(words)}
    trial = standing_in(tmp_path, "\n".join(changes.values()))
    failed = [result.step for result in trial.results if result.outcome == "failed"]
    assert failed == [step(trial, name).step for name in changes]


def test_targets_are_listed_without_a_gpu(tmp_path: Path) -> None:
    source = standin.TORCH.replace("cuda = None", "cuda = '13.0'") + (
        "class cuda:\n"
        "    def get_arch_list(): return []\n"
        "    def device_count(): return 0\n"
        "class _C:\n"
        "    def _cuda_getArchFlags(): return 'sm_90 sm_120 compute_120'\n"
    )
    assert tried(tmp_path, source).facts["arch_list"] == ["sm_90", "sm_120", "compute_120"]


def test_a_target_that_was_not_compiled_fails_without_a_gpu() -> None:
    for targets in (["sm_90"], []):
        trial = told(FACTS | {"arch_list": targets}, {"event": "done"})
        assert step(trial, "list of GPU targets").outcome == "failed"


def test_a_free_threaded_python_is_another_one() -> None:
    trial = told(FACTS | {"free_threaded": True}, {"event": "done"})
    found = step(trial, "Python release")
    assert (found.outcome, found.detail.startswith("3.13t")) == ("failed", True)


def test_what_a_child_says_is_kept_in_little_memory(tmp_path: Path) -> None:
    flood = (
        "import os\n"
        "piece = b'x' * (1 << 20)\n"
        "for _ in range(200): os.write(2, piece)\n"
        "os.write(2, b'last words')\n"
        "os._exit(3)"
    )
    path = package(tmp_path, flood)
    code = (
        "import re, sys; from pathlib import Path;"
        "from torchsmith.artifact.interpreter import interpreter_for;"
        "from torchsmith.artifact.smoke_test import smoke_test;"
        "from torchsmith.catalog import builtin_catalog;"
        "path, catalog = Path(sys.argv[1]), builtin_catalog();"
        "trial = smoke_test(path, interpreter_for(path, catalog, Path(sys.executable)), None, catalog, 250);"
        "assert trial.results[0].detail.endswith('last words'), trial.results;"
        "print(re.search(r'VmHWM:\\s+(\\d+)', Path('/proc/self/status').read_text())[1])"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 128 << 10  # KiB


def test_a_helper_that_keeps_the_pipes_is_ended_and_not_waited_for(tmp_path: Path) -> None:
    trial = tried(
        tmp_path,
        "import os, time\n"
        f"if os.fork() == 0:\n"
        f"    open({str(tmp_path / 'helper')!r}, 'w').write(str(os.getpid()))\n"
        "    time.sleep(3600)\n"
        f"while not os.path.exists({str(tmp_path / 'helper')!r}): time.sleep(0.01)\n"
        "os._exit(0)",
        limit=250,
    )
    assert "exit code 0" in step(trial, "import torch").detail  # and not: still running after 250 s


@pytest.mark.parametrize(
    "source",
    [
        "raise ImportError('\\x1b]0;owned\\x07\\x1b[2J and \\x9b31m')",
        "import os; os.write(2, b'\\x1b[2J\\xc2\\x9b31m'); os._exit(1)",
        standin.TORCH + "__version__ = '\\x1b[31m2.10'",
    ],
)
def test_what_a_child_says_cannot_steer_the_terminal(source: str, tmp_path: Path) -> None:
    test = tried(tmp_path, source)
    said = [
        *test.facts.values(),
        *(part for row in test.results for part in (row.step, row.detail, row.hint)),
    ]
    assert not CONTROL.search("".join(map(str, said)).replace("\n", ""))
    assert any("\\x1b" in str(part) for part in said)


def test_a_torch_that_lacks_almost_everything_fails_in_one_step_without_a_traceback(tmp_path: Path) -> None:
    trial = tried(tmp_path, "__version__ = '2.10.0'")
    assert [result.step for result in trial.results if result.outcome == "failed"] == ["read its versions"]
    assert step(trial, "read its versions").detail.startswith("AttributeError: ")


def test_of_a_traceback_only_its_last_line_is_shown() -> None:
    words = 'Traceback (most recent call last):\n  File "<string>", line 1\nValueError: no'
    assert told(code=1, stderr=words).results[0].detail == "ended with exit code 1. ValueError: no"


@pytest.mark.parametrize(
    "line",
    [
        '{"event": "end"}',
        '{"event": "end", "step": 1, "status": "passed", "detail": "", "seconds": "x"}',
        '{"event": "gpu", "device": "cuda:0", "name": "x", "capability": [9]}',
        "[" * 100_000,
        "null",
    ],
)
def test_lines_that_no_probe_wrote_are_no_results(line: str) -> None:
    done = Finished(("python",), 0, line + "\n", "", 1.0)
    trial = interpret(
        Path("/x"), Interpreter(Path("python"), ()), done, Variant.parse(NAME, CATALOG), CATALOG
    )
    assert [result.step for result in trial.results] == ["the run as a whole"]
    assert not trial.ok


def test_an_illegal_instruction_is_explained(tmp_path: Path) -> None:
    trial = tried(tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGILL)")
    assert not trial.ok
    assert "SIGILL" in step(trial, "import torch").detail
    assert step(trial, "import torch").hint == explain("SIGILL", CATALOG) != ""


def test_a_segmentation_fault_is_a_result(tmp_path: Path) -> None:
    trial = tried(tmp_path, "import ctypes; ctypes.string_at(0)")
    assert "SIGSEGV" in step(trial, "import torch").detail


def test_a_package_that_never_ends_is_ended(tmp_path: Path) -> None:
    trial = tried(tmp_path, "import time; time.sleep(600)", limit=1)
    assert not trial.ok
    assert "1 s" in step(trial, "import torch").detail


def test_a_missing_kernel_image_is_explained(tmp_path: Path) -> None:
    words = "CUDA error: no kernel image is available for execution on the device"
    trial = tried(tmp_path, f"raise RuntimeError({words!r})")
    assert step(trial, "import torch").hint == explain(words, CATALOG) != ""


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
    assert "sm120" in step(trial, "the build's GPU").detail


def test_a_wrong_gpu_fails_and_names_the_variant_to_use() -> None:
    wrong = step(told(FACTS, gpu("H200", 9, 0), {"event": "done"}), "the build's GPU")
    assert wrong.outcome == "failed"
    assert wrong.hint.endswith("pytorch-python313-cuda13_0-sm90-avx512")


def test_a_newer_gpu_of_the_generation_passes_and_learns_of_its_own_variant() -> None:
    trial = told(
        FACTS | {"arch_list": ["sm_86"]},
        gpu("L4", 8, 9),
        {"event": "done"},
        name="pytorch-python313-cuda13_0-sm86-avx512",
    )
    compatible = step(trial, "the build's GPU")
    assert compatible.outcome == "passed"
    assert "pytorch-python313-cuda13_0-sm89-avx512" in compatible.detail


def test_another_cuda_python_or_architecture_fails() -> None:
    trial = told(FACTS | {"cuda": "12.8", "python": "3.12.4", "machine": "aarch64"}, {"event": "done"})
    assert step(trial, "CUDA release").outcome == "failed"
    assert step(trial, "Python release").outcome == "failed"
    assert step(trial, "CPU architecture").outcome == "failed"


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
    found = interpreter_for(store["vision"], CATALOG)
    assert found.python == store["python"] / "bin" / "python3"
    assert [folder.parents[2].name for folder in found.folders] == ["vision", "torch", "numpy"]


def test_the_dev_output_beside_a_result_link_is_asked_too(tmp_path: Path) -> None:
    for name in ("out", "dev", "numpy"):
        (tmp_path / name / "nix-support").mkdir(parents=True)
    (tmp_path / "dev" / "nix-support" / "propagated-build-inputs").write_text(f"{tmp_path / 'numpy'}\n")
    (tmp_path / "result").symlink_to("out")
    (tmp_path / "result-dev").symlink_to("dev")
    assert propagated(tmp_path / "result") == [tmp_path / "numpy"]


@pytest.mark.needs("nix")
def test_a_bare_store_path_finds_its_dev_output_by_the_stores_record(tmp_path: Path) -> None:
    """What `verify` names as the next step is a store path, with no link beside it."""
    (tmp_path / "default.nix").write_text(
        """let
          system = builtins.currentSystem;
          made = words: { inherit system; builder = "/bin/sh"; PATH = "/usr/bin:/bin"; } // words;
          needed = derivation (made { name = "numpy"; args = [ "-c" "mkdir $out" ]; });
          script = "mkdir -p $out $dev/nix-support; echo ${needed} >$dev/nix-support/propagated-build-inputs";
        in derivation (made { name = "torch"; outputs = [ "out" "dev" ]; args = [ "-c" script ]; })"""
    )
    built = run(["nix-build", "--no-out-link", tmp_path], timeout=120)
    if not built.ok:
        pytest.skip(f"this machine's Nix builds nothing with its own tools: {built.stderr[-200:]}")
    assert [place.name[33:] for place in propagated(Path(built.stdout.split()[0]))] == ["numpy"]


def test_a_python_above_a_nix_package_is_not_its_own(tmp_path: Path) -> None:
    """`/bin/python3` is three folders above every store path."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to(sys.executable)
    root = tmp_path / "nix" / "store" / "abc-torch-2.10.0"
    site = package(root / "lib" / "python3.13" / "site-packages", "")
    (root / "nix-support").mkdir()
    for path in (root, site):
        with pytest.raises(Problem) as caught:
            interpreter_for(path, CATALOG)
        assert caught.value.exit == Exit.ENVIRONMENT


@pytest.mark.needs("nix")
def test_a_real_store_path_is_not_run_with_the_machines_python(tmp_path: Path) -> None:
    package(tmp_path / "torch-2.10.0" / "lib" / "python3.13" / "site-packages", "")
    added = run(["nix-store", "--add", tmp_path / "torch-2.10.0"], timeout=60)
    if "daemon-socket/socket: Permission denied" in added.stderr:
        pytest.skip("this user may not use the machine's Nix store: it is not in the group nix-users")
    assert added.ok, added.stderr
    with pytest.raises(Problem) as caught:
        interpreter_for(Path(added.stdout.strip()), CATALOG)
    assert caught.value.exit == Exit.ENVIRONMENT


def test_a_nix_package_cannot_propagate_the_machine_itself(tmp_path: Path) -> None:
    root = tmp_path / "store" / "torch"
    (root / "nix-support").mkdir(parents=True)
    (root / "nix-support" / "propagated-build-inputs").write_text("/ /usr\n")
    assert propagated(root) == []


def test_a_folder_inside_of_an_environment_is_not_of_its_python(tmp_path: Path) -> None:
    inside = tmp_path / "lib" / "python3.99" / "site-packages" / "other" / "sample"
    package(inside, "")
    assert interpreter_for(inside, CATALOG).folders == (inside,)


def test_an_environments_python_is_found_from_its_site_packages(tmp_path: Path) -> None:
    site = tmp_path / "env" / "lib" / "python3.13" / "site-packages"
    package(site, "")
    (tmp_path / "env" / "bin").mkdir()
    (tmp_path / "env" / "bin" / "python3").symlink_to(sys.executable)
    for path in (site, tmp_path / "env"):
        assert interpreter_for(path, CATALOG).python == tmp_path / "env" / "bin" / "python3"


def test_a_file_of_the_current_folder_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    package(site, "")
    (tmp_path / "sysconfig.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    assert interpreter_for(site, CATALOG).folders == (site,)
    assert not (tmp_path / "ran").exists()


def test_no_interpreter_is_a_lack_and_says_how_to_name_one(tmp_path: Path) -> None:
    (tmp_path / "lib" / "python3.99" / "site-packages").mkdir(parents=True)
    with pytest.raises(Problem, match=r"python3\.99") as caught:
        verb.test(verb.TestRequest(path=tmp_path))
    assert caught.value.exit == Exit.ENVIRONMENT
    assert "--python" in caught.value.hint


@pytest.mark.parametrize("name", ["missing", "file.whl"])
def test_a_path_that_cannot_be_run_is_a_wrong_request(name: str, tmp_path: Path) -> None:
    (tmp_path / "file.whl").touch()
    with pytest.raises(Problem) as caught:
        interpreter_for(tmp_path / name, CATALOG)
    assert caught.value.exit == Exit.BAD_REQUEST


def test_every_package_that_is_built_in_has_a_trial_that_python_reads() -> None:
    packages = [one for one in builtin_catalog().packages.values() if not one.is_torch]
    for package in packages:
        assert package.trial, package.name
        if not package.trial.isidentifier():
            compile(package.trial, package.name, "exec")


def beside(folder: Path, name: str, source: str) -> Path:
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").write_text(source)
    return folder


def test_the_torch_that_a_companion_runs_with_may_lie_anywhere(tmp_path: Path) -> None:
    path = beside(tmp_path / "site", "torchsde", "")
    package(tmp_path / "torch", standin.TORCH)
    interpreter = interpreter_for(path, CATALOG, Path(sys.executable))
    interpreter = replace(interpreter, folders=(*interpreter.folders, tmp_path / "torch"))
    trial = smoke_test(path, interpreter, None, CATALOG, 30)
    assert step(trial, "import torchsde").outcome == "passed"
    assert [one.step.split()[0] for one in trial.results if one.step.endswith(" under test")] == ["torchsde"]


SESSION = """
import sys
def get_available_providers(): return ["CUDAExecutionProvider", "CPUExecutionProvider"]
class InferenceSession:
    def __init__(self, model, providers): self.providers = providers
    def get_providers(self): return self.providers
    def run(self, outputs, inputs):
        weights, bias = [[1.0, -2.0], [0.5, 3.0], [-1.5, 2.0]], [0.25, -0.5]
        sums = [
            [sum(a * w[j] for a, w in zip(row, weights)) + bias[j] for j in (0, 1)]
            for row in inputs["x"]]
        made = [[max(0.0, one) for one in row] for row in sums]
        return [sys.modules["numpy"].array(made)]
"""
NUMBERS = """
float32 = "float32"
class array(list):
    def __init__(self, rows, dtype=None): super().__init__(rows)
    def tolist(self): return list(self)
"""
DRIVER = "int cuInit(int f) { return 0; } int cuDeviceGetCount(int *n) { *n = 1; return 0; }"


@pytest.mark.parametrize("wrong", [False, True])
def test_a_package_without_torch_is_tried_on_the_drivers_gpus(
    wrong: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = SESSION.replace("max(0.0, ", "max(0.5, ") if wrong else SESSION
    path = beside(beside(tmp_path / "site", "numpy", NUMBERS), "onnxruntime", source)
    (tmp_path / "driver.c").write_text(DRIVER)
    library = tmp_path / "libcuda.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, tmp_path / "driver.c"], check=True)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    trial = smoke_test(path, interpreter_for(path, CATALOG, Path(sys.executable)), None, CATALOG, 30)
    for place, provider in (("the CPU", "CPUExecutionProvider"), ("GPU 0", "CUDAExecutionProvider")):
        found = step(trial, f"onnxruntime's trial on {place}")
        assert found.outcome == ("failed" if wrong else "passed"), found
        assert wrong or provider in found.detail


LOADING = """
import ctypes
class cuda:
    @staticmethod
    def device_count():
        try:
            ctypes.CDLL("libcuda.so.trial")  # a name that no machine's own driver answers to
        except OSError:
            return 0
        return 0
class _C:
    @staticmethod
    def _cuda_getArchFlags(): return "sm_120"
"""


def test_a_driver_that_a_build_does_not_find_fails_with_the_command_that_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "driver/libcuda.so.trial"
    library.parent.mkdir()
    source = standin.TORCH.replace("cuda = None", "cuda = '13.0'") + LOADING
    monkeypatch.setattr("torchsmith.core.driver.DRIVER_LIBRARIES", ())  # whatever this machine has
    absent = tried(tmp_path / "absent", source)
    assert step(absent, "libcuda").outcome == "skipped"

    subprocess.run(["cc", "-shared", "-o", library, "-x", "c", "/dev/null"], check=True)
    monkeypatch.setattr("torchsmith.core.driver.DRIVER_LIBRARIES", (str(library),))
    hidden = tried(tmp_path / "hidden", source)
    assert not hidden.ok
    assert step(hidden, "libcuda").outcome == "failed"
    assert f"ln -sf {library.parent}/libcuda.so*" in step(hidden, "libcuda").hint

    monkeypatch.setenv("LD_LIBRARY_PATH", str(library.parent))
    found = tried(tmp_path / "found", source)
    assert step(found, "libcuda").outcome == "passed"
    assert step(found, "libcuda").detail == str(library)


ROCM = "pytorch-python313-rocm6_4-gfx942-avx512"
OF_ROCM = FACTS | {"cuda": "", "hip": "6.4.43483", "arch_list": ["gfx942:sramecc+:xnack-"]}
APPLE = "pytorch-python313-darwin-mps"
OF_APPLE = FACTS | {"cuda": "", "machine": "arm64", "arch_list": [], "metal": True}
HIP = (
    "version.hip = '6.4.43483'\n"
    "class Properties:\n"
    "    gcnArchName = 'gfx942:sramecc+:xnack-'\n"
    "class cuda(metaclass=Lenient):\n"
    "    has_magma = False\n"
    "    def device_count(): return COUNT\n"
    "    def get_device_name(device): return 'AMD Instinct MI300X'\n"
    "    def get_device_capability(device): return (9, 4)\n"
    "    def get_device_properties(device): return Properties\n"
    "class _C:\n"
    "    def _cuda_getArchFlags(): return 'gfx942'\n"
)
METAL = (
    "class mps:\n"
    "    def device_count(): return COUNT\n"
    "    def is_built(): return True\n"
    "class backends(metaclass=Lenient):\n"
    "    mps = mps\n"
)


def amd(arch: str) -> dict[str, object]:
    return {"event": "gpu", "device": "cuda:0", "name": "AMD", "capability": [9, 4], "arch": arch}


@pytest.mark.parametrize(
    ("name", "facts", "device", "failed"),
    [
        (ROCM, OF_ROCM, amd("gfx942"), ""),
        (ROCM, OF_ROCM, amd("gfx1100"), "the build's GPU"),
        (ROCM, OF_ROCM | {"arch_list": ["gfx1100"]}, amd("gfx942"), "list of GPU targets"),
        (ROCM, OF_ROCM | {"hip": "7.1.2"}, amd("gfx942"), "ROCm release"),
        (ROCM, FACTS, amd("gfx942"), "ROCm release"),
        (NAME, OF_ROCM, amd("gfx942"), "CUDA release"),
        (APPLE, OF_APPLE, amd("mps"), ""),
        (APPLE, OF_APPLE | {"metal": False}, amd("mps"), "GPU backend"),
        (APPLE, OF_APPLE | {"machine": "x86_64"}, amd("mps"), "CPU architecture"),
    ],
)
def test_builds_of_other_backends_are_held_against_their_names(
    name: str, facts: dict[str, object], device: dict[str, object], failed: str
) -> None:
    trial = told(facts, device, {"event": "done"}, name=name)
    assert trial.ok == (not failed), trial.results
    if failed:
        assert step(trial, failed).outcome == "failed"


@pytest.mark.parametrize("count", [0, 1])
@pytest.mark.parametrize(
    ("change", "where", "skipped"), [(HIP, "GPU 0", "ROCm"), (METAL, "the GPU", "Metal")]
)
def test_amd_and_apple_gpus_are_tried_like_nvidia_s_or_skipped_with_a_reason(
    change: str, where: str, skipped: str, count: int, tmp_path: Path
) -> None:
    trial = standing_in(tmp_path, change.replace("COUNT", str(count)))
    assert trial.ok, trial.results
    if count:
        assert step(trial, f"matrix product on {where}").outcome == "passed"
        assert trial.gpus[0]["arch"] in ("gfx942", "mps")
    else:
        (reason,) = [result.detail for result in trial.results if result.step == "GPU"]
        assert skipped in reason


def test_a_package_may_be_a_link_in_the_folder_under_test(tmp_path: Path) -> None:
    target = beside(tmp_path / "elsewhere", "torchsde", "") / "torchsde"
    path = tmp_path / "site"
    package(path, standin.TORCH)
    (path / "torchsde").symlink_to(target)
    trial = smoke_test(path, interpreter_for(path, CATALOG, Path(sys.executable)), None, CATALOG, 30)
    assert step(trial, "torchsde is the one under test").outcome == "passed"


def test_a_failure_that_is_not_known_has_no_hint() -> None:
    assert explain("AssertionError: number 3 is 1 and should be 2", CATALOG) == ""
