"""Safe fixes: the edits of findings, by position, as a diff first and then in place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from torchsmith.audit.finding import Edit, Finding
from torchsmith.edge.files import read_text
from torchsmith.recipe.header import owner_of
from torchsmith.workspace.change import Change


def fixed(findings: Sequence[Finding]) -> tuple[list[Change], int]:
    """Files with every fix that they offer, and how many findings that mends; a file of ours is
    torchsmith.toml's business and left alone."""
    groups: dict[str, list[Finding]] = {}
    for one in findings:
        if one.fix is not None:
            groups.setdefault(one.where.file, []).append(one)
    found: list[Change] = []
    count = 0
    for file, group in groups.items():
        before = read_text(Path(file))
        if owner_of(before) != "foreign":
            continue
        after = apply_edits(before, (edit for one in group if one.fix for edit in one.fix.edits))
        if after != before:
            why = "; ".join(dict.fromkeys(one.fix.title for one in group if one.fix))
            found.append(Change("rewrite", file, why, before, after, "foreign"))
            count += len(group)
    return found, count


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """A text with edits made; of two that overlap, the first counts."""
    data = text.encode()
    parts: list[bytes] = []
    at = 0
    for edit in sorted(set(edits)):
        if edit.start < at:
            continue
        parts += [data[at : edit.start], edit.text.encode()]
        at = edit.end
    return b"".join([*parts, data[at:]]).decode()
