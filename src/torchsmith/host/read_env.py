"""Environments as programs describe them: collect_env in its forms, deviceQuery, and torch's warnings."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torchsmith.host.facts import Fact, GpuFacts, HostFacts, Note, driver_said, said, sm_said
from torchsmith.host.read_cpu import system_of_machine

ENVIRONMENT = (
    r"^\s*(Collecting environment information|(PyTorch|torch) version\s*:|Nvidia driver version\s*:"
    r"|CUDA Driver Version\s*:|Python platform\s*:|GPU models and configuration\s*:|CUDA available\s*:"
    r"|Is CUDA available\b.*:|sys\.platform\s*:|OS\s*:\s*(nt|posix)\s*$|Platform\s*:\s*(Windows|Linux)\s*$"
    r"|OS\s*:\s*\w+.*\((x86_64|aarch64|arm64)\))"
)
DEVICES = (
    r"CUDA Capability Major/Minor version number|with CUDA capability sm_\d+|computeCapability: \d"
    r"|which is of cuda capability \d|[Hh]ighest compute capability among GPUs"
    r"|compute capability:? \(?\d+[.,] ?\d"
)
_NOTHING = re.compile(r"(?i)^(no cuda|could not collect|n/a|none|null|false|unknown|not found)?\W*$")
_OTHERS = r"(?i)\b(AMD|Radeon|Instinct|gfx\d+\w*|Intel|Arc|Ascend)\b|^Device [0-9a-f]{4}$"
_MACHINE = r"\b(x86_64|amd64|AMD64|aarch64|arm64)\b"
_DRIVER_KEYS = (
    "nvidia driver version",
    "cuda driver version",
    "nvidia driver",
    "driver version",
    "gpu driver version",
)


def read_environment(text: str, source: str = "collect_env") -> HostFacts:
    """torch's, vLLM's, sglang's and mmcv's descriptions. Their GPU lines are those of nvidia-smi -L, their
    CPU block is lscpu's: other readers take these."""
    notes: list[Note] = []
    pairs = list(_pairs(text))
    first = dict(reversed(pairs))
    models = first.get("gpu models and configuration", "")
    drivers = [value for key, value in pairs if key in _DRIVER_KEYS and not _NOTHING.match(value)]
    others = models if re.search(_OTHERS, models) and "NVIDIA" not in models else ""
    rocm = any(key.startswith(("hip runtime", "rocm")) and re.match(r"\d", value) for key, value in pairs)
    return HostFacts(
        system=said(_system(first), source),
        os=said(re.sub(r"\s*\((x86_64|aarch64|arm64)\)$", "", first.get("os", "")), source),
        glibc=said(first.get("libc version", "").removeprefix("glibc-").replace("N/A", ""), source),
        driver=driver_said(re.split(r"[\s,;]", drivers[0])[0], source, notes) if drivers else None,
        others=said((others,) if others else ("an AMD GPU",) if rocm else (), source),
        gpus=_gpus(models, source),
        cpu_name=said(_windows_cpu(pairs), source),
        notes=tuple(notes),
    )


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        found = re.fullmatch(r"\s*([A-Za-z][\w /.()-]{1,50}?)\s*[:：=](?!//)\s*(.*?)\s*", line)
        if found:
            yield found[1].lower(), found[2]


def _system(first: dict[str, str]) -> str:
    """Linux, macOS or Windows on a machine, by what names both; else nothing."""
    keys = ("os", "python platform", "sys.platform", "platform")
    told = " ".join(first[key] for key in keys if key in first)
    machine = re.search(_MACHINE, told)
    if re.search(r"\b(mac ?os|Mac OSX|darwin|macOS)", told, re.IGNORECASE):
        return f"{'aarch64' if machine and machine[1] in ('arm64', 'aarch64') else 'x86_64'}-darwin"
    if re.search(r"\bWindows\b|\bwin32\b|^nt\b", told) and "microsoft-standard" not in told:
        return "x86_64-windows"
    return system_of_machine(machine[1]) if machine else ""


def _gpus(models: str, source: str) -> Fact[tuple[GpuFacts, ...]] | None:
    """A GPU in the form without a number."""
    if not models or _NOTHING.match(models) or re.match(r"GPU ?\d", models) or re.search(_OTHERS, models):
        return None
    return Fact((GpuFacts(name=Fact(models, source)),), source)


def _windows_cpu(pairs: list[tuple[str, str]]) -> str:
    """`Name: 12th Gen Intel(R) Core(TM) i7-1270P`, as Windows lists a CPU."""
    names = [value for key, value in pairs if key == "name"]
    return next((name for name in names if re.search(r"\b(Intel|AMD|Snapdragon)", name)), "")


# A GPU and its compute capability in one line: torch's warnings, ggml, TensorFlow.
_IN_A_LINE = (
    re.compile(
        r"(?P<name>(?:NVIDIA|GeForce|Tesla|Quadro|TITAN|GRID|GTX|RTX)[^\"':\n]*?)"
        r" with CUDA capability sm_(?P<sm>\d+)"
    ),
    re.compile(r"Found GPU\d+ (?P<name>.+?) which is of cuda capability (?P<cap>\d+\.\d)"),
    re.compile(r"Device \d+: (?P<name>[^,\n]+), compute capability (?P<cap>\d+\.\d)"),
    re.compile(r"\bname: (?P<name>[^,\n]+?),? (?:pci bus id: \S+ )?compute ?[cC]apability: (?P<cap>\d+\.\d)"),
)


_ALONE = r"(?:CUDA Capability Major/Minor version number|compute capability among GPUs detected):\s*(\d+\.\d)"


def read_devices(text: str, source: str = "torch") -> HostFacts:
    """GPUs with their capability: CUDA's deviceQuery, torch's warnings, ggml's and TensorFlow's logs."""
    gpus: dict[str, GpuFacts] = {}
    for pattern in _IN_A_LINE:
        for found in pattern.finditer(text):
            named = found.groupdict()
            name = re.sub(r"\s+", " ", named["name"]).strip()
            sm = sm_said(named.get("cap") or named.get("sm") or "", source, [])
            place = re.search(r"(?:Device|GPU) ?(\d+)", found[0])
            gpus.setdefault(f"{place[1] if place else ''} {name}", GpuFacts(name=said(name, source), sm=sm))
    for section in re.split(r"^\s*Device \d+: (?=\")", text, flags=re.MULTILINE)[1:]:
        name = section.partition("\n")[0].strip().strip('"')
        found_ = re.search(r"CUDA Capability Major/Minor version number:\s*(\d+\.\d)", section)
        sm = sm_said(found_[1], source, []) if found_ else None
        gpus[str(len(gpus))] = GpuFacts(name=said(name, source), sm=sm)
    if not gpus and (alone := re.search(_ALONE, text)):
        gpus[""] = GpuFacts(sm=sm_said(alone[1], source, []))
    return HostFacts(gpus=said(tuple(gpus.values()), source))
