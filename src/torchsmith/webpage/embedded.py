"""What the page's script reads: the document made small, since cells say nearly the same."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Iterable
from typing import Any

import msgspec

from torchsmith.catalog import Catalog
from torchsmith.matrix import Cell
from torchsmith.webpage.answers import Interner, answers
from torchsmith.webpage.document import STATES, PageCell, PageReport
from torchsmith.webpage.markup import FORBIDDEN, Markup

OWN_NAME = "\x01"  # replaces the cell's own name in its recipe
MOST_CHARACTERS = 100_000  # of a recipe


def embedded(document: PageReport, catalog: Catalog, wanted: Iterable[Cell], articles: str) -> dict[str, Any]:
    """The document as the script takes it, with the story of each cell as an article."""
    texts = Interner[str]()
    cells = [_cell(cell, texts) for cell in document.cells]
    return {
        "states": {state: list(texts) for state, texts in STATES.items()},
        "cells": cells,
        "articles": articles,
        "words": texts.all,
        "findings": [
            [finding.rule, finding.severity, finding.message, finding.hint] for finding in document.findings
        ],
        "products": products(catalog),
        "folder": document.folder,
        "where": document.where,
        "mine": answers(wanted, catalog, in_workspace=document.in_workspace, where=document.where),
    }


def _cell(cell: PageCell, texts: Interner[str]) -> dict[str, Any]:
    """A cell; what the page itself already has of it is left out."""
    recipe = cell.recipe[:MOST_CHARACTERS].replace(cell.name, OWN_NAME)
    more: dict[str, Any] = {
        "n": cell.name,
        "s": cell.state,
        "p": texts(cell.package),
        "g": cell.sm,
        "i": cell.isa,
        "t": texts(f"{cell.toolkit.lower()} {cell.line} {cell.flavor} {cell.system}"),
        "f": cell.file,
        "r": [texts(part) for part in recipe.split("\n\n")] if recipe else None,  # paragraphs recur
        "w": list(cell.findings),
        "l": [texts(line) for line in cell.build.log] if cell.build else None,
    }
    return {key: value for key, value in more.items() if value not in (None, "", [])}


def products(catalog: Catalog) -> dict[str, Any]:
    """Products by the axis value that serves them, for the search."""
    return {
        "gpu": {gpu.name: [*gpu.parts, *gpu.also_called, gpu.generation] for gpu in catalog.gpus.values()},
        "cpu": [[cpu.name, cpu.title, *cpu.also_called, list(cpu.isas)] for cpu in catalog.cpus.values()],
    }


def packed(data: object) -> Markup:
    """JSON for a <script> of data, compressed: in base64 nothing can end the element or begin a comment."""
    builtins = msgspec.to_builtins(data, enc_hook=str)  # a file name in it may not be text
    text = FORBIDDEN.sub("\ufffd", json.dumps(builtins, ensure_ascii=False, separators=(",", ":")))
    return Markup(base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode())


def source_hash(text: str) -> str:
    """How a content security policy names a script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
