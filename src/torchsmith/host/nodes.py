"""Records of schedulers and inventories (Slurm, PBS, Kubernetes, Ansible), split into a text per machine."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from torchsmith.core.problem import Invalid, TooLarge, Where

SLURM = r"^\s*NodeName=\S+ "
PBS = r"^\s+(resources_available\.(ngpus|gpu\w*)|gpu_status|gpus) = "
ANSIBLE = r"^(\S+) \| [A-Z!]+ => (?=\{)"
NODES_JSON = r'"(kind|gres|(ansible_)?architecture)"\s*:'
LABEL = re.compile(r"(?:[\w-]+\.)+(?:io|com|sh|dev|ai|aws)/[\w.-]+\s*[=:]")
KUBERNETES = (
    r"\b(?:beta\.kubernetes\.io/|kubernetes\.io/|feature\.node\.kubernetes\.io/|cloud\.google\.com/gke-)[\w.-]+\s*[=:]"
    r"|(?<!device[ =])\bnvidia\.com/(?:gpu|cuda|mig)[\w.-]*\s*[=:]|\bcpu-cpuid\.[A-Z0-9]+"
)
NO_NAME = "a node without a name"


class Node(msgspec.Struct, frozen=True):
    """One machine of a record, as a text of its own."""

    name: str
    text: str
    lost: str = ""  # why nothing is known of it


def split_nodes(text: str, source: str) -> list[Node]:
    """The machines of a cluster's record; empty if the text is not a record."""
    if re.search(SLURM, text, re.MULTILINE):
        records = re.split(r"^[ \t]*(?=NodeName=)", text, flags=re.MULTILINE)[1:]
        return [Node(record.partition("=")[2].split()[0], record) for record in records]
    if re.search(ANSIBLE, text, re.MULTILINE):
        return list(_ansible_output(text, source))
    if text.lstrip().startswith("{") and re.search(NODES_JSON, text):
        return list(_nodes_of_json(load_json(text, source)))
    if re.search(PBS, text, re.MULTILINE):
        records = re.split(r"^(?=[\w][\w.-]*\s*$)", text, flags=re.MULTILINE)
        return [
            Node(record.split()[0], record) for record in records if re.search(r"^\s+\S+ = ", record, re.M)
        ]
    if re.search(KUBERNETES, text):
        return [Node(name, part) for name, part in _kubernetes(text)]
    return []


def load_json(text: str, source: str) -> Any:
    """JSON as data. Raises a Problem with the line of what is wrong."""
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


def _nodes_of_json(data: Any) -> Iterator[Node]:
    """Nodes of kubectl and scontrol, and facts that Ansible gathered, of one host or by host."""
    if not isinstance(data, dict):
        return
    listed = data.get("nodes")
    if isinstance(listed, list) and any(isinstance(item, dict) and "gres" in item for item in listed):
        for item in listed:
            if isinstance(item, dict):
                yield Node(str(item.get("name") or NO_NAME), "\n".join(_lines(item)))
    elif data.get("kind") in ("List", "NodeList", "Node"):
        items = [data] if data["kind"] == "Node" else data.get("items")
        for item in items if isinstance(items, list) else []:
            if isinstance(item, dict) and item.get("kind", "Node") == "Node":
                metadata = item.get("metadata")
                name = metadata.get("name") if isinstance(metadata, dict) else None
                yield Node(str(name or NO_NAME), "\n".join(_lines(item)))
    else:
        yield from _ansible_json(data)


def _ansible_output(text: str, source: str) -> Iterator[Node]:
    """What `ansible all -m setup` prints: a host, how it went, and JSON, again and again."""
    heads = list(re.finditer(ANSIBLE, text, re.MULTILINE))
    for head, after in zip(heads, [*(head.start() for head in heads[1:]), len(text)], strict=True):
        data = load_json(text[head.end() : after], f"{source}, host {head[1]}")
        nodes = list(_ansible_json(data)) if isinstance(data, dict) else []
        why = str(data.get("msg", "no facts were gathered")) if isinstance(data, dict) else "no facts"
        yield Node(head[1], nodes[0].text) if nodes else Node(head[1], "", why)


def _ansible_json(data: dict[str, Any]) -> Iterator[Node]:
    """The setup module's result, a fact cache of one host, or facts by host."""
    for title, facts in [("", data.get("ansible_facts", data)), *data.items()]:
        inner = facts.get("ansible_facts", facts) if isinstance(facts, dict) else None
        if isinstance(inner, dict) and ({"ansible_architecture", "architecture"} & inner.keys()):
            plain = {key.removeprefix("ansible_"): value for key, value in inner.items()}
            kernel = str(plain.pop("system", "Linux"))
            text = "\n".join([f"platform: {kernel} {plain.get('architecture')}", *_lines(plain)])
            name = plain.get("hostname", NO_NAME) if title in ("", "ansible_facts") else title
            yield Node(str(name), text)
            if not title:
                return


def _kubernetes(text: str) -> Iterator[tuple[str, str]]:
    """Each node's name and text, however kubectl printed them."""
    described = re.split(r"^Name:\s+(\S+)\s*$", text, flags=re.MULTILINE)
    if len(described) > 1:
        yield from zip(described[1::2], described[2::2], strict=True)
        return
    rows = [line for line in text.splitlines() if len(LABEL.findall(line)) > 2 and "=" in line]
    if rows and all(re.match(r"\S+\s+\S+\s+\S+", row) for row in rows):
        yield from ((row.split()[0], row.replace(",", "\n")) for row in rows)
        return
    before, *documents = re.split(r"^\s*apiVersion: v1\s*$", text, flags=re.MULTILINE)
    for document in filter(re.compile(KUBERNETES).search, documents or [before]):
        name = re.search(r"^\s+name:\s*(\S+)", document, re.MULTILINE)
        yield name[1] if name else NO_NAME, document
