"""The verbs, in the order of the work; a panel's line says how those that sound alike differ.

`torchsmith --help` prints them out of a page that `make pages` keeps fresh."""

from __future__ import annotations

from pathlib import Path

from torchsmith.cli.console import paint, write

# A panel, what it is for, and its verbs. Each verb is a module of cli/verbs.
PANELS: dict[str, tuple[str, tuple[str, ...]]] = {
    "Choose": (
        "show describes a cell, and why it can or cannot be built",
        ("pick", "cover", "host", "list", "show"),
    ),
    "Write": (
        "plan shows what would change, apply writes it",
        ("init", "plan", "apply", "align", "line", "package", "ci"),
    ),
    "Check": (
        "audit reads recipes, eval evaluates them; nothing is built",
        ("audit", "eval", "graph", "impact", "doctor"),
    ),
    "Build": (
        "rehearse tries a sample, build makes cells, diagnose says why one failed",
        ("rehearse", "build", "status", "history", "log", "diagnose", "fix-hashes", "farm"),
    ),
    "Prove": (
        "verify reads a build on any machine; test runs it here, compare times it",
        ("verify", "test", "compare"),
    ),
    "Ship": (
        "page shows the state of all builds, publish ships them",
        ("page", "publish"),
    ),
}
# Verbs that there are no more, and what to use instead.
REMOVED = {
    "explain": "use torchsmith show NAME",
    "generate": "use torchsmith apply, which writes; torchsmith plan shows what would change",
    "pin": "use torchsmith line update LINE",
    "diff-drv": "use nix-diff or dix on the two derivations",
    "facts": "use make facts in a checkout of torchsmith",
    "sbom": "use sbomnix on the built path",
    "schema": "torchsmith init writes torchsmith.schema.json beside torchsmith.toml",
}
VERBS = tuple(verb for _, verbs in PANELS.values() for verb in verbs)
PAGE = Path(__file__).with_name("overview.txt")


def print_overview() -> None:
    """The page, its headings and verbs painted where somebody watches."""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        heading, colon, rest = line.partition(":")
        if line.startswith("    "):
            write(line)
        elif line.startswith("  "):
            word, space, about = line.strip().partition(" ")
            write(f"  {paint(word, 'cyan')}{space}{about}")
        elif colon:
            write(paint(heading + colon, "bold") + paint(rest, "dim"))
        else:
            write(line)
