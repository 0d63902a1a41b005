"""`torchsmith audit`: what is wrong with recipes, where, and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from torchsmith.api.fields import Argument, Option
from torchsmith.api.nix_options import NixpkgsOption, read_trees
from torchsmith.api.options import JsonOption, WorkspaceOption
from torchsmith.cli.console import exit_if, tell
from torchsmith.core.problem import Conflict, Incomplete
from torchsmith.core.words import counted

EXAMPLE = "torchsmith init builds && torchsmith generate -w builds && torchsmith audit builds"


Format = Literal["table", "json", "sarif", "markdown", "github", "junit"]
VALUES = "Evaluate recipes without Nix; else if installed."
Places = Annotated[
    list[str] | None,
    Argument("Repositories, folders or recipes; selectors pick some of theirs.", metavar="[PATH]..."),
]


def run(
    paths: Places = None,
    workspace: WorkspaceOption = None,
    format: Annotated[Format, Option("--format", "-f", "How to print.")] = "table",
    select: Annotated[list[str] | None, Option("Only these rules: TS401, or TS4.")] = None,
    ignore: Annotated[list[str] | None, Option("Not these rules.")] = None,
    notes: Annotated[bool, Option("Show what could be better, too.")] = False,
    values: Annotated[bool | None, Option("--values/--no-values", VALUES)] = None,
    evaluate: Annotated[bool, Option("--eval", "Evaluate derivations with Nix.")] = False,
    nixpkgs: NixpkgsOption = None,
    fix: Annotated[bool, Option("Make the safe fixes; prints them as a diff.")] = False,
    diff: Annotated[bool, Option("Print the safe fixes as a diff and write nothing.")] = False,
    baseline: Annotated[Path | None, Option("A file of known findings, which do not count.")] = None,
    write_baseline: Annotated[bool, Option("Write today's findings into --baseline.")] = False,
    line: Annotated[str | None, Option("The torch release of recipes that do not say theirs: 2.9.")] = None,
    verbose: Annotated[bool, Option("--verbose", "-v", "Every place, file by file.")] = False,
    explain: Annotated[str | None, Option("What a rule is about, and stop.", metavar="RULE")] = None,
    jobs: Annotated[int, Option("--jobs", "-j", "Processes; 0 is one a processor.", min=0)] = 0,
    json: JsonOption = False,
) -> None:
    """Say for every recipe whether it is right, why not, and what to do.

    Recipes may be anybody's: each is judged by its own name and text against the catalog, and where a
    torchsmith.toml lies above it, by what that asks for. A comment [bold]# torchsmith: ignore TS401[/bold]
    on a line or the line before it silences a rule there. The exit code is 1 when there are errors.
    """
    from torchsmith.auditing import suppress
    from torchsmith.auditing.finding import Severity
    from torchsmith.auditing.run import AuditRequest, audit
    from torchsmith.cli import audit_view as view
    from torchsmith.workspace.checkout import split, workspace_folder, workspace_of

    format = "json" if json else format
    if explain is not None:
        view.explain(explain, as_json=format == "json")
        return
    if diff and format == "json":
        raise Conflict("--diff prints a diff, and --json none", hint="leave one of them out")
    if write_baseline and baseline is None:
        raise Incomplete("--write-baseline needs --baseline FILE, where to write")
    choice = suppress.choose(select or (), ignore or (), None if write_baseline else baseline, line)
    trees, (places, selectors) = read_trees(nixpkgs or []), split(paths or [])
    places = places or (workspace_folder(workspace),)
    request = AuditRequest(places, workspace, choice, values, evaluate, trees, jobs, selectors)
    report = audit(request)
    if write_baseline and baseline is not None:
        suppress.write_baseline(baseline, report.findings)
        tell(f"{counted(len(report.findings), 'finding')} written to {baseline}")
        if format == "json":
            view.print_report(report, format, (), workspace)
        return
    if diff:
        view.print_fixes(report, written=False)
        return
    if fix:
        view.print_fixes(report, workspace_of(places, workspace), format, written=True)
        report = audit(request)
    shown = report if notes else report.without(Severity.NOTE)
    view.print_report(shown, format, paths or (), workspace, verbose=verbose)
    exit_if(report.of(Severity.ERROR))
