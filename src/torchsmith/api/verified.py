"""Whether a build counts as verified: by the record, else looked at now and written down."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import msgspec

from torchsmith.artifact.report import Report, verify
from torchsmith.catalog import Catalog
from torchsmith.core.files import inside, write_atomic
from torchsmith.core.problem import Problem
from torchsmith.core.state import state_folder
from torchsmith.matrix import Variant
from torchsmith.nix.tool import stored
from torchsmith.page.past import REPORTS
from torchsmith.page.pictures import sizes_of
from torchsmith.record import Built, Record, VerificationRow, open_record


def why_unverified(record: Record, catalog: Catalog, name: str, built: Built | None = None) -> str:
    """Why a package's build, by default its last, does not count as verified; empty if it does."""
    built = built or record.built(name)
    if built is None or not built.outputs:
        return "it was not built here; torchsmith build builds it"
    verdict = record.verdict(built.outputs[0], built.derivation, name)
    if verdict is None:
        verdict = judge(name, Path(built.outputs[0]), catalog, built.derivation)
        record.note_verdict(verdict)
    return "" if verdict.ok else f"its build is not right: {verdict.detail}"


def judge(name: str, output: Path, catalog: Catalog, derivation: str = "") -> VerificationRow:
    """Verify an output; what cannot be read is not right."""
    try:
        drv = str(stored(derivation)) if derivation else ""
        variant = Variant.parse(name.rpartition("/")[2], catalog)
        report = verify(stored(output), variant, catalog, derivation=drv)
    except Problem as problem:
        why = problem.message
        return VerificationRow(output=str(output), name=name, ok=False, detail=why, derivation=derivation)
    return verdict_of(report, name, str(output), derivation)


def verdict_of(report: Report, name: str, output: str, derivation: str) -> VerificationRow:
    """What the record keeps of a report."""
    wrong = "; ".join(check.text for check in report.checks if check.status in ("wrong", "unjudged"))
    return VerificationRow(output=output, name=name, ok=report.verified, detail=wrong, derivation=derivation)


def look_at(catalog: Catalog, name: str, output: str) -> VerificationRow | None:
    """Verify the build of a recipe; None where its name promises nothing."""
    promises = Variant.try_parse(name.rpartition("/")[2], catalog) is not None
    return judge(name, Path(output), catalog) if promises else None


def keep(report: Report, name: str, root: Path, catalog: Catalog) -> str:
    """Write down what `verify NAME` said of the last build, for `publish` and the page. Returns why that
    could not be written; else an empty string."""
    if report.ok and not report.verified:
        return ""  # nothing is wrong, but not everything was judged
    sizes = msgspec.json.encode(sizes_of(report, catalog)).decode()
    try:
        with closing(open_record(root)) as record:
            built = record.built(name)
            outputs = [stored(output).resolve() for output in built.outputs[:1]] if built else []
            if built is None or Path(report.path).resolve() not in outputs:
                return ""
            record.note_verdict(verdict_of(report, name, built.outputs[0], built.derivation))
        write_atomic(inside(state_folder(root), f"{REPORTS}/{name}.json"), sizes)
    except Problem as problem:
        return problem.message
    return ""
