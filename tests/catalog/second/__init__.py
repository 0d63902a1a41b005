"""The catalog held against the tables beside this file, what other sources say: every difference in words.

Nothing in the tables is read from the catalog or written by it; sources.toml says where each comes from.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torchsmith.catalog import Catalog, Isa, Sm
from torchsmith.catalog.facts import LineBuild, Pin
from torchsmith.catalog.gpu_names import (
    gfx_of_name,
    gpu_of_name,
    instance_of,
    product_of_chip,
    product_of_name,
    system_of_instance,
)
from torchsmith.catalog.names import cpu_of_name
from torchsmith.catalog.ranges import in_range

SECOND: dict[str, Any] = {}
for _path in sorted(Path(__file__).parent.glob("*.toml")):
    SECOND |= tomllib.loads(_path.read_text())
HOSTS = {
    "x86": ("x86_64-linux",),
    "arm": ("aarch64-linux",),
    "both": ("x86_64-linux", "aarch64-linux"),
}
HAS = {"none": (), "avx": ("avx",), "avx2": ("avx", "avx2"), "avx512": ("avx", "avx2", "avx512")}
HAS["avx512vnni"] = (*HAS["avx512"], "avx512vnni")
HAS["vnni+bf16"] = (*HAS["avx512vnni"], "avx512bf16")
HAS |= {"armv8_2": ("armv8_2",), "armv9": ("armv8_2", "armv9")}


def contains(wider: Isa, narrower: Isa) -> bool:
    """Whether every CPU that runs `wider` also runs `narrower`."""
    return wider.platform == narrower.platform and wider.needs >= narrower.needs


def rows(table: str, *, unsourced: bool = False) -> Iterator[dict[str, Any]]:
    """The entries of a table that were looked up somewhere; with `unsourced` the others too."""
    yield from (row for row in SECOND[table] if unsourced or row["source"] != "none")


def gpu_names(*, unsourced: bool = False) -> Iterator[tuple[str, str]]:
    """Products, as drivers and virtual machines write them, with their capability."""
    for row in rows("products", unsourced=unsourced):
        yield from ((f"NVIDIA {name}", row["capability"]) for name in row["names"])
    for row in rows("vgpus", unsourced=unsourced):
        yield from ((name, row["capability"]) for name in row["names"])


def cpu_names(*, unsourced: bool = False) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Products and everyday names with their microarchitecture and instruction sets."""
    for row in rows("cpus", unsourced=unsourced):
        yield from ((name, row["cpu"], HAS[row["has"]]) for name in row["names"])


def differences(catalog: Catalog, *, unsourced: bool = False) -> Iterator[str]:
    """Whatever the catalog says otherwise than the other sources do."""
    yield from _gpus(catalog, unsourced)
    yield from _drivers(catalog, unsourced)
    yield from _cpus(catalog, unsourced)
    yield from _numbers(catalog)
    yield from _releases(catalog)
    yield from _pins(catalog)
    yield from _isas(catalog)
    yield from _fixes(catalog)
    yield from _builds(catalog)
    yield from _other_lines(catalog)
    yield from _retired(catalog)
    yield from _spellings(catalog)
    yield from _amd(catalog)
    yield from _machine_types(catalog)
    yield from _jetpacks(catalog)


def _retired(catalog: Catalog) -> Iterator[str]:
    for row in rows("retired"):
        gpu = catalog.retired.get(Sm.parse(row["sm"]))
        if gpu is None:
            yield f"{row['sm']} is not listed"
            continue
        ours = (gpu.generation, gpu.tegra, str(gpu.min_driver or ""), str(gpu.last_driver or ""))
        drivers = (row.get("driver", ""), row.get("last_driver", ""))
        if ours != (row["generation"], row.get("tegra", False), *drivers):
            yield f"{row['sm']}: {ours}"
        for name in row["names"]:
            if product_of_name(name, catalog) != gpu:
                yield f"{name} is not {row['sm']}"
        for chip in row.get("chips", ()):
            if product_of_chip(chip, catalog) != gpu:
                yield f"chip {chip} is not {row['sm']}"


def _spellings(catalog: Catalog) -> Iterator[str]:
    for row in rows("spellings"):
        gpu = catalog.gpus[Sm.parse(row["capability"])]
        yield from (f"{name} is {gpu.name}" for name in row["names"] if gpu_of_name(name, catalog) != gpu)
        yield from (f"{chip} is {gpu.name}" for chip in row["chips"] if product_of_chip(chip, catalog) != gpu)


def _amd(catalog: Catalog) -> Iterator[str]:
    (tested,) = rows("rocm_drivers")
    if dict(catalog.backends["rocm"].drivers) != {name: row[0] for name, row in tested["releases"].items()}:
        yield f"drivers of ROCm: {catalog.backends['rocm'].drivers}"
    for row in rows("gfx"):
        gfx = catalog.gfx[row["target"]]
        facts = (gfx.generation, gfx.generic, gfx.llvm)
        if facts != (row["generation"], row.get("generic", ""), row.get("llvm", 14)):
            yield f"{gfx.name}: {facts}"
        for name in (*row["names"], *row["chips"]):
            if gfx_of_name(name, catalog) != gfx:
                yield f"{name} is {gfx.name}"


def _machine_types(catalog: Catalog) -> Iterator[str]:
    for row in rows("machines"):
        for name in row["names"]:
            kind = instance_of(name, catalog)
            cpu = cpu_of_name(row["cpu"], catalog) if "cpu" in row else None
            expected = cpu.name if cpu else row.get("microarchitecture", "")
            if kind is None or kind.cpu != expected or product_of_name(kind.gpu, catalog) is None:
                yield f"{name} has {expected}, not {kind.cpu if kind else 'anything'}"
            elif product_of_name(kind.gpu, catalog) != product_of_name(row["gpu"], catalog):
                yield f"{name} has a {row['gpu']}, not a {kind.gpu}"
            elif not expected and (system_of_instance(kind, catalog),) != HOSTS[row["hosts"]]:
                yield f"{name} is {row['hosts']}"


def _jetpacks(catalog: Catalog) -> Iterator[str]:
    for row in rows("jetpacks"):
        known = catalog.jetpacks[row["l4t"]]
        if [known.jetpack, known.cuda, known.part, known.driver] != row["is"]:
            yield f"Linux for Tegra {row['l4t']} is {row['is']}"


def _gpus(catalog: Catalog, unsourced: bool) -> Iterator[str]:
    for name, capability in gpu_names(unsourced=unsourced):
        gpu = gpu_of_name(name, catalog)
        if gpu is None or gpu.sm.capability != capability:
            yield f"{name} is {capability}, not {gpu.sm.capability if gpu else 'unknown'}"
    for said in rows("generations"):
        gpu = catalog.gpus[Sm.parse(said["capability"])]
        pairs: dict[str, tuple[object, object]] = {
            "generation": (gpu.generation, said["name"]),
            "hosts": (gpu.platforms, HOSTS[said["hosts"]]),
            "Jetson": (gpu.tegra, said.get("jetson", False)),
            "last driver": (str(gpu.last_driver or ""), said.get("last_driver", "")),
            "CPU": (gpu.cpus, (said["cpu"],) if "cpu" in said else ()),
        }
        if unsourced or said.get("driver_source") != "none":
            branch = "." not in str(gpu.min_driver)
            pairs["driver"] = (
                str(gpu.min_driver),
                said["driver"].partition(".")[0] if branch else said["driver"],
            )
        yield from (f"{gpu.name}: {what} is {b}, not {a}" for what, (a, b) in pairs.items() if a != b)


def _drivers(catalog: Catalog, unsourced: bool) -> Iterator[str]:
    said = {
        cuda: (row["oldest"], driver)
        for row in rows("drivers", unsourced=unsourced)
        for cuda, driver in row["came_with"].items()
    }
    for toolkit in catalog.cuda.values():
        drivers = (str(toolkit.min_driver), str(toolkit.native_driver or ""))
        if drivers != said.get(str(toolkit.version)):
            yield f"CUDA {toolkit.version}: drivers {drivers}"


def _cpus(catalog: Catalog, unsourced: bool) -> Iterator[str]:
    for name, expected, isas in cpu_names(unsourced=unsourced):
        cpu = cpu_of_name(name, catalog)
        if cpu is None or cpu.isas != isas:
            yield f"{name} has {isas}, not {cpu.isas if cpu else 'unknown'}"
        elif cpu.name != expected:
            yield f"{name} is {expected}, not {cpu.name}"
    isas_ = list(catalog.isas.values())
    for wider in isas_:
        for narrower in isas_:
            if wider != narrower and contains(wider, narrower) and wider.level <= narrower.level:
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
    tables = {
        name: {cpu: value for cpu, value in table.items() if cpu != "source"}
        for name, table in SECOND["numbers"].items()
    }
    for cpu, models in tables["intel"].items():
        said[cpu] |= {f"GenuineIntel/6/{model}" for model in models}
    for cpu, (low, high) in tables["intel_0x55"].items():
        said[cpu] |= {f"GenuineIntel/6/85/{stepping}" for stepping in range(low, high + 1)}
    for cpu, ranges in (tables["amd_bulldozer"] | tables["amd"] | tables["amd_zen6"]).items():
        vendor = "HygonGenuine" if cpu == "hygon" else "AuthenticAMD"
        for one in ranges:
            family, bounds = one.split()
            low, high = (int(bound, 16) for bound in bounds.split("-"))
            said[cpu] |= {f"{vendor}/{int(family, 16)}/{model}" for model in range(low, high + 1)}
    for cpu, parts in tables["arm"].items():
        said[cpu] |= set(parts)
    for known in catalog.cpus.values():
        listed = {number for pattern in known.ids for number in _numbers_of(pattern)}
        if listed != said[known.name]:
            yield f"{known.name}: numbers {sorted(listed ^ said[known.name])}"


def _numbers_of(pattern: str) -> Iterator[str]:
    head, _, last = pattern.rpartition("/")
    low, dash, high = last.partition("-")
    yield from (f"{head}/{one}" for one in range(int(low), int(high) + 1)) if dash else (pattern,)


def _releases(catalog: Catalog) -> Iterator[str]:
    for said in rows("releases"):
        line = catalog.lines[said["line"]]
        for package, wanted in said["versions"].items():
            if line.version_of(package) != wanted:
                yield f"line {line.name}: {package} is {wanted}, not {line.version_of(package)}"
        if [str(python) for python in line.pythons] != said["pythons"]:
            yield f"line {line.name}: Pythons {line.pythons}"
        if said["cuda"] not in line.cuda:
            yield f"line {line.name} has no CUDA {said['cuda']}"
    hashes = {key: value for row in rows("hashes") for key, value in row["of"].items()}
    for line in catalog.lines.values():
        for package, value in line.hashes.items():
            if value != hashes.get(f"{line.name} {package}"):
                yield f"line {line.name}: the hash of {package}"


def _pins(catalog: Catalog) -> Iterator[str]:
    for said in rows("pins"):
        pin = catalog.pins[said["pin"]]
        ours: dict[str, object] = {
            "rev": pin.rev,
            "torch": pin.torch,
            **pin.versions,
            "cudas": [str(cuda) for cuda in pin.cudas],
            "default_cuda": str(pin.default_cuda),
            "pythons": [str(python) for python in pin.pythons],
            "default_python": str(pin.default_python),
            "aliases": list(pin.aliases),
            "min_sm": str(pin.min_sm),
            "refused": _refused(pin, catalog),
        }
        for key in said.keys() - {"source", "pin"}:
            if ours.get(key) != said[key]:
                yield f"pin {pin.name}: {key} is {said[key]}, not {ours.get(key)}"


def _refused(pin: Pin, catalog: Catalog) -> list[str]:
    """Every CUDA, GPU and system that a pin's limits refuse and its CUDA could compile."""
    return [
        f"{cuda} {gpu.name} {platform}"
        for cuda in pin.cudas
        for gpu in catalog.gpus.values()
        for platform in gpu.platforms
        if catalog.cuda[cuda].compiles(gpu.sm)
        and any(
            in_range(str(cuda), limit.cuda)
            and (not limit.sms or gpu.sm in limit.sms)
            and (not limit.platforms or platform in limit.platforms)
            for limit in pin.limits.values()
        )
    ]


def _isas(catalog: Catalog) -> Iterator[str]:
    for said in rows("isas"):
        isa = catalog.isas[said["isa"]]
        ours = (" ".join(isa.flags), " ".join(isa.torch_off), " ".join(isa.beyond_flags), isa.avx2_kernels)
        if ours != (said["flags"], said.get("off", ""), said.get("beyond", ""), said.get("avx2", "")):
            yield f"{isa.name}: {ours}"
    for cpu in catalog.cpus.values():
        if cpu.llvm != SECOND["llvm"].get(cpu.name, cpu.name):
            yield f"{cpu.name} is called {cpu.llvm} in LLVM"
        if cpu.mac is not cpu.llvm.startswith("apple"):
            yield f"{cpu.name} is Apple's, by its name in LLVM, or is not"
        if cpu.archspec not in ("", cpu.name):
            yield f"{cpu.name} is called {cpu.archspec} in archspec"


def _fixes(catalog: Catalog) -> Iterator[str]:
    """Every fix is for what it is for, fetches what it fetches, and is told by all of its pieces."""
    for said in rows("fixes"):
        fix = catalog.fixes[said["fix"]]
        patches = {name: f"{one.url} {one.hash}" for name, one in fix.patches.items()}
        pairs = {
            "overlay": (fix.overlay, said.get("overlay", "")),
            "packages": (list(fix.packages), said["packages"]),
            "patches": (patches, said.get("patches", {})),
        }
        yield from (f"{fix.name}: {what} is {b}, not {a}" for what, (a, b) in pairs.items() if a != b)
        pieces = said["pieces"]
        told = [{sign for sign in fix.signs if re.search(sign, piece)} for piece in pieces]
        if set().union(*told) != set(fix.signs) or not all(told):
            yield f"{fix.name}: a recipe that has it is not seen to have it"
        for at in range(len(pieces)):
            if set().union(*told[:at], *told[at + 1 :]) == set(fix.signs):
                yield f"{fix.name}: a recipe without {pieces[at]} is taken to have it"


def _builds(catalog: Catalog) -> Iterator[str]:
    """Every build has the fixes that its CUDA, its torch and its pin ask for, and the package set of its
    minor release: a shorter name is whichever release a nixpkgs has as its newest."""
    for line in catalog.lines.values():
        for cuda, build in [("", line.cpu), *line.cuda.items()]:
            if build is None or build.lacks_pin:
                continue
            newer = build.style == "pinned" and line.torch != catalog.pins[build.pin].torch
            wanted = _wanted_fixes(build, cuda, newer)
            if set(build.fixes) != set(wanted):
                yield f"{line.name} on CUDA {cuda or 'none'}: fixes {set(build.fixes) ^ set(wanted)}"
            if build.cuda_set:
                yield f"{line.name} on CUDA {cuda}: package set {build.cuda_set}"


def _wanted_fixes(build: LineBuild, cuda: str, newer: bool) -> list[str]:
    needs = SECOND["needs"]
    if build.style != "pinned":
        return needs["nightly"] if build.style == "nightly" else []
    return [
        *(needs["cuda"] if cuda else []),
        *(needs["cuda13"] if cuda.startswith("13") else []),
        *(needs["cuda13_at_6a030d5"] if cuda.startswith("13") and build.pin == "6a030d5" else []),
        *(needs["newer"] if newer else []),
        *(needs["newer_cuda"] if newer and cuda else []),
    ]


def _other_lines(catalog: Catalog) -> Iterator[str]:
    for said in rows("lines"):
        line = catalog.lines[said["line"]]
        ours = {
            "packages": list(line.packages or ()),
            "pythons": [str(python) for python in line.pythons],
            "flavor": line.flavor,
        }
        yield from (
            f"line {line.name}: {key} is {said[key]}, not {ours[key]}"
            for key in ours
            if ours[key] != said[key]
        )
        if {build.stability for build in line.cuda.values()} != {said["stability"]}:
            yield f"line {line.name}: stability"
