"""Reports about a machine that is not at hand: text in any layout, of a tool or of a person."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec.structs import replace

from torchsmith.catalog import Catalog
from torchsmith.catalog.axes import BadValue
from torchsmith.catalog.load import decode
from torchsmith.core.files import MAX_BYTES, read_bytes, unreadable
from torchsmith.core.problem import Conflict, Empty, Invalid, TooLarge, Where
from torchsmith.host.facts import KIND, Fact, GpuFacts, HostFacts, merge
from torchsmith.host.normalise import normalise, plain_text, without_repeats
from torchsmith.host.read_cpu import read_cpu
from torchsmith.host.scan import scan

BINARY = (b"PK\x03\x04", b"\x7fELF", b"\x1f\x8b", b"\x89PNG", b"%PDF-")
DOCUMENT = rf'"kind"\s*:\s*"{KIND}"'
# What the record of a cluster has once for each machine: Slurm's, and Kubernetes' in both forms.
MACHINES = (r"^\s*NodeName=", r'^\s*"?kind"?: "?Node\b"?,?\s*$', r"(?<![\w.])kubernetes\.io/arch\W")
# Ansible's facts name no GPUs, and PBS has names of its site for them.
UNREAD = r'^\S+ \| [A-Z!]+ => \{|"ansible_\w+"\s*:|^\s+(resources_available\.\w+|gpu_status) = '
ASK = (
    "nvidia-smi --query-gpu=name,compute_cap,driver_version --format=csv; lscpu; cat /etc/os-release; or"
    " torchsmith pick --facts --json"
)


def read_report(text: str, name: str, catalog: Catalog | None = None) -> HostFacts:
    """What a text says of one machine. Raises a Problem if it says nothing, or is about several."""
    if re.search(DOCUMENT, text):
        return _document(text.removeprefix("\ufeff"), name)
    text = normalise(text)
    number = max(len(re.findall(pattern, text, re.MULTILINE)) for pattern in MACHINES)
    if number > 1:
        hint = "give the record of one; torchsmith cover takes a folder with a report of each"
        raise Conflict(f"{name} describes {number} machines, not one", hint=hint)
    if re.search(UNREAD, text, re.MULTILINE):
        hint = f"these commands do: {ASK}"
        raise Invalid(f"{name} is output of Ansible or PBS, which says too little", hint=hint)
    text = without_repeats(text)
    facts = scan(text, name, catalog, read_cpu(text, name) or HostFacts())
    if facts == HostFacts():
        raise Invalid(f"{name} says nothing of a machine", hint=f"these commands do: {ASK}")
    return facts


def machine_of(reports: Iterable[HostFacts]) -> HostFacts:
    """One machine out of reports about it. That it has no GPU is known only if one of them says so."""
    facts = merge(reports)
    mac = facts.system is not None and facts.system.value.endswith("-darwin")
    if mac or any((facts.gpus, facts.non_nvidia_gpus, facts.instance, facts.l4t)):
        return facts
    return replace(facts, gpus=Fact((GpuFacts(),), "no report names a GPU"))


def _document(text: str, source: str) -> HostFacts:
    """The facts of what `torchsmith pick --facts --json` prints."""
    try:
        data = json.loads(text)
        number = data.get("format") if isinstance(data, dict) else None
        if number not in (None, HostFacts.FORMAT):
            raise Invalid(f"{source} has format {number}, this torchsmith reads {HostFacts.FORMAT}")
        return msgspec.convert(data, HostFacts, dec_hook=decode)
    except json.JSONDecodeError as error:
        raise Invalid(f"not valid JSON: {error.msg.lower()}", where=Where(source, error.lineno)) from error
    except RecursionError:
        raise TooLarge("brackets are nested too deeply", where=Where(source)) from None
    except (msgspec.ValidationError, BadValue) as error:
        raise Invalid(f"{source}: {str(error).replace('`', '')}") from error


def report_text(path: Path) -> str:
    """The text of a report, `-` for standard input. Bytes that are not UTF-8 are replaced."""
    try:
        data = sys.stdin.buffer.read(MAX_BYTES + 1) if str(path) == "-" else read_bytes(path)
    except OSError as error:
        hint = "give a text file with the output of a tool, such as nvidia-smi, or - for standard input"
        raise unreadable(path, error, hint) from error
    text = plain_text(data)
    if data.startswith(BINARY) or "\0" in text:
        raise Invalid(f"{path} is not text", hint=f"these commands describe a machine: {ASK}")
    if not text.strip():
        raise Empty(f"{path} is empty", hint=f"these commands describe a machine: {ASK}")
    return text


def read_report_file(path: Path, catalog: Catalog | None = None) -> HostFacts:
    """The report in a file, or in standard input."""
    return read_report(report_text(path), "standard input" if str(path) == "-" else path.name, catalog)
