"""Safe fixes: the edits of findings, by position, as a diff first and then in place."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from torchsmith.audit.finding import Edit, Finding
from torchsmith.edge.files import read_text, write_atomic
from torchsmith.recipe.header import owner_of


@dataclass(frozen=True, slots=True)
class FixedFile:
    """A file before and after its fixes, and which findings they were for."""

    path: str
    before: str
    after: str
    findings: tuple[Finding, ...]

    @property
    def diff(self) -> str:
        lines = difflib.unified_diff(
            self.before.splitlines(keepends=True),
            self.after.splitlines(keepends=True),
            f"a/{self.path}",
            f"b/{self.path}",
        )
        return "".join(lines)


def fixed(findings: Sequence[Finding]) -> list[FixedFile]:
    """Files with every fix that they offer; a file of ours is torchsmith.toml's business and left alone."""
    found = []
    groups: dict[str, list[Finding]] = {}
    for one in findings:
        if one.fix is not None:
            groups.setdefault(one.where.file, []).append(one)
    for file, group in groups.items():
        before = read_text(Path(file))
        if owner_of(before) != "foreign":
            continue
        after = apply_edits(before, (edit for one in group if one.fix for edit in one.fix.edits))
        if after != before:
            found.append(FixedFile(file, before, after, tuple(group)))
    return found


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


def write(files: Sequence[FixedFile]) -> None:
    """Put the fixes in place, each file whole or not at all."""
    for one in files:
        write_atomic(Path(one.path), one.after, mode=Path(one.path).stat().st_mode & 0o777)
