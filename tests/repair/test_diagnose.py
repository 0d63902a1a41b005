"""A failed log is explained by name, class, cause and fix, how sure that is, and the lines that matter."""

from __future__ import annotations

import io
import re
import tomllib
import zipfile
from copy import copy
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchsmith.auditing.rule import all_rules
from torchsmith.catalog import builtin_catalog
from torchsmith.catalog.check import faults_of
from torchsmith.core.problem import Invalid, Problem
from torchsmith.repair.diagnose import diagnose_log
from torchsmith.verbs.diagnose import DiagnoseRequest, diagnose, print_diagnosis

CATALOG = builtin_catalog()
ERRORS = CATALOG.errors
LOGS = sorted((Path(__file__).parent / "logs").glob("*.log"))
SAMPLES = {name: error.example for name, error in ERRORS.items() if error.says == "build"}


def test_the_example_of_an_error_is_a_line_that_shows_it() -> None:
    for name, error in ERRORS.items():
        assert diagnose_log(error.example, CATALOG).entry == name


def test_every_known_error_stands_in_some_log() -> None:
    told = {verdict(path)["error"] for path in LOGS}
    assert len(LOGS) >= 60
    assert {name for name, error in ERRORS.items() if error.says == "nix"} <= told


def verdict(path: Path) -> dict[str, str]:
    return tomllib.loads(path.read_text().partition("+++\n")[0])


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_a_log_gets_its_verdict(path: Path) -> None:
    due = verdict(path)
    found = diagnose_log(path.read_text().partition("+++\n")[2], CATALOG)
    assert (found.entry, found.policy, found.sure) == (due["error"], due["policy"], due["sure"])
    assert found.kind == (ERRORS[found.entry].kind if found.entry else due["kind"])


def test_a_log_without_a_clue_points_at_no_line() -> None:
    diagnosis = diagnose_log("all is quiet\n", CATALOG)
    assert (diagnosis.entry, diagnosis.line_number) == ("", 0)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_known_error_is_found_among_thousands_of_lines(name: str) -> None:
    noise = [f"[{n}/6000] Building CXX object caffe2/file{n}.cpp.o" for n in range(6000)]
    log = "\n".join([*noise, SAMPLES[name], "ninja: build stopped: subcommand failed."])
    found = diagnose_log(log, CATALOG)
    known = ERRORS[name]
    assert (found.entry, found.kind, found.policy) == (name, known.kind, known.policy)
    assert SAMPLES[name] in found.lines
    assert found.line_number == 6001
    assert found.fix == known.fix or re.search(r"\{[a-z]+\}", known.fix)
    assert not re.search(r"\{[a-z]+\}", f"{found.title} {found.cause} {found.fix}")


def test_what_stands_far_from_the_end_is_a_guess_and_no_reason_to_build_again() -> None:
    steps = [f"[{n}/300] Building a{n}.o" for n in range(300)]
    log = "\n".join(
        [SAMPLES["out-of-memory"], *steps, "error: builder for '/nix/store/x.drv' failed with exit code 1"]
    )
    found = diagnose_log(log, CATALOG)
    assert (found.entry, found.policy, found.sure) == ("out-of-memory", "stop", "guess")


def test_only_what_is_certain_to_pass_is_tried_again() -> None:
    catalog = builtin_catalog()
    assert not [fault for fault in faults_of(catalog) if fault.file == "errors"]
    unsure = msgspec.structs.replace(
        ERRORS["nix-fetch"], pattern="", sure="likely", gives_way_to=("nothing",)
    )
    changed = copy(catalog)
    changed.__dict__["errors"] = {**ERRORS, "nix-fetch": unsure}
    assert len([fault for fault in faults_of(changed) if fault.path[0] == "nix-fetch"]) == 3


def test_a_compile_error_that_nobody_described_is_told_from_everything_else() -> None:
    log = "[1/2] Building a.o\nFAILED: a.o\na.cpp:3:1: error: expected ';'\nninja: build stopped\n"
    found = diagnose_log(log, CATALOG)
    assert (found.entry, found.kind, found.policy) == ("", "compile", "stop")
    assert "a.cpp:3:1: error: expected ';'" in found.lines


DRV = "/nix/store/x-magma.drv"
# What Nix says of a build that failed: until 2.28, from 2.29 on, on one line, in nix-output-monitor's frame.
VERDICTS = {
    "builder for": f"error: builder for '{DRV}' failed with exit code 1;",
    "cannot build": f"error: Cannot build '{DRV}'.\n       Reason: builder failed with exit code 1.",
    "one line": f"error: Cannot build '{DRV}'. Reason: builder failed with exit code 1.",
    "nom": f"┃ error: Cannot build '{DRV}'.\n┃        Reason: builder failed with exit code 1.",
    "actions": f"2026-05-14T09:12:33.1234567Z error: builder for '{DRV}' failed with exit code 1;",
}


@pytest.mark.parametrize("verdict", VERDICTS.values(), ids=VERDICTS)
def test_that_a_build_failed_leads_to_its_log(verdict: str) -> None:
    for more in ("", "\nerror: 1 dependencies of derivation", "\n       > install: cannot stat 'x'"):
        found = diagnose_log(verdict + more, CATALOG)
        assert (found.entry, found.kind) == ("", "unknown")
        assert found.line_number
        assert f"`nix log {DRV} | torchsmith diagnose -`" in found.fix
    outer = diagnose_log(f"{verdict}\nerror: Build failed due to failed dependency", CATALOG)
    assert outer.entry == "dependency-failed"
    assert f"`nix log {DRV} | torchsmith diagnose -`" in outer.fix


@pytest.mark.parametrize("verdict", VERDICTS.values(), ids=VERDICTS)
@pytest.mark.parametrize("mark", ["       > ", ""], ids=["quoted", "without marks"])
def test_the_builds_lines_after_the_verdict_are_read(verdict: str, mark: str) -> None:
    frame = verdict[: verdict.index("error:")].rstrip(" ")
    log = f"{verdict}\n{frame}{' ' if 'Z' in frame else ''}{mark}{SAMPLES['magma-clockrate']}\n"
    assert diagnose_log(log, CATALOG).entry == "magma-clockrate"


def test_lines_that_nix_repeats_are_read_also_without_its_verdict() -> None:
    assert diagnose_log(f"       > {SAMPLES['magma-clockrate']}", CATALOG).entry == "magma-clockrate"


@pytest.mark.parametrize(
    ("line", "entry"),
    [
        (
            "g++: error: unrecognized command-line option ‘-mavx512f’; did you mean ‘-mabi’?",
            "flag-of-another-architecture",
        ),
        ("cc1plus: error: bad value ‘armv9-a’ for ‘-march=’ switch", "flag-of-another-architecture"),
        ("gcc: error: unrecognized argument in option ‘-march=armv9-a’", "flag-of-another-architecture"),
        ("during RTL pass: expand\nx.cpp:1:1: internal compiler error: Segmentation fault", "compiler-crash"),
        ("g++: internal compiler error: Killed (program cc1plus)", "out-of-memory"),
        (
            "python3: error while loading shared libraries: libcuda.so.1: cannot open shared object file",
            "no-libcuda-at-import",
        ),
    ],
)
def test_each_tools_own_words_are_known(line: str, entry: str) -> None:
    log = f"[7/9] Building CXX object a.o\nFAILED: a.o\n{line}\nninja: build stopped: subcommand failed.\n"
    assert diagnose_log(log, CATALOG).entry == entry


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("RuntimeError: CUDA error: a new reason", "runtime"),
        ("HIP error: a new reason", "unknown"),
        ("error: no-such-option", "unknown"),
        ("tool: error: argument -x: expected one argument", "unknown"),
        ("a.cu(12): error: identifier is undefined", "compile"),
        ("a.cpp:12: error: no such thing", "compile"),
        ("clang++-16: error: linker command failed", "compile"),
        ("nvlink error   : entry function 'a' with max regcount of 80", "compile"),
        ("/usr/bin/ld: error: no such thing", "compile"),
        ("nvcc fatal   : a new reason", "compile"),
        ("error: command '/usr/bin/gcc' failed with exit code 1", "compile"),
    ],
)
def test_only_a_line_of_a_compiler_is_taken_for_a_compile_error(line: str, kind: str) -> None:
    found = diagnose_log(f"starting\n{line}\n", CATALOG)
    assert (found.entry, found.kind) == ("", kind)


PASTED = {
    "glibc-mismatch": """ImportError: /lib64/libc.so.6: version `GLIBC_2.28' not found (required by x.so)
""",
    "gpu-without-code": """/venv/lib/python3.12/site-packages/torch/cuda/__init__.py:283: UserWarning:
    Found GPU0 NVIDIA GeForce GTX 1080 which is of cuda capability 6.1.
    Minimum and Maximum cuda capability supported by this version of PyTorch is
    (7.5) - (12.0)

  warnings.warn(
""",
    "no-space": """ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device
""",
    "no-cuda-library-at-import": """  File "/venv/lib/python3.11/site-packages/torchaudio/__init__.py", line 2
ImportError: libcudart.so.12: cannot open shared object file: No such file or directory
""",
    "no-torch": """  error: subprocess-exited-with-error
  × python setup.py egg_info did not run successfully.
  ╰─> [6 lines of output]
        File "/tmp/pip-install-x/flash-attn/setup.py", line 19, in <module>
          import torch
      ModuleNotFoundError: No module named 'torch'
      [end of output]
  note: This error originates from a subprocess, and is likely not a problem with pip.
error: metadata-generation-failed
""",
    "torchvision-operator": """  File "/lib/python3.9/site-packages/torch/library.py", line 795, in register
    use_lib._register_fake(op_name, func, _stacklevel=stacklevel + 1)
RuntimeError: operator torchvision::nms does not exist
""",
    "cudart-version": """RuntimeError:
The detected CUDA version (11.8) mismatches the version that was used to compile
PyTorch (12.1). Please make sure to use the same CUDA versions.

error: command failed
""",
    "python-headers": """csrc/ext.cpp:1:10: fatal error: Python.h: No such file or directory
    1 | #include <Python.h>
      |          ^~~~~~~~~~
compilation terminated.
error: command '/usr/bin/gcc' failed with exit code 1
""",
    "no-cuda-library-to-link": """/usr/bin/ld: cannot find -lcudart: No such file or directory
collect2: error: ld returned 1 exit status
error: command '/usr/bin/g++' failed with exit code 1
""",
    "no-cuda-compiler": """CMake Error at /cmake/Modules/CMakeDetermineCUDACompiler.cmake:180 (message):
  Failed to find nvcc.

  Compiler requires the CUDA toolkit.  Please set the CUDAToolkit_ROOT
  variable.
Call Stack (most recent call first):
  CMakeLists.txt:7 (enable_language)
-- Configuring incomplete, errors occurred!
""",
    "numpy-1-and-2": """A module that was compiled using NumPy 1.x cannot be run in
NumPy 2.0.2 as it may crash. To support both 1.x and 2.x
versions of NumPy, modules must be compiled with NumPy 2.0.
Traceback (most recent call last):  File "<string>", line 1, in <module>
  File "/venv/lib/python3.11/site-packages/torch/__init__.py", line 1477, in <module>
    from .functional import *  # noqa: F403
""",
    "nvml-mismatch": """Failed to initialize NVML: Driver/library version mismatch
NVML library version: 535.183
""",
    "no-kernel-image": """RuntimeError: CUDA error: no kernel image is available for execution on the device
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be
For debugging consider passing CUDA_LAUNCH_BLOCKING=1.
""",
    "device-side-assert": """../aten/src/ATen/native/cuda/Loss.cu:245: nll_loss_forward: \
block: [0,0,0], thread: [3,0,0] Assertion `t >= 0 && t < n_classes` failed.
    loss.backward()
RuntimeError: CUDA error: device-side assert triggered
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be
For debugging consider passing CUDA_LAUNCH_BLOCKING=1
Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.
""",
    "driver-combination": """UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount(). \
Error 803: system has unsupported display driver / cuda driver combination (Triggered internally at
  return torch._C._cuda_getDeviceCount() > 0
RuntimeError: No CUDA GPUs are available
""",
    "externally-managed": """error: externally-managed-environment

× This environment is externally managed
╰─> To install Python packages system-wide, try apt install
    python3-xyz, where xyz is the package you are trying to install.
note: If you believe this is a mistake, please contact your Python installation or OS distribution provider.
""",
    "graphics-library-not-found": """    import cv2
ImportError: libGL.so.1: cannot open shared object file: No such file or directory
""",
    "driver-too-old": "CUDA error: CUDA driver version is insufficient for CUDA runtime version\n",
    "other-cuda-library": """    from torch._C import *  # noqa: F403
ImportError: /venv/lib/python3.12/site-packages/torch/lib/libtorch_cuda.so: undefined symbol: ncclCommRegister
""",
    "undefined-symbol": """ImportError: /venv/lib/python3.11/site-packages/flash_attn_2_cuda.so: \
undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationESs
""",
}


@pytest.mark.parametrize("name", PASTED)
def test_what_users_of_pip_paste_is_known_with_a_fix_for_them(name: str) -> None:
    found = diagnose_log(PASTED[name], CATALOG)
    assert (found.entry, found.sure) == (name, ERRORS[name].sure)
    assert not found.fix.startswith(("Add ", "In a recipe", "Build both"))


EXTENSION_LOG = """[1/2] /usr/bin/g++ -I/venv/lib/python3.12/site-packages/torch/include -c ops.cpp
FAILED: [code=1] /tmp/ops/build/ops.o
In file included from /venv/lib/python3.12/site-packages/torch/include/ATen/cuda/CUDAContext.h:3,
                 from /tmp/ops/ops.cpp:2:
/venv/lib/python3.12/site-packages/torch/include/ATen/cuda/CUDAContextLight.h:10:10: {}
   10 | #include <header>
compilation terminated.
ninja: build stopped: subcommand failed.
Traceback (most recent call last):
  File "/venv/lib/python3.12/site-packages/torch/utils/cpp_extension.py", line 2595, in _run_ninja_build
    subprocess.run(
subprocess.CalledProcessError: Command '['ninja', '-v']' returned non-zero exit status 1.
RuntimeError: Error compiling objects for extension
"""


@pytest.mark.parametrize(
    ("message", "entry", "header", "added"),
    [
        ("fatal error: {}: No such file or directory", "cuda-header", "cublas_v2.h", "libcublas to"),
        ("fatal error: '{}' file not found", "cuda-header", "cusparse.h", "libcusparse to"),
        (
            'catastrophic error: cannot open source file "{}"',
            "cuda-header",
            "curand_kernel.h",
            "libcurand to",
        ),
        (
            "fatal error C1083: Cannot open include file: '{}': No such file",
            "cuda-header",
            "cuda.h",
            "cuda_cudart",
        ),
        ("fatal error: {}: No such file or directory", "nccl-header", "nccl.h", "cudaPackages.nccl to"),
        ("fatal error: '{}' file not found", "cudnn-header", "cudnn.h", "cudaPackages.cudnn to"),
        ("fatal error: '{}' file not found", "python-headers", "Python.h", "python3-dev"),
        ("fatal error: {}: No such file or directory", "cccl-headers", "cub/cub.cuh", "include/cccl"),
        (
            "fatal error: {}: No such file or directory",
            "missing-header",
            "sndfile.h",
            "apt-file search sndfile.h",
        ),
        (
            "fatal error: {}: No such file or directory",
            "missing-header",
            "a/cuda.h",
            "apt-file search a/cuda.h",
        ),
    ],
)
def test_a_missing_header_is_named_with_the_package_that_has_it(
    message: str, entry: str, header: str, added: str
) -> None:
    found = diagnose_log(EXTENSION_LOG.format(message.format(header)), CATALOG)
    assert (found.entry, found.policy) == (entry, "stop")
    assert added in found.fix
    assert header in "\n".join([found.title, *found.lines])


@pytest.mark.parametrize(("entry", "shown"), [("cuda-header", True), ("missing-header", False)])
def test_only_of_a_certain_reason_it_says_that_a_retry_would_not_help(entry: str, shown: bool) -> None:
    lines: list[str] = []
    print_diagnosis(diagnose_log(SAMPLES[entry], CATALOG), line=lambda text, *_, **__: lines.append(text))
    assert any("would not help" in line for line in lines) is shown


@pytest.mark.parametrize(
    ("line", "releases"),
    [
        ("nvcc fatal   : Unsupported gpu architecture 'compute_120'", "CUDA 12.8 or newer"),
        ("nvcc fatal   : Unsupported gpu architecture 'sm_100a'", "CUDA 12.8 or newer"),
        ("nvcc fatal   : Unsupported gpu architecture 'compute_70'", "CUDA 12.9 or older"),
        ("ptxas fatal   : Value 'sm_121' is not defined for option 'gpu-name'", "CUDA 12.9 or newer"),
        ("nvcc fatal   : Unsupported gpu architecture 'compute_999'", "the catalog knows none"),
    ],
)
def test_an_unsupported_gpu_is_given_the_cuda_releases_that_compile_for_it(line: str, releases: str) -> None:
    found = diagnose_log(
        f"{line}\nerror: command '/usr/local/cuda/bin/nvcc' failed with exit code 1\n", CATALOG
    )
    assert found.entry == "unsupported-target"
    assert releases in found.fix


@pytest.mark.parametrize(
    "line",
    [
        "Found GPU0 NVIDIA RTX 9 which is of cuda capability 6.1.",
        "/x/__init__.py:9: UserWarning: NVIDIA RTX 9 with CUDA capability sm_120 is not compatible with the "
        "current PyTorch installation.",
    ],
)
def test_a_gpu_without_code_is_named_also_when_a_kernel_fails_later(line: str) -> None:
    later = "RuntimeError: CUDA error: no kernel image is available for execution on the device"
    for log in (line, f"{line}\n{later}\n"):
        found = diagnose_log(log, CATALOG)
        assert (found.entry, found.sure) == ("gpu-without-code", "certain")
        assert "--gpu 'NVIDIA RTX 9'" in found.fix


def test_a_gpu_that_is_only_newer_than_a_warning_says_is_no_error() -> None:
    warning = "Found GPU0 NVIDIA GB10 which is of cuda capability 12.1."
    assert diagnose_log(f"{warning}\n", CATALOG).line_number == 0


@pytest.mark.parametrize(
    ("line", "entry"),
    [
        ("  Could NOT find CUDAToolkit (missing: CUDAToolkit_INCLUDE_DIR)", "no-cuda-compiler"),
        ("  Could not find `nvcc` executable in any searched paths, please set", "no-cuda-compiler"),
        ("  Could not find nvcc, please set CUDAToolkit_ROOT.", "no-cuda-compiler"),
        ("  Your installed Caffe2 version uses CUDA but I cannot find the CUDA", "no-cuda-compiler"),
        ("    CMAKE_CUDA_COMPILER-NOTFOUND", "no-cuda-compiler"),
        ("Error 804: forward compatibility was attempted on non supported HW", "driver-combination"),
        ("CMake Error at cmake/FindCUDNN.cmake:3: cuDNN is missing", "cudnn-header"),
        ("ModuleNotFoundError: No module named 'torch._six'", "python-module-missing"),
        ("ImportError: x.so: undefined symbol: cudnnGetVersion", "other-cuda-library"),
        ("ImportError: x.so: undefined symbol: cubit_start", "undefined-symbol"),
        ("Could not run 'torchvision::nms' with arguments from the 'CUDA' backend.", "torchvision-operator"),
    ],
)
def test_like_errors_are_told_apart(line: str, entry: str) -> None:
    assert diagnose_log(f"{line}\n", CATALOG).entry == entry


FAILED = "error: builder for '/nix/store/abc-torch.drv' failed with exit code 137"
CANNOT = "error: Cannot build '/nix/store/abc-torch.drv'.\n       Reason: "


@pytest.mark.parametrize(
    ("log", "entry"),
    [
        (FAILED, "exit-code-137"),
        (f"[1/2] Building a.o\n{FAILED}", "exit-code-137"),
        (f"{CANNOT}builder failed with exit code 137.", "exit-code-137"),
        (f"{CANNOT}1 dependency failed.", "dependency-failed"),
        (f"[7/9] a.o\nFAILED: a.o\na.cpp:3:1: error: x\nninja: build stopped\n{FAILED}", ""),
        (f"{SAMPLES['no-package-index']}\n{SAMPLES['no-such-wheel']}", "no-package-index"),
    ],
)
def test_what_only_the_end_of_a_log_says_is_known(log: str, entry: str) -> None:
    assert diagnose_log(log, CATALOG).entry == entry


def test_an_error_without_an_entry_is_not_known_in_the_headline() -> None:
    lines: list[str] = []
    unknown = diagnose_log("RuntimeError: a new reason\n", CATALOG)
    print_diagnosis(unknown, line=lambda text, *_, **__: lines.append(text))
    assert "not known" in lines[0]
    assert "likely" not in lines[0]


def test_what_ptxas_says_before_its_step_fails_is_the_reason() -> None:
    log = """[41/99] Building CUDA object a.cu.o
ptxas fatal   : Value 'sm_121' is not defined for option 'gpu-name'
FAILED: [code=1] b.cu.o
/nix/store/x/bin/nvcc -c b.cu -o b.cu.o
ninja: build stopped: subcommand failed.
"""
    assert diagnose_log(log, CATALOG).entry == "unsupported-target"


def test_the_drivers_library_is_named_before_the_summary_of_auto_patchelf() -> None:
    log = """error: auto-patchelf could not satisfy dependency libcuda.so.1 wanted by /nix/store/x/libt.so
auto-patchelf failed to find all the required dependencies.
"""
    assert diagnose_log(log, CATALOG).entry == "patchelf-driver"


def test_colours_do_not_hide_an_error() -> None:
    log = "a.cpp: \x1b[01;31m\x1b[Kfatal error: \x1b[m\x1b[Kcuda/std/limits: No such file or directory"
    assert diagnose_log(log, CATALOG).entry == "cccl-headers"


@given(st.text())
def test_any_text_gets_an_answer_of_at_most_ten_lines(log: str) -> None:
    found = diagnose_log(log, CATALOG)
    assert len(found.lines) <= 10
    assert found.title


@pytest.mark.parametrize("name", ["'/nix/store/abc-torch.drv'", "/nix/store/abc-torch.drv"])
@pytest.mark.parametrize("end", ["failed", "failed with exit code 1;"])
def test_what_the_build_said_wins_over_that_it_failed(name: str, end: str) -> None:
    log = "g++: fatal error: Killed signal terminated program cc1plus\ncompilation terminated.\n"
    diagnosis = diagnose_log(f"[2/9] b.o\n{log}error: builder for {name} {end}\n", CATALOG)
    assert diagnosis.kind == "memory"


def test_a_cure_names_the_verb_that_does_it_and_a_missing_driver_is_not_certain() -> None:
    assert "`torchsmith fix-hashes`" in ERRORS["hash-mismatch-fixed-output"].fix
    assert ERRORS["no-libcuda-at-import"].sure == "likely"


def test_a_text_without_an_error_is_not_taken_for_a_log(tmp_path: Path) -> None:
    file = tmp_path / "default.nix"
    file.write_text("{ pkgs }:\npkgs.hello\n")
    with pytest.raises(Invalid, match="recognised as an error"):
        diagnose(DiagnoseRequest(log=file))


def test_a_pasted_text_without_an_error_gets_a_hint_for_what_was_pasted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"all is well\n")))
    with pytest.raises(Invalid) as told:
        diagnose(DiagnoseRequest(log=Path("-")))
    assert "torchsmith diagnose -" in told.value.hint


def test_only_in_a_workspace_an_unknown_error_is_to_be_added_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "build.log"
    file.write_text("RuntimeError: a new reason\n")
    assert "workspace" not in diagnose(DiagnoseRequest(log=file)).fix
    (tmp_path / "torchsmith.toml").write_text("format = 1\n")
    assert "catalog/errors.toml of the workspace" in diagnose(DiagnoseRequest(log=file)).fix


def test_bytes_that_are_no_text_do_not_hide_an_error(tmp_path: Path) -> None:
    file = tmp_path / "build.log"
    file.write_bytes(b"\xff\xfe\n" + SAMPLES["no-space"].encode())
    assert diagnose(DiagnoseRequest(log=file)).entry == "no-space"


def test_what_is_not_a_log_gets_a_message_with_the_next_step(tmp_path: Path) -> None:
    wheel, empty = tmp_path / "x-1-py3-none-any.whl", tmp_path / "empty.log"
    with zipfile.ZipFile(wheel, "w") as packed:
        packed.writestr("x/__init__.py", "raise ImportError\n")
    empty.touch()
    for path, said in ((wheel, "is not text"), (empty, "is empty"), (tmp_path, "is a folder")):
        with pytest.raises(Problem, match=said) as told:
            diagnose(DiagnoseRequest(log=path))
        assert "log" in told.value.hint or "torchsmith diagnose -" in told.value.hint


def test_rules_that_fixes_name_exist() -> None:
    named = {id for error in ERRORS.values() for id in re.findall(r"TS\d{3}", error.fix)}
    assert named
    assert named <= {rule.id for rule in all_rules()}


def test_fixes_say_what_to_do_and_not_what_we_call_it() -> None:
    names = builtin_catalog().fixes
    assert not [error.name for error in ERRORS.values() for name in names if name in error.fix]
