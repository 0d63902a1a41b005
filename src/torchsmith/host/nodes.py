"""Records of schedulers (Slurm, Kubernetes), split into a text per machine."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from torchsmith.core.problem import Invalid, TooLarge, Where

SLURM = r"^\s*NodeName=\S+ "
# Ansible's facts name no GPUs, and PBS has names of its site for them.
UNREAD = r'^\S+ \| [A-Z!]+ => \{|"ansible_\w+"\s*:|^\s+(resources_available\.\w+|gpu_status) = '
NODES_JSON = r'"(kind|gres)"\s*:'
LABEL = re.compile(r"(?:[\w-]+\.)+(?:io|com|sh|dev|ai|aws)/[\w.-]+\s*[=:]")
KUBERNETES = (
    r"\b(?:beta\.kubernetes\.io/|kubernetes\.io/|feature\.node\.kubernetes\.io/|cloud\.google\.com/gke-)[\w.-]+\s*[=:]"
    r"|(?<!device[ =])\bnvidia\.com/(?:gpu|cuda|mig)[\w.-]*\s*[=:]|\bcpu-cpuid\.[A-Z0-9]+"
)
IN_KUBERNETES = ("kubernetes.io/", "cloud.google.com/", "nvidia.com/", "cpu-cpuid.")  # searched first: fast
NO_NAME = "a node without a name"


class Node(msgspec.Struct, frozen=True):
    """One machine of a record, as a text of its own."""

    name: str
    text: str


def split_nodes(text: str, source: str) -> list[Node]:
    """The machines of a cluster's record; empty if the text is not one. Raises Invalid for what is unread."""
    if re.search(SLURM, text, re.MULTILINE):
        records = re.split(r"^[ \t]*(?=NodeName=)", text, flags=re.MULTILINE)[1:]
        return [Node(record.partition("=")[2].split()[0], record) for record in records]
    if re.search(UNREAD, text, re.MULTILINE):
        hint = "a folder with the output of lscpu and nvidia-smi of each machine, or a CSV file, does"
        raise Invalid(f"{source} is output of Ansible or PBS, which says too little", hint=hint)
    if text.lstrip().startswith("{") and re.search(NODES_JSON, text):
        return list(_nodes_of_json(load_json(text, source)))
    if any(word in text for word in IN_KUBERNETES) and re.search(KUBERNETES, text):
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
    """Nodes of kubectl and scontrol."""
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
