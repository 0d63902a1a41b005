"""The pages about `--json`: an index of the documents, and a page for each with all of its fields."""

from __future__ import annotations

import inspect
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from torchsmith.workspace.readmes import table

REFERENCE = re.compile(r'"#/\$defs/([^"]+)"|"\$ref": "[^"]*/([^"/]+)"')
SHARED = "shared"
WITHOUT_FORMAT = ("build",)
COMMENT = re.compile(r"^    (\w+): [^#\n]*# (.+)$", re.MULTILINE)
FACT = re.compile(r"Fact_(?:tuple_|frozenset_)?(?:[a-z.]*\.)?([A-Za-z]+)_")
JSON_NAMES = {
    "str": "string",
    "int": "integer",
    "bool": "boolean",
    "dict": "object of string",
    "DriverVersion": "string",
    "Sm": "string",
}
FACT_SECTION = """
## Fact

A value, and the tool, file or option that it comes from.

| field | type |
| --- | --- |
| `value` | as the field that holds the fact says |
| `source` | string |
"""


def json_pages(documents: Mapping[str, Any], introduction: str, changes: str, note: str) -> dict[str, str]:
    """Pages made from the types that are encoded; types of several documents have a page of their own."""
    schemas, types = msgspec.json.schema_components(
        documents.values(), schema_hook=lambda _: {"type": "string"}
    )
    reached = {name: _reached(schema, types) for name, schema in zip(documents, schemas, strict=True)}
    counts = Counter(kind for kinds in reached.values() for kind in kinds)
    page_of = {
        kind: page_name(name) if counts[kind] == 1 else SHARED
        for name, kinds in reached.items()
        for kind in kinds
    }
    rows = []
    for name, schema in zip(documents, schemas, strict=True):
        number = "" if name in WITHOUT_FORMAT else str(getattr(documents[name], "FORMAT", 1))
        rows.append([f"`{name} --json`", _type(schema, page_of, "json/"), number])
    index = table(["verb", "document", "format"], rows)
    sections = f"## Documents\n{index}\n\n## Earlier formats\n{changes}"
    pages = {"docs/json.md": f"{note}\n# JSON\n\n{introduction}\n\n{sections}"}
    titles = {page_name(name): f"{name} --json" for name in documents} | {
        SHARED: "Types of several documents"
    }
    structs = {kind.__name__: kind for kind in _subclasses(msgspec.Struct)}
    for page, title in titles.items():
        kinds = sorted(kind for kind, place in page_of.items() if place == page and not FACT.match(kind))
        if kinds:
            sections = "\n".join(
                _section(kind, types[kind], page_of, page, _comments(structs.get(kind))) for kind in kinds
            )
            if page == SHARED:
                sections += FACT_SECTION
            pages[f"docs/json/{page}.md"] = f"{note}\n# {title}\n\n{sections}"
    return pages


def page_name(document: str) -> str:
    """The file name of a document's page."""
    return re.sub(r"[^a-z]+", "-", document)


def _reached(schema: Mapping[str, Any], types: Mapping[str, Any]) -> set[str]:
    """The types that a document holds, however deep."""
    reached: set[str] = set()
    todo = _references(schema)
    while todo:
        kind = todo.pop()
        if kind not in reached:
            reached.add(kind)
            todo |= _references(types[kind])
    return reached


def _references(schema: Any) -> set[str]:
    return {one or other for one, other in REFERENCE.findall(json.dumps(schema))}


def _subclasses(kind: type[Any]) -> Iterator[type[Any]]:
    for child in kind.__subclasses__():
        yield child
        yield from _subclasses(child)


def _comments(kind: type | None) -> dict[str, str]:
    """What the comments behind the fields of a type say."""
    parts = (
        [part for part in reversed(kind.__mro__) if part.__module__.startswith("torchsmith")] if kind else []
    )
    return {name: comment for part in parts for name, comment in COMMENT.findall(inspect.getsource(part))}


def _section(
    name: str, schema: Mapping[str, Any], page_of: Mapping[str, str], page: str, comments: Mapping[str, str]
) -> str:
    about = inspect.cleandoc(schema.get("description", ""))
    if "properties" not in schema:
        return f"## {name}\n\n{about or _type(schema, page_of, '', page)}\n"
    rows = [
        [f"`{field}`", _type(value, page_of, "", page), comments.get(field, "")]
        for field, value in schema["properties"].items()
    ]
    head = ["field", "type", "meaning"]
    if not any(row[2] for row in rows):
        head, rows = head[:2], [row[:2] for row in rows]
    return f"## {name}\n\n{about}\n\n{table(head, rows)}\n"


def _type(schema: Mapping[str, Any], page_of: Mapping[str, str], folder: str, here: str = "") -> str:
    """A JSON schema's type in words, with links."""

    def inner(part: Mapping[str, Any]) -> str:
        return _type(part, page_of, folder, here)

    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        if fact := FACT.match(name):
            page = "" if here == SHARED else f"{folder}{SHARED}.md"
            many = "list of " if "tuple" in name or "frozenset" in name else ""
            value = JSON_NAMES.get(fact[1]) or f"[{fact[1]}]({page}#{fact[1].lower()})"
            return f"[fact]({page}#fact): {many}{value}"
        page = "" if page_of[name] == here else f"{folder}{page_of[name]}.md"
        return f"[{name}]({page}#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(map(inner, schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    match schema.get("type"):
        case "array":
            return f"list of {inner(schema.get('items') or (schema.get('prefixItems') or [{}])[0] or {})}"
        case "object":
            return f"object of {inner(schema.get('additionalProperties') or {})}"
        case None:
            return "anything"
        case kind:
            return str(kind)
