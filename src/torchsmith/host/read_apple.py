"""Macs out of text: system_profiler and sysctl. No variant runs there, and a person should hear why."""

from __future__ import annotations

import re

from torchsmith.host.facts import Fact, HostFacts, said

ARM = "hw.optional.arm64: 1"  # how sysctl says that a Mac is no Intel one


def read_system_profiler(text: str, source: str = "system_profiler") -> HostFacts:
    """A Mac as `system_profiler SPHardwareDataType` (and others) describe it."""
    chip = _after("Chip", text)
    name = chip or _after("Processor Name", text)
    release = _after("System Version", text)
    memory = re.match(r"(\d+) GB", _after("Memory", text))
    return HostFacts(
        system=Fact("aarch64-darwin" if chip.startswith("Apple") else "x86_64-darwin", source),
        cpu_name=said(name, source),
        os=said(release, source),
        memory_mib=Fact(int(memory[1]) * 1024, source) if memory else None,
        gpus=Fact((), source),
    )


def _after(label: str, text: str) -> str:
    found = re.search(rf'^\s*"?{label}"?\s*:[ \t]*(.*)$', text, re.MULTILINE)
    return found[1].strip() if found else ""


def read_sysctl(text: str, source: str = "sysctl") -> HostFacts:
    """A Mac as `sysctl -a` describes its CPU."""
    name = _after("machdep.cpu.brand_string", text)
    memory = re.match(r"\d+", _after("hw.memsize", text))
    arm = ARM in text or name.startswith("Apple")
    return HostFacts(
        system=Fact("aarch64-darwin" if arm else "x86_64-darwin", source),
        cpu_name=said(name, source),
        memory_mib=Fact(int(memory[0]) // 2**20, source) if memory else None,
        gpus=Fact((), source),
    )
