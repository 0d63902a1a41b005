"""`torchsmith --help`: the verbs in their panels, out of a page that `make pages` keeps fresh."""

from __future__ import annotations

from pathlib import Path

from torchsmith.cli.paint import paint, write

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
