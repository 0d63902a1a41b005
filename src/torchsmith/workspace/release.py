"""Which torch release a recipe is of: its line, as its name, a workspace, its header, a comment or its code
says. Nothing is guessed."""

from __future__ import annotations

import re

from torchsmith.catalog import Catalog
from torchsmith.matrix import Accepted, Variant, assess
from torchsmith.matrix.cells import newest_line
from torchsmith.recipe.header import read_header

COMMENT = re.compile(r"#.*torchsmith: line ([\w.]+)")  # how a person states the line of a recipe


def stated_release(
    variant: Variant | None, catalog: Catalog, text: str, requested: str | None, named: str | None = None
) -> str | None:
    """The line that is stated outright, empty if none can be; None if only the code shows it."""
    header, comment = read_header(text), COMMENT.search(text)
    stated = (
        variant.release.line if variant and variant.release else None,
        requested,
        header.facts.get("line") if header else None,
        comment[1] if comment else None,
        named,
    )
    for line in stated:
        if line and line in catalog.lines:
            return line
    if variant is None or variant.release:
        return ""
    if not (variant.package.is_torch or variant.package.needs_torch):
        decision = assess(variant, catalog)  # it has no torch: the line that would build it
        return decision.line.name if isinstance(decision, Accepted) else ""
    if variant.flavor:
        nightly = newest_line(catalog, variant.cuda, "nightly")
        return nightly.name if nightly else ""
    return None
