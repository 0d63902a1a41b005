"""Reference pages made of the code: exit codes, and known errors with the text that one would search for."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import torchsmith
from torchsmith.catalog import Catalog
from torchsmith.core.problem import Problem
from torchsmith.workspace.readmes import table

PACKAGE = Path(torchsmith.__file__).parent
SECTIONS = {
    "Compiling": ("compile",),
    "Running": ("runtime",),
    "Memory and disk": ("memory", "disk"),
    "Downloads": ("network", "hash"),
    "Nix": ("evaluation", "store", "builder", "timeout"),
}


def exit_page() -> str:
    """What every exit code and every code of an error means."""
    return f"""# Exit codes

| code | meaning | for instance |
| --- | --- | --- |
| 0 | fine | |
| 1 | something is wrong or was not found | a finding, a failed build, no build for the GPU |
| 2 | the request was wrong | an unknown option or cell, a mistake in torchsmith.toml |
| 3 | the machine lacks something | no Nix, a failed download (use `--nixpkgs`), a full disk |
| 130 | interrupted | Ctrl-C |

If several things fail, the exit code is 3 only if all of them failed for that reason, else 1.

The page of each [verb](verbs/index.md) says what 1 means for it.

## Kinds of errors

With `--json` an error is a document on stdout too:
`{{"format": 1, "error": {{"code", "message", "hint", "where", "exit"}}}}`.
The code is stable; the message may change.

{table(["code", "what it is", "exit code"], kind_rows())}
"""


def kinds() -> list[type[Problem]]:
    """Every class of errors, in whichever package it is."""
    for name in PACKAGE.rglob("*.py"):
        if "(Problem):" in name.read_text():
            importlib.import_module(".".join(name.relative_to(PACKAGE.parent).with_suffix("").parts))
    found = [Problem]
    for kind in found:
        found += kind.__subclasses__()
    return found[1:]


def kind_rows() -> list[list[str]]:
    """What each code of an error means."""
    return sorted([f"`{kind.code()}`", inspect.getdoc(kind) or "", str(int(kind.exit))] for kind in kinds())


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def errors_page(catalog: Catalog) -> str:
    """Known errors by where one meets them: for each a line of its log, what happened, and the fix."""
    parts = [
        "# Known errors\n\n`torchsmith diagnose LOG` finds these in a log, and prints the cause too."
        " Paste a line of yours into the search of this site."
        " A workspace adds its own in `catalog/errors.toml`.\n"
    ]
    for heading, kinds in SECTIONS.items():
        errors = [error for error in catalog.errors.values() if error.kind in kinds]
        rows = [
            f"- `` {error.example.strip()} ``<br>\n  **{_capital(error.title)}.** {error.fix}\n"
            for error in errors
        ]
        text = f"## {heading}\n\n{''.join(rows)}"
        parts.append(re.sub(r"(?<!\$)\{(\w+)\}", lambda match: match[1].upper(), text))
    return "\n".join(parts)
