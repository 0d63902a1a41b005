"""The system of a machine comes from a text or from a product of one system alone, never from our builds."""

from __future__ import annotations

import pytest

from tests.host.machines import stated
from torchsmith.catalog import builtin_catalog
from torchsmith.core.problem import NotKnown
from torchsmith.host.demand import demands
from torchsmith.host.fleet import MachineKind
from torchsmith.host.pick import Pick, pick
from torchsmith.host.read_report import read_report
from torchsmith.host.resolve import capability_of, resolve
from torchsmith.host.stated import find_cpu_name, gather
from torchsmith.host.wheels import wheels_for
from torchsmith.workspace.load import open_workspace

CATALOG = builtin_catalog()
CELLS = open_workspace(None, "every").cells_of(CATALOG.torch)


def answered(text: str) -> Pick:
    facts = read_report(text, "report.txt")
    return pick(facts, CELLS, CATALOG, CATALOG.workloads["general"])


@pytest.mark.parametrize(
    ("text", "system"),
    [
        (
            "Python platform: Linux-4.14.0-115.el7a.ppc64le-ppc64le-with-glibc2.10\n"
            "GPU 0: Tesla V100-SXM2-16GB\nNvidia driver version: 550.54.15\n",
            "powerpc64le-linux",
        ),
        ("IBM AC922 with POWER9 and 4x V100, driver 550.54.15\n", "powerpc64le-linux"),
        ("a RISC-V board, VisionFive 2, with a GTX 1060\n", "riscv64-linux"),
        ("Loongson 3A6000, RTX 3060, driver 550.54.14\n", "loongarch64-linux"),
        ("Termux on Android 14, aarch64, Linux localhost 5.10.168 aarch64\n", "aarch64-android"),
        ("FreeBSD 14.1 amd64 with an RTX 3060, driver 550.54.14\n", "x86_64-freebsd"),
    ],
)
def test_a_system_that_no_build_is_for_is_named_and_refused(text: str, system: str) -> None:
    answer = answered(text)
    assert answer.host.system == system
    assert not answer.has_variant
    assert not answer.served
    assert not answer.wanted
    assert bool(wheels_for(answer.host, CATALOG)) is (system == "x86_64-windows")


@pytest.mark.parametrize("gpu", ["GeForce GTX 1080 Ti", "Tesla V100-SXM2-16GB", "Tesla P100-PCIE-16GB"])
def test_a_card_says_nothing_of_the_system_it_is_in(gpu: str) -> None:
    answer = answered(f"GPU 0: {gpu}\nNvidia driver version: 550.54.15\n")
    assert answer.host.system is None
    assert answer.choice.variants[0].fit.assumes("system")
    on_arm = answered(f"Architecture:  aarch64\nGPU 0: {gpu}\nNvidia driver version: 550.54.15\n")
    assert on_arm.host.system == "aarch64-linux"
    assert not on_arm.host.conflict
    assert not on_arm.served


@pytest.mark.parametrize("gpu", ["NVIDIA GH200 480GB", "NVIDIA GB10", "Jetson AGX Orin", "Jetson TX2"])
def test_a_product_of_one_system_says_which(gpu: str) -> None:
    facts = resolve(stated(gpu=gpu), CATALOG)
    assert capability_of(facts).system == "aarch64-linux"
    other = resolve(stated(gpu=gpu, system="x86_64"), CATALOG)
    assert capability_of(other).conflict
    assert [note.source for note in other.notes if note.code == "conflict"] == ["a test"]


@pytest.mark.parametrize(
    ("words", "system", "release", "glibc"),
    [
        ("x86_64", "x86_64-linux", "", ""),
        ("ubuntu 18.04", None, "Ubuntu 18.04", "2.27"),
        ("Debian 12 aarch64", "aarch64-linux", "Debian 12", "2.36"),
        ("nixos", None, "NixOS", ""),
        ("Alpine 3.19", None, "Alpine Linux", "musl"),
        ("macOS 14", "any-darwin", "macOS 14", ""),
        ("mac", "any-darwin", "", ""),
        ("windows", "x86_64-windows", "", ""),
        ("aarch64-windows", "aarch64-windows", "", ""),
    ],
)
def test_a_system_is_read_as_in_a_report(words: str, system: str | None, release: str, glibc: str) -> None:
    given = capability_of(resolve(gather([], stated(system=words), CATALOG), CATALOG))
    assert (given.system, given.release, given.glibc) == (system, release, glibc)
    reported = capability_of(resolve(read_report(f"OS: {words}", "report.txt"), CATALOG))
    assert (given.system, given.release, given.glibc) == (reported.system, reported.release, reported.glibc)


def test_a_mac_with_a_linux_is_one_of_linux() -> None:
    assert capability_of(resolve(stated(system="Ubuntu 22.04", cpu="m2"), CATALOG)).system == "aarch64-linux"
    assert capability_of(resolve(stated(system="macOS 14", cpu="m2"), CATALOG)).system == "aarch64-darwin"
    assert capability_of(resolve(stated(cpu="m2"), CATALOG)).system == "aarch64-darwin"


@pytest.mark.parametrize("words", ["plan9", "ubuntu 15.04", "ubuntu", "foo-bar"])
def test_a_system_that_is_not_known_is_an_error(words: str) -> None:
    with pytest.raises(NotKnown):
        stated(system=words)


def test_a_build_with_cuda_needs_a_libcuda_which_musl_does_not_have() -> None:
    answer = answered("Alpine Linux 3.19 x86_64\nGPU: RTX 4090")
    [fit] = [assigned.fit for assigned in answer.choice.variants]
    assert "libcuda" in {reason.code for reason in fit.assumptions}
    ubuntu = answered("Ubuntu 22.04 x86_64\nGPU: RTX 4090").choice.variants
    assert not [one for one in ubuntu if one.fit.assumes("libcuda")]
    facts = stated(system="Alpine 3.19", cpu="zen3", gpu="RTX 4090")
    [demand], _ = demands([MachineKind("a", facts)], CELLS, CATALOG, CATALOG.workloads["general"])
    assert all(fit.assumes("libcuda") for fit in demand.fits.values())


@pytest.mark.parametrize("cpu", ["Celeron J4125", "Pentium G4560", "POWER9", "Raspberry Pi 9", "XYZ 1000"])
def test_a_hint_for_an_unknown_cpu_proposes_no_instruction_set(cpu: str) -> None:
    with pytest.raises(NotKnown) as problem:
        find_cpu_name(cpu, CATALOG)
    words = f"{problem.value.message} {problem.value.hint}"
    assert not [isa for isa in CATALOG.isas if f"--isa {isa}" in words]


def test_a_cpu_of_a_system_without_builds_is_named() -> None:
    with pytest.raises(NotKnown, match="powerpc64le-linux"):
        find_cpu_name("POWER9", CATALOG)


@pytest.mark.parametrize("gpu", ["GTX 1080", "V100", "P100", "GTX 980"])
def test_a_driver_newer_than_the_last_series_of_a_gpu_gets_no_build(gpu: str) -> None:
    def with_driver(driver: str) -> Pick:
        facts = stated(cpu="zen3", gpu=gpu, driver=driver)
        return pick(facts, CELLS, CATALOG, CATALOG.workloads["general"])

    ended = with_driver("590.44.01")
    assert not ended.served
    assert not [one for one in ended.choice.variants if one.gpus]
    assert [wheel.cuda for wheel in wheels_for(ended.host, CATALOG)] == [""]
    for last in ("580.95.05", "581.80"):  # Linux' and Windows' numbers of one series
        answer = with_driver(last)
        [wheel] = wheels_for(answer.host, CATALOG)
        assert wheel.cuda
        assert answer.served is (gpu != "GTX 980")
    unknown = with_driver("")
    assert all(
        any(reason.code == "driver" and "580" in reason.text for reason in one.fit.assumptions)
        for one in unknown.choice.variants
        if one.gpus
    )


def test_a_newer_gpu_has_no_last_driver() -> None:
    facts = stated(cpu="zen3", gpu="RTX 4090", driver="610.43.02")
    assert pick(facts, CELLS, CATALOG, CATALOG.workloads["general"]).served
