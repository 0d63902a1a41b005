"""PyTorch's own wheels: for sixty machines the one that is named, and whether it runs there.

What a wheel has is written down once more here, as `verify` and the Python index gave it on 2026-11-18; what
rests on release notes is counted apart.
"""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from torchsmith.catalog import DriverVersion, PythonVersion, Sm, builtin_catalog
from torchsmith.host.resolve import Capability, capability_of, resolve
from torchsmith.host.stated import stated_facts
from torchsmith.host.wheel_needs import WheelWish, why_no_wheel
from torchsmith.host.wheels import WheelOffer, wheels_for
from torchsmith.matrix.select import Selector

CATALOG = builtin_catalog()

# cuobjdump's lists of libtorch_cuda.so in the wheels on the Python index: complete sets of code, no strays.
READ = {
    ("x86_64", "13.2"): "75 80 86 90 100 120",
    ("x86_64", "13.0"): "75 80 86 90 100 120",
    ("x86_64", "12.8"): "70 75 80 86 90 100 120",
    ("aarch64", "13.2"): "80 90 100 110 120",
    ("aarch64", "13.0"): "80 90 100 110 120",
}
# The CUDA release of a wheel on the Python index, as its METADATA requires it.
REQUIRED = {
    "13.2": ["2.15.0 x86_64", "2.15.0 aarch64"],
    "13.0": [
        f"{torch} {arch}"
        for torch in ("2.14.1", "2.13.0", "2.12.1", "2.11.0")
        for arch in ("x86_64", "aarch64")
    ],
    "12.8": ["2.10.0 x86_64", "2.9.1 x86_64", "2.8.0 x86_64"],
}
# The oldest driver of Linux that runs a CUDA release, by NVIDIA's release notes.
LEAST = {"12.6": (525, 60), "12.8": (525, 60), "12.9": (525, 60), "13.0": (580, 65), "13.2": (580, 65)}

# A machine, and the wheel: its torch, and the index or kind.
MACHINES = {
    "RTX 4090, 595": ("zen4", "RTX 4090", "595.58.03", "2.15.0 13.2"),
    "RTX 4090, 580": ("zen4", "RTX 4090", "580.95.05", "2.15.0 13.0"),
    "RTX 4090, 570": ("zen4", "RTX 4090", "570.124.06", "2.14.1 12.6"),
    "RTX 4090, 560": ("zen4", "RTX 4090", "560.35.03", "2.14.1 12.6"),
    "RTX 4090, 550": ("zen4", "RTX 4090", "550.54.14", "2.14.1 12.6"),
    "RTX 4090, 535": ("zen4", "RTX 4090", "535.104.05", "2.14.1 12.6"),
    "RTX 4090, 525": ("zen4", "RTX 4090", "525.60.13", "2.14.1 12.6"),
    "RTX 4090, 520": ("zen4", "RTX 4090", "520.56.06", "2.15.0 cpu"),
    "RTX 4090, driver unknown": ("zen4", "RTX 4090", "", "2.14.1 12.6"),
    "L4, 580": ("zen3", "L4", "580.95.05", "2.15.0 13.0"),
    "L40S, 570": ("zen4", "L40S", "570.124.06", "2.14.1 12.6"),
    "A100, 535": ("zen3", "A100", "535.104.05", "2.14.1 12.6"),
    "A100, 580": ("zen3", "A100", "580.95.05", "2.15.0 13.0"),
    "A100, 470": ("zen3", "A100", "470.82", "2.15.0 cpu"),
    "A10, 550": ("zen3", "A10", "550.54.14", "2.14.1 12.6"),
    "A30, 595": ("zen3", "A30", "595.58.03", "2.15.0 13.2"),
    "RTX 3090, 580": ("zen3", "RTX 3090", "580.95.05", "2.15.0 13.0"),
    "RTX 3060, 545": ("zen2", "RTX 3060", "545.29.06", "2.14.1 12.6"),
    "A6000, 570": ("zen3", "RTX A6000", "570.124.06", "2.14.1 12.6"),
    "T4, 580": ("skylake_avx512", "T4", "580.95.05", "2.15.0 13.0"),
    "T4, 535": ("skylake_avx512", "T4", "535.104.05", "2.14.1 12.6"),
    "RTX 2080 Ti, 550": ("zen2", "RTX 2080 Ti", "550.54.14", "2.14.1 12.6"),
    "H100, 580": ("sapphirerapids", "H100", "580.95.05", "2.15.0 13.0"),
    "H100, 535": ("sapphirerapids", "H100", "535.104.05", "2.14.1 12.6"),
    "H100, driver unknown": ("sapphirerapids", "H100", "", "2.14.1 12.6"),
    "H200, 595": ("sapphirerapids", "H200", "595.58.03", "2.15.0 13.2"),
    "B200, 570": ("sapphirerapids", "B200", "570.133.20", "2.11.0 12.8"),
    "B200, 580": ("sapphirerapids", "B200", "580.95.05", "2.15.0 13.0"),
    "B300, 580": ("sapphirerapids", "B300", "580.95.05", "2.15.0 13.0"),
    "RTX 5090, 570": ("zen5", "RTX 5090", "570.124.06", "2.11.0 12.8"),
    "RTX 5090, 580": ("zen5", "RTX 5090", "580.95.05", "2.15.0 13.0"),
    "RTX 5090, 550": ("zen5", "RTX 5090", "550.54.14", "2.15.0 cpu"),
    "RTX PRO 6000 Blackwell, 580": ("zen5", "RTX PRO 6000 Blackwell", "580.95.05", "2.15.0 13.0"),
    "V100, 535": ("skylake_avx512", "V100", "535.104.05", "2.14.1 12.6"),
    "V100, 570": ("skylake_avx512", "V100", "570.124.06", "2.14.1 12.6"),
    "V100, 580": ("skylake_avx512", "V100", "580.95.05", "2.14.1 12.6"),
    "V100, 590": ("skylake_avx512", "V100", "590.44.01", "2.15.0 cpu"),
    "GTX 1080, 570": ("haswell", "GTX 1080", "570.124.06", "2.14.1 12.6"),
    "GTX 1080, 590": ("haswell", "GTX 1080", "590.44.01", "2.15.0 cpu"),
    "P100, 535": ("haswell", "P100", "535.104.05", "2.14.1 12.6"),
    "GTX 980, 550": ("haswell", "GTX 980", "550.54.14", "2.14.1 12.6"),
    "K80, 470": ("haswell", "Tesla K80", "470.82", "2.15.0 cpu"),
    "T4 and L4, 580": ("zen3", "T4 + L4", "580.95.05", "2.15.0 13.0"),
    "V100 and A100, 580": ("zen3", "V100 + A100", "580.95.05", "2.14.1 12.6"),
    "V100 and RTX 5090, 570": ("zen3", "V100 + RTX 5090", "570.124.06", "2.11.0 12.8"),
    "GH200, 580": ("", "GH200", "580.95.05", "2.15.0 13.0"),
    "GH200, 550": ("", "GH200", "550.54.14", "2.14.1 12.6"),
    "GB200, 580": ("", "GB200", "580.95.05", "2.15.0 13.0"),
    "GB200, 570": ("", "GB200", "570.133.20", "2.10.0 12.8"),
    "DGX Spark, 580": ("", "DGX Spark", "580.95.05", "2.15.0 13.0"),
    "Jetson Thor": ("", "Jetson Thor", "", "2.15.0 13.0"),
    "Jetson AGX Orin": ("", "Jetson AGX Orin", "", "2.8.0 12.6"),
    "Graviton 3 with T4g": ("graviton2", "T4g", "580.95.05", "2.15.0 cpu"),
    "Graviton 2": ("graviton2", "none", "", "2.15.0 cpu"),
    "Graviton 4": ("graviton4", "none", "", "2.15.0 cpu"),
    "zen 4, no GPU": ("zen4", "none", "", "2.15.0 cpu"),
    "Apple M3": ("M3", "", "", "2.15.0 MPS"),
    "MI300X": ("zen4", "MI300X", "", "2.14.0 ROCm 7.2"),
    "RX 7900 XTX": ("zen4", "RX 7900 XTX", "", "2.14.0 ROCm 7.2"),
    "RX 9070 XT": ("zen4", "RX 9070 XT", "", "2.14.0 ROCm 7.2"),
    "RX 6600": ("zen4", "RX 6600", "", "2.14.0 ROCm 7.2"),
    "Radeon 780M": ("zen4", "Radeon 780M", "", "2.14.0 ROCm 7.2"),
    "RX 580": ("zen4", "RX 580", "", "2.15.0 cpu"),
}


def machine(cpu: str, gpu: str, driver: str = "") -> Capability:
    facts = stated_facts(CATALOG, "a test", cpu=cpu, gpu=gpu, driver=driver)
    return capability_of(resolve(facts, CATALOG))


def title(wheel: WheelOffer) -> str:
    kind = wheel.cuda or (f"ROCm {wheel.rocm}" if wheel.rocm else wheel.gpu or "cpu")
    return f"{wheel.torch} {kind}"


def test_there_are_sixty_machines_and_most_wheels_rest_on_release_notes() -> None:
    assert len(MACHINES) >= 60
    read = Counter(
        not wheels_for(machine(cpu, gpu, driver), CATALOG)[0].unproved
        for cpu, gpu, driver, _ in MACHINES.values()
    )
    # docs/proved.md has these figures.
    assert (read[True], read[False]) == (4, 59)


@pytest.mark.parametrize("name", MACHINES)
def test_the_wheel_of_a_machine(name: str) -> None:
    cpu, gpu, driver, wanted = MACHINES[name]
    host = machine(cpu, gpu, driver)
    [wheel] = wheels_for(host, CATALOG)
    assert title(wheel) == wanted
    if not wheel.cuda:
        assert bool(wheel.drawbacks) is (bool(host.sms) or gpu == "RX 580")
        return
    arch = (host.system or "").partition("-")[0]
    code = [int(sm) for sm in READ.get((arch, wheel.cuda), "").split()]
    for sm in host.sms or () if code else ():
        assert any(sm.major == one // 10 and one % 10 <= sm.minor for one in code), (
            "it has code for every GPU"
        )
    if driver:
        assert DriverVersion.parse(driver).parts[:2] >= LEAST[wheel.cuda]
    else:
        assert any("driver" in text for text in wheel.assumptions)


def test_the_catalog_has_what_was_read_off_the_wheels() -> None:
    for cuda, name in ((cuda, name) for cuda, names in REQUIRED.items() for name in names):
        torch, arch = name.split()
        wheel = CATALOG.published_wheels[f"{torch} cu{cuda.replace('.', '')} {arch}-linux"]
        assert wheel.install == f"install torch=={torch}", "pip finds it without another index"
        assert not wheel.unproved
        assert " ".join(str(sm.number) for sm in wheel.index.sms) == READ[arch, cuda]
        assert all(wheel.sizes_mb)


def test_a_newer_driver_is_proposed_for_a_newer_torch_alone() -> None:
    [offer] = wheels_for(machine("zen4", "RTX 4090"), CATALOG)
    assert offer.other
    assert offer.other.torch == "2.15.0"
    [newest] = wheels_for(machine("zen4", "RTX 4090"), CATALOG, WheelWish(torch="2.15"))
    assert newest.other is None


def test_a_gpu_runs_code_of_its_siblings_and_that_is_not_waste() -> None:
    [wheel] = wheels_for(machine("zen4", "RTX 4090", "595.58.03"), CATALOG)
    assert wheel.unused == 5  # of six, sm86 is used
    [wheel] = wheels_for(machine("zen4", "RTX 3090", "595.58.03"), CATALOG)
    assert wheel.unused == 5


def test_of_gpus_that_no_wheel_serves_together_the_newest_is_served() -> None:
    for driver, wanted, idle in (
        ("570", "2.11.0 12.8", "GTX 1080"),
        ("580", "2.15.0 13.0", "GTX 1080"),
        ("595.58.03", "2.15.0 13.2", "GTX 1080"),
        ("550", "2.14.1 12.6", "RTX 5090"),  # which that driver does not know
    ):
        [wheel] = wheels_for(machine("zen4", "RTX 5090 + GTX 1080", driver), CATALOG)
        assert (title(wheel), wheel.idle) == (wanted, (idle,))
        assert not wheel.uses_no_gpu
    [wheel] = wheels_for(machine("zen4", "RTX 5090 + GTX 1080 + A100", "580"), CATALOG)
    assert (title(wheel), wheel.idle) == ("2.15.0 13.0", ("GTX 1080",))


@pytest.mark.parametrize(
    ("gpus", "wanted", "idle", "override"),
    [
        ("RX 7900 XTX + gfx1036", "2.14.0 ROCm 7.2", ("gfx1036",), False),  # the second is in the CPU
        ("RX 580 + RX 7900 XTX", "2.14.0 ROCm 7.2", ("RX 580",), False),
        ("RX 9070 XT + Radeon 680M", "2.14.0 ROCm 7.2", ("Radeon 680M",), False),
        ("RX 6600 + Radeon 680M", "2.14.0 ROCm 7.2", (), True),
        ("RX 7900 XTX + Arc A770", "2.14.0 ROCm 7.2", ("Arc A770",), False),
        ("Radeon 780M + Arc A770", "2.14.1 XPU", ("Radeon 780M",), False),
    ],
)
def test_of_gpus_of_other_makers_most_are_used(
    gpus: str, wanted: str, idle: tuple[str, ...], override: bool
) -> None:
    [wheel] = wheels_for(machine("zen4", gpus), CATALOG)
    assert (title(wheel), wheel.idle, wheel.uses_no_gpu) == (wanted, idle, False)
    assert any("HSA_OVERRIDE" in text for text in wheel.assumptions) is override
    assert any(all(name in text for name in idle) for text in wheel.drawbacks) is bool(idle)


@pytest.mark.parametrize("torch", ["2.15", "2.14", "2.12"])
def test_an_unknown_driver_gets_the_wheel_of_the_oldest_that_runs_it(torch: str) -> None:
    wish = WheelWish(torch=torch)
    [unknown] = wheels_for(machine("zen4", "RTX 4090"), CATALOG, wish)
    needed = "580" if unknown.cuda > "13" else "525.60.13"
    [known] = wheels_for(machine("zen4", "RTX 4090", needed), CATALOG, wish)
    assert unknown.pip == known.pip


def test_an_old_c_library_gets_no_wheel() -> None:
    host = machine("zen4", "none")
    assert wheels_for(replace(host, glibc="2.28"), CATALOG)
    assert wheels_for(replace(host, glibc="2.17"), CATALOG) == []


@pytest.mark.parametrize(
    ("macos", "python", "wanted"),
    [
        ("12", "3.12", "2.11.0 cpu"),
        ("13", "3.12", "2.8.0 MPS"),  # the last release that uses the GPU there
        ("13", "3.14", "2.11.0 cpu"),
        ("14", "3.12", "2.15.0 MPS"),
        ("26", "3.10", "2.14.1 MPS"),
    ],
)
def test_an_older_macos_gets_the_newest_wheel_that_uses_the_gpu_there(
    macos: str, python: str, wanted: str
) -> None:
    wish = WheelWish(python=PythonVersion.parse(python))
    [wheel] = wheels_for(replace(machine("M3", ""), macos=macos), CATALOG, wish)
    assert (title(wheel), wheel.needs) == (wanted, ())
    assert any("CPU" in text for text in wheel.drawbacks) is wanted.endswith("cpu")
    [unknown] = wheels_for(machine("M3", ""), CATALOG, wish)
    assert unknown.needs == ("macOS 14",)
    assert wheels_for(replace(machine("M3", ""), macos="10.15"), CATALOG, wish) == []


@pytest.mark.parametrize(
    ("words", "driver", "wish", "why"),
    [
        ("cu128", "", {"torch": "2.15"}, ("torch 2.15", "CUDA 12.8")),
        ("13.0", "570.124.06", {}, ("CUDA 13.0", "RTX 4090", "driver 570")),
        (
            "",
            "580.95.05",
            {"torch": "2.15", "python": PythonVersion.parse("3.9")},
            ("torch 2.15", "Python 3.9"),
        ),
        ("", "", {"python": PythonVersion.parse("3.8")}, ("Python 3.8",)),
        ("", "", {"packages": ("vllm",)}, ("vllm",)),
        ("", "", {"torch": "2.7"}, ("torch 2.7",)),
    ],
)
def test_the_reason_for_no_wheel_is_the_first_requirement_that_none_meets(
    words: str, driver: str, wish: dict[str, str], why: tuple[str, ...]
) -> None:
    host = machine("zen4", "RTX 4090", driver)
    asked = WheelWish(**wish, selector=Selector.parse(words.split(), CATALOG))  # type: ignore[arg-type]
    assert wheels_for(host, CATALOG, asked) == []
    given = why_no_wheel(host, CATALOG, asked)
    assert ("2.8 or newer" in given) is ("torch" not in wish)
    named = ("CUDA", "Python", "driver", "glibc", "vllm")
    assert all(text in given for text in why)
    assert all(any(name in text for text in why) for name in named if name in given)


def test_the_aarch64_wheel_of_2_10_needs_lse() -> None:
    old = Capability(system="aarch64-linux", features=frozenset({"asimd", "crc32"}), sms=())
    new = Capability(system="aarch64-linux", features=frozenset({"asimd", "crc32", "atomics"}), sms=())
    assert wheels_for(old, CATALOG, WheelWish(torch="2.10")) == []
    assert title(wheels_for(old, CATALOG, WheelWish(torch="2.11"))[0]) == "2.11.0 cpu"
    assert title(wheels_for(new, CATALOG, WheelWish(torch="2.10"))[0]) == "2.10.0 cpu"
    [unknown] = wheels_for(Capability(system="aarch64-linux", sms=()), CATALOG, WheelWish(torch="2.10"))
    assert "a CPU with atomics" in unknown.needs


def test_a_gpu_of_unknown_architecture_beside_a_known_one_does_not_keep_its_wheel_away() -> None:
    known = Capability(system="x86_64-linux", sms=(Sm.parse("sm89"),), unknown_gpus=("a GPU",))
    assert wheels_for(known, CATALOG)
    assert wheels_for(replace(known, sms=()), CATALOG) == []


@pytest.mark.parametrize(("python", "torch"), [("3.9", "2.8.0"), ("3.10", "2.14.1"), ("3.15", "2.15.0")])
def test_a_wheel_is_for_the_python_that_is_wanted(python: str, torch: str) -> None:
    [wheel] = wheels_for(machine("zen4", "none"), CATALOG, WheelWish(python=PythonVersion.parse(python)))
    assert wheel.torch == torch
    assert wheels_for(machine("zen4", "none"), CATALOG, WheelWish(python=PythonVersion.parse("3.99"))) == []


@pytest.mark.parametrize("text", ["Intel Arc A770", "Intel(R) Data Center GPU Max 1550"])
def test_a_gpu_of_intel_gets_its_wheel_on_both_systems(text: str) -> None:
    for system in ("x86_64-linux", "x86_64-windows"):
        [wheel] = wheels_for(Capability(system=system, sms=(), non_nvidia_gpus=(text,)), CATALOG)
        assert (wheel.gpu, wheel.pip.rpartition("/")[2]) == ("XPU", "xpu")


def test_windows_has_wheels_for_the_gpu_on_another_index() -> None:
    sm = Sm.parse("sm89")
    driver = DriverVersion.parse("581.80")
    host = Capability(system="x86_64-windows", sms=(sm,), driver=driver, windows=True)
    [wheel] = wheels_for(host, CATALOG)
    assert wheel.pip.endswith("--index-url https://download.pytorch.org/whl/cu130")
    [cpu] = wheels_for(Capability(system="x86_64-windows", sms=()), CATALOG)
    assert cpu.pip == "pip install torch==2.15.0"


@pytest.mark.parametrize(("gpu", "value"), [("RX 6600", "10.3.0"), ("Radeon 780M", "11.0.0")])
def test_an_amd_gpu_without_code_of_its_own_runs_at_the_users_risk(gpu: str, value: str) -> None:
    [wheel] = wheels_for(machine("zen4", gpu), CATALOG)
    assert any(f"HSA_OVERRIDE_GFX_VERSION={value}" in text for text in wheel.assumptions)


def test_a_jetson_has_the_index_of_its_maker() -> None:
    [wheel] = wheels_for(machine("", "Jetson AGX Orin"), CATALOG)
    assert "jetson" in wheel.pip
    assert wheel.unproved
