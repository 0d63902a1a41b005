"""Reference pages made of the code: exit codes, and known errors with the text that one would search for."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import torchsmith
from torchsmith.catalog import Catalog
from torchsmith.core.problem import Problem
from torchsmith.repair.diagnose import diagnose_log
from torchsmith.workspace.readmes import table

PACKAGE = Path(torchsmith.__file__).parent
LOGS = Path(__file__).parent.parent / "tests" / "repair" / "logs"
SHOWN = 1  # lines of logs for an error


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


def errors_page(catalog: Catalog) -> str:
    """Known build errors: lines of logs that show each, what happened, why, and the fix."""
    parts = [
        "# Known errors\n\nWhat `torchsmith diagnose` and `torchsmith build` look for in a log."
        " A workspace adds its own in `catalog/errors.toml`.\n"
    ]
    seen = telling_lines(catalog)
    for error in catalog.errors.values():
        lines = "\n".join(seen.get(error.name, ())[:SHOWN])
        shown = f"```text\n{lines}\n```\n" if lines else ""
        text = f"## {error.title}\n{shown}\n{error.cause} **Fix:** {error.fix}\n"
        parts.append(re.sub(r"(?<!\$)\{(\w+)\}", lambda match: match[1].upper(), text))
    return "\n".join(parts)


def telling_lines(catalog: Catalog) -> dict[str, list[str]]:
    """The lines by which the logs of the tests are told apart, by error."""
    found: dict[str, list[str]] = {}
    for file in sorted(LOGS.glob("*.log")):
        log = file.read_text().partition("+++\n")[2]
        told = diagnose_log(log, catalog)
        line = log.splitlines()[told.line_number - 1].strip() if told.line_number else ""
        if told.entry and line and line not in found.setdefault(told.entry, []):
            found[told.entry].append(line)
    return found
