"""Macs out of text: system_profiler and sysctl. No variant runs there, and a person should hear why."""

from __future__ import annotations

import re

from torchsmith.host.facts import Fact, HostFacts, said

SYSTEMS = {"arm": "aarch64-darwin", "intel": "x86_64-darwin"}
ARM = "hw.optional.arm64: 1"  # how sysctl says that a Mac is no Intel one
MAKER = "Apple"  # how the names of ARM Macs begin
PATTERNS = {
    name: rf'^\s*"?{label}"?\s*:[ \t]*(.*)$'
    for name, label in (
        ("chip", "Chip"),
        ("processor", "Processor Name"),
        ("release", "System Version"),
        ("memory", "Memory"),
        ("brand", r"machdep\.cpu\.brand_string"),
        ("bytes", r"hw\.memsize"),
    )
}


def read_system_profiler(text: str, source: str = "system_profiler") -> HostFacts:
    """A Mac as `system_profiler SPHardwareDataType` (and others) describe it."""
    chip = _value("chip", text)
    memory = re.match(r"(\d+) GB", _value("memory", text))
    mebibytes = int(memory[1]) * 1024 if memory else None
    name, release = chip or _value("processor", text), _value("release", text)
    return _mac(chip.startswith(MAKER), name, mebibytes, release, source)


def read_sysctl(text: str, source: str = "sysctl") -> HostFacts:
    """A Mac as `sysctl -a` describes its CPU."""
    name = _value("brand", text)
    memory = re.match(r"\d+", _value("bytes", text))
    mebibytes = int(memory[0]) // 2**20 if memory else None
    return _mac(ARM in text or name.startswith(MAKER), name, mebibytes, "", source)


def _mac(arm: bool, name: str, mebibytes: int | None, release: str, source: str) -> HostFacts:
    return HostFacts(
        system=Fact(SYSTEMS["arm" if arm else "intel"], source),
        cpu_name=said(name, source),
        os=said(release, source),
        memory_mib=None if mebibytes is None else Fact(mebibytes, source),
        gpus=Fact((), source),
    )


def _value(pattern: str, text: str) -> str:
    found = re.search(PATTERNS[pattern], text, re.MULTILINE)
    return found[1].strip() if found else ""
