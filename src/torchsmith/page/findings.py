"""What the audit says, for the page: the same words once, with every place they are about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torchsmith.audit.finding import Severity
from torchsmith.audit.run import AuditRequest, audit
from torchsmith.edge.words import grouped
from torchsmith.page.document import PageFinding
from torchsmith.workspace.checkout import Repository


def below(root: Path, path: Path | str) -> str:
    """A path as the page shows it: below the folder, without what stands above it."""
    full, top = Path(path).absolute(), root.absolute()
    return full.relative_to(top).as_posix() if full.is_relative_to(top) else Path(path).name


@dataclass(frozen=True, slots=True)
class Findings:
    """All of them, the worst first, and which of them each file has."""

    all: tuple[PageFinding, ...] = ()
    by_file: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def of(self, file: str) -> tuple[int, ...]:
        return tuple(self.by_file.get(file, ()))

    def errors(self, file: str) -> int:
        return sum(self.all[number].severity == Severity.ERROR.value for number in self.of(file))


def read_findings(root: Path, workspace: Path | None, repositories: Sequence[Repository]) -> Findings:
    """The audit of repositories below a folder."""
    if not any(one.recipes for one in repositories):
        return Findings()
    report = audit(AuditRequest(tuple(one.root for one in repositories), workspace, values=None))
    top = root.resolve()
    # A page of the repository may be a link to a file elsewhere, whose lines are none of ours.
    groups = grouped(
        ((one.severity, one.rule, one.message, one.hint), one)
        for one in sorted(report.findings, key=lambda one: (one.severity.rank, one.rule))
        if Path(one.where.file).resolve().is_relative_to(top)
    )
    found: list[PageFinding] = []
    by_file: dict[str, list[int]] = {}
    for group in groups.values():
        places = tuple((below(root, one.where.file), one.where.line) for one in group)
        for file in dict.fromkeys(file for file, _ in places):
            by_file.setdefault(file, []).append(len(found))
        one = group[0]
        severity, sure = one.severity.value, one.sure.value
        found.append(PageFinding(one.rule, one.title, severity, sure, one.message, one.hint, places))
    return Findings(tuple(found), by_file)
