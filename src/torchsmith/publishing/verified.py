"""Whether a build is verified: by the record, else verified now and recorded."""

from __future__ import annotations

from pathlib import Path

from torchsmith.artifact.report import Report, verify
from torchsmith.core.problem import Problem
from torchsmith.matrix import Variant
from torchsmith.nix.tool import stored
from torchsmith.record import Built, Record, VerificationRow
from torchsmith.workspace.load import Workspace

UNRECORDED = "--unrecorded"  # the option of publish for builds that do not record their flags


def why_unverified(
    record: Record, workspace: Workspace, name: str, built: Built, *, unrecorded: bool = False
) -> str:
    """Why a package's build does not count as verified; empty if it does. With
    `unrecorded` it may lack the record of its compiler flags."""
    verdict = record.verdict(built.outputs[0], built.derivation, name)
    if verdict is None:
        verdict = verify_output(name, Path(built.outputs[0]), workspace, built.derivation)
        record.note_verdict(verdict)
    if verdict.ok or (unrecorded and verdict.unrecorded):
        return ""
    accepted = f"; {UNRECORDED} publishes it all the same" if verdict.unrecorded else ""
    return f"its build is not right: {verdict.detail}{accepted}"


def verify_output(name: str, output: Path, workspace: Workspace, derivation: str = "") -> VerificationRow:
    """Verify an output against the line that the workspace builds it with; what cannot be read is not
    right."""
    catalog = workspace.catalog
    try:
        variant = Variant.parse(name.rpartition("/")[2], catalog)
        line = workspace.line_of(variant) if workspace.root else None
        report = verify(stored(output), variant, catalog, line=catalog.lines[line] if line else None)
    except Problem as problem:
        why = problem.message
        return VerificationRow(output=str(output), name=name, ok=False, detail=why, derivation=derivation)
    return verdict_of(report, name, str(output), derivation)


def verdict_of(report: Report, name: str, output: str, derivation: str) -> VerificationRow:
    """The row of the record for a report."""
    wrong = "; ".join(check.text for check in report.checks if check.status in ("wrong", "unjudged"))
    return VerificationRow(
        output=output,
        name=name,
        ok=report.verified,
        unrecorded=report.unrecorded_only,
        detail=wrong,
        derivation=derivation,
    )


def verify_recipe(workspace: Workspace, name: str, output: str) -> VerificationRow | None:
    """Verify the build of a recipe; None if its name promises nothing."""
    promises = Variant.try_parse(name.rpartition("/")[2], workspace.catalog) is not None
    return verify_output(name, Path(output), workspace) if promises else None
