"""Whether a build counts as verified: by the record, else looked at now and written down."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from torchsmith.artifact.inspect import Depth
from torchsmith.artifact.report import verify
from torchsmith.catalog import Catalog
from torchsmith.edge.problem import Problem
from torchsmith.matrix import Variant
from torchsmith.record import Record, Verdict


def verified_by(record: Record, catalog: Catalog) -> Callable[[str], str]:
    """Why a package's last build does not count as verified; empty where it does."""

    def why(name: str) -> str:
        outputs = record.outputs_of(name)
        if not outputs:
            return "it was not built here; torchsmith build builds it"
        verdict = record.verdict(outputs[0])
        if verdict is None:
            verdict = judge(name, Path(outputs[0]), catalog)
            record.note_verdict(verdict)
        return "" if verdict.ok else f"its build is not right: {verdict.detail}"

    return why


def judge(name: str, output: Path, catalog: Catalog) -> Verdict:
    """Verify an output; what cannot be read is not right."""
    try:
        report = verify(output, Variant.parse(name, catalog), catalog, Depth())
    except Problem as problem:
        return Verdict(output=str(output), name=name, ok=False, detail=problem.message)
    wrong = [check.text for check in report.checks if check.status == "wrong"]
    return Verdict(output=str(output), name=name, ok=report.ok, detail="; ".join(wrong))
