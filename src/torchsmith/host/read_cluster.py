"""Machines as schedulers and inventories keep them: Slurm, PBS, Kubernetes, Ansible.

A record is split into its machines, each a text of its own. What it does not say stays unknown: Slurm knows
neither CPU features nor drivers, Ansible no GPUs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from torchsmith.core.problem import Invalid, TooLarge, Where
from torchsmith.host.facts import Fact, GpuFacts, HostFacts, Note, driver_fact, fact_of, merge
from torchsmith.host.read_cpu import read_cpu
from torchsmith.host.read_kubernetes import LABEL, LABELS, read_labels
from torchsmith.host.scan import scan

MOST_GPUS = 64  # a machine with more is a record that is wrong, or counts slices
SLURM = r"^\s*NodeName=\S+ "
SINFO = r"(^|\s)(gres/)?gpu:[\w.-]+(:\d+)?(\([^)\s]*\))?(\s|,|$)|[,=]gres/gpu(:[\w.-]+)?=\d"
HEADS = {"NODELIST", "NODE", "HOSTNAMES", "NodeName", "Name"}
HOST = r"[A-Za-z][\w.-]*(\[[\d,-]+\])?[\w.-]*"
PBS = r"^\s+(resources_available\.(ngpus|gpu\w*)|gpu_status|gpus) = "
ANSIBLE = r"^\S+ \| [A-Z!]+ => \{"
NODES_JSON = r'"(kind|gres|(ansible_)?architecture)"\s*:'
SLURMD = r"Gres Name=gpu Type=(\S+) Count=(\d+)"


@dataclass(frozen=True, slots=True)
class Node:
    """One machine of a cluster."""

    name: str
    facts: HostFacts
    lost: str = ""  # why nothing is known of it


def read_nodes(text: str, source: str) -> list[Node] | None:
    """The machines of a cluster's record; None where the text is none."""
    if re.search(SLURM, text, re.MULTILINE):
        return list(_scontrol(text, f"{source} (scontrol)"))
    if re.search(ANSIBLE, text, re.MULTILINE):
        return list(_ansible_output(text, f"{source} (ansible)"))
    if text.lstrip().startswith("{") and re.search(NODES_JSON, text):
        return list(_nodes_of_json(load_json(text, source), source)) or None
    if re.search(PBS, text, re.MULTILINE):
        return list(_pbsnodes(text, f"{source} (pbsnodes)")) or None
    if re.search(LABELS, text):
        return [Node(name, _labelled(part, f"{source} (kubectl)")) for name, part in _sections(text)] or None
    if re.search(SINFO, text, re.MULTILINE):
        return list(_sinfo(text, f"{source} (sinfo)")) or None
    return None


def load_json(text: str, source: str) -> Any:
    """JSON as data, or a Problem with the line of what is wrong."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise Invalid(f"not valid JSON: {error.msg.lower()}", where=Where(source, error.lineno)) from error
    except RecursionError:
        raise TooLarge("brackets are nested too deeply", where=Where(source)) from None


def _lines(data: Any, key: str = "") -> Iterator[str]:
    """Data as `key: value`, a line for each."""
    if isinstance(data, dict):
        for inner, value in data.items():
            yield from _lines(value, str(inner))
    elif isinstance(data, list) and any(isinstance(item, dict | list) for item in data):
        for item in data:
            yield from _lines(item, key)
    elif isinstance(data, list):
        yield f"{key}: {' '.join(map(str, data))}"
    else:
        yield f"{key}: {data}"


def _nodes_of_json(data: Any, source: str) -> Iterator[Node]:
    """Nodes of kubectl and scontrol, and facts that Ansible gathered, of one host or by host."""
    if not isinstance(data, dict):
        return
    listed = data.get("nodes")
    slurm = [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
    if any("gres" in item for item in slurm):
        for item in slurm:
            text = "\n".join(_lines(item))
            yield Node(str(item.get("name") or ""), _slurm_facts(text, f"{source} (scontrol --json)"))
    elif data.get("kind") in ("List", "NodeList", "Node"):
        items = [data] if data["kind"] == "Node" else data.get("items")
        for item in items if isinstance(items, list) else []:
            if isinstance(item, dict) and item.get("kind", "Node") == "Node":
                metadata = item.get("metadata")
                name = metadata.get("name") if isinstance(metadata, dict) else None
                facts = _labelled("\n".join(_lines(item)), f"{source} (kubectl)")
                yield Node(str(name or "a node without a name"), facts)
    else:
        yield from _ansible_json(data, f"{source} (ansible)")


def _ansible_output(text: str, source: str) -> Iterator[Node]:
    """What `ansible all -m setup` prints: a host, how it went, and JSON, again and again."""
    heads = list(re.finditer(r"^(\S+) \| [A-Z!]+ => (?=\{)", text, re.MULTILINE))
    for head, after in zip(heads, [*(head.start() for head in heads[1:]), len(text)], strict=True):
        data = load_json(text[head.end() : after], f"{source}, host {head[1]}")
        nodes = list(_ansible_json(data, source)) if isinstance(data, dict) else []
        why = str(data.get("msg", "no facts were gathered")) if isinstance(data, dict) else "no facts"
        yield Node(head[1], nodes[0].facts) if nodes else Node(head[1], HostFacts(), why)


def _ansible_json(data: dict[str, Any], source: str) -> Iterator[Node]:
    """The setup module's result, a fact cache of one host, or facts by host."""
    for title, facts in [("", data.get("ansible_facts", data)), *data.items()]:
        inner = facts.get("ansible_facts", facts) if isinstance(facts, dict) else None
        if isinstance(inner, dict) and ({"ansible_architecture", "architecture"} & inner.keys()):
            plain = {key.removeprefix("ansible_"): value for key, value in inner.items()}
            kernel = str(plain.pop("system", "Linux"))
            text = "\n".join([f"platform: {kernel} {plain.get('architecture')}", *_lines(plain)])
            name = (
                title
                if title not in ("", "ansible_facts")
                else plain.get("hostname", "a host without a name")
            )
            yield Node(str(name), scan(text, source, known=read_cpu(text, source) or HostFacts()))
            if not title:
                return


def _labelled(text: str, source: str) -> HostFacts:
    """A node of Kubernetes by its labels, and by what else its record shows."""
    return scan(text, source, known=merge([read_labels(text, source), read_cpu(text, source) or HostFacts()]))


def _sections(text: str) -> Iterator[tuple[str, str]]:
    """Each node's name and text, however kubectl printed them."""
    described = re.split(r"^Name:\s+(\S+)\s*$", text, flags=re.MULTILINE)
    if len(described) > 1:
        yield from zip(described[1::2], described[2::2], strict=True)
        return
    rows = [line for line in text.splitlines() if len(LABEL.findall(line)) > 2 and "=" in line]
    if rows and all(re.match(r"\S+\s+\S+\s+\S+", row) for row in rows):
        yield from ((row.split()[0], row) for row in rows)
        return
    documents = re.split(r"^\s*apiVersion: v1\s*$", text, flags=re.MULTILINE)
    for document in filter(re.compile(LABELS).search, documents):
        name = re.search(r"^\s+name:\s*(\S+)", document, re.MULTILINE)
        yield name[1] if name else "a node without a name", document


def _scontrol(text: str, source: str) -> Iterator[Node]:
    """`scontrol show node`, in paragraphs or with --oneliner."""
    for record in re.split(r"^[ \t]*(?=NodeName=)", text, flags=re.MULTILINE)[1:]:
        name = re.match(r"NodeName=(\S*)", record)
        yield Node(name[1] if name else "", _slurm_facts(record, source))


def _slurm_facts(record: str, source: str) -> HostFacts:
    """A node of Slurm, which says neither CPU features nor the driver."""
    arch = re.search(r"\b[Aa]rch(?:itecture)?[=:] ?(\w+)", record)
    gpus: Fact[tuple[GpuFacts, ...]] | None = None
    for key in ("gres", "tres", "CfgTRES"):
        field = re.search(rf"(?i)\b{key}[=:] ?(\S*)", record)
        if field and not (gpus and gpus.value) and (key == "gres" or "gres/gpu" in field[1]):
            gpus = read_gres(field[1], source)
    note = Note(source, "Slurm tells neither CPU features nor the driver")
    stated = read_cpu(f"Arch: {arch[1]}\n", source) if arch else None
    system = stated.system if stated else None
    return scan(record, source, known=HostFacts(system=system, gpus=gpus, notes=(note,)))


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


def read_slurmd(text: str, source: str) -> HostFacts | None:
    """`slurmd -G`: a line for each GPU that a node's daemon found."""
    gpus: list[GpuFacts] = []
    for kind, count in re.findall(SLURMD, text):
        name = "" if kind == "(null)" else kind
        gpus += [GpuFacts(name=fact_of(name, source))] * min(int(count), MOST_GPUS)
    return HostFacts(gpus=Fact(tuple(gpus), source)) if gpus else None


def _sinfo(text: str, source: str) -> Iterator[Node]:
    """Lines of `sinfo` and of scripts around it: a node or a range of them, and its GPUs."""
    seen: dict[str, Node] = {}
    first: bool | None = None  # whether the column of nodes is the first; None: there is no header
    note = Note(source, "sinfo tells neither the system, CPU features nor the driver")
    for line in text.splitlines():
        columns = line.split()
        found = (word for word in columns if re.match(SINFO, word) or re.search(r"[,=]gres/gpu", word))
        gres = next(found, "")
        hosts = [word for word in columns if re.fullmatch(HOST, word) and not re.search(r"gpu[:=]", word)]
        if not gres:
            first = columns[0] in HEADS if HEADS & set(columns) and len(columns) > 1 else first
        elif hosts:
            numbered = [word for word in hosts if re.search(r"\d|\[", word) and "gpu" not in word]
            host = (numbered or hosts)[-1] if first is None else hosts[0 if first else -1]
            facts = HostFacts(gpus=read_gres(gres.lstrip("="), source), notes=(note,))
            for name in expand_hosts(host):
                seen.setdefault(name, Node(name, facts))
    yield from seen.values()


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


def _pbsnodes(text: str, source: str) -> Iterator[Node]:
    """`pbsnodes -a` of PBS and Torque: a name at the margin, its resources below."""
    for record in re.split(r"^(?=[\w][\w.-]*\s*$)", text, flags=re.MULTILINE):
        name, _, body = record.strip().partition("\n")
        fields = dict(re.findall(r"^\s+([\w.]+) = (.*?)\s*$", body, re.MULTILINE))
        if not fields or not re.fullmatch(r"[\w.-]+", name):
            continue
        count = fields.get("resources_available.ngpus") or fields.get("gpus") or ""
        status = fields.get("gpu_status", "")
        kinds = [value for key, value in fields.items() if re.search(r"gpu_?(type|model|name|product)", key)]
        kinds += re.findall(r"gpu_product_name=([^;,]+)", status)
        notes = [Note(source, "pbsnodes tells no CPU features")]
        match = re.search(r"driver_ver(?:sion)?=([\d.]+)", status)
        gpu = GpuFacts(name=fact_of(kinds[0] if kinds else "", source))
        number = min(int(count), MOST_GPUS) if count.isdigit() else len(kinds)
        known = HostFacts(
            gpus=Fact((gpu,) * number, source), driver=driver_fact(match[1], source, notes) if match else None
        )
        yield Node(name, scan(body, source, known=replace(known, notes=tuple(notes))))
