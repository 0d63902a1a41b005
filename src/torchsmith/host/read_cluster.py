"""Machines as schedulers and inventories keep them: Slurm's scontrol, Kubernetes' nodes, Ansible's facts.

What such a record does not say stays unknown: Slurm knows neither CPU features nor drivers, Ansible no GPUs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from torchsmith.core.problem import Invalid, TooLarge, Where
from torchsmith.host.facts import Fact, HostFacts, fact_of
from torchsmith.host.node import Node
from torchsmith.host.read_cpu import system_of_machine
from torchsmith.host.read_kubernetes import LABELS, kubernetes_node, read_kubernetes_text
from torchsmith.host.read_slurm import PBS, SINFO, SLURM, read_pbsnodes, read_scontrol, read_sinfo, slurm_node
from torchsmith.host.scan import scan

ANSIBLE = r"^\S+ \| [A-Z!]+ => \{"
NODES_JSON = r'"(kind|gres|(ansible_)?architecture)"\s*:'


def read_nodes(text: str, source: str) -> list[Node] | None:
    """The machines of a cluster's record; None where the text is none."""
    if re.search(SLURM, text, re.MULTILINE):
        return list(read_scontrol(text, f"{source} (scontrol)"))
    if re.search(ANSIBLE, text, re.MULTILINE):
        return list(_ansible_output(text, f"{source} (ansible)"))
    if text.lstrip().startswith("{") and re.search(NODES_JSON, text):
        return _nodes_of_json(text, source)
    if re.search(PBS, text, re.MULTILINE):
        return list(read_pbsnodes(text, f"{source} (pbsnodes)")) or None
    if re.search(LABELS, text):
        return list(read_kubernetes_text(text, f"{source} (kubectl)")) or None
    if re.search(SINFO, text, re.MULTILINE):
        return list(read_sinfo(text, f"{source} (sinfo)")) or None
    return None


def _nodes_of_json(text: str, source: str) -> list[Node] | None:
    data = load_json(text, source)
    if not isinstance(data, dict):
        return None
    listed = data.get("nodes")
    slurm = [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
    if any("gres" in item for item in slurm):
        return [_accounted(slurm_node(item, f"{source} (scontrol --json)"), item) for item in slurm]
    if data.get("kind") in ("List", "NodeList", "Node"):
        items = [data] if data["kind"] == "Node" else data.get("items")
        known = items if isinstance(items, list) else []
        nodes = [item for item in known if isinstance(item, dict) and item.get("kind", "Node") == "Node"]
        return [_accounted(kubernetes_node(item, f"{source} (kubectl)"), item) for item in nodes]
    return list(_ansible_json(data, source)) or None


def _accounted(node: Node, item: Mapping[str, Any]) -> Node:
    """The node, with a GPU that its record shows outside of the fields that are read."""
    return Node(node.name, scan(json.dumps(item, indent=0), node.name, known=node.facts))


def load_json(text: str, source: str) -> Any:
    """JSON as data, or a Problem with the line of what is wrong."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise Invalid(f"not valid JSON: {error.msg.lower()}", where=Where(source, error.lineno)) from error
    except RecursionError:
        raise TooLarge("brackets are nested too deeply", where=Where(source)) from None


def _ansible_output(text: str, source: str) -> Iterator[Node]:
    """What `ansible all -m setup` prints: a host, how it went, and JSON, again and again."""
    heads = list(re.finditer(r"^(\S+) \| [A-Z!]+ => (?=\{)", text, re.MULTILINE))
    for head, after in zip(heads, [*(head.start() for head in heads[1:]), len(text)], strict=True):
        data = load_json(text[head.end() : after], f"{source}, host {head[1]}")
        facts = data.get("ansible_facts") if isinstance(data, dict) else None
        if isinstance(facts, dict) and "ansible_architecture" in facts:
            yield _accounted(Node(head[1], _ansible(facts, source)), facts)
        else:
            why = str(data.get("msg", "no facts were gathered")) if isinstance(data, dict) else "no facts"
            yield Node(head[1], HostFacts(), why)


def _ansible_json(data: Mapping[str, Any], source: str) -> Iterator[Node]:
    """The setup module's result, a fact cache of one host, or facts by host."""
    own = data.get("ansible_facts", data)
    for title, facts in [("", own), *data.items()]:
        inner = facts.get("ansible_facts", facts) if isinstance(facts, dict) else None
        if isinstance(inner, dict) and ({"ansible_architecture", "architecture"} & inner.keys()):
            name = title if title not in ("", "ansible_facts") else ""
            known = inner.get("ansible_hostname") or inner.get("hostname") or "a host without a name"
            yield _accounted(Node(name or str(known), _ansible(inner, f"{source} (ansible)")), inner)
            if not title:
                return


def _ansible(facts: Mapping[str, Any], source: str) -> HostFacts:
    """Architecture, CPU flags (newer releases, x86 alone) and the CPU's name; no GPU is in them."""

    def fact(key: str) -> Any:
        return facts.get(f"ansible_{key}", facts.get(key))

    arch, kernel, flags = fact("architecture"), fact("system"), fact("flags")
    listed = fact("processor")
    names = [str(item) for item in listed if not str(item).isdigit()] if isinstance(listed, list) else []
    system = system_of_machine(str(arch)) if arch else ""
    if kernel and kernel != "Linux":
        system = f"{system.partition('-')[0]}-{str(kernel).lower()}"
    memory, release = fact("memtotal_mb"), [fact("distribution"), fact("distribution_version")]
    return HostFacts(
        system=fact_of(system, source),
        cpu_name=fact_of(max(names, key=len, default=""), source),
        features=Fact(frozenset(map(str, flags)), source) if isinstance(flags, list) and flags else None,
        os=fact_of(" ".join(str(part) for part in release if part), source),
        memory_mib=Fact(memory, source) if isinstance(memory, int) else None,
    )
