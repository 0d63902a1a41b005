"""A failed log is told by name, class, cause and cure, how sure that is, and the lines that matter."""

from __future__ import annotations

import tomllib
from copy import copy
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchsmith.catalog import builtin_catalog
from torchsmith.catalog.check import faults_of
from torchsmith.repair.diagnose import diagnose

ERRORS = builtin_catalog().errors
LOGS = sorted((Path(__file__).parent / "logs").glob("*.log"))
# A line as the tool itself writes it, for every known error that a build's own lines show.
SAMPLES = {
    "magma-clockrate": "magma.cpp:61:33: error: 'struct cudaDeviceProp' has no member named 'clockRate'",
    "torch-feature-version": 'error: static assertion failed: "TORCH_FEATURE_VERSION must be 2.10"',
    "cccl-headers": "fatal error: cuda/std/utility: No such file or directory",
    "find-cuda-toolkit-install": 'file INSTALL cannot find "/build/cmake/Modules/FindCUDAToolkit.cmake"',
    "find-cuda-toolkit-recursion": "FindCUDAToolkit.cmake:3: Maximum recursion depth of 1000 exceeded",
    "patch-does-not-apply": "Hunk #1 FAILED at 21.",
    "unknown-architecture": "CMake Error: Unknown CUDA Architecture Name sm_120 in CUDA_SELECT",
    "unsupported-target": "nvcc fatal   : Unsupported gpu architecture 'compute_121'",
    "no-kernel-image": "RuntimeError: CUDA error: no kernel image is available for execution on the device",
    "illegal-instruction": "setup: line 8: 31 Illegal instruction (core dumped) python3 -c 'import torch'",
    "out-of-memory": "c++: fatal error: Killed signal terminated program cc1plus",
    "terminated": "c++: fatal error: Terminated signal terminated program cc1plus",
    "no-space": "/tmp/tmpxft_0.cubin: No space left on device",
    "source-gone": "curl: (22) The requested URL returned error: 404",
    "fetch": "error: cannot download v2.10.0.tar.gz from any mirror",
    "certificate": "curl: (60) SSL certificate problem: unable to get local issuer certificate",
    "build-wants-network": "fatal: unable to access 'https://github.com/a/b/': Could not resolve host",
}


def test_every_error_that_a_build_shows_has_a_sample() -> None:
    assert SAMPLES.keys() == {name for name, error in ERRORS.items() if error.says == "build"}


def test_every_known_error_stands_in_some_log() -> None:
    told = {verdict(path)["error"] for path in LOGS}
    assert len(LOGS) >= 60
    assert {name for name, error in ERRORS.items() if error.says == "nix"} <= told


def verdict(path: Path) -> dict[str, str]:
    return tomllib.loads(path.read_text().partition("+++\n")[0])


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_a_log_gets_its_verdict(path: Path) -> None:
    due = verdict(path)
    found = diagnose(path.read_text().partition("+++\n")[2], ERRORS.values())
    assert (found.entry, found.policy, found.sure) == (due["error"], due["policy"], due["sure"])
    assert found.kind == (ERRORS[found.entry].kind if found.entry else due["kind"])


@pytest.mark.parametrize("name", SAMPLES)
def test_a_known_error_is_found_among_thousands_of_lines(name: str) -> None:
    noise = [f"[{n}/6000] Building CXX object caffe2/file{n}.cpp.o" for n in range(6000)]
    log = "\n".join([*noise, SAMPLES[name], "ninja: build stopped: subcommand failed."])
    found = diagnose(log, ERRORS.values())
    known = ERRORS[name]
    assert (found.entry, found.kind, found.policy) == (name, known.kind, known.policy)
    assert SAMPLES[name] in found.lines
    assert found.line_number == 6001
    assert found.cure == known.cure


def test_what_stands_far_from_the_end_is_a_guess_and_no_reason_to_build_again() -> None:
    steps = [f"[{n}/300] Building a{n}.o" for n in range(300)]
    log = "\n".join(
        [SAMPLES["out-of-memory"], *steps, "error: builder for '/nix/store/x.drv' failed with exit code 1"]
    )
    found = diagnose(log, ERRORS.values())
    assert (found.entry, found.policy, found.sure) == ("out-of-memory", "stop", "guess")


def test_only_what_is_certain_to_pass_is_tried_again() -> None:
    catalog = builtin_catalog()
    assert not [fault for fault in faults_of(catalog) if str(fault).startswith("errors:")]
    unsure = msgspec.structs.replace(ERRORS["nix-fetch"], sure="likely", gives_way_to=("nothing",))
    changed = copy(catalog)
    changed.__dict__["errors"] = {**ERRORS, "nix-fetch": unsure}
    assert len([fault for fault in faults_of(changed) if str(fault).startswith("errors: nix-fetch")]) == 2


def test_a_compile_error_that_nobody_described_is_told_from_everything_else() -> None:
    log = "[1/2] Building a.o\nFAILED: a.o\na.cpp:3:1: error: expected ';'\nninja: build stopped\n"
    found = diagnose(log, ERRORS.values())
    assert (found.entry, found.kind, found.policy) == ("", "compile", "stop")
    assert "a.cpp:3:1: error: expected ';'" in found.lines


def test_nix_own_last_words_are_not_taken_for_a_compile_error() -> None:
    log = "error: builder for '/nix/store/x.drv' failed with exit code 1\nerror: 1 dependencies of derivation"
    assert diagnose(log, ERRORS.values()).kind == "unknown"


def test_colours_do_not_hide_an_error() -> None:
    log = "a.cpp: \x1b[01;31m\x1b[Kfatal error: \x1b[m\x1b[Kcuda/std/limits: No such file or directory"
    assert diagnose(log, ERRORS.values()).entry == "cccl-headers"


@given(st.text())
def test_any_text_gets_an_answer_of_at_most_ten_lines(log: str) -> None:
    found = diagnose(log, ERRORS.values())
    assert len(found.lines) <= 10
    assert found.title
