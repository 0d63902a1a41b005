"""Recipes that a maintainer wrote by hand: what is wrong is named at its cause, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Call
from tools.mutations.harness import findings_of
from tools.rule_examples import NAME, VISION, right_texts
from torchsmith.auditing.finding import Finding, Severity
from torchsmith.auditing.run import audit
from torchsmith.auditing.suppress import RuleSelection

THEIRS = Path("theirs")  # a folder without a torchsmith.toml: our conventions do not bind it
OF_TORCH, OF_VISION = (right_texts()[name].partition("\n")[2] for name in (NAME, VISION))


def changed(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


def found(name: str, text: str, *rules: str) -> list[Finding]:
    return [one for one in findings_of(name, text, THEIRS) if one.rule.startswith(rules)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            [('version = "0.25.0"', 'version = "0.24.1"'), ("v0.25.0", "v${version}")],
            "torchvision 0.24.1 belongs to torch 2.9.1; this recipe builds torch 2.10.0",
        ),
        (
            [('version = "2.10.0"', 'version = "2.9.1"')],
            "torchvision 0.25.0 belongs to torch 2.10.0; this recipe builds torch 2.9.1",
        ),
    ],
)
def test_a_companion_of_another_torch_is_one_error(changes: list[tuple[str, str]], message: str) -> None:
    text = changed(OF_VISION, *changes).replace("pytorch210-", "torch-")
    [finding] = found(VISION, text, "TS701", "TS905")
    assert (finding.message, finding.severity) == (message, Severity.ERROR)
    assert 'version = "0.2' in finding.source
    assert found(VISION, text.replace("broken = false;", ""), "TS306", "TS803"), "rules of the release run"


def test_rules_that_did_not_run_are_said(tmp_path: Path, call: Call) -> None:
    text = changed(OF_TORCH, ("2.10.0", "2.77.0")).replace("pytorch210-", "torch-")
    for recipe, said in ((text, True), (OF_TORCH, False)):
        (tmp_path / f"{NAME}.nix").write_text(recipe)
        assert ("rules that depend on it did not run" in call("audit", ".", cwd=tmp_path).out) is said


def test_patches_are_not_to_be_extended_if_an_overlay_has_another_source() -> None:
    text = changed(OF_TORCH, ('    pname = "pytorch210', '    patches = [ ];\n    pname = "pytorch210'))
    assert found(f"{NAME}-v2", text, "TS810") == []


NOT_BROKEN = "broken = false; # the pin objects to CUDA 13 alone, which the fixes above answer"


@pytest.mark.parametrize(
    ("changes", "severity"),
    [
        ([], Severity.ERROR),
        ([("allowUnfree = true;", "allowUnfree = true; allowBrokenPredicate = p: true;")], Severity.WARNING),
        ([("(final: prev: { cudaPackages = final.cudaPackages_13_0; })", "")], Severity.WARNING),
        ([("meta = oldAttrs.meta // {", "meta = {")], Severity.WARNING),
    ],
    ids=["certain", "broken packages are allowed", "CUDA is the pin's", "meta is another"],
)
def test_a_torch_that_nix_refuses_is_an_error(changes: list[tuple[str, str]], severity: Severity) -> None:
    [finding] = found(NAME, changed(OF_TORCH, (NOT_BROKEN, ""), *changes), "TS306")
    assert finding.severity is severity
    assert finding.message == "the pin marks torch as broken with CUDA 13: Nix refuses to evaluate it"
    assert finding.hint == "add broken = false to meta of torch"


SET = "gpuTargets = [ gpuArchSM ];"


@pytest.mark.parametrize(
    ("changes", "at"),
    [
        ([("passthru // {", 'passthru // { gpuArch = "120";')], []),
        ([('gpuArchSM = "12.0";', 'gpuArchSM = "12.0"; gpuArch = "sm_120";')], []),
        ([('gpuArchSM = "12.0";', 'gpuArchSM = "sm_120";')], ["gpuArchSM is written sm_120, it takes 12.0"]),
        ([(SET, 'gpuTargets = [ "sm_120" ];')], ["gpuTargets is written sm_120, it takes 12.0"]),
    ],
    ids=["what nothing reads", "what no target is", "a variable and its uses", "a target"],
)
def test_a_wrong_notation_is_one_finding(changes: list[tuple[str, str]], at: list[str]) -> None:
    assert [one.message for one in found(NAME, changed(OF_TORCH, *changes), "TS402")] == at


ARM = "pytorch-python313-cuda13_0-sm110-armv9"


@pytest.mark.parametrize(
    ("name", "changes", "rule", "words"),
    [
        (
            NAME,
            [("RKiZLHBCneMtZKRgTEuW", "TEuWRKiZLHBCneMtZKRg")],
            "TS903",
            "of pytorch v2.10.0: that is sha256-RKiZ",
        ),
        (
            VISION,
            [("pytorch210-python313-cuda13_0-sm120", "pytorch210-python313-cuda13_0-sm90")],
            "TS105",
            "it should be pytorch210-python313-cuda13_0-sm120-avx512",
        ),
        (
            VISION,
            [("customPytorch", "ourTorch"), ("++ [ ourTorch.out ];\n\n  preConf", ";\n\n  preConf")],
            "TS703",
            "++ [ ourTorch.out ];",
        ),
        (ARM, [("+sve2", "+sve2+bf16")], "TS501", "-march=armv9-a+sve+sve2+bf16 is not one of armv9's flags"),
    ],
)
def test_a_finding_says_what_is_right(
    name: str, changes: list[tuple[str, str]], rule: str, words: str
) -> None:
    text = changed(right_texts()[name].partition("\n")[2], *changes)
    assert any(words in f"{one.message} {one.hint}" for one in found(name, text, rule))


def test_nothing_is_missed_that_may_be_in_a_missing_file(tmp_path: Path) -> None:
    recipe = tmp_path / f"{NAME}.nix"
    recipe.write_text('import ./make.nix { sm = "120"; }')
    assert {one.rule for one in audit((tmp_path,)).findings} == {"TS006"}


def test_a_name_that_another_file_has_is_a_duplicate(tmp_path: Path) -> None:
    old = tmp_path / f"{NAME}-magma.nix"
    old.write_text(OF_TORCH)
    for hint in (f"call it {NAME}.nix", f"it is a duplicate of {NAME}.nix: delete it"):
        [finding] = audit((old,), choice=RuleSelection(select=("TS102",))).findings
        assert finding.hint == hint
        (tmp_path / f"{NAME}.nix").write_text(OF_TORCH)


def test_of_two_prefixes_the_longer_one_decides(tmp_path: Path, call: Call) -> None:
    (tmp_path / f"{NAME}.nix").write_text(changed(OF_TORCH, ('"12.0"', '"sm_120"')))
    told = call("audit", ".", "--select", "ts402", "--ignore", "TS4", cwd=tmp_path)
    assert "TS402" in told.out
    assert "next: torchsmith audit . --select ts402 --ignore TS4 --fix" in told.err
    told = call("audit", ".", "--select", "TS402", "--line", "2.10", cwd=tmp_path)
    assert "next: torchsmith audit . --select TS402 --line 2.10 --fix" in told.err
    told = call("audit", ".", "--select", "TS402", "--ignore", "TS402", cwd=tmp_path)
    assert (told.code, "no rule is left to check" in told.err) == (2, True)


def test_a_hidden_note_is_neither_counted_nor_fixed(tmp_path: Path, call: Call) -> None:
    (tmp_path / f"{NAME}.nix").write_text(changed(OF_TORCH, (" -frecord-gcc-switches", "")))
    shown = [call("audit", ".", "--diff", *words, cwd=tmp_path) for words in ((), ("--notes",))]
    assert ["--unsafe-fixes" in one.err for one in shown] == [False, True]
    added = [
        call("audit", ".", "--diff", "--unsafe-fixes", *words, cwd=tmp_path).out
        for words in ((), ("--notes",))
    ]
    assert ["# changes no code" in diff for diff in added] == [False, True]
