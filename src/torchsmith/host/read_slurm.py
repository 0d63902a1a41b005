"""Machines of batch systems, which know no CPU features: Slurm's scontrol and sinfo, and pbsnodes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from torchsmith.host.facts import Fact, GpuFacts, HostFacts, Note, driver_fact, fact_of
from torchsmith.host.node import MOST_GPUS, Node
from torchsmith.host.read_cpu import system_of_machine
from torchsmith.host.scan import scan

SLURM = r"^\s*NodeName=\S+ "
SINFO = r"(^|\s)(gres/)?gpu:[\w.-]+(:\d+)?(\([^)\s]*\))?(\s|,|$)|[,=]gres/gpu(:[\w.-]+)?=\d"
HEADS = {"NODELIST", "NODE", "HOSTNAMES", "NodeName", "Name"}
HOST = r"[A-Za-z][\w.-]*(\[[\d,-]+\])?[\w.-]*"
PBS = r"^\s+(resources_available\.(ngpus|gpu\w*)|gpu_status|gpus) = "


def read_scontrol(text: str, source: str) -> Iterator[Node]:
    """`scontrol show node`, in paragraphs or with --oneliner."""
    for record in re.split(r"^[ \t]*(?=NodeName=)", text, flags=re.MULTILINE)[1:]:
        fields = dict(reversed(re.findall(r"(?:^|\s)(\w+)=(\S*)", record)))
        names = {"NodeName": "name", "Arch": "architecture", "Gres": "gres", "CfgTRES": "tres"}
        node = slurm_node({names[key]: value for key, value in fields.items() if key in names}, source)
        yield Node(node.name, scan(record, source, known=node.facts))


def slurm_node(item: Mapping[str, Any], source: str) -> Node:
    """A node by the names that `scontrol --json` and slurmrestd give its fields."""
    arch, gres, tres = item.get("architecture"), item.get("gres"), item.get("tres")
    gpus = read_gres(gres, source) if isinstance(gres, str) else None
    if isinstance(tres, str) and not (gpus and gpus.value):
        gpus = read_gres(tres, source) if "gres/gpu" in tres else gpus
    return Node(
        str(item.get("name") or item.get("hostname") or ""),
        HostFacts(
            system=Fact(system_of_machine(arch), source) if isinstance(arch, str) and arch else None,
            gpus=gpus,
            notes=(Note(source, "Slurm tells neither CPU features nor the driver"),),
        ),
    )


def read_gres(text: str, source: str) -> Fact[tuple[GpuFacts, ...]]:
    """Generic resources such as gpu:a100:4(S:0-1),shard:8, or as TRES counts them.

    A type is part of the GPU's name, or what an administrator called it.
    """
    gpus: list[GpuFacts] = []
    entries = [entry.strip() for entry in re.sub(r"\([^)]*\)", "", text).split(",")]
    typed = any(re.match(r"gres/gpu:", entry) for entry in entries)
    for entry in entries:
        if typed and entry.startswith("gres/gpu="):
            continue  # the sum of those with a type
        match = re.fullmatch(r"(?:gres/)?gpu(?:[:=]([^:=]+))?(?:[:=](\d+))?", entry)
        if match:
            kind, count = match[1] or "", match[2]
            if count is None and kind.isdigit() and len(kind) < 3:
                kind, count = "", kind
            gpu = GpuFacts(name=fact_of(kind, source))
            gpus += [gpu] * min(max(int(count or 1), 1 if kind else 0), MOST_GPUS)
        elif re.match(r"(?:gres/)?gpu\b", entry):
            gpus.append(GpuFacts(name=Fact(entry, source)))
    return Fact(tuple(gpus), source)


def read_sinfo(text: str, source: str) -> Iterator[Node]:
    """Lines of `sinfo` and of scripts around it: a node or a range of them, and its GPUs."""
    seen: dict[str, Node] = {}
    first: bool | None = None  # whether the column of nodes is the first; None: there is no header
    note = Note(source, "sinfo tells neither the system, CPU features nor the driver")
    for line in text.splitlines():
        columns = line.split()
        gres = next(
            (word for word in columns if re.match(SINFO, word) or re.search(r"[,=]gres/gpu", word)), ""
        )
        if not gres:
            first = columns[0] in HEADS if HEADS & set(columns) and len(columns) > 1 else first
            continue
        hosts = [word for word in columns if re.fullmatch(HOST, word) and not re.search(r"gpu[:=]", word)]
        if not hosts:
            continue
        host = _host(hosts) if first is None else hosts[0 if first else -1]
        facts = HostFacts(gpus=read_gres(gres.lstrip("="), source), notes=(note,))
        for name in expand_hosts(host):
            seen.setdefault(name, Node(name, facts))
    yield from seen.values()


def _host(columns: list[str]) -> str:
    """The word that looks most like a node's: one with a digit, else the first."""
    states = r"(up|down|idle|mix|alloc|drain\w*|infinite|n/a|gpu\w*|all|batch|debug|main|long|short)\*?"
    likely = [word for word in columns if re.search(r"\d|\[", word) and not re.fullmatch(states, word)]
    return (likely or columns)[-1]


SLURMD = r"Gres Name=gpu Type=(\S+) Count=(\d+)"


def read_slurmd(text: str, source: str = "slurmd -G") -> HostFacts | None:
    """`slurmd -G`: a line for each GPU that a node's daemon found."""
    gpus: list[GpuFacts] = []
    for kind, count in re.findall(SLURMD, text):
        name = "" if kind == "(null)" else kind
        gpus += [GpuFacts(name=fact_of(name, source))] * min(int(count), MOST_GPUS)
    return HostFacts(gpus=Fact(tuple(gpus), source)) if gpus else None


def expand_hosts(word: str) -> list[str]:
    """`node[01-03,07]` as names, at most a thousand."""
    match = re.fullmatch(r"([\w.-]*)\[([\d,-]+)\]([\w.-]*)", word)
    if match is None:
        return [word]
    names = []
    for part in match[2].split(","):
        first, _, last = part.partition("-")
        start, end = int(first or 0), int(last or first or 0)
        numbers = range(start, min(end, start + 999) + 1)
        names += [f"{match[1]}{number:0{len(first)}d}{match[3]}" for number in numbers]
    return names[:1000]


def read_pbsnodes(text: str, source: str) -> Iterator[Node]:
    """`pbsnodes -a` of PBS and Torque: a name at the margin, its resources below."""
    for record in re.split(r"^(?=[\w][\w.-]*\s*$)", text, flags=re.MULTILINE):
        name, _, body = record.strip().partition("\n")
        fields = dict(re.findall(r"^\s+([\w.]+) = (.*?)\s*$", body, re.MULTILINE))
        count = fields.get("resources_available.ngpus") or fields.get("gpus")
        if not fields or not re.fullmatch(r"[\w.-]+", name):
            continue
        kinds = [value for key, value in fields.items() if re.search(r"gpu_?(type|model|name|product)", key)]
        kinds += re.findall(r"gpu_product_name=([^;,]+)", fields.get("gpu_status", ""))
        notes: list[Note] = [Note(source, "pbsnodes tells no CPU features")]
        match = re.search(r"driver_ver(?:sion)?=([\d.]+)", fields.get("gpu_status", ""))
        gpu = GpuFacts(name=fact_of(kinds[0] if kinds else "", source))
        number = min(int(count), MOST_GPUS) if count and count.isdigit() else len(kinds)
        driver = driver_fact(match[1], source, notes) if match else None
        facts = HostFacts(gpus=Fact((gpu,) * number, source), driver=driver, notes=tuple(notes))
        yield Node(name, scan(body, source, known=facts))
