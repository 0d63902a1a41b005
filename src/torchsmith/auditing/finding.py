"""One finding: which rule, how bad, where, its message; and the fixes of many, file by file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from torchsmith.core.files import read_text
from torchsmith.core.problem import Where
from torchsmith.core.text import grouped, printable
from torchsmith.recipe.header import owner_of
from torchsmith.recipe.read import Edit, edited
from torchsmith.workspace.change import Change


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"  # it will not build, or the result is wrong
    WARNING = "warning"  # it works by luck, or cannot be used
    NOTE = "note"  # it could be better

    @property
    def rank(self) -> int:
        return list(Severity).index(self)


class Sure(StrEnum):
    """How sure a rule is of what it says; only certain findings may be errors."""

    CERTAIN = "certain"  # by text that the build uses, or by derivations
    LIKELY = "likely"  # by prose, or by what usually holds
    GUESS = "guess"  # by our own conventions, or by a missing fact

    @property
    def worst(self) -> Severity:
        """The worst that a finding of this kind can be."""
        return list(Severity)[list(Sure).index(self)]


@dataclass(frozen=True, slots=True)
class FindingFix:
    """Edits of the finding's own file that fix it; a `safe` one changes no build."""

    title: str
    edits: tuple[Edit, ...]
    safe: bool = True  # otherwise it is applied only with --unsafe-fixes


SortKey = tuple[Where, int, str, str]


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule's message about one place."""

    rule: str
    title: str
    severity: Severity
    where: Where
    message: str
    hint: str = ""
    fix: FindingFix | None = None
    source: str = ""  # the line that it is about
    sure: Sure = Sure.CERTAIN
    about: str = ""  # an attribute of nixpkgs: the finding holds if the repository does not define it

    @property
    def printable(self) -> Finding:
        """The finding without control characters from the recipe or its name."""
        message, hint, source = map(printable, (self.message, self.hint, self.source))
        where = replace(self.where, file=printable(self.where.file))
        return replace(self, where=where, message=message, hint=hint, source=source)

    @property
    def sort_key(self) -> SortKey:
        return (self.where, self.severity.rank, self.rule, self.message)


def fixed(findings: Sequence[Finding], *, unsafe: bool = False) -> tuple[list[Change], int]:
    """Files with every safe fix that they offer, or with every fix, and how many findings that fixes. Of two
    fixes that change the same words, the first is made. A generated file is left alone: torchsmith.toml
    decides about it. So is a link, whose name is not that of the file."""
    changes: list[Change] = []
    count = 0
    offered = (
        (finding.where.file, finding.fix)
        for finding in findings
        if finding.fix and (unsafe or finding.fix.safe)
    )
    for file, fixes in grouped(offered).items():
        before = read_text(Path(file))
        if owner_of(before) != "foreign" or Path(file).is_symlink():
            continue
        edits: set[Edit] = set()
        titles: list[str] = []
        for fix in fixes:
            if not any(_overlap(edit, other) for edit in fix.edits for other in edits):
                edits.update(fix.edits)
                titles.append(fix.title)
        after = edited(before.encode(), edits)
        if after != before:
            why = "; ".join(dict.fromkeys(titles))
            changes.append(Change("rewrite", file, why, before, after, "foreign"))
            count += len(titles)
    return changes, count


def _overlap(one: Edit, other: Edit) -> bool:
    """Whether two different edits change the same bytes."""
    return one != other and one.start < other.end and other.start < one.end
