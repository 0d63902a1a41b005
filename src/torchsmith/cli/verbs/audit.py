"""`torchsmith audit`: what is wrong with recipes, where, and what to do."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from torchsmith.cli.nix_options import NixpkgsOption
from torchsmith.cli.options import JsonOption, WorkspaceOption

EXAMPLE = "torchsmith init builds && torchsmith generate -w builds && torchsmith audit builds"


class Format(StrEnum):
    """How findings are printed."""

    TABLE = "table"
    JSON = "json"
    SARIF = "sarif"
    MARKDOWN = "markdown"
    GITHUB = "github"
    JUNIT = "junit"


def run(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PATH]...", help="Repositories, folders or recipes; selectors pick some of theirs."
        ),
    ] = None,
    workspace: WorkspaceOption = None,
    format: Annotated[Format, typer.Option("--format", "-f", help="How to print.")] = Format.TABLE,
    select: Annotated[
        list[str] | None, typer.Option("--select", help="Only these rules: TS401, or TS4.")
    ] = None,
    ignore: Annotated[list[str] | None, typer.Option("--ignore", help="Not these rules.")] = None,
    notes: Annotated[bool, typer.Option("--notes", help="Show what could be better, too.")] = False,
    values: Annotated[
        bool | None,
        typer.Option("--values/--no-values", help="Evaluate recipes without Nix; else if installed."),
    ] = None,
    evaluate: Annotated[bool, typer.Option("--eval", help="Evaluate derivations with Nix.")] = False,
    nixpkgs: NixpkgsOption = None,
    fix: Annotated[bool, typer.Option("--fix", help="Make the safe fixes; prints them as a diff.")] = False,
    diff: Annotated[
        bool, typer.Option("--diff", help="Print the safe fixes as a diff and write nothing.")
    ] = False,
    baseline: Annotated[
        Path | None, typer.Option("--baseline", help="A file of known findings, which do not count.")
    ] = None,
    write_baseline: Annotated[
        bool, typer.Option("--write-baseline", help="Write today's findings into --baseline.")
    ] = False,
    line: Annotated[
        str | None, typer.Option("--line", help="The torch release of recipes that do not say theirs: 2.9.")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Every place, file by file.")] = False,
    explain: Annotated[
        str | None, typer.Option("--explain", metavar="RULE", help="What a rule is about, and stop.")
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Processes; 0 is one a processor.")] = 0,
    json: JsonOption = False,
) -> None:
    """Say for every recipe whether it is right, why not, and what to do.

    Recipes may be anybody's: each is judged by its own name and text against the catalog, and where a
    torchsmith.toml lies above it, by what that asks for. A comment [bold]# torchsmith: ignore TS401[/bold]
    on a line or the line before it silences a rule there. The exit code is 1 when there are errors.
    """
    from torchsmith.audit import suppress
    from torchsmith.audit.finding import Severity
    from torchsmith.audit.rule import find_rule
    from torchsmith.audit.run import AuditRequest, audit
    from torchsmith.cli import audit_view as view
    from torchsmith.cli.nix_options import read_trees
    from torchsmith.edge.problem import Problem
    from torchsmith.workspace.checkout import split, workspace_folder, workspace_of

    if explain is not None:
        view.explain(find_rule(explain))
        return
    if write_baseline and baseline is None:
        raise Problem("--write-baseline needs --baseline FILE, where to write")
    choice = suppress.choose(select or (), ignore or (), None if write_baseline else baseline, line)
    trees = read_trees(nixpkgs or [])
    places, selectors = split(paths or [])
    places = places or (workspace_folder(workspace),)
    request = AuditRequest(places, workspace, choice, values, evaluate, trees, jobs, selectors)
    report = audit(request)
    if write_baseline and baseline is not None:
        suppress.write_baseline(baseline, report.findings)
        view.say(f"{len(report.findings)} findings written to {baseline}")
        return
    if diff:
        view.print_fixes(report, write=False)
        return
    if fix:
        opened = workspace_of(places, workspace)
        view.print_fixes(report, write=True, workspace=opened.root if opened else None)
        report = audit(request)
    shown = report if notes else report.without(Severity.NOTE)
    view.print_report(shown, "json" if json else format.value, verbose=verbose)
    if report.of(Severity.ERROR):
        raise typer.Exit(1)
