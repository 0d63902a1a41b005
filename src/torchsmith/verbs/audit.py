"""`torchsmith audit`: what is wrong with recipes, where, and what to do."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

from torchsmith.api.auditing import AuditRequest, audit, explain_rule
from torchsmith.cli.console import answer, exit_if, tell
from torchsmith.cli.fields import Option
from torchsmith.cli.options import JsonOption, complete_rules
from torchsmith.core.text import counted
from torchsmith.verbs import audit_view as view
from torchsmith.verbs.progress import Terminal

EXAMPLE = "torchsmith init builds && torchsmith apply -w builds && torchsmith audit builds"

Format = Literal["table", "json", "sarif", "markdown", "github", "junit"]


def run(
    *,
    request: AuditRequest,
    format: Annotated[Format, Option("--format", "-f", "Output format.")] = "table",
    notes: Annotated[bool, Option("Also show notes.")] = False,
    verbose: Annotated[bool, Option("--verbose", "-v", "List every finding, file by file.")] = False,
    explain: Annotated[
        str | None, Option("Explain a rule and stop.", metavar="RULE", autocompletion=complete_rules)
    ] = None,
    json: JsonOption = False,
) -> None:
    """Check recipes and say what is wrong, where, and how to fix it.

    Any recipe will do: each is checked by its name and text against the catalog, and by torchsmith.toml where
    there is one above it. A comment [bold]# torchsmith: ignore TS401[/bold] on a line or the line before it
    silences a rule there. The exit code is 1 when there are errors; with [bold]--fix[/bold] and
    [bold]--diff[/bold] those count that the safe fixes do not mend.
    """
    format = "json" if json else format
    if explain is not None:
        answer(explain_rule(explain), view.print_rule, as_json=format == "json")
        return
    report = audit(request, Terminal())
    if request.write_baseline:
        tell(f"{counted(len(report.findings), 'finding')} written to {request.baseline}")
    elif request.diff or request.fix:
        stream = sys.stdout if format == "table" else sys.stderr
        view.print_fixes(report, written=not request.diff, stream=stream)
    if format == "json" or not (request.write_baseline or request.diff):
        view.print_report(report, request, format=format, notes=notes, verbose=verbose)
    exit_if(not report.ok)
