"""The verbs in panels; a panel's line says what its verbs are for.

`torchsmith --help` prints a page that `make pages` generates."""

from __future__ import annotations

from pathlib import Path

from torchsmith.cli.console import paint, write

# A panel, what it is for, and its verbs. Each verb is a module of verbs/.
PANELS: dict[str, tuple[str, tuple[str, ...]]] = {
    "Choose": (
        "which PyTorch and which build, for one machine or many",
        ("pick", "cover", "list", "show"),
    ),
    "Write": (
        "torchsmith.toml, and the recipes that follow from it",
        ("init", "plan", "apply", "align", "line", "package", "ci"),
    ),
    "Check": (
        "recipes and this machine, before anything is built",
        ("audit", "eval", "impact", "doctor"),
    ),
    "Build": (
        "build, follow and repair",
        ("rehearse", "build", "runs", "diagnose", "fix-hashes"),
    ),
    "Prove": (
        "what was built: read it, run it, time it",
        ("verify", "test", "compare"),
    ),
    "Ship": (
        "show the state of all builds, and publish them",
        ("page", "publish"),
    ),
}
# What most people need: `torchsmith` alone lists these.
COMMON = ("pick", "list", "show", "init", "plan", "apply", "audit", "build", "diagnose", "verify")
# Verbs of earlier releases, and what to use instead.
REMOVED = {
    "explain": "use torchsmith show NAME, or torchsmith audit --explain RULE",
    "generate": "use torchsmith apply, which writes; torchsmith plan shows what would change",
    "pin": "use torchsmith line update LINE",
    "diff-drv": "use nix-diff or dix on the two derivations",
    "facts": "use make facts in a checkout of torchsmith",
    "host": "use torchsmith pick --facts",
    "farm": "use torchsmith doctor --builders",
    "graph": "use torchsmith eval --graph",
    "history": "use torchsmith runs --history",
    "log": "use torchsmith runs log NAME",
    "sbom": "use sbomnix on the built path",
    "status": "use torchsmith runs",
    "schema": "torchsmith init writes torchsmith.schema.json beside torchsmith.toml",
}
VERBS = tuple(verb for _, verbs in PANELS.values() for verb in verbs)
PAGE = Path(__file__).with_name("overview.txt")
FULL_PAGE = Path(__file__).with_name("overview-all.txt")


def print_overview(*, everything: bool = False) -> None:
    """Print the common verbs, or all of them; in colour on a terminal."""
    for line in (FULL_PAGE if everything else PAGE).read_text(encoding="utf-8").splitlines():
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
