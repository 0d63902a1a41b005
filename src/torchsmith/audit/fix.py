"""Safe fixes: the edits of findings, by position, as a diff first and then in place."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torchsmith.audit.finding import Finding
from torchsmith.edge.files import read_text
from torchsmith.edge.words import grouped
from torchsmith.recipe.header import owner_of
from torchsmith.recipe.read import edited
from torchsmith.workspace.change import Change


def fixed(findings: Sequence[Finding]) -> tuple[list[Change], int]:
    """Files with every fix that they offer, and how many findings that mends; a file of ours is
    torchsmith.toml's business and left alone."""
    found: list[Change] = []
    count = 0
    for file, group in grouped((one.where.file, one) for one in findings if one.fix).items():
        before = read_text(Path(file))
        if owner_of(before) != "foreign":
            continue
        after = edited(before.encode(), (edit for one in group if one.fix for edit in one.fix.edits))
        if after != before:
            why = "; ".join(dict.fromkeys(one.fix.title for one in group if one.fix))
            found.append(Change("rewrite", file, why, before, after, "foreign"))
            count += len(group)
    return found, count
