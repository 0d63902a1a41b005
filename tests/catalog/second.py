"""The catalog held against second.toml, what other sources say: every difference in words."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torchsmith.catalog import Catalog, Sm
from torchsmith.catalog.names import cpu_of_name
from torchsmith.catalog.runs import isa_contains
from torchsmith.host.parts import gpu_of_name

SECOND: dict[str, Any] = tomllib.loads(Path(__file__).with_name("second.toml").read_text())
HOSTS = {
    "x86": ("x86_64-linux",),
    "arm": ("aarch64-linux",),
    "both": ("x86_64-linux", "aarch64-linux"),
}
HAS = {"none": (), "avx": ("avx",), "avx2": ("avx", "avx2"), "avx512": ("avx", "avx2", "avx512")}
HAS["avx512vnni"] = (*HAS["avx512"], "avx512vnni")
HAS["vnni+bf16"] = (*HAS["avx512vnni"], "avx512bf16")
HAS |= {"armv8_2": ("armv8_2",), "armv9": ("armv8_2", "armv9")}


def gpu_names() -> Iterator[tuple[str, str]]:
    """Products, as drivers and virtual machines write them, with their capability."""
    for chip in SECOND["chips"].values():
        for name in chip["names"]:
            yield f"NVIDIA {name}", chip["capability"]
    for capability, names in SECOND["vgpus"].items():
        for name in names:
            yield name, capability


def cpu_names() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Products and everyday names with their microarchitecture and instruction sets."""
    for cpu, entry in SECOND["cpus"].items():
        for name in entry["names"]:
            yield name, cpu, HAS[entry["has"]]


def differences(catalog: Catalog) -> Iterator[str]:
    """Whatever the catalog says otherwise than the other sources do."""
    yield from _gpus(catalog)
    yield from _cpus(catalog)
    yield from _numbers(catalog)
    yield from _releases(catalog)
    yield from _pins(catalog)
    yield from _isas(catalog)
    yield from _builds(catalog)


def _gpus(catalog: Catalog) -> Iterator[str]:
    for name, capability in gpu_names():
        gpu = gpu_of_name(name, catalog)
        if gpu is None or gpu.sm.capability != capability:
            yield f"{name} is {capability}, not {gpu.sm.capability if gpu else 'unknown'}"
    for capability, said in SECOND["generations"].items():
        gpu = catalog.gpus[Sm.parse(capability)]
        pairs = {
            "generation": (gpu.generation, said["name"]),
            "driver": (str(gpu.min_driver), said["driver"]),
            "hosts": (gpu.platforms, HOSTS[said["hosts"]]),
            "Jetson": (gpu.tegra, said.get("jetson", False)),
            "CPU": (gpu.cpus, (said["cpu"],) if "cpu" in said else ()),
        }
        yield from (f"{gpu.name}: {what} is {b}, not {a}" for what, (a, b) in pairs.items() if a != b)
    for toolkit in catalog.cuda.values():
        drivers = [str(toolkit.min_driver), str(toolkit.native_driver or "")]
        if drivers != SECOND["cuda_drivers"].get(str(toolkit.version)):
            yield f"CUDA {toolkit.version}: drivers {drivers}"


def _cpus(catalog: Catalog) -> Iterator[str]:
    for name, expected, isas in cpu_names():
        cpu = cpu_of_name(name, catalog)
        if cpu is None or cpu.isas != isas:
            yield f"{name} has {isas}, not {cpu.isas if cpu else 'unknown'}"
        elif cpu.name != expected:
            yield f"{name} is {expected}, not {cpu.name}"
    isas_ = list(catalog.isas.values())
    for wider in isas_:
        for narrower in isas_:
            if wider != narrower and isa_contains(wider, narrower) and wider.level <= narrower.level:
                yield f"{wider.name} holds {narrower.name} and is not above it"
    # BF16 came a generation after VNNI; levels are counted from one on each platform.
    for platform, order in (
        ("x86_64-linux", "avx avx2 avx512 avx512vnni avx512bf16"),
        ("aarch64-linux", "armv8_2 armv9"),
    ):
        levels = {isa.name: isa.level for isa in isas_ if isa.platform == platform}
        if levels != {name: at for at, name in enumerate(order.split(), 1)}:
            yield f"{platform}: levels are {levels}"


def _numbers(catalog: Catalog) -> Iterator[str]:
    said: dict[str, set[str]] = {cpu: set() for cpu in catalog.cpus}
    for cpu, models in SECOND["intel"].items():
        said[cpu] |= {f"GenuineIntel/6/{model}" for model in models}
    for cpu, (low, high) in SECOND["intel_0x55"].items():
        said[cpu] |= {f"GenuineIntel/6/85/{stepping}" for stepping in range(low, high + 1)}
    for cpu, ranges in SECOND["amd"].items():
        vendor = "HygonGenuine" if cpu == "hygon" else "AuthenticAMD"
        for one in ranges:
            family, bounds = one.split()
            low, high = (int(bound, 16) for bound in bounds.split("-"))
            said[cpu] |= {f"{vendor}/{int(family, 16)}/{model}" for model in range(low, high + 1)}
    for cpu, parts in SECOND["arm"].items():
        said[cpu] |= set(parts)
    for cpu in catalog.cpus.values():
        listed = {number for pattern in cpu.ids for number in _numbers_of(pattern)}
        if listed != said[cpu.name]:
            yield f"{cpu.name}: numbers {sorted(listed ^ said[cpu.name])}"


def _numbers_of(pattern: str) -> Iterator[str]:
    head, _, last = pattern.rpartition("/")
    low, dash, high = last.partition("-")
    yield from (f"{head}/{one}" for one in range(int(low), int(high) + 1)) if dash else (pattern,)


def _releases(catalog: Catalog) -> Iterator[str]:
    for line in catalog.lines.values():
        said = SECOND["releases"].get(line.name)
        if said is None:
            continue
        for package in ("pytorch", "torchvision", "torchaudio"):
            wanted = said["torch" if package == "pytorch" else package]
            if line.version_of(package) != wanted:
                yield f"line {line.name}: {package} is {wanted}, not {line.version_of(package)}"
        if [str(python) for python in line.pythons] != said["pythons"]:
            yield f"line {line.name}: Pythons {line.pythons}"
        if said["cuda"] not in line.cuda:
            yield f"line {line.name} has no CUDA {said['cuda']}"
    if catalog.lines["2.10"].hashes.get("pytorch") != SECOND["hashes"]["pytorch 2.10"]:
        yield "the hash of torch 2.10"
    if catalog.fixes["magma-cuda13"].patches["clockrate"].hash != SECOND["hashes"]["magma-cuda13"]:
        yield "the hash of MAGMA's patch"


def _pins(catalog: Catalog) -> Iterator[str]:
    for name, said in SECOND["pins"].items():
        pin = catalog.pins[name]
        ours = {
            "rev": pin.rev,
            "torch": pin.torch,
            **pin.versions,
            "cudas": [str(cuda) for cuda in pin.cudas],
            "default_cuda": str(pin.default_cuda),
            "pythons": [str(python) for python in pin.pythons],
            "min_sm": str(pin.min_sm),
        }
        yield from (
            f"pin {name}: {key} is {said[key]}, not {ours.get(key)}"
            for key in said
            if ours.get(key) != said[key]
        )


def _isas(catalog: Catalog) -> Iterator[str]:
    for name, said in SECOND["isas"].items():
        isa = catalog.isas[name]
        ours = (" ".join(isa.flags), " ".join(isa.torch_off), " ".join(isa.beyond_flags))
        if ours != (said["flags"], said.get("off", ""), said.get("beyond", "")):
            yield f"{name}: {ours}"
    for cpu in catalog.cpus.values():
        if cpu.llvm != SECOND["llvm"].get(cpu.name, cpu.name):
            yield f"{cpu.name} is called {cpu.llvm} in LLVM"
        if cpu.archspec not in ("", cpu.name):
            yield f"{cpu.name} is called {cpu.archspec} in archspec"


def _builds(catalog: Catalog) -> Iterator[str]:
    """Every pinned build has the fixes that its CUDA, its torch and its pin ask for."""
    needs = SECOND["needs"]
    for line in catalog.lines.values():
        for cuda, build in [("", line.cpu), *line.cuda.items()]:
            if build is None or build.style != "pinned" or build.lacks_pin:
                continue
            newer = line.torch != catalog.pins[build.pin].torch
            wanted = [
                *(needs["cuda"] if cuda else []),
                *(needs["cuda13"] if cuda.startswith("13") else []),
                *(needs["cuda13_at_6a030d5"] if cuda.startswith("13") and build.pin == "6a030d5" else []),
                *(needs["newer"] if newer else []),
                *(needs["newer_cuda"] if newer and cuda else []),
            ]
            if set(build.fixes) != set(wanted):
                yield f"{line.name} on CUDA {cuda or 'none'}: fixes {set(build.fixes) ^ set(wanted)}"
