"""Fixes: the fixed file audits clean."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from tools.rule_examples import NAME, right_texts
from torchsmith.auditing.finding import Finding, FindingFix, Severity, fixed
from torchsmith.catalog import builtin_catalog
from torchsmith.cli.reporter import Reporter
from torchsmith.core.problem import Where
from torchsmith.recipe.read import Edit
from torchsmith.verbs.audit import AuditRequest, audit

RECIPES = ".flox/pkgs"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    (tmp_path / RECIPES).mkdir(parents=True)
    (tmp_path / f"{RECIPES}/{NAME}.nix").write_text(right_texts()[NAME])
    return tmp_path


def test_of_two_fixes_of_the_same_words_one_is_made_and_counted(tmp_path: Path) -> None:
    file = tmp_path / "a.nix"
    file.write_text("[ 1 2 ]\n")
    fixes = [FindingFix(text, (Edit(2, 5, text),)) for text in ("3", "4")]
    where = Where(str(file), 1, 3)
    [change], count = fixed([Finding("TS401", "", Severity.ERROR, where, "", fix=fix) for fix in fixes])
    assert (change.after, count) == ("[ 3 ]\n", 1)


REV = builtin_catalog().pins["6a030d5"].rev
THEIRS = right_texts()[NAME].partition("\n")[2]
# A mistake in a recipe of another hand, and the rule whose fix takes it back.
FIXABLE = [
    ("TS401", 'gpuArchSM = "12.0";', 'gpuArchSM = "9.0";', "", False),
    ("TS201", REV, REV.replace("30d5", "3d05"), "", True),
    ("TS207", "python3Packages", "python312Packages", "python313Packages", False),
    ("TS304", "final.cudaPackages_13_0", "final.cudaPackages_13_1", "", False),
    ("TS505", 'platforms = [ "x86_64-linux" ];', 'platforms = [ "aarch64-linux" ];', "", True),
    (
        "TS505",
        'platforms = [ "x86_64-linux" ];',
        'platforms = oldAttrs.meta.platforms or [ "x86_64-linux" ];',
        "",
        True,
    ),
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
        request = AuditRequest(paths=(str(repo),), fix=True, unsafe_fixes=unsafe, select=(rule,))
        notes = Notes()
        assert (audit(request, notes).findings == ()) is (safe or unsafe)
        assert bool(notes.texts) is (not safe and not unsafe), "--unsafe-fixes is named if it would do more"
        taken_back = THEIRS.replace(right, fixed or right, 1) if safe or unsafe else mistake
        assert file.read_text() == taken_back
    assert not (repo / ".torchsmith").exists(), "state is the user's"


def test_a_replaced_phase_is_extended(repo: Path) -> None:
    file = repo / f"{RECIPES}/{NAME}.nix"
    start = THEIRS.index("preConfigure = (oldAttrs")
    end = THEIRS.index("passthru = oldAttrs")
    file.write_text(
        THEIRS[:start] + "preConfigure = ''\n        export CFLAGS=-mfma\n      '';\n      " + THEIRS[end:]
    )
    request = AuditRequest(paths=(str(repo),), select=("TS810",))
    (finding,) = audit(request).findings
    assert finding.severity.value == "error"
    assert audit(replace(request, fix=True, unsafe_fixes=True)).findings == ()
    assert 'preConfigure = (oldAttrs.preConfigure or "") + ' in file.read_text()


def test_a_phase_in_plain_quotes_is_not_extended(repo: Path) -> None:
    file = repo / f"{RECIPES}/{NAME}.nix"
    start, end = THEIRS.index("preConfigure = (oldAttrs"), THEIRS.index("passthru = oldAttrs")
    text = THEIRS[:start] + 'preConfigure = "export CFLAGS=-mfma";\n      ' + THEIRS[end:]
    file.write_text(text)
    request = AuditRequest(paths=(str(repo),), select=("TS810",), fix=True, unsafe_fixes=True)
    assert len(audit(request).findings) == 1
    assert file.read_text() == text


RECORDS = ("-frecord-gcc-switches", " -fmessage-length=10001", "-Xcompiler=-fmessage-length=10002")


def test_lines_that_record_the_flags_are_added(repo: Path) -> None:
    file = repo / f"{RECIPES}/{NAME}.nix"
    text = THEIRS
    for words in RECORDS:
        text = text.replace(words, "")
    file.write_text(text)
    request = AuditRequest(paths=(str(repo),), select=("TS508",), notes=True)
    (finding,) = audit(request).findings
    assert finding.where.line
    assert audit(replace(request, fix=True, unsafe_fixes=True)).findings == ()
    assert all(words.strip() in file.read_text() for words in RECORDS)
    assert audit(replace(request, select=("TS5", "TS8"))).of(Severity.ERROR, Severity.WARNING) == []


KNOWN = next(pin for pin in builtin_catalog().pins.values() if pin.sha256)
URL = f'"https://github.com/NixOS/nixpkgs/archive/{KNOWN.rev}.tar.gz"'
HASHED = f'url = {URL}; sha256 = "{KNOWN.sha256}"; }}'


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        (URL, f"{{ {HASHED}"),
        (f"{{ url = {URL}; }}", f"{{ {HASHED}"),
        (f'{{ url = {URL}; sha256 = ""; }}', f"{{ {HASHED}"),
        (f"{{\n  url = {URL};\n}}", f'{{\n  url = {URL};\n  sha256 = "{KNOWN.sha256}";\n}}'),
        (f"{{ url = {URL}; sha256 = lib.fakeSha256; }}", ""),
        (f"(let url = {URL}; in {{ inherit url; }})", ""),
    ],
)
def test_the_known_hash_of_a_pin_is_added(repo: Path, wrong: str, right: str) -> None:
    text = "{ lib }: (import (builtins.fetchTarball PIN) { }).python3Packages.torch\n"
    file = repo / f"{RECIPES}/pytorch-python313-cpu-avx2.nix"
    file.write_text(text.replace("PIN", wrong))
    audit(AuditRequest(paths=(str(file),), fix=True, select=("TS204",)))
    assert file.read_text() == text.replace("PIN", right or wrong)


def test_whoever_watches_is_told_of_each_file(repo: Path) -> None:
    seen: list[str] = []
    totals: list[int] = []

    class Counting(Reporter):
        def steps(self, activity: str, total: int) -> AbstractContextManager[Callable[[str], None]]:
            totals.append(total)
            return nullcontext(seen.append)

    audit(AuditRequest(paths=(str(repo),)), Counting())
    assert totals == [len(seen)]
    assert [Path(name).stem for name in seen] == [NAME]
