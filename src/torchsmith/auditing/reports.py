"""Reports: findings as text that programs and pages take."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import torchsmith
from torchsmith.auditing.finding import Finding, Severity
from torchsmith.auditing.rule import all_rules
from torchsmith.auditing.run import AuditReport
from torchsmith.core.text import counted, grouped, printable
from torchsmith.workspace import git

SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
SOURCE_ROOT = "%SRCROOT%"  # what code scanning calls the top of the checkout
GITHUB = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def checkout_top(places: Sequence[Path]) -> Path:
    """The folder from which GitHub names files: its workspace, else the top of the git repository that holds
    all places, else the working directory."""
    common = os.path.commonpath([place.resolve() for place in places])
    top = os.environ.get("GITHUB_WORKSPACE") or git.top(Path(common))
    return Path(top or Path.cwd()).resolve()


def _from_top(file: str, top: Path) -> Path:
    """The path of a file from the top; the absolute path of a file elsewhere."""
    folder, name = os.path.split(os.path.abspath(file))
    path = Path(os.path.realpath(folder), name)  # git has nothing below a link
    return path.relative_to(top) if path.is_relative_to(top) else path


def as_sarif(report: AuditReport, top: Path) -> str:
    """SARIF 2.1.0, as code scanning takes it, with paths from `top`."""
    rules: list[dict[str, Any]] = [
        {
            "id": rule.id,
            "shortDescription": {"text": rule.title},
            "fullDescription": {"text": " ".join(rule.documentation.split())},
            "help": {"text": f"torchsmith audit --explain {rule.id}"},
            "defaultConfiguration": {"level": rule.worst.value},
            "properties": {"group": rule.group},
        }
        for rule in all_rules()
    ]
    order = {rule["id"]: index for index, rule in enumerate(rules)}
    seen: Counter[tuple[str, str, str]] = Counter()
    results = [_sarif_result(finding, order[finding.rule], top, seen) for finding in report.findings]
    tool = {"driver": {"name": "torchsmith", "version": torchsmith.__version__, "rules": rules}}
    roots = {SOURCE_ROOT: {"uri": f"{top.as_uri()}/"}}
    run = {
        "tool": tool,
        "originalUriBaseIds": roots,
        "results": results,
        "columnKind": "unicodeCodePoints",
    }
    return json.dumps({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _sarif_result(
    finding: Finding, index: int, top: Path, seen: Counter[tuple[str, str, str]]
) -> dict[str, Any]:
    path = _from_top(finding.where.file, top)
    inside = {"uri": quote(os.fsencode(path)), "uriBaseId": SOURCE_ROOT}
    place: dict[str, Any] = {"artifactLocation": {"uri": path.as_uri()} if path.is_absolute() else inside}
    if finding.where.line:
        place["region"] = {"startLine": finding.where.line, "startColumn": max(finding.where.column, 1)}
    hint = f" ({finding.hint})" if finding.hint else ""
    # The line's text and not its number, so that the same finding is known again if it moves.
    identity = (finding.rule, str(path), finding.source.strip())
    seen[identity] += 1
    text = "\0".join((*identity, str(seen[identity])))
    return {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": finding.severity.value,
        "message": {"text": finding.message + hint},
        "locations": [{"physicalLocation": place}],
        "partialFingerprints": {"torchsmith/v2": hashlib.sha256(text.encode()).hexdigest()},
    }


def alike(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Return findings grouped by rule and message; the worst and most first."""
    groups = grouped(
        ((finding.severity.rank, finding.rule, finding.message), finding) for finding in findings
    )
    return [groups[key] for key in sorted(groups, key=lambda key: (key[0], key[1], -len(groups[key])))]


def as_github(report: AuditReport, top: Path) -> str:
    """Workflow commands, which GitHub shows beside the lines of a change, with paths from `top`."""
    lines = []
    for finding in report.findings:
        path = printable(str(_from_top(finding.where.file, top)))
        place = f"file={_property(path)}"
        if finding.where.line:
            place += f",line={finding.where.line},col={max(finding.where.column, 1)}"
        hint = f" ({finding.hint})" if finding.hint else ""
        title = _property(f"{finding.rule} {finding.title}")
        lines.append(f"::{GITHUB[finding.severity]} {place},title={title}::{_data(finding.message + hint)}")
    return "\n".join(lines) + ("\n" if lines else "")


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def summary(report: AuditReport, hidden: int = 0) -> str:
    """`132 recipes: 2 errors, 8 warnings`; of other files that were read, how many concern torch or CUDA, and
    how many notes are `hidden`."""
    parts = [counted(count, severity) for severity in Severity if (count := len(report.of(severity)))]
    silenced = f" ({report.silenced} silenced)" if report.silenced else ""
    fixable = sum(finding.fix is not None for finding in report.findings)
    fixes = f", {fixable} fixable with --fix" if fixable else ""
    if report.searched and not report.concerned and not report.findings:
        return _files_read(report)
    outcome = ", ".join(parts) or "no problems found"
    notes = f"; {counted(hidden, 'hidden note')} (--notes)" if hidden else ""
    return f"{_files_read(report)}: {outcome}{fixes}{silenced}{notes}"


def _files_read(report: AuditReport) -> str:
    """Return how many files were read, how many concern torch or CUDA, and how those were checked."""
    if report.searched <= report.named:
        return counted(report.recipes, "recipe")
    by_text = report.concerned - report.named
    read = f"{counted(report.searched, 'Nix file')} read"
    if not report.concerned:
        return f"{read}, none concerns torch or CUDA"
    concern = f"{report.concerned} concern{'s' * (report.concerned == 1)} torch or CUDA"
    if not report.named:
        return f"{read}, {concern} (checked by text)"
    how = f"{report.named} checked by name and text" + (f", {by_text} by text" if by_text else "")
    return f"{read}, {concern} ({how})"
