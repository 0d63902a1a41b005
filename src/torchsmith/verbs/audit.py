"""`torchsmith audit`: what is wrong with recipes, where, and what to do."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from torchsmith.auditing import reports
from torchsmith.auditing.finding import Finding, Severity, Sure, fixed
from torchsmith.auditing.rule import rules_called
from torchsmith.auditing.run import AuditReport
from torchsmith.auditing.run import audit as audit_places
from torchsmith.auditing.suppress import choose
from torchsmith.cli.console import (
    DEFAULT_WIDTH,
    answer,
    exit_if,
    next_step,
    paint,
    print_json,
    quote,
    table,
    width,
    write,
    write_stderr,
)
from torchsmith.cli.nix_options import NixpkgsOption, read_trees
from torchsmith.cli.options import JsonOption, WorkspaceOption, complete_rules
from torchsmith.cli.reporter import SILENT, Reporter, Terminal
from torchsmith.cli.request import Argument, Option, Request
from torchsmith.core.problem import Conflict
from torchsmith.core.text import counted, grouped, some_of
from torchsmith.workspace.checkout import root_of, split, workspace_folder, workspace_of
from torchsmith.workspace.journal import write_apart
from torchsmith.workspace.load import FILE

EXAMPLE = "torchsmith init builds && torchsmith apply -w builds && torchsmith audit builds"
STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}
WRITERS = {"sarif": reports.as_sarif, "github": reports.as_github}
FILES_NAMED = 3  # of a group
Format = Literal["table", "json", "sarif", "github"]


@dataclass(frozen=True, kw_only=True)
class AuditRequest(Request):
    """Which recipes to check, by which rules, and how deeply."""

    paths: Annotated[
        tuple[str, ...],
        Argument("Repositories, folders or recipes; selectors narrow them down.", metavar="[PATH]..."),
    ] = ()
    workspace: WorkspaceOption = None
    select: Annotated[
        tuple[str, ...], Option("Only these rules: TS401, or TS4.", complete=complete_rules)
    ] = ()
    ignore: Annotated[tuple[str, ...], Option("Skip these rules.", complete=complete_rules)] = ()
    evaluate: Annotated[bool, Option("--eval", "Evaluate derivations with Nix.")] = False
    nixpkgs: NixpkgsOption = ()
    notes: Annotated[bool, Option("Also show notes; with --fix and --diff: also fix them.")] = False
    fix: Annotated[bool, Option("Apply the safe fixes.")] = False
    diff: Annotated[bool, Option("Print the safe fixes as a diff; write nothing.")] = False
    unsafe_fixes: Annotated[bool, Option("With --fix and --diff: also fixes that change a build.")] = False
    line: Annotated[
        str | None, Option("The torch release of recipes that do not state one, such as 2.9.")
    ] = None
    cache: Annotated[bool, Option("--cache/--no-cache", "Use cached results.")] = True


def audit(request: AuditRequest = AuditRequest(), reporter: Reporter = SILENT) -> AuditReport:
    """Check recipes; `fix` first applies the safe fixes. Raises NotKnown for an unknown rule."""
    choice = choose(request.select, request.ignore, request.line)
    places, selectors = _places(request)
    report = audit_places(
        places,
        request.workspace,
        choice=choice,
        evaluate=request.evaluate,
        trees=read_trees(request.nixpkgs),
        selectors=selectors,
        cached=request.cache,
        steps=partial(reporter.steps, "auditing"),
    )
    shown = report.shown(notes=request.notes)
    unsafe = sum(finding.fix is not None and not finding.fix.safe for finding in shown.findings)
    fixes, count = fixed(shown.findings, unsafe=request.unsafe_fixes)
    files = {change.path for change in fixes}
    offered = (_offered(finding, files, unsafe=request.unsafe_fixes) for finding in report.findings)
    report = replace(report, findings=tuple(offered))
    if not (request.fix or request.diff):
        return report
    if unsafe and not request.unsafe_fixes:
        reporter.note(f"--unsafe-fixes would fix {unsafe} more, and change what is built")
    recovered = ""
    if request.fix and not request.diff:
        workspace = workspace_of(places, request.workspace)
        root = workspace.root if workspace else None
        recovered = write_apart([(root or root_of(Path(fix.path)), fix) for fix in fixes], "audit --fix")
        report = audit(replace(request, fix=False), reporter)
    else:
        report = replace(report, accepted="fixable")
    diff = "".join(change.diff() for change in fixes)
    return replace(report, diff=diff, fixed=count, recovered=recovered)


def _places(request: AuditRequest) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """What to check: folders and files, and words that select recipes there."""
    paths, selectors = split(request.paths)
    return paths or (workspace_folder(request.workspace),), selectors


def _offered(finding: Finding, files: Collection[str], *, unsafe: bool) -> Finding:
    """Return the finding; a fix that was not asked for, or is of a file that is not edited because it is
    generated, becomes a hint."""
    fix = finding.fix
    if fix is None:
        return finding
    wanted = fix.safe or unsafe
    if wanted and finding.where.file in files:
        return finding
    how = fix.title if wanted else f"--fix --unsafe-fixes will {fix.title}"
    return replace(finding, fix=None, hint=finding.hint or how)


class RuleReport(msgspec.Struct, frozen=True):
    """The page of a rule."""

    id: str
    title: str
    severity: Severity
    sure: Sure
    depth: str
    group: str
    documentation: str
    wrong: str = ""  # an example, and the same corrected
    right: str = ""


class RulesReport(msgspec.Struct, frozen=True):
    """The documentation of a rule, or of all rules that a prefix matches."""

    FORMAT: ClassVar = 2
    rules: tuple[RuleReport, ...]


def explain_rules(word: str) -> RulesReport:
    """The documentation of the rule of an id, or of those of a prefix. Raises NotKnown if there is none."""
    rules = rules_called(word)
    examples = msgspec.json.decode(files("torchsmith.auditing").joinpath("examples.json").read_bytes())
    reports = (
        RuleReport(
            id=rule.id,
            title=rule.title,
            severity=rule.worst,
            sure=rule.sure,
            depth=rule.depth,
            group=rule.group,
            documentation=" ".join(rule.documentation.split()),
            **examples[rule.id],
        )
        for rule in rules
    )
    return RulesReport(tuple(reports))


def run(
    *,
    request: AuditRequest,
    format: Annotated[Format, Option("--format", "-f", "Output format.")] = "table",
    verbose: Annotated[bool, Option("--verbose", "-v", "List every finding, file by file.")] = False,
    explain: Annotated[
        str | None,
        Option(
            "Explain a rule, or list those of a prefix, and stop.", metavar="RULE", complete=complete_rules
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Check recipes and say what is wrong, where, and how to fix it.

    Any recipe will do: each is checked by its name and text against the catalog, and by torchsmith.toml if
    there is one above it. A comment [bold]# torchsmith: ignore TS401[/bold] on a line or the line before it
    silences a rule there. The exit code is 1 if there are errors; with [bold]--fix[/bold] and
    [bold]--diff[/bold], errors that have a safe fix do not count.
    """
    if json and format in WRITERS:
        raise Conflict(f"--json and --format {format} exclude each other", hint="give one of them")
    format = "json" if json else format
    if explain is not None:
        answer(explain_rules(explain), _print_rules, as_json=format == "json")
        return
    report = audit(request, Terminal())
    for gone in report.removed:
        write_stderr(f"{gone}; take it out of --select, --ignore and [audit]", "yellow")
    if request.diff:
        (sys.stdout if format == "table" else sys.stderr).write(report.diff)
    if request.diff or request.fix:
        _print_fixed(report, written=not request.diff)
    if format == "json" or not request.diff:
        _print_report(report, request, format=format, verbose=verbose)
    exit_if(not report.ok)


def _print_report(report: AuditReport, request: AuditRequest, *, format: str, verbose: bool) -> None:
    """Print the findings in a format; as a table grouped by message, or with `verbose` by file."""
    shown = report.printable.shown(notes=request.notes)
    if format == "json":
        print_json(_for_programs(shown))
    elif format in WRITERS:
        places, _ = _places(request)
        sys.stdout.write(WRITERS[format](shown, reports.checkout_top(places)))
    else:
        if verbose:
            _print_places(shown)
        else:
            for group in reports.alike(shown.findings):
                _print_group(group)
        write(reports.summary(shown, hidden=len(report.findings) - len(shown.findings)))
        _print_next(shown, request)


def _for_programs(report: AuditReport) -> dict[str, Any]:
    """The report as a document, in which the place of a finding has only what is known of it."""
    document = {"format": report.FORMAT, **msgspec.to_builtins(report)}
    for finding in document["findings"]:
        finding["where"] = {name: value for name, value in finding["where"].items() if value}
    return document


def _print_next(report: AuditReport, request: AuditRequest) -> None:
    """Suggest the next command: apply fixes, explain a rule, or evaluate."""
    workspace = request.workspace
    if any(finding.fix for finding in report.findings):
        chosen = {"--select": ",".join(request.select), "--ignore": ",".join(request.ignore)}
        chosen |= {"--line": request.line or ""}
        words = [word for option, value in chosen.items() if value for word in (option, value)]
        next_step("audit", *request.paths, *words, "--fix", workspace=workspace, why="applies the safe fixes")
    elif report.findings:
        first = reports.alike(report.findings)[0][0]
        next_step("audit", "--explain", first.rule, why="explains the rule")
    elif report.concerned or not report.searched:
        places = [workspace or Path(), *map(Path, request.paths)]
        own = [place for place in places if (place / FILE).is_file()]
        if own:
            next_step("eval", workspace=own[-1], why="evaluates them")


def _print_places(report: AuditReport) -> None:
    for file, findings in grouped((finding.where.file, finding) for finding in report.findings).items():
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
    """Print a message once, with its first places; of hints that differ, the first."""
    first = group[0]
    write(_headline(first), hang=8)
    places: dict[str, str] = {}  # the first of each file
    for finding in group:
        places.setdefault(finding.where.file, str(finding.where))
    more = f" ({len(group)} places)" if len(group) > len(places) else ""
    write(f"        {some_of([*places.values()], FILES_NAMED)}{more}", "bold", hang=0)
    differ = any(finding.hint != first.hint for finding in group)
    _print_about(first, " (--verbose shows those of the others)" if differ else "")


def _print_about(finding: Finding, more: str = "") -> None:
    """Print the source line of a finding with its place in it, and its hint."""
    if text := finding.source.strip():
        bar = "          | "
        room = max(width() or DEFAULT_WIDTH, DEFAULT_WIDTH // 2) - len(bar)
        at = max(finding.where.column - 1 - finding.source.index(text), 0)
        start = max(min(at - room // 2, len(text) - room), 0)
        part = ("…" if start else "") + text[start + bool(start) : start + room]
        write(bar + (part[:-1] + "…" if start + room < len(text) else part), "dim", wrap=False)
        if finding.where.column:
            write(f"{bar}{' ' * (at - start)}^", "dim", wrap=False)
    todo = finding.hint or (f"--fix will {finding.fix.title}" if finding.fix else "")
    if todo:
        write(paint("          = ", "cyan") + todo + more)


def _print_rules(report: RulesReport) -> None:
    """Print a rule's page, or a table of several rules."""
    if len(report.rules) == 1:
        _print_rule(report.rules[0])
        return
    rows = [(rule.id, rule.title, rule.severity.value, rule.sure.value) for rule in report.rules]
    table(("rule", "what it finds", "severity", "certainty"), rows, broken=("what it finds",))
    next_step("audit", "--explain", report.rules[0].id, why="explains one")


def _print_rule(rule: RuleReport) -> None:
    write(f"{rule.id} {rule.title}", "bold")
    write(f"{rule.severity.value}, {rule.sure.value}; reads {rule.depth}", "dim")
    write()
    write(rule.documentation, hang=0)
    write()
    for title, example in (("wrong", rule.wrong), ("right", rule.right)):
        write(title, "bold")
        for line in example.splitlines():
            quote(line, "  | ")
        write()
    write(f"silence it: # torchsmith: ignore {rule.id}   (on the line, or the line above)", hang=0)


def _print_fixed(report: AuditReport, *, written: bool) -> None:
    """Print how many findings are fixed, or can be."""
    if report.recovered:
        write_stderr(report.recovered, "yellow")
    files = counted(report.diff.count("\n+++ "), "file")
    fixed = f"{counted(report.fixed, 'finding')} in {files} {'fixed' if written else 'can be fixed'}"
    remaining = sum(finding.fix is None for finding in report.of(Severity.ERROR, Severity.WARNING))
    without = f"; {remaining} without a safe fix" if remaining else ""
    write_stderr(fixed + without if report.fixed else "no finding has a safe fix")
