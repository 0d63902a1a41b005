"""The verb: what people and programs get to see, what is silenced, and what is fixed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import torchsmith
from tests.cli.conftest import Call, Result
from torchsmith.auditing import reports
from torchsmith.auditing.context import Context
from torchsmith.auditing.finding import Finding, FindingFix, Severity
from torchsmith.auditing.rule import all_rules
from torchsmith.auditing.run import AuditReport, audit, check_recipe
from torchsmith.auditing.suppress import RuleSelection, choose
from torchsmith.catalog.check import Contradiction
from torchsmith.core.problem import NotKnown, Where
from torchsmith.recipe.read import Edit, edited, read_recipe
from torchsmith.verbs.apply import ApplyRequest, apply
from torchsmith.workspace.load import open_workspace
from torchsmith.workspace.settings import AuditSettings
from torchsmith.workspace.wanted import recipe_options

BY_HAND = Path(__file__).parent.parent / "edit/by-hand"
BROKEN = "pytorch-python313-cuda13_0-sm110-armv9.nix"
CANONICAL = "pytorch-python313-cuda13_0-sm120-avx512.nix"


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    folder = tmp_path / "build-pytorch/.flox/pkgs"
    folder.mkdir(parents=True)
    for name in (BROKEN, CANONICAL):
        shutil.copy(BY_HAND / name, folder)
    return tmp_path / "build-pytorch"


Audit = Callable[..., Result]


@pytest.fixture
def audited(repo: Path, call: Call) -> Audit:
    """`torchsmith audit build-pytorch` with more words."""
    return lambda *words: call("audit", "build-pytorch", *words, cwd=repo.parent)


def test_people_see_the_line_the_words_and_what_to_do(repo: Path, audited: Audit) -> None:
    told = audited()
    assert told.code == 1
    assert f"build-pytorch/.flox/pkgs/{BROKEN}:9:53" in told.out
    assert "error   TS201 nixpkgs fe5e41d has no CUDA 13.0" in told.out  # its words, here alone
    assert re.search(r"9:53 error +TS201 ", audited("--verbose").out)
    assert "archive/fe5e41d7ffc0421f0913e8472ce6238ed0daf8e3.tar.gz" in told.out
    assert told.out.rstrip().splitlines()[-1].startswith("2 recipes: ")


def test_a_long_line_is_cropped_around_the_place_that_a_caret_shows(
    repo: Path, audited: Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "70")
    lines = audited("--verbose", "--select", "TS201").out.splitlines()
    shown, caret = (line.partition("| ")[2] for line in lines if "          | " in line)
    assert len(shown) == 70 - len("          | ")
    assert (shown[0], shown[-1]) == ("…", "…")
    assert shown[caret.index("^") :].startswith("fe5e41d7")


def test_the_canonical_recipe_of_the_maintainers_has_no_error(repo: Path, call: Call) -> None:
    told = call("audit", f".flox/pkgs/{CANONICAL}", cwd=repo)
    assert told.code == 0
    assert [line.split(":")[0] for line in told.out.splitlines()] == ["1 recipe"]  # and no finding


def test_code_scanning_knows_a_finding_again_that_moved_or_is_said_in_other_words() -> None:
    def prints(*findings: Finding) -> list[str]:
        report = AuditReport(recipes=1, files=1, findings=findings)
        [ran] = json.loads(reports.as_sarif(report, Path.cwd()))["runs"]
        return [one["partialFingerprints"]["torchsmith/v2"] for one in ran["results"]]

    first = Finding("TS201", "Title", Severity.ERROR, Where("a.nix", 3), "it is wrong", source="  x = 1;")
    moved = replace(first, where=Where("a.nix", 9), message="it is not right", source="x = 1;")
    assert prints(first) == prints(moved)
    assert len({*prints(first, moved), *prints(replace(first, rule="TS204"))}) == 3


def test_programs_get_json_and_sarif(repo: Path, audited: Audit) -> None:
    table = json.loads(audited("--json").out)
    assert table["recipes"] == 2
    assert table["format"] == 4
    (first, *_) = [one for one in table["findings"] if one["rule"] == "TS201"]
    assert first["where"]["file"].endswith(BROKEN)
    sarif = json.loads(audited("--format", "sarif").out)
    (told,) = sarif["runs"]
    assert sarif["version"] == "2.1.0"
    assert told["tool"]["driver"]["version"] == torchsmith.__version__
    rules = told["tool"]["driver"]["rules"]
    assert all(rules[one["ruleIndex"]]["id"] == one["ruleId"] for one in told["results"])
    prints = [one["partialFingerprints"] for one in told["results"]]
    assert len({one["torchsmith/v2"] for one in prints}) == len(prints)
    for one in told["results"]:
        assert told["tool"]["driver"]["rules"][one["ruleIndex"]]["id"] == one["ruleId"]
        assert one["level"] in ("error", "warning", "note")
    places = [one["locations"][0]["physicalLocation"] for one in told["results"]]
    assert all(place["artifactLocation"]["uri"].startswith("build-pytorch/") for place in places)


def test_github_gets_its_own_form(repo: Path, audited: Audit) -> None:
    commands = audited("--format", "github").out.splitlines()
    assert any(
        line.startswith(f"::error file=build-pytorch/.flox/pkgs/{BROKEN},line=9,col=53") for line in commands
    )


def paths_for_github(call: Call, *words: str | Path, cwd: Path) -> tuple[set[str], set[tuple[str, str]]]:
    """The paths of annotations, and those of SARIF with their base."""
    commands = call("audit", *words, "--format", "github", cwd=cwd).out
    (run,) = json.loads(call("audit", *words, "--format", "sarif", cwd=cwd).out)["runs"]
    places = [one["locations"][0]["physicalLocation"]["artifactLocation"] for one in run["results"]]
    bases = run["originalUriBaseIds"]
    uris = {(place["uri"], bases[place["uriBaseId"]]["uri"] if len(place) > 1 else "") for place in places}
    return set(re.findall(r"file=([^,]*),", commands)), uris


def test_github_gets_paths_from_the_top_of_the_checkout(
    tmp_path: Path, repo: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    top, workspace = tmp_path / "a checkout", tmp_path / "a checkout/builds"
    workspace.mkdir(parents=True)
    shutil.move(repo, workspace)
    path = f"builds/build-pytorch/.flox/pkgs/{BROKEN}"
    inside = {path}, {(path, f"{top.as_uri()}/")}
    outside = {str(top / path)}, {((top / path).as_uri(), "")}
    for folder in (top, workspace / "build-pytorch"):
        subprocess.run(["git", "init", "--quiet", folder], check=True)
    assert paths_for_github(call, cwd=workspace) == inside
    assert paths_for_github(call, workspace, cwd=tmp_path) == inside
    monkeypatch.setenv("GITHUB_WORKSPACE", str(top))
    assert paths_for_github(call, "build-pytorch", cwd=workspace) == inside
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path / "elsewhere"))
    assert paths_for_github(call, cwd=workspace) == outside


def test_github_commands_escape_what_would_end_them() -> None:
    finding = Finding("TS001", "a, b: c", Severity.ERROR, Where("x,y.nix", 3, 1), "50%\nlost")
    (line,) = reports.as_github(AuditReport((finding,), 1, 1), Path.cwd()).splitlines()
    assert line == "::error file=x%2Cy.nix,line=3,col=1,title=TS001 a%2C b%3A c::50%25%0Alost"


def test_rules_are_chosen_by_id_or_by_its_start(repo: Path, audited: Audit) -> None:
    only = json.loads(audited("--json", "--select", "TS2").out)["findings"]
    assert {one["rule"][:3] for one in only} == {"TS2"}
    without = json.loads(audited("--json", "--ignore", "TS3,TS201").out)["findings"]
    assert not {"TS201", "TS301", "TS306"} & {one["rule"] for one in without}
    wrong = audited("--select", "TS99", "--json")
    assert (wrong.code, json.loads(wrong.out)["error"]["code"]) == (2, "not-known")


def test_a_comment_silences_one_rule_in_one_place(repo: Path) -> None:
    file = repo / ".flox/pkgs" / BROKEN
    file.write_text(file.read_text().replace("    url =", "    # torchsmith: ignore TS201\n    url ="))
    rules = {one.rule for one in audit((repo,)).findings}
    assert "TS201" not in rules
    assert "TS301" in rules
    file.write_text("# torchsmith: ignore-file\n" + file.read_text())
    report = audit((file,))
    assert report.findings == ()
    assert report.silenced > 5


def test_what_is_fixed_is_in_json_too(repo: Path, audited: Audit) -> None:
    before = json.loads(audited("--json").out)
    fixed = json.loads(audited("--fix", "--json").out)
    assert len(fixed["findings"]) < len(before["findings"])
    assert fixed["fixed"] > 0
    assert fixed["diff"].startswith("--- a/")


def test_safe_fixes_are_shown_before_they_are_made(repo: Path, audited: Audit) -> None:
    file = repo / ".flox/pkgs" / CANONICAL
    text = file.read_text()
    wrong = text.replace('gpuArchSM = "12.0"', 'gpuArchSM = "sm_120"').replace(
        "i9InbxD5Htfon", "XXXXXXXXXXXXX"
    )
    file.write_text(wrong)
    shown = audited("--diff")
    assert shown.code == 1  # TS201 would be left
    assert '-  gpuArchSM = "sm_120";' in shown.out
    assert '+  gpuArchSM = "12.0";' in shown.out
    assert file.read_text() == wrong
    fixed = audited("--fix")
    assert fixed.code == 1
    assert [line.rpartition("; ")[2] for line in shown.err.splitlines() if "safe fix" in line] == [
        line.rpartition("; ")[2] for line in fixed.err.splitlines() if "safe fix" in line
    ]
    assert "TS402" not in fixed.out
    assert "TS201" in fixed.out  # what has no safe fix stays
    assert "gpuArchSM" not in fixed.out + fixed.err  # --diff shows what changes
    assert "3 findings in 2 files fixed" in fixed.err
    assert file.read_text() == text


def test_errors_that_safe_fixes_mend_are_no_reason_to_fail(repo: Path, audited: Audit) -> None:
    file = repo / ".flox/pkgs" / CANONICAL
    file.write_text(file.read_text().replace('gpuArchSM = "12.0"', 'gpuArchSM = "sm_120"'))
    options = ("--select", "TS402")
    codes = [audited(*options, *more).code for more in ((), ("--diff",), ("--diff", "--json"), ("--fix",))]
    assert codes == [1, 0, 0, 0]


def test_hidden_notes_are_counted(repo: Path, audited: Audit) -> None:
    file = repo / ".flox/pkgs" / CANONICAL
    file.write_text(file.read_text().partition("\n")[2])
    findings = json.loads(audited("--json", "--notes").out)["findings"]
    notes = sum(finding["severity"] == "note" for finding in findings)
    assert notes
    assert f"; {notes} hidden note" in audited().out
    assert "(--notes)" not in audited("--notes").out


def test_edits_that_overlap_are_made_once() -> None:
    assert edited(b"abcdef", [Edit(1, 3, "X"), Edit(2, 4, "Y"), Edit(1, 3, "X")]) == "aXdef"
    assert edited("é = 1".encode(), [Edit(5, 6, "2")]) == "é = 2"


def test_generated_files_are_mended_by_generating(tmp_path: Path, call: Call) -> None:
    (tmp_path / "torchsmith.toml").write_text(
        'format = 1\n[[matrix]]\npython = ["3.13"]\ncuda = ["cpu"]\nisa = ["avx2"]\n'
    )
    apply(ApplyRequest(workspace=tmp_path, git=False))
    file = tmp_path / "build-pytorch/.flox/pkgs/pytorch-python313-cpu-avx2.nix"
    file.write_text(file.read_text().replace('pname = "pytorch210-', 'pname = "pytorch-'))
    wrong = file.read_text()
    findings = json.loads(call("audit", tmp_path, "--json").out)["findings"]
    places = {finding["rule"]: [*finding["where"]] for finding in findings}
    assert (places["TS010"], places["TS105"]) == (["file"], ["file", "line", "column"])
    assert not any(finding["fix"] for finding in findings), "--fix would leave it alone"
    [pname] = [finding["hint"] for finding in findings if finding["rule"] == "TS105"]
    assert pname == "write pytorch210-python313-cpu-avx2"
    assert "TS010" in call("audit", tmp_path, "--fix").out
    assert file.read_text() == wrong


@pytest.mark.parametrize(
    ("words", "code"),
    [(["nowhere"], "not-found"), (["."], "not-found")],
)
def test_a_wrong_request_says_what_was_wrong(tmp_path: Path, words: list[str], code: str, call: Call) -> None:
    told = call("audit", *words, "--json", cwd=tmp_path)
    error = json.loads(told.out)["error"]
    assert (told.code, error["code"], words[-1] in error["message"]) == (2, code, True)


def test_a_choice_is_checked_against_the_rules() -> None:
    assert choose(["TS4", "TS501"], []) == RuleSelection(("TS4", "TS501"))
    with pytest.raises(NotKnown, match="X"):
        choose([], ["X"])


EVERYTHING = """format = 1
profile = "seed"
packages = ["pytorch", "xformers", "flash-attn", "bitsandbytes", "torchsde", "vllm", "onnxruntime"]
[[matrix]]
line = "2.8"
packages = ["pytorch", "torchvision"]
prefix = true
python = ["3.13"]
cuda = ["12.6", "cpu"]
sm = ["sm86", "sm89"]
isa = ["avx", "avx512"]
"""


def test_rules_find_nothing_in_a_recipe_as_generated_and_only_an_edited_one_is_checked(
    tmp_path: Path,
) -> None:
    (tmp_path / "torchsmith.toml").write_text(EVERYTHING)
    apply(ApplyRequest(workspace=tmp_path, git=False))
    workspace = open_workspace(tmp_path)
    context = Context(workspace.catalog, RuleSelection(), workspace.lines, recipe_options(workspace))
    unusable = {cell.name for cell in workspace.matrix.cells if cell.warnings}
    files = sorted(tmp_path.glob("*/.flox/pkgs/*-python*.nix"))
    for file in files:
        recipe = read_recipe(file)
        generated = context.line_as_generated(file.stem, recipe.text)
        assert generated == ("" if file.stem in unusable else workspace.lines[file.stem]), file
        findings = check_recipe(recipe, file.stem, context).findings
        assert {one.rule for one in findings} <= ({"TS404"} if file.stem in unusable else set()), file
        assert not context.line_as_generated(file.stem, recipe.text.replace("MAGMA", "MAGNA") + "\n")
    assert len(files) - len(unusable) > 100


def test_a_rule_is_explained_offline(repo: Path, call: Call) -> None:
    told = call("audit", "--explain", "ts401")
    assert told.code == 0
    assert re.match(r"TS401 .*\n\w+, certain", told.out)
    (explained,) = json.loads(call("audit", "--explain", "TS401", "--json").out)["rules"]
    assert '"12.0"' in explained["right"]
    assert '"9.0"' in explained["wrong"]
    assert explained["wrong"].splitlines()[0].strip() in told.out
    assert call("audit", "--explain", "TS4O1").code == 2


def test_a_prefix_lists_its_rules(call: Call) -> None:
    listed = call("audit", "--explain", "ts70").out.splitlines()[1:]
    assert [line.split()[0] for line in listed] == [one.id for one in all_rules() if one.id[:4] == "TS70"]
    assert len(json.loads(call("audit", "--explain", "TS70", "--json").out)["rules"]) == len(listed) > 1


@pytest.mark.parametrize("format", ["sarif", "github"])
def test_json_and_another_format_exclude_each_other(format: str, audited: Audit) -> None:
    assert audited("--json", "--format", format).error == "conflict"
    assert json.loads(audited("--json", "--format", "json").out)["recipes"] == 2


@pytest.mark.parametrize("notes", [(), ("--notes",)])
def test_every_format_has_the_same_findings(notes: tuple[str, ...], repo: Path, audited: Audit) -> None:
    table = [(one["rule"], one["severity"]) for one in json.loads(audited("--json", *notes).out)["findings"]]
    (run,) = json.loads(audited("--format", "sarif", *notes).out)["runs"]
    assert [(one["ruleId"], one["level"]) for one in run["results"]] == table
    places = re.findall(r"(error|warning|note) +(TS\d+)", audited("--verbose", *notes).out)
    assert sorted((rule, severity) for severity, rule in places) == sorted(table)
    assert len(audited("--format", "github", *notes).out.splitlines()) == len(table)


def test_the_same_words_of_many_files_are_printed_once() -> None:
    many = [
        Finding(
            "TS402",
            "t",
            Severity.ERROR,
            Where(f"{n}.nix", 1, 1),
            "is written sm_120",
            fix=FindingFix("", ()),
        )
        for n in range(9)
    ]
    other = Finding("TS703", "u", Severity.WARNING, Where("1.nix"), "no out")
    unlike = replace(many[0], message="is written sm_90")
    groups = reports.alike([*many, other, unlike])
    assert [(one[0].rule, len(one)) for one in groups] == [("TS402", 9), ("TS402", 1), ("TS703", 1)]
    assert (
        reports.summary(AuditReport((*many, other), 9, 9))
        == "9 recipes: 9 errors, 1 warning, 9 fixable with --fix"
    )


def test_recipes_with_the_same_mistake_and_other_advice_are_one_group(tmp_path: Path, call: Call) -> None:
    (pkgs := tmp_path / ".flox/pkgs").mkdir(parents=True)
    for gpu in ("80", "89", "90"):
        (pkgs / f"pytorch-python313-cuda13.0-sm{gpu}-avx2.nix").write_text("{ torch }: torch\n")
    told = call("audit", ".", "--select", "TS103", cwd=tmp_path)
    assert told.out.count("TS103") == 1
    assert "call it pytorch-python313-cuda13_0-sm80-avx2.nix (--verbose shows" in told.out
    verbose = call("audit", ".", "--select", "TS103", "--verbose", cwd=tmp_path)
    assert verbose.out.count("call it pytorch-python313-cuda13_0-sm") == 3


def test_the_default_workspace_has_no_finding_and_no_note(tmp_path: Path, call: Call) -> None:
    assert call("init", ".", cwd=tmp_path).code == 0
    apply(ApplyRequest(workspace=tmp_path, git=False))
    told = call("audit", ".", "--notes", cwd=tmp_path)
    assert told.code == 0
    assert len(told.out.splitlines()) == 1


def test_torchsmith_toml_chooses_rules_as_the_options_do(repo: Path, audited: Audit) -> None:
    before = json.loads(audited("--json").out)["findings"]
    settings = repo.parent / "torchsmith.toml"
    settings.write_text('format = 1\n[audit]\nignore = ["TS201"]\nper_path = { "*sm110*" = ["TS3"] }\n')
    after = json.loads(audited("--json").out)["findings"]
    assert {"TS201"} <= {one["rule"] for one in before} - {one["rule"] for one in after}
    assert not [one for one in after if "sm110" in one["where"]["file"] and one["rule"].startswith("TS3")]
    settings.write_text('format = 1\n[audit]\nignore = ["TS999"]\n')
    told = audited()
    assert (told.code, "torchsmith.toml:3:11" in told.err) == (2, True)
    settings.write_text('format = 1\n[audit]\nignore = ["TS605", "TS96"]\n')
    told = audited()
    assert told.code == 1
    assert "TS605 was removed after 0.2.0" in told.err
    assert "TS96 was removed after 0.2.0" in told.err
    assert json.loads(audited("--json").out)["findings"] == before
    assert "removed after 0.2.0" in audited("--explain", "TS605").err


# Each setting of [audit]: its text, and what it takes away from and adds to what is said.
SETTINGS = {
    "select": ('select = ["TS3"]', {"TS201 error"}, set()),
    "ignore": ('ignore = ["TS201"]', {"TS201 error"}, set()),
    "per_path": ('per_path = { "*sm110*" = ["TS20"] }', {"TS201 error"}, set()),
    "line": ('line = "2.10"', {"TS210 note"}, {"TS803 error"}),
    "strict": ("strict = true", {"TS206 note"}, {"TS206 warning"}),
}


@pytest.mark.parametrize("name", AuditSettings.__struct_fields__)
def test_every_setting_of_the_audit_does_what_it_says(name: str, repo: Path) -> None:
    file = repo / ".flox/pkgs" / CANONICAL
    text = file.read_text().partition("\n")[2]
    unknown = text.replace("6a030d535719c5190187c4cec156f335e95e3211", "1" * 40).replace("2.10.0", "2.13.5")
    file.write_text(unknown.replace("pytorch210", "pytorch") if name == "line" else text)
    written, gone, come = SETTINGS[name]
    choice = repo.parent / "torchsmith.toml"
    said = []
    for settings in ("", f"[audit]\n{written}\n"):
        choice.write_text(f"format = 1\n{settings}")
        said.append({f"{one.rule} {one.severity}" for one in audit((repo,)).findings})
    before, after = said
    assert gone <= before - after
    assert come <= after - before


def test_a_line_that_contradicts_its_pin_stops_the_audit_with_every_place(repo: Path) -> None:
    (repo.parent / "torchsmith.toml").write_text('format = 1\nprofile = "seed"\n')
    facts = repo.parent / "catalog/lines.toml"
    facts.parent.mkdir()
    facts.write_text(
        '["2.10x"]\nprefix = "pytorch210"\ntorch = "2.10.0"\npythons = ["3.13"]\nsource = "us"\n\n'
        '["2.10x".cuda."12.8"]\npin = "6a030d5"\nfixes = ["cuda-package-set"]\n\n'
        '["2.10x".cuda."13.1"]\npin = "6a030d5"\n'
    )
    with pytest.raises(Contradiction) as caught:  # nobody is told that all is well
        audit((repo,))
    assert caught.value.where == Where(str(facts), 8, 1)
    assert all(word in caught.value.message for word in ("2.9.1", f"{facts}:12"))
    with pytest.raises(Contradiction):
        apply(ApplyRequest(workspace=repo.parent))
