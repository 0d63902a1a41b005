"""This machine: silent tools, absent tools, and who is asked at all."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.host.machines import Recorded, answer, corpus, stated
from torchsmith.catalog import builtin_catalog
from torchsmith.core.process import Finished
from torchsmith.host.detect import ThisMachine, detect
from torchsmith.host.facts import Fact, GpuFacts, HostFacts
from torchsmith.host.resolve import capability_of, resolve
from torchsmith.host.stated import gather

HANGS = corpus()["hung-nvidia-smi"]


def test_a_hung_nvidia_smi_is_ended_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "nvidia-smi"
    script.write_text(f"#!/bin/sh\nsleep 60 &\necho $! > {tmp_path}/child\nwait\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert HANGS.machine is not None

    class Mixed(ThisMachine):
        """The files of a machine with a GPU, and the real way to run commands."""

        def read(self, path: str) -> str | None:
            return HANGS.machine.files.get(path) if HANGS.machine else None

        def glob(self, pattern: str) -> list[str]:
            return Recorded(HANGS.machine.files if HANGS.machine else {}).glob(pattern)

        def uname(self) -> tuple[str, str]:
            return "Linux", "x86_64"

        def run(self, argv: Sequence[str], limit: float) -> Finished | None:
            return super().run(argv, limit) if argv[0] == "nvidia-smi" else None

    facts = resolve(detect(Mixed(), limit=1.0), builtin_catalog())
    assert any("1 s" in note.text for note in facts.notes)
    assert [str(sm) for sm in capability_of(facts).sms or ()] == ["sm86"]
    child = int((tmp_path / "child").read_text())
    deadline = time.monotonic() + 5
    while _alive(child) and time.monotonic() < deadline:
        time.sleep(0.01)  # the kernel ends it a moment later
    assert not _alive(child)


def _alive(process: int) -> bool:
    """Whether a process still works; one that only waits to be collected does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] not in ("Z", "X")
    except OSError:
        return False


def test_a_machine_without_a_trace_of_a_gpu_starts_no_tool() -> None:
    machine = Recorded({"/proc/cpuinfo": "", "/sys/bus/pci": ""})
    facts = detect(machine)
    assert facts.gpus is not None
    assert facts.gpus.value == ()
    assert machine.asked == []


def test_without_a_list_of_devices_a_tool_that_fails_still_shows_that_there_is_a_gpu() -> None:
    failed = {
        "nvidia-smi": answer("nvidia-smi", 9, "NVIDIA-SMI has failed because it couldn't communicate\n")
    }
    unknown, none = detect(Recorded(commands=failed)).gpus, detect(Recorded()).gpus
    assert unknown is not None
    assert unknown.value == (GpuFacts(),)
    assert none is not None
    assert none.value == ()


def test_an_old_driver_that_knows_no_compute_cap_is_asked_again_without_it() -> None:
    class Old(Recorded):
        def run(self, argv, limit):  # type: ignore[no-untyped-def]
            if argv[0] != "nvidia-smi":
                return None
            if "compute_cap" in argv[1]:
                return answer("nvidia-smi", 2, 'Field "compute_cap" is not a valid field to query.\n')
            return answer("nvidia-smi", 0, "name, driver_version\nTesla T4, 470.256.02\n")

    facts = resolve(detect(Old({"/dev/nvidia0": ""})), builtin_catalog())
    host = capability_of(facts)
    assert [str(sm) for sm in host.sms or ()] == ["sm75"]
    assert str(host.driver) == "470.256.02"


def test_the_file_of_the_driver_asks_for_no_model_that_nvidia_smi_names() -> None:
    version = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build"
    files = {"/proc/driver/nvidia/version": version, "/lib/x86_64-linux-gnu/libcuda.so.1": ""}
    smi = answer("nvidia-smi", 0, "name, compute_cap, driver_version\nNVIDIA H200, 9.0, 580.159.04\n")
    alone, both = detect(Recorded(files)), detect(Recorded(files, {"nvidia-smi": smi}))
    assert [gpu.label for gpu in alone.gpus.value] == ["a GPU without a name"] if alone.gpus else False
    assert [gpu.label for gpu in both.gpus.value] == ["NVIDIA H200"] if both.gpus else False


def test_this_machine_answers_for_real() -> None:
    facts = resolve(detect(ThisMachine()), builtin_catalog())
    assert facts.system is not None
    assert facts.features is not None
    assert facts.gpus is not None


def test_a_gpu_that_may_sit_here_is_added_to_what_this_machine_is() -> None:
    here = gather((), stated(gpu="L4"), builtin_catalog(), 1.0)
    assert here.features is not None
    assert here.system


@pytest.mark.parametrize(("machine", "gpu"), [("x86_64", "GH200"), ("x86_64", "Jetson AGX Orin")])
def test_a_gpu_that_cannot_sit_here_describes_another_machine(
    machine: str, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine=machine))
    assert gather((), stated(gpu=gpu), builtin_catalog(), 1.0).glibc is None


@pytest.mark.parametrize("there", [(), (GpuFacts(name=Fact("RTX 3060", "nvidia-smi")),)])
def test_a_gpu_that_is_named_is_noted_only_where_another_is_there(
    there: tuple[GpuFacts, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = HostFacts(gpus=Fact(there, "nvidia-smi"))
    monkeypatch.setattr("torchsmith.host.detect.detect", lambda machine, limit: found)
    facts = gather((), stated(gpu="RTX 5090"), builtin_catalog(), 1.0)
    assert bool(facts.notes) is bool(there)
