"""Reference pages made of the code: exit codes, and known errors with the text that one would search for."""

from __future__ import annotations

import inspect
import re

from tools.verb_pages import module_of
from torchsmith.catalog import Catalog
from torchsmith.cli.panels import VERBS
from torchsmith.workspace.pages import table


def exit_page(note: str) -> str:
    """What every exit code means, and what 1 means for each verb."""
    rows = []
    for verb in VERBS:
        text = inspect.cleandoc(module_of(verb).run.__doc__ or "")
        text = " ".join(text.split()).replace("[bold]", "`").replace("[/bold]", "`")
        said = [one for one in re.split(r"(?<=\.) ", text) if "exit code" in one.lower()]
        rows.append([f"`{verb}`", " ".join(said) or "0, or 2 and 3 as above."])
    return f"""{note}
# Exit codes

| code | meaning | for instance |
| --- | --- | --- |
| 0 | fine | |
| 1 | what was checked, built or asked for is not right | a finding, a failed build, no build for the GPU |
| 2 | the request was wrong | an unknown option or cell, a mistake in torchsmith.toml |
| 3 | the environment lacks something | no Nix, a download that fails (`--nixpkgs` is the way out), no room |
| 130 | interrupted | Ctrl-C |

With `--json` an error is a document on stdout too:
`{{"format": 1, "error": {{"message", "hint", "where", "exit"}}}}`.

{table(["verb", "its own words"], rows)}
"""


def errors_page(catalog: Catalog, note: str) -> str:
    """Known build errors: the pattern in a log, what happened, why, and the cure."""
    parts = [
        f"{note}\n# Known errors\n\nWhat `torchsmith diagnose` and `torchsmith build` look for in a log."
        " Search this page for a line of yours; the patterns are regular expressions. A workspace adds its"
        " own in `catalog/errors.toml`.\n"
    ]
    for error in catalog.errors.values():
        parts.append(f"## {error.title}\n`{error.name}`\n\n    {error.pattern}\n")
        parts.append(f"{error.cause}\n\n**Cure:** {error.cure}\n")
    return "\n".join(parts)
