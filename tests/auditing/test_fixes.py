"""Safe fixes of what prose says: the fixed file audits clean, and nothing that a build reads changes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from tools.rule_examples import NAME, right_texts
from torchsmith.auditing.finding import Severity
from torchsmith.auditing.rule import unlisted
from torchsmith.cli.reporter import Reporter
from torchsmith.recipe.read import edited
from torchsmith.verbs.audit import AuditRequest, audit

RECIPES = ".flox/pkgs"
HEAD = "let\n"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    (tmp_path / RECIPES).mkdir(parents=True)
    (tmp_path / f"{RECIPES}/{NAME}.nix").write_text(right_texts()[NAME])
    return tmp_path


def rules(repo: Path, *, fix: bool = False) -> list[str]:
    request = AuditRequest(paths=(str(repo),), cache=False, fix=fix, select=("TS6",))
    return [finding.rule for finding in audit(request).findings if finding.severity.value != "note"]


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("SM120 (RTX 5090, L40S)", "SM120 (RTX 5090)"),
        ("SM120 (L40S, RTX 5090)", "SM120 (RTX 5090)"),
        ("SM120: RTX 5080/L40S cards", "SM120: RTX 5080 cards"),
        (
            "SM120: NVIDIA RTX 5090, L40S, H100, or other SM120 GPUs",
            "SM120: NVIDIA RTX 5090, or other SM120 GPUs",
        ),
    ],
)
def test_a_part_of_another_gpu_is_taken_out_of_a_comment(repo: Path, wrong: str, right: str) -> None:
    file = repo / f"{RECIPES}/{NAME}.nix"
    text = file.read_text()
    file.write_text(text.replace(HEAD, f"{HEAD}  # GPU: {wrong}\n", 1))
    assert set(rules(repo)) == {"TS605"}
    assert rules(repo, fix=True) == []
    assert file.read_text() == text.replace(HEAD, f"{HEAD}  # GPU: {right}\n", 1)


@pytest.mark.parametrize("wrong", ["SM120 (L40S, RTX 4090)", "SM120: RTX 4090/L40S"])
def test_a_list_of_another_gpu_is_left_alone(repo: Path, wrong: str) -> None:
    file = repo / f"{RECIPES}/{NAME}.nix"
    file.write_text(file.read_text().replace(HEAD, f"{HEAD}  # GPU: {wrong}\n", 1))
    before = file.read_text()
    assert rules(repo) == rules(repo, fix=True) == ["TS605", "TS605"]
    assert file.read_text() == before


def test_of_two_fixes_of_the_same_words_one_is_made_and_counted(repo: Path) -> None:
    file = repo / f"{RECIPES}/{NAME}.nix"
    file.write_text(file.read_text().replace(HEAD, f"{HEAD}  # GPU: L40S, RTX 4090, RTX 5090\n", 1))
    report = audit(AuditRequest(paths=(str(repo),), cache=False, fix=True, select=("TS605",)))
    assert (report.fixed, len(report.findings)) == (1, 1)
    assert audit(AuditRequest(paths=(str(repo),), cache=False, fix=True, select=("TS605",))).findings == ()
    assert "# GPU: RTX 5090\n" in file.read_text()


THEIRS = right_texts()[NAME].partition("\n")[2]
# A mistake in a recipe of another hand, and the rule whose fix takes it back.
FIXABLE = [
    ("TS424", "gpuTargets = [ gpuArchSM ];", "gpuTargets = [ 12.0 ];", 'gpuTargets = [ "12.0" ];', True),
    ("TS424", 'cudaCapabilities = [ "12.0" ];', 'cudaCapabilities = "12.0";', "", True),
    ("TS813", "broken = false;", "broken = true;", "", False),
    ("TS814", "meta = oldAttrs.meta // {", "meta = {", "", False),
    ("TS815", "pname = ", "doCheck = true;\n      pname = ", "", False),
    ("TS816", "gpuTargets = ", "stdenv = pkgs.ccacheStdenv;\n      gpuTargets = ", "", False),
]


class Notes(Reporter):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def note(self, text: str) -> None:
        self.texts.append(text)


@pytest.mark.parametrize(
    ("rule", "right", "wrong", "fixed", "safe"), FIXABLE, ids=[f"{one[0]}-{one[2][:8]}" for one in FIXABLE]
)
def test_a_fix_takes_back_a_mistake(
    repo: Path, rule: str, right: str, wrong: str, fixed: str, safe: bool
) -> None:
    file = repo / f"{RECIPES}/{NAME}.nix"
    mistake = THEIRS.replace(right, wrong, 1)
    assert mistake != THEIRS
    for unsafe in (False, True):
        file.write_text(mistake)
        request = AuditRequest(paths=(str(repo),), cache=False, fix=True, unsafe_fixes=unsafe, select=(rule,))
        notes = Notes()
        assert (audit(request, notes).findings == ()) is (safe or unsafe)
        assert bool(notes.texts) is (not safe and not unsafe), "--unsafe-fixes is named if it would do more"
        taken_back = THEIRS.replace(right, fixed or right, 1) if safe or unsafe else mistake
        assert file.read_text() == taken_back


def test_a_replaced_phase_is_extended(repo: Path) -> None:
    file = repo / f"{RECIPES}/{NAME}.nix"
    start = THEIRS.index("preConfigure = (oldAttrs")
    end = THEIRS.index("passthru = oldAttrs")
    file.write_text(
        THEIRS[:start] + "preConfigure = ''\n        export CFLAGS=-mfma\n      '';\n      " + THEIRS[end:]
    )
    request = AuditRequest(paths=(str(repo),), cache=False, select=("TS810",))
    (finding,) = audit(request).findings
    assert finding.severity.value == "error"
    assert audit(replace(request, fix=True, unsafe_fixes=True)).findings == ()
    assert 'preConfigure = (oldAttrs.preConfigure or "") + ' in file.read_text()


RECORDS = ("-frecord-gcc-switches", " -fmessage-length=10001", "-Xcompiler=-fmessage-length=10002")


def test_lines_that_record_the_flags_are_added(repo: Path) -> None:
    file = repo / f"{RECIPES}/{NAME}.nix"
    text = THEIRS
    for words in RECORDS:
        text = text.replace(words, "")
    file.write_text(text)
    request = AuditRequest(paths=(str(repo),), cache=False, select=("TS508",))
    (finding,) = audit(request).findings
    assert finding.where.line
    assert audit(replace(request, fix=True, unsafe_fixes=True)).findings == ()
    assert all(words.strip() in file.read_text() for words in RECORDS)
    assert audit(replace(request, select=("TS5", "TS8"))).of(Severity.ERROR, Severity.WARNING) == []


def test_a_banner_is_left_alone_since_it_is_part_of_the_build(repo: Path) -> None:
    file = repo / f"{RECIPES}/{NAME}.nix"
    file.write_text(
        file.read_text().replace("export CFLAGS", 'echo "SM120: RTX 5090, L40S"\n        export CFLAGS')
    )
    assert rules(repo) == rules(repo, fix=True) == ["TS605"]


@pytest.mark.parametrize(
    "line", ["SM90: L40S", "L40S and H100", "L40S, H100 but not L40S", "ARM Neoverse V1/V2"]
)
def test_what_stands_in_no_list_has_no_fix(line: str) -> None:
    assert unlisted(f"# before\n{line}\n", 2, "Neoverse V1" if "V1" in line else "L40S") is None


def test_positions_are_those_of_the_bytes() -> None:
    text = "# für\n# Ü: H100, L40S\n"
    fix = unlisted(text, 2, "L40S")
    assert fix is not None
    assert edited(text.encode(), fix.edits) == "# für\n# Ü: H100\n"


def test_whoever_watches_is_told_of_each_file(repo: Path) -> None:
    seen: list[str] = []
    totals: list[int] = []

    class Counting(Reporter):
        def steps(self, activity: str, total: int) -> AbstractContextManager[Callable[[str], None]]:
            totals.append(total)
            return nullcontext(seen.append)

    audit(AuditRequest(paths=(str(repo),), cache=False), Counting())
    assert totals == [len(seen)]
    assert [Path(name).stem for name in seen] == [NAME]
