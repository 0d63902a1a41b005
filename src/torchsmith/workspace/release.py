"""Which torch release a recipe is of, and what says so: its name, a workspace, its header, a comment or its
code. Nothing is guessed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from torchsmith.catalog import Catalog
from torchsmith.matrix import Accepted, Variant, assess
from torchsmith.matrix.cells import newest_line
from torchsmith.recipe.header import read_header

How = Literal["name", "workspace", "header", "comment", "told", "text", "unknown"]
COMMENT = re.compile(r"#.*torchsmith: line ([\w.]+)")  # how a person states the line of a recipe


@dataclass(frozen=True, slots=True)
class Release:
    """The line that a recipe is of, and what says so; an empty name where nothing does."""

    line: str = ""
    how: How = "unknown"


def stated_release(
    variant: Variant | None, catalog: Catalog, text: str, requested: str | None, named: str | None = None
) -> Release | None:
    """The release that is stated outright; None where only the code shows it."""
    header, comment = read_header(text), COMMENT.search(text)
    stated: tuple[tuple[How, str | None], ...] = (
        ("name", variant.release.line if variant and variant.release else None),
        ("workspace", requested),
        ("header", header.facts.get("line") if header else None),
        ("comment", comment[1] if comment else None),
        ("told", named),
    )
    for how, line in stated:
        if line and line in catalog.lines:
            return Release(line, how)
    if variant is None or variant.release:
        return Release()
    if not (variant.package.is_torch or variant.package.needs_torch):
        decision = assess(variant, catalog)  # it has no torch: the line that would build it
        return Release(decision.line.name, "name") if isinstance(decision, Accepted) else Release()
    if variant.flavor:
        nightly = newest_line(catalog, variant.cuda, "nightly")
        return Release(nightly.name, "name") if nightly else Release()
    return None
