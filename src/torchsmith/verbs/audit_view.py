"""What `audit` found, for people."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from torchsmith.api.auditing import AuditRequest, RuleReport
from torchsmith.auditing import reports
from torchsmith.auditing.finding import Finding, Severity
from torchsmith.auditing.run import AuditReport
from torchsmith.cli.console import (
    next_step,
    paint,
    print_json,
    quote,
    table,
    tell,
    write,
)
from torchsmith.core.text import counted, some_of
from torchsmith.workspace.load import FILE

STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}
WRITERS = {
    "sarif": reports.as_sarif,
    "markdown": reports.as_markdown,
    "github": reports.as_github,
    "junit": reports.as_junit,
}
FILES_NAMED = 3  # of a group
FEW, MANY = 4, 20  # rules and findings that need no table


def print_report(
    report: AuditReport, request: AuditRequest, *, format: str, notes: bool, verbose: bool
) -> None:
    """The findings in the format asked for; for people by what they say, or with `verbose` by place."""
    hidden = 0 if notes else len(report.of(Severity.NOTE))
    report = report.printable if notes else report.printable.without(Severity.NOTE)
    if format == "json":
        print_json(report)
    elif format in WRITERS:
        sys.stdout.write(WRITERS[format](report))
    else:
        if verbose:
            _print_places(report)
        else:
            for group in reports.alike(report.findings):
                _print_group(group)
            _print_rules(report)
        write(reports.summary(report, hidden))
        _print_next(report, request.paths, request.workspace)


def _print_next(report: AuditReport, paths: Sequence[str | Path], workspace: Path | None) -> None:
    """Apply what can be fixed; else explain the rule; ask Nix about what is right."""
    if any(finding.fix for finding in report.findings):
        next_step("audit", *map(str, paths), "--fix", workspace=workspace, why="mends what is safe to mend")
    elif report.findings:
        first = reports.alike(report.findings)[0][0]
        next_step("audit", "--explain", first.rule, why="explains the rule")
    elif report.concerned or not report.searched:
        places = [workspace or Path(), *map(Path, paths)]
        own = [place for place in places if (place / FILE).is_file()]
        if own:
            next_step("eval", workspace=own[-1], why="evaluates them")


def _print_places(report: AuditReport) -> None:
    for file, findings in reports.by_file(report.findings).items():
        write(file, "bold")
        for finding in findings:
            place = f"{finding.where.line}:{finding.where.column}" if finding.where.line else "-"
            write(f"  {place:>7} {_headline(finding)}", hang=8)
            _print_about(finding)
        write()


def _headline(finding: Finding) -> str:
    severity = finding.severity.value
    return f"{paint(f'{severity:7} ', STYLES[severity])}{paint(f'{finding.rule} ', 'dim')}{finding.message}"


def _print_group(group: Sequence[Finding]) -> None:
    write(_headline(group[0]), hang=8)
    places: dict[str, str] = {}  # the first of each file
    for finding in group:
        places.setdefault(finding.where.file, str(finding.where))
    more = " files" if len(places) > FILES_NAMED else ""
    more += f" ({len(group)} places)" if len(group) > len(places) else ""
    write(f"        {some_of([*places.values()], FILES_NAMED)}{more}", "bold", hang=0)
    _print_about(group[0])


def _print_about(finding: Finding) -> None:
    """The line that a finding is about, and what to do."""
    if finding.source:
        quote(finding.source.strip(), "          | ", style="dim")
    todo = finding.hint or (f"--fix will {finding.fix.title}" if finding.fix else "")
    if todo:
        write(paint("          = ", "cyan") + todo)


def _print_rules(report: AuditReport) -> None:
    """How often each rule spoke, where that is more than can be seen above."""
    rows = reports.by_rule(report.findings)
    if len(rows) < FEW and len(report.findings) < MANY:
        return
    names = ("rule", "what", "severity", "findings", "files", "--fix")
    width = len(names) if any(row.fixable for row in rows) else -1
    write()
    shown = [
        (row.rule, row.title, row.severity.value, str(row.findings), str(row.files), str(row.fixable or ""))
        for row in rows
    ]
    table(names[:width], [row[:width] for row in shown], broken=("what",))
    write()


def print_rule(rule: RuleReport) -> None:
    """A rule's page."""
    write(f"{rule.id} {rule.title}", "bold")
    write(f"{rule.severity.value}, {rule.sure.value}; looks at {rule.depth}", "dim")
    write()
    write(rule.documentation, hang=0)
    write()
    write(f"silence it: # torchsmith: ignore {rule.id}   (on the line, or the line above)", hang=0)


def print_fixes(report: AuditReport, *, written: bool, stream: TextIO) -> None:
    """The safe fixes as a diff."""
    if report.recovered:
        tell(report.recovered, "yellow")
    stream.write(report.diff)
    stream.flush()
    files = counted(report.diff.count("\n+++ "), "file")
    mended = f"{counted(report.mended, 'finding')} in {files} {'mended' if written else 'can be mended'}"
    others = sum(finding.fix is None and finding.severity is not Severity.NOTE for finding in report.findings)
    left = f"; {others} without a safe fix" if others else ""
    tell(mended + left if report.mended else "no finding has a safe fix")
