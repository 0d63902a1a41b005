"""The pages about verbs: what `torchsmith --help` prints, and docs/verbs.md."""

from __future__ import annotations

import importlib
import inspect
import textwrap
from types import ModuleType

from torchsmith.cli.panels import PANELS, VERBS

WIDTH = 80


def module_of(verb: str) -> ModuleType:
    """The module of a verb."""
    return importlib.import_module(f"torchsmith.cli.verbs.{verb.replace('-', '_')}")


def _first_line(verb: str) -> str:
    """What a verb is for, without the mark-up that only a terminal shows."""
    text = inspect.cleandoc(module_of(verb).run.__doc__ or "").split("\n\n")[0]
    return " ".join(text.split()).replace("[bold]", "").replace("[/bold]", "").rstrip(".")


def overview() -> str:
    """The verbs in their panels, at most 80 columns wide."""
    start = max(map(len, VERBS)) + 4
    lines = [
        "Usage: torchsmith VERB [WORDS]... [OPTIONS]",
        "",
        *textwrap.wrap(
            "PyTorch builds made for exactly your GPU and CPU: one file says which you ship, recipes are"
            " generated from it, what is built is proved, and each machine finds the one that is its own.",
            WIDTH,
        ),
        "",
        "    torchsmith pick            which build is for this machine",
        "    torchsmith VERB --help     options of a verb, and an example that runs",
        "    torchsmith --version       and --install-completion for your shell",
    ]
    for panel, (contrast, verbs) in PANELS.items():
        lines += ["", f"{panel}: {contrast}"]
        for verb in verbs:
            about = textwrap.wrap(_first_line(verb), WIDTH - start)
            lines.append(f"  {verb}".ljust(start) + about[0])
            lines += [" " * start + more for more in about[1:]]
    return "\n".join(lines) + "\n"


def verbs_page(note: str) -> str:
    """Each verb: what it is for, and an example."""
    parts = [f"{note}\n# Verbs\n"]
    for panel, (contrast, verbs) in PANELS.items():
        parts.append(f"## {panel}\n{contrast[0].upper()}{contrast[1:]}.\n")
        for verb in verbs:
            module = module_of(verb)
            text = inspect.cleandoc(module.run.__doc__ or "").replace("[bold]", "`").replace("[/bold]", "`")
            parts.append(f"### {verb}\n{text}\n\n    {module.EXAMPLE}\n")
    return "\n".join(parts)
