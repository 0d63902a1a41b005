"""The documents that `--json` prints: a page that lists them, and a JSON Schema for each."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tools.reference import kinds
from torchsmith.workspace.readmes import table

WITHOUT_FORMAT = ("build",)
PRINTED_BY = {
    "error": "VERB --json",
    "show gpu": "show GPU --json",
}  # else the document's name with --json
COMMENT = re.compile(r"^    (\w+): [^#\n]*# (.+)$", re.MULTILINE)
DRAFT = "https://json-schema.org/draft/2020-12/schema"


def json_pages(documents: Mapping[str, Any], introduction: str) -> dict[str, str]:
    """The page and the schemas, from the types that are encoded."""
    rows = []
    pages = {}
    for name, kind in documents.items():
        file = f"json/{schema_name(name)}"
        number = "" if name in WITHOUT_FORMAT else getattr(kind, "FORMAT", 1)
        about = "One event per line." if name in WITHOUT_FORMAT else inspect.cleandoc(kind.__doc__ or "")
        first = re.split(r"(?<=\.)\s", " ".join(about.split()))[0]
        rows.append([f"[`{printed_by(name)}`]({file})", number, first])
        pages[f"docs/{file}"] = json.dumps(document_schema(name, kind), indent=1) + "\n"
    index = table(["document", "format", "about"], rows)
    return {"docs/json.md": f"# JSON\n\n{introduction}\n\n## Documents\n{index}\n", **pages}


def printed_by(document: str) -> str:
    """What prints a document."""
    return PRINTED_BY.get(document, f"{document} --json")


def schema_name(document: str) -> str:
    """The file name of a document's schema."""
    return re.sub(r"[^a-z]+", "-", document) + ".schema.json"


def document_schema(name: str, kind: Any) -> dict[str, Any]:
    """The JSON Schema of a document, with the comments behind the fields of its types."""
    (schema,), types = msgspec.json.schema_components([kind], schema_hook=lambda _: {"type": "string"})
    structs = {struct.__name__: struct for struct in _subclasses(msgspec.Struct)}
    for title, part in types.items():
        if "description" in part:
            part["description"] = " ".join(part["description"].split())
        for field, comment in _comments(structs.get(title)).items():
            if field in part.get("properties", ()):
                part["properties"][field]["description"] = comment
    if "ErrorFields" in types:
        types["ErrorFields"]["properties"]["code"]["enum"] = sorted(kind.code() for kind in kinds())
    number = "" if name in WITHOUT_FORMAT else f":{getattr(kind, 'FORMAT', 1)}"
    id = f"urn:torchsmith:{schema_name(name).removesuffix('.schema.json')}{number}"
    whole = {"$schema": DRAFT, "$id": id, "title": f"torchsmith {printed_by(name)}", **schema}
    if name not in WITHOUT_FORMAT:
        whole["properties"] = {"format": {"const": getattr(kind, "FORMAT", 1)}}
        whole["required"] = ["format"]
    return {**whole, "$defs": types}


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
