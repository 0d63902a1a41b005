"""Recipes in the manners of other hands: each gets the findings that it deserves, and silence otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchsmith.audit.finding import Severity, Sure
from torchsmith.audit.rule import all_rules
from torchsmith.audit.run import AuditReport, AuditRequest, audit
from torchsmith.audit.suppress import RuleSelection

MANNERS = sorted(path for path in (Path(__file__).parent / "other-hands").iterdir() if path.is_dir())


def judged(folder: Path, **more: object) -> AuditReport:
    return audit(AuditRequest((folder,), jobs=1, **more))  # type: ignore[arg-type]


def spoken(report: AuditReport, folder: Path) -> set[str]:
    found = [one for one in report.findings if one.severity is not Severity.NOTE]
    return {f"{one.rule} {one.where.file.removeprefix(f'{folder}/')}" for one in found}


@pytest.mark.parametrize("folder", MANNERS, ids=lambda path: path.name)
def test_a_manner_gets_what_it_deserves(folder: Path) -> None:
    expected = folder / "expected"
    wanted = set(expected.read_text().splitlines()) if expected.exists() else set()
    assert spoken(judged(folder), folder) == wanted


@pytest.mark.parametrize("folder", MANNERS, ids=lambda path: path.name)
def test_fixes_touch_only_what_is_wrong(folder: Path) -> None:
    wrong = {line.split()[1] for line in _lines(folder / "expected")}
    fixed = {one.where.file.removeprefix(f"{folder}/") for one in judged(folder).findings if one.fix}
    assert fixed <= wrong


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_a_release_that_nothing_tells_is_said_once_and_can_be_told() -> None:
    folder = next(one for one in MANNERS if one.name == "pin-that-nobody-knows")
    told = [one for one in judged(folder).findings if one.rule == "TS210"]
    assert [one.severity for one in told] == [Severity.NOTE]
    known = judged(folder, choice=RuleSelection(line="2.9"))
    assert "TS210" not in {one.rule for one in known.findings}


def test_only_what_is_certain_is_an_error() -> None:
    assert [
        one.id for one in all_rules() if one.sure is not Sure.CERTAIN and one.worst is Severity.ERROR
    ] == []
    for folder in MANNERS:
        for one in judged(folder).findings:
            assert one.severity is not Severity.ERROR or one.sure is Sure.CERTAIN
            assert one.fix is None or one.sure is Sure.CERTAIN


def test_a_megabyte_of_comments_is_said_and_not_judged(tmp_path: Path) -> None:
    (folder := tmp_path / ".flox/pkgs").mkdir(parents=True)
    name = "pytorch-python313-cuda12_9-sm90-avx512.nix"
    text = (Path(__file__).parent / "other-hands/pinned-beside-an-unused-argument" / name).read_text()
    (folder / name).write_text("# for the H100 (SM90), not AVX2\n" * 40_000 + text)
    assert [one.rule for one in judged(tmp_path).findings if one.severity is not Severity.NOTE] == ["TS004"]
