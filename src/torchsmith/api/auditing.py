"""What is wrong with recipes, anybody's, and what can be mended."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec

from torchsmith.auditing import run, suppress
from torchsmith.auditing.finding import Finding, Severity, Sure, fixed
from torchsmith.auditing.rule import find_rule
from torchsmith.auditing.run import AuditReport
from torchsmith.cli.fields import Argument, Option
from torchsmith.cli.nix_options import NixpkgsOption, read_trees
from torchsmith.cli.options import WorkspaceOption, complete_rules
from torchsmith.cli.reporter import SILENT, Reporter
from torchsmith.core.problem import Incomplete
from torchsmith.workspace.checkout import root_of, split, workspace_folder, workspace_of
from torchsmith.workspace.journal import write_apart


@dataclass(frozen=True, kw_only=True)
class AuditRequest:
    """Which recipes to judge, by which rules, and how deeply."""

    paths: Annotated[
        tuple[str | Path, ...],
        Argument("Repositories, folders or recipes; selectors narrow them down.", metavar="[PATH]..."),
    ] = ()
    workspace: WorkspaceOption = None
    select: Annotated[
        tuple[str, ...], Option("Only these rules: TS401, or TS4.", autocompletion=complete_rules)
    ] = ()
    ignore: Annotated[tuple[str, ...], Option("Skip these rules.", autocompletion=complete_rules)] = ()
    evaluate: Annotated[bool, Option("--eval", "Evaluate derivations with Nix.")] = False
    nixpkgs: NixpkgsOption = ()
    fix: Annotated[bool, Option("Apply the safe fixes and print them as a diff.")] = False
    diff: Annotated[bool, Option("Print the safe fixes as a diff; write nothing.")] = False
    baseline: Annotated[Path | None, Option("A file of known findings to ignore.")] = None
    write_baseline: Annotated[bool, Option("Write today's findings into --baseline.")] = False
    line: Annotated[
        str | None, Option("The torch release of recipes that do not state one, such as 2.9.")
    ] = None
    jobs: Annotated[int, Option("--jobs", "-j", "Number of processes; 0: one per core.", min=0)] = 0
    cache: Annotated[bool, Option("--cache/--no-cache", "Use cached results.")] = True


def audit(request: AuditRequest, reporter: Reporter = SILENT) -> AuditReport:
    """Judge recipes; `fix` first mends what is safe to mend, `write_baseline` remembers the findings. Raises
    Incomplete where `write_baseline` has no `baseline`, NotKnown for a rule that there is none of."""
    if request.write_baseline and request.baseline is None:
        raise Incomplete("--write-baseline needs --baseline FILE to write to")
    baseline = None if request.write_baseline else request.baseline
    choice = suppress.choose(request.select, request.ignore, baseline, request.line)
    paths, selectors = split(list(map(str, request.paths)))
    places = paths or (workspace_folder(request.workspace),)
    report = run.audit(
        places,
        request.workspace,
        choice=choice,
        evaluate=request.evaluate,
        trees=read_trees(request.nixpkgs),
        jobs=request.jobs,
        selectors=selectors,
        cached=request.cache,
        steps=partial(reporter.steps, "auditing"),
    )
    if request.write_baseline and request.baseline is not None:
        suppress.write_baseline(request.baseline, report.findings)
        return replace(report, accepted="all")
    fixes, mended = fixed(report.findings)
    report = replace(report, findings=_fixable(report.findings, {change.path for change in fixes}))
    if not (request.fix or request.diff):
        return report
    recovered = ""
    if request.fix and not request.diff:
        workspace = workspace_of(places, request.workspace)
        root = workspace.root if workspace else None
        recovered = write_apart([(root or root_of(Path(fix.path)), fix) for fix in fixes], "audit --fix")
        report = audit(replace(request, fix=False), reporter)
    else:
        report = replace(report, accepted="fixable")
    diff = "".join(change.diff() for change in fixes)
    return replace(report, diff=diff, mended=mended, recovered=recovered)


def _fixable(findings: Iterable[Finding], files: Collection[str]) -> tuple[Finding, ...]:
    """The findings, with a fix only in files that can be fixed. A generated file is not edited: there the fix
    becomes a hint."""
    return tuple(
        replace(finding, fix=None, hint=finding.hint or finding.fix.title)
        if finding.fix and finding.where.file not in files
        else finding
        for finding in findings
    )


class RuleReport(msgspec.Struct, frozen=True):
    """What a rule is about."""

    id: str
    title: str
    severity: Severity
    sure: Sure
    depth: str
    group: str
    documentation: str


def explain_rule(name: str) -> RuleReport:
    """The page of a rule; raises NotKnown for a name that no rule has."""
    rule = find_rule(name)
    return RuleReport(
        id=rule.id,
        title=rule.title,
        severity=rule.worst,
        sure=rule.sure,
        depth=rule.depth,
        group=rule.group,
        documentation=" ".join(rule.documentation.split()),
    )
