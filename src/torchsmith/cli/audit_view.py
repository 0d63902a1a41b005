"""What `audit` found, for people."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.text import Text

from torchsmith.audit import fix, reports
from torchsmith.audit.run import Report
from torchsmith.cli.console import err, out, say_recovered
from torchsmith.workspace.checkout import root_of
from torchsmith.workspace.journal import write_apart

STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}
WRITERS = {
    "json": reports.as_json,
    "sarif": reports.as_sarif,
    "markdown": reports.as_markdown,
    "github": reports.as_github,
}


def say(words: str) -> None:
    """Words for the person who watches."""
    err().print(words, soft_wrap=True)


def print_report(report: Report, format: str) -> None:
    """The findings in the format asked for."""
    if format in WRITERS:
        sys.stdout.write(WRITERS[format](report))
        return
    console = out()
    for file, findings in reports.by_file(report.findings).items():
        console.print(Text(file, style="bold"), soft_wrap=True)
        for one in findings:
            place = f"{one.where.line}:{one.where.column}" if one.where.line else "-"
            line = Text(f"  {place:>7} ").append(f"{one.severity.value:7} ", style=STYLES[one.severity.value])
            console.print(line.append(f"{one.rule} ", style="dim").append(one.message), soft_wrap=True)
            if one.source:
                console.print(Text(f"          | {one.source.strip()}", style="dim"), soft_wrap=True)
            todo = one.hint or (f"--fix will {one.fix.title}" if one.fix else "")
            if todo:
                console.print(Text("          = ", style="cyan").append(todo), soft_wrap=True)
        console.print()
    console.print(reports.summary(report), soft_wrap=True)


def print_fixes(report: Report, *, write: bool, workspace: Path | None = None) -> None:
    """The safe fixes as a diff; written where asked."""
    files, count = fix.fixed(report.findings)
    for one in files:
        sys.stdout.write(one.diff())
    sys.stdout.flush()
    if write:
        homes = [(workspace or root_of(Path(one.path)), one) for one in files]
        say_recovered(write_apart(homes, "audit --fix"))
    what = "mended" if write else "can be mended"
    say(f"{count} findings in {len(files)} files {what}" if files else "nothing here has a safe fix")
