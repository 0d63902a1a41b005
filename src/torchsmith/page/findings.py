"""What the audit says, for the page: the same words once, with every place they are about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torchsmith.audit.finding import Finding, Severity
from torchsmith.audit.run import AuditRequest, audit
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
    groups: dict[tuple[str, ...], list[Finding]] = {}
    for one in sorted(report.findings, key=lambda one: (one.severity.rank, one.rule)):
        # A page of the repository may be a link to a file elsewhere, whose lines are none of ours.
        if Path(one.where.file).resolve().is_relative_to(top):
            groups.setdefault((one.severity.value, one.rule, one.message, one.hint), []).append(one)
    found: list[PageFinding] = []
    by_file: dict[str, list[int]] = {}
    for group in groups.values():
        places = tuple((below(root, one.where.file), one.where.line) for one in group)
        for file in dict.fromkeys(file for file, _ in places):
            by_file.setdefault(file, []).append(len(found))
        found.append(_finding(group[0], places))
    return Findings(tuple(found), by_file)


def _finding(first: Finding, places: tuple[tuple[str, int], ...]) -> PageFinding:
    return PageFinding(
        rule=first.rule,
        title=first.title,
        severity=first.severity.value,
        sure=first.sure.value,
        message=first.message,
        hint=first.hint,
        places=places,
    )
