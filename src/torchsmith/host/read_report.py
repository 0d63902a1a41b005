"""Reports about a machine that is not at hand: which tool wrote a text, and what it says."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import msgspec

from torchsmith.core.problem import CannotRead, Conflict, Empty, Invalid, TooLarge
from torchsmith.host.document import read_document
from torchsmith.host.facts import MARK, HostFacts, merge
from torchsmith.host.mentions import account_for_gpus, account_for_system
from torchsmith.host.node import Node
from torchsmith.host.normalise import decode, normalise
from torchsmith.host.read_cluster import read_nodes
from torchsmith.host.read_cpu import read_coreinfo, read_cpuinfo, read_lscpu
from torchsmith.host.read_lines import read_lines
from torchsmith.host.read_nvidia import read_structured
from torchsmith.host.read_pci import LSPCI, read_lspci
from torchsmith.host.read_slurm import SLURMD, read_slurmd

KNOWN = (
    "lscpu, /proc/cpuinfo, nvidia-smi in any form, collect_env, deviceQuery, lspci, rocminfo, jetson_release,"
    " system_profiler, scontrol, sinfo, pbsnodes, kubectl, Ansible's setup, torchsmith host --json"
)

MAX_BYTES = 16_000_000  # /proc/cpuinfo of a thousand cores is a tenth of this


class ReportFormat(msgspec.Struct, frozen=True):
    """A kind of report: how to know it, and who reads it."""

    tool: str
    pattern: str
    read: Callable[[str, str], HostFacts]


DOCUMENT = rf'"{MARK}"\s*:'
CPUINFO = r"^(processor|vendor_id|CPU implementer)\s*:"
# Reports that are more than lines; every one sees all of the text.
FORMS = (
    ReportFormat("lspci", LSPCI, read_lspci),
    ReportFormat("slurmd", SLURMD, read_slurmd),
    ReportFormat("/proc/cpuinfo", CPUINFO, read_cpuinfo),
    ReportFormat(
        "lscpu",
        r'"lscpu"|^.{4,60}[:：]\s*(fpu |fp asimd)'
        r"|[:：]\s*(x86_64|aarch64|ppc64le|i686|riscv64|s390x|loongarch64|armv7l)\s*$",
        read_lscpu,
    ),
    ReportFormat(
        "Coreinfo",
        r"^(AVX2?|FMA|SSE2|SSE4\.2)\s+[*-]\s|^(AVX2?|FMA3?|SSE2|AES)\s+(present|unavailable)\s*$"
        r"|\bAVX2? = [01]\b",
        read_coreinfo,
    ),
)


def read_report(text: str, name: str) -> HostFacts:
    """What a text says of a machine: every reader sees all of it, and what they say is put together.

    A Problem where nothing in it is of a tool that is known, nor names a GPU.
    """
    if re.search(DOCUMENT, text):
        return read_document(text.removeprefix("\ufeff"), name)
    text = normalise(text)
    nodes = read_nodes(text, name)
    if nodes is not None and text.lstrip().startswith("{"):
        return _only(nodes, name)
    forms = [form for form in FORMS if re.search(form.pattern, text, re.MULTILINE)]
    if any(form.tool == "/proc/cpuinfo" for form in forms):
        # A cpuinfo's own Features line looks like lscpu's; the field names tell them apart.
        forms = [form for form in forms if form.tool != "lscpu"]
    parts = [
        _only(nodes, name) if nodes is not None else None,
        read_structured(text, f"{name} (nvidia-smi)"),
        read_lines(text, name),
        *(form.read(text, f"{name} ({form.tool})") for form in forms),
    ]
    known = [part for part in parts if part is not None]
    facts = account_for_gpus(text, account_for_system(text, merge(known), name), name)
    if facts == HostFacts() and not known:
        raise Invalid(f"cannot tell which tool wrote {name}", hint=f"known reports: {KNOWN}")
    return facts if facts != HostFacts() else facts.noting(name, "says nothing that could be used: it is cut")


def _only(nodes: list[Node], name: str) -> HostFacts:
    if len(nodes) == 1 and not nodes[0].lost:
        return nodes[0].facts
    if len(nodes) < 2:
        raise Empty(f"{name} holds no machine" + "".join(f": {node.lost}" for node in nodes))
    raise Conflict(
        f"{name} describes {len(nodes)} machines, not one",
        hint="torchsmith cover takes all of them; scontrol, kubectl and ansible print one by its name",
    )


def report_text(path: Path) -> str:
    """The text of a report. Bytes that are not UTF-8 are replaced: labels may be in any encoding."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise TooLarge(f"{path} is too large to be a report ({path.stat().st_size / 1e6:.0f} MB)")
        text = decode(path.read_bytes())
    except OSError as error:
        raise CannotRead(f"cannot read {path}: {error.strerror}") from error
    if not text.strip():
        raise Empty(f"{path} is empty", hint=f"known reports: {KNOWN}")
    return text


def read_report_file(path: Path) -> HostFacts:
    """The report in a file."""
    return read_report(report_text(path), path.name)
