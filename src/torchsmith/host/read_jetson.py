"""Jetson boards out of text: jetson_release and jtop, /etc/nv_tegra_release, and the board's own name."""

from __future__ import annotations

import re

from torchsmith.host.facts import Fact, GpuFacts, HostFacts, Note, driver_said, said, sm_said
from torchsmith.host.products import jetson_release

JETSON = (
    r"^\s*L4T\s*:\s*\d\d\.|R\d\d \(release\), REVISION|^\s*(Model|Module)\s*:.*\bJetson\b|\btegra\d{3}\b"
    r"|GR3D_FREQ \d|-tegra\b"
    r"|^\s*(NVIDIA )?Jetson[\w -]*(Developer|Module|Kit|Orin|Nano|Xavier|Thor)[\w -]*$"
)
SYSTEM = "aarch64-linux"


def read_jetson(text: str, source: str = "jetson_release") -> HostFacts:
    """The board by its name or architecture; else by a release of Linux for Tegra that runs on one alone."""
    notes: list[Note] = []
    names = re.findall(
        r"^\s*(?:(?:Model|Module)\s*:\s*)?((?:NVIDIA )?(?:Jetson|DRIVE)[\w ()-]*)$", text, re.MULTILINE
    )
    named = [
        name.strip() for name in names if re.search(r"\b(Orin|Xavier|Nano|TX[12]|Thor|T[45]000)\b", name)
    ]
    binary = re.search(r"CUDA Arch BIN\s*:\s*(\d\.\d|\d\d\.\d)", text)
    number = re.search(r"\bL4T\s*:?\s*\[?(\d\d)\.\d|\[L4T (\d\d)\.|# R(\d\d) \(release\)", text)
    release = jetson_release(int(next(filter(None, number.groups())))) if number else None
    name = named[-1] if named else release.part if release else ""
    if not name:
        known = f" of JetPack {release.jetpack}" if release else ""
        notes.append(Note(source, f"does not name the board{known}: Orin, Xavier and others run it"))
    if release:
        text = f"is JetPack {release.jetpack} with CUDA {release.cuda}"
        more = ": a newer CUDA needs NVIDIA's CUDA compatibility package, which recipes for Jetson bring"
        notes.append(
            Note(f"{source}, L4T {release.release}", text + (more if release.part == "Orin" else ""))
        )
    gpu = GpuFacts(
        name=said(name or "a Jetson", source), sm=sm_said(binary[1], source, []) if binary else None
    )
    driver = driver_said(release.driver, f"{source}, L4T {release.release}", notes) if release else None
    return HostFacts(
        system=Fact(SYSTEM, source), driver=driver, gpus=Fact((gpu,), source), notes=tuple(notes)
    )
