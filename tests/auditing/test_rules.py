"""Each rule reports what it should, and is silent on a right recipe."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.recipe.conftest import MINI
from tools.mutations.harness import findings_of
from tools.rule_examples import (
    CHANGES,
    NAME,
    NEED_A_WIDE_SET,
    VISION,
    example,
    right_texts,
    sketches,
    text_of,
)
from torchsmith.auditing.finding import Finding
from torchsmith.auditing.rule import all_rules
from torchsmith.auditing.run import audit
from torchsmith.auditing.suppress import RuleSelection
from torchsmith.catalog import builtin_catalog
from torchsmith.core.git import git
from torchsmith.verbs.apply import ApplyRequest, apply

TOML = """format = 1
[[matrix]]
line = "2.10"
python = ["3.13"]
cuda = ["13.0", "cpu"]
sm = ["sm120"]
isa = ["avx512"]
"""
RIGHT = right_texts()
BY_CACHE = right_texts(narrowed=False)


@pytest.mark.parametrize(
    ("rule", "name", "old", "new"), CHANGES, ids=[f"{one[0]}-{i}" for i, one in enumerate(CHANGES)]
)
def test_a_rule_speaks_of_its_mistake_and_of_nothing_right(rule: str, name: str, old: str, new: str) -> None:
    text = right_texts(rule not in NEED_A_WIDE_SET)[name]
    assert old in text, "the recipe no longer has what this test changes"
    before = [
        one.message for one in findings_of(name, text) if one.rule == rule and one.severity.value != "note"
    ]
    assert before == []
    assert rule in {one.rule for one in findings_of(name, text.replace(old, new))}


def test_one_wrong_variable_is_one_finding() -> None:
    text = RIGHT[NAME].replace('gpuArchSM = "12.0"', 'gpuArchSM = "9.0"')
    assert text != RIGHT[NAME]
    [finding] = [one for one in findings_of(NAME, text) if one.rule in ("TS401", "TS601")]
    assert finding.rule == "TS401"
    assert "gpuArchSM" in finding.message


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        ("TS101", NAME.replace("python", "py")),
        ("TS102", f"{NAME}-magma"),
        ("TS103", NAME.replace("13_0", "13.0")),
        ("TS403", NAME.replace("sm120", "sm61")),
        ("TS404", NAME.replace("sm120", "sm121")),
    ],
)
def test_a_rule_speaks_of_a_name(rule: str, name: str) -> None:
    assert rule in {one.rule for one in findings_of(name, RIGHT[NAME])}
    assert rule not in {one.rule for one in findings_of(NAME, RIGHT[NAME])}


CATALOG_STYLE = """{{ python3Packages, lib, cudaPackages }}:
let
  gpuArch = "{arch}"; # {about}
  cpuFlags = [ "-mavx2" "-mfma" "-mf16c" ];
in python3Packages.{attr}.overrideAttrs (oldAttrs: {{
  pname = "pytorch-python313-{cuda}-sm90-avx2";
  preConfigure = ''
    export TORCH_CUDA_ARCH_LIST="${{gpuArch}}"
    export CXXFLAGS="$CXXFLAGS ${{lib.concatStringsSep " " cpuFlags}}"
    export CFLAGS="$CFLAGS ${{lib.concatStringsSep " " cpuFlags}}"
  '';
  meta = oldAttrs.meta // {{ description = "PyTorch for {about}"; platforms = [ "x86_64-linux" ]; }};
}})
"""


def test_recipes_that_take_their_packages_from_flox_are_judged_in_their_own_style() -> None:
    wrong = CATALOG_STYLE.format(arch="sm_90", about="H100, L40S", attr="pytorch", cuda="cuda12_9")
    rules = {one.rule for one in findings_of("pytorch-python313-cuda12_9-sm90-avx2", wrong)}
    assert {"TS402", "TS406", "TS601", "TS407"} <= rules
    assert not {"TS201", "TS205", "TS301", "TS306", "TS405"} & rules
    right = CATALOG_STYLE.format(arch="9.0", about="H100", attr="torch", cuda="cuda12_8")
    told = findings_of("pytorch-python313-cuda12_8-sm90-avx2", right)
    assert {one.rule for one in told if one.severity.value != "note"} == {"TS407", "TS810"}


BY_HAND = """{{ pkgs ? import <nixpkgs> {{ }} }}:
let
  pinned = import (builtins.fetchTarball {{
    url = "https://github.com/NixOS/nixpkgs/archive/{rev}.tar.gz";
  }}) {{ config = {{ allowUnfree = true; cudaSupport = true; }}; }};
  cpuFlags = [ "-mavx2" "-mfma" "-mf16c" ];
in (pinned.python3Packages.torch.override {{
  cudaSupport = true;
  gpuTargets = [ "{sm}" ];
}}).overrideAttrs (old: {{
  pname = "torch-for-us";
  preConfigure = ''
    export CXXFLAGS="${{toString cpuFlags}}" CFLAGS="${{toString cpuFlags}}"{more}
  '';
  meta = old.meta // {{ platforms = [ "x86_64-linux" ]; }};
}})
"""


def test_a_torch_that_is_taken_as_the_pin_has_it_has_no_cuda() -> None:
    rev = builtin_catalog().pins["6a030d5"].rev
    text = """{{ }}: let pinned = import (builtins.fetchTarball {{
      url = "https://github.com/NixOS/nixpkgs/archive/{}.tar.gz";
    }}) {{ system = "x86_64-linux"; config = {{ allowUnfree = true; }}; }};
    in pinned.python313Packages.torch"""
    rules = {
        finding.rule for finding in findings_of("pytorch-python313-cuda12_8-sm90-avx2", text.format(rev))
    }
    assert "TS407" in rules
    asked = text.replace("allowUnfree = true", "allowUnfree = true; cudaSupport = true")
    assert "TS407" not in {
        finding.rule for finding in findings_of("pytorch-python313-cuda12_8-sm90-avx2", asked.format(rev))
    }


def test_a_setting_that_several_imports_lack_is_one_finding() -> None:
    other = '  other = import torchsmithNixpkgs { system = "x86_64-linux"; config.allowUnfree = true; };\n'
    text = RIGHT[NAME].replace("cudaSupport = true;", "", 1)
    text = text.replace("\nlet\n", f"\nlet\n{other}", 1).replace("\nin\n", "\nin assert other != { };\n", 1)
    assert [one.rule for one in findings_of(NAME, text)].count("TS209") == 1


def test_flags_that_are_missing_are_named() -> None:
    text = BY_HAND.format(rev=builtin_catalog().pins["6a030d5"].rev, sm="9.0", more="")
    told = findings_of("pytorch-python313-cuda12_8-sm90-avx512", text.replace("-mavx2", "-mavx512f"))
    (flags,) = (finding.message for finding in told if finding.rule == "TS501")
    assert "-mavx512bw" in flags
    assert "-mavx512f" not in flags.partition(" and have")[0]


def test_an_older_architecture_under_the_name_of_a_newer_one_is_a_warning() -> None:
    name = "pytorch-python313-cuda13_0-sm110-armv9"
    text = RIGHT[name].replace("-march=armv9-a+sve+sve2", "-march=armv8-a+sve+sve2")
    (told,) = (one for one in findings_of(name, text, Path("theirs")) if one.rule == "TS501")
    assert told.severity == "warning"


def test_parts_with_newer_instructions_are_no_certain_crash() -> None:
    name = "pytorch-python313-cuda13_0-sm120-avx"
    text = RIGHT[name].replace("export USE_NNPACK=0", "")
    (told,) = (one for one in findings_of(name, text) if one.rule == "TS504")
    assert (told.severity, told.sure) == ("warning", "likely")


def test_a_recipe_that_states_no_release_is_not_said_to_state_one(tmp_path: Path) -> None:
    rev = builtin_catalog().pins["fe5e41d"].rev
    name = "pytorch-python313-cuda12_8-sm90-avx2"
    folder = tmp_path / "build-pytorch/.flox/pkgs"
    folder.mkdir(parents=True)
    for line, severity in (("", "warning"), ("# torchsmith: line 2.10\n", "error")):
        (folder / f"{name}.nix").write_text(line + BY_HAND.format(rev=rev, sm="9.0", more=""))
        (tmp_path / "torchsmith.toml").write_text(f'format = 1\nline = "2.10"\ninclude = ["{name}"]\n')
        [told] = audit((tmp_path,), choice=RuleSelection(select=("TS803",))).findings
        assert told.severity == severity
        assert ("states" in told.message) is (severity == "error")


@pytest.mark.parametrize(("title", "wrong"), [("AVX-512", False), ("AVX2", True)])
def test_a_description_may_name_the_family_of_the_instruction_set(title: str, wrong: bool) -> None:
    text = BY_HAND.format(rev=builtin_catalog().pins["6a030d5"].rev, sm="9.0", more="")
    described = text.replace("meta // {", f'meta // {{ description = "PyTorch with {title}";')
    assert described != text
    told = findings_of("pytorch-python313-cuda12_8-sm90-avx512bf16", described, Path("theirs"))
    assert ("TS601" in {finding.rule for finding in told}) is wrong


def test_a_companion_that_says_which_torch_it_is_built_with_has_no_note_of_it() -> None:
    assert "TS703" not in {finding.rule for finding in findings_of(VISION, RIGHT[VISION])}
    silent = RIGHT[VISION].replace("    torch = customPytorch;\n    #", "    #")
    assert silent != RIGHT[VISION]
    assert "TS703" in {finding.rule for finding in findings_of(VISION, silent)}


def test_a_version_that_the_source_of_the_pin_is_not_is_noticed() -> None:
    known = next(pin for pin in builtin_catalog().pins.values() if pin.name == "0182a36")
    name, more = "pytorch-python313-cuda12_9-sm90-avx2", '\n    echo "2.10.0" > version.txt'
    told = {
        text: [
            one.rule
            for one in findings_of(name, BY_HAND.format(rev=known.rev, sm="9.0", more=text), Path("/x"))
        ]
        for text in ("", more)
    }
    assert "TS803" not in told[""]
    assert "TS803" in told[more]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "torchsmith.toml").write_text(TOML)
    apply(ApplyRequest(workspace=tmp_path, git=False))
    return tmp_path


def found(path: Path, **more: object) -> dict[str, list[Finding]]:
    report = audit((path,), **more)  # type: ignore[arg-type]
    rules: dict[str, list[Finding]] = {}
    for one in report.findings:
        rules.setdefault(one.rule, []).append(one)
    return rules


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_hand_edit_and_a_copy_are_noticed(workspace: Path) -> None:
    file = workspace / f"build-pytorch/.flox/pkgs/{NAME}.nix"
    copy = file.with_name(NAME.replace("avx512", "avx2") + ".nix")
    copy.write_text(file.read_text())
    edit(file, "maxJobs = 32;", "maxJobs = 16;")
    rules = found(workspace)
    assert [one.where.file for one in rules["TS010"]] == [str(file)]
    assert [one.where.file for one in rules["TS011"]] == [str(copy)]


def test_what_is_no_nix_is_said_once_and_judged_no_further(workspace: Path) -> None:
    file = workspace / f"build-pytorch/.flox/pkgs/{NAME}.nix"
    file.write_text("{ a = ; }")
    rules = found(workspace / "build-pytorch")
    assert [one.where.line for one in rules["TS001"]] == [1]
    assert "TS301" not in rules


def test_names_that_flox_takes_for_one_are_noticed(workspace: Path) -> None:
    folder = workspace / "build-pytorch/.flox/pkgs"
    (folder / f"{NAME.replace('-avx512', '_avx512')}.nix").write_text(RIGHT[NAME])
    assert "TS104" in found(workspace / "build-pytorch")


def test_a_description_may_name_the_release_that_an_override_states(workspace: Path) -> None:
    recipe = next((workspace / "build-pytorch/.flox/pkgs").glob("*cuda*.nix"))
    assert '2.10.0"' in recipe.read_text()
    recipe.write_text(recipe.read_text().replace("2.10.0", "2.10.1"))
    rules = found(recipe)
    assert "TS803" in rules
    assert "TS601" not in rules


@pytest.mark.needs("nix")
def test_derivations_say_what_neither_shows(workspace: Path) -> None:
    folder = workspace / "build-pytorch/.flox/pkgs"
    (folder / "pytorch-python313-cpu-avx2.nix").write_text("{ }: throw ''broken''")
    edit(workspace / f"build-torchvision/.flox/pkgs/{VISION}.nix", 'echo "Parallel Jobs', 'echo "Jobs')
    rules = found(workspace, evaluate=True, trees={"default": MINI})
    assert "TS003" in rules
    assert [Path(one.where.file).stem for one in rules["TS722"]] == [VISION]


@pytest.mark.needs("nix")
def test_a_recipe_whose_nixpkgs_lacks_its_system_is_not_called_broken(tmp_path: Path) -> None:
    shutil.copytree(MINI, tree := tmp_path / "tree")
    default = (tree / "default.nix").read_text()
    refused = 'if localSystem != "x86_64-linux" then throw "no packages here" else lib.fix ('
    (tree / "default.nix").write_text(default.replace("lib.fix (", refused))
    (folder := tmp_path / "recipes").mkdir()
    for name in ("pytorch-python313-cpu-armv9", "pytorch-python313-cpu-avx2"):
        (folder / f"{name}.nix").write_text("{ python3Packages }: python3Packages.torch\n")
    report = audit((folder,), evaluate=True, trees={"default": tree}, choice=RuleSelection(select=("TS003",)))
    [finding] = report.findings
    assert (finding.severity.value, Path(finding.where.file).stem[-5:]) == ("warning", "armv9")
    assert "cannot be used for aarch64-linux: no packages here" in finding.message


@pytest.mark.needs("nix")
def test_derivations_of_a_right_workspace_raise_no_alarm(workspace: Path) -> None:
    rules = found(workspace, evaluate=True, trees={"default": MINI})
    assert {one.severity.value for group in rules.values() for one in group} <= {"note"}


TRIED = {id: files for id, files in sketches().items() if not isinstance(files["wrong"], str)}
BY_NIX = {rule.id for rule in all_rules() if rule.depth == "derivations"}


def write_example(rule: str, kind: str, root: Path) -> None:
    files = TRIED[rule][kind]
    assert not isinstance(files, str)
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("-> "):
            (root / path).symlink_to(text[3:])
        else:
            (root / path).write_text(text_of(path, text))
    git(root, "init", "-q")
    git(root, "add", "-A")


@pytest.mark.parametrize("rule", sorted(TRIED.keys() - BY_NIX))
def test_the_example_of_a_rule_raises_it_and_its_correction_does_not(rule: str, tmp_path: Path) -> None:
    for kind, raised in (("wrong", True), ("right", False)):
        write_example(rule, kind, tmp_path / kind)
        report = audit((tmp_path / kind,), choice=RuleSelection(strict=True))
        assert (rule in {one.rule for one in report.findings}) is raised, kind


@pytest.mark.needs("nix")
@pytest.mark.parametrize("kind", ["wrong", "right"])
def test_the_examples_of_rules_over_derivations_raise_them(kind: str, tmp_path: Path) -> None:
    for rule in BY_NIX:
        write_example(rule, kind, tmp_path / rule)
    roots = tuple(tmp_path / rule for rule in BY_NIX)
    findings = audit(
        roots, evaluate=True, trees={"default": MINI}, choice=RuleSelection(strict=True)
    ).findings
    raised = {(one.rule, Path(one.where.file).relative_to(tmp_path).parts[0]) for one in findings}
    assert {rule for rule, root in raised if rule == root} == (BY_NIX if kind == "wrong" else set())


def test_few_examples_are_sketches() -> None:
    assert sorted(sketches().keys() - TRIED.keys()) == ["TS004"]


def test_every_rule_is_documented_with_a_wrong_and_a_right_example() -> None:
    for one in all_rules():
        assert len(one.documentation) > 40, one.id
        bad, good = example(one)
        assert bad.strip() != good.strip(), one.id
        assert one.title[0].islower() or one.title.startswith(
            ("CUDA", "CMake", "GPU", "MAGMA", "Jetson", "MAX", "Python")
        )


@pytest.mark.parametrize(
    ("rule", "name", "old", "new"),
    [
        ("TS204", NAME, '.tar.gz";\n', f'.tar.gz";\n    sha256 = "{"0" * 52}";\n'),
        ("TS801", NAME, "cmakeFlags =", "flagsForReaders ="),
    ],
)
def test_a_note_on_our_own_recipes_ends_with_its_cause(rule: str, name: str, old: str, new: str) -> None:
    text = RIGHT[name]
    assert old in text
    assert [one.severity.value for one in findings_of(name, text) if one.rule == rule] == ["note"]
    assert rule not in {one.rule for one in findings_of(name, text.replace(old, new))}


def test_a_torch_without_capabilities_for_companions_has_a_note() -> None:
    alone = BY_CACHE[NAME].replace("cudaCapabilities = [ gpuArchSM ];", "")
    assert [one.severity.value for one in findings_of(NAME, alone) if one.rule == "TS409"] == ["note"]


@pytest.mark.needs("nix")
def test_derivations_say_for_which_gpu_and_system_they_are(workspace: Path) -> None:
    vision = workspace / f"build-torchvision/.flox/pkgs/{VISION}.nix"
    edit(vision, "cudaCapabilities = [ gpuArchSM ];", 'cudaCapabilities = map (x: x) [ "9.0" ];')
    torch = workspace / "build-pytorch/.flox/pkgs/pytorch-python313-cpu-avx512.nix"
    edit(torch, 'system = "x86_64-linux";', 'system = builtins.head [ "aarch64-linux" ];')
    edit(torch, 'platforms = [ "x86_64-linux" ]', 'platforms = [ "aarch64-linux" ]')
    phases = workspace / f"build-pytorch/.flox/pkgs/{NAME}.nix"
    edit(phases, "gpuTargets = [ gpuArchSM ];", 'gpuTargets = map (x: x) [ "9.0" ];')
    rules = found(workspace, evaluate=True, trees={"default": MINI})
    assert sorted(Path(one.where.file).stem for one in rules["TS422"]) == [NAME, VISION]
    torch_alone = next(one for one in rules["TS422"] if NAME in one.where.file)
    assert torch_alone.message == "compiles for sm90, the name says sm120"
    assert [Path(one.where.file).stem for one in rules["TS222"]] == [torch.stem]


def test_every_rule_is_tested_by_its_name() -> None:
    text = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    changed = TRIED.keys() | {change[0] for change in CHANGES}
    untested = [rule.id for rule in all_rules() if rule.id not in text]
    assert [id for id in untested if id not in changed] == []


@pytest.mark.parametrize(("sm", "spoken"), [("sm120-avx512", False), ("sm110-armv9", True)])
def test_a_config_stands_in_for_gpu_targets_where_torch_knows_the_gpu(sm: str, spoken: bool) -> None:
    cell = f"python313-cuda13_0-{sm}"
    untold = RIGHT[f"pytorch-{cell}"].replace("gpuTargets = [ gpuArchSM ];", "")
    assert ("TS405" in {one.rule for one in findings_of(f"pytorch-{cell}", untold)}) is spoken
    alone = RIGHT[f"torchvision-{cell}"].replace("cudaCapabilities = [ gpuArchSM ];", "")
    assert ("TS409" in {one.rule for one in findings_of(f"torchvision-{cell}", alone)}) is spoken


def test_a_config_does_not_excuse_several_targets() -> None:
    several = RIGHT[NAME].replace("gpuTargets = [ gpuArchSM ]", 'gpuTargets = [ gpuArchSM "12.0+PTX" ]')
    assert "TS405" in {one.rule for one in findings_of(NAME, several)}


ONNX = """{{ pkgs ? import <nixpkgs> {{ }} }}:
let
  pinned = import (builtins.fetchTarball {{
    url = "https://github.com/NixOS/nixpkgs/archive/{rev}.tar.gz";
  }}) {{ config = {{ allowUnfree = true; cudaSupport = true; }}; }};
in pinned.onnxruntime.overrideAttrs (old: {{
  pname = "onnxruntime-python313-cuda12_9-sm90-avx2";
  src = pinned.fetchFromGitHub {{
    owner = "microsoft"; repo = "onnxruntime"; rev = "v1.23.2"; hash = "{hash}";
  }};
}})
"""


def test_nobody_knows_the_wrong_source_of_a_package_whose_source_nobody_knows() -> None:
    known = next(pin for pin in builtin_catalog().pins.values() if pin.name == "6a030d5")
    text = ONNX.format(rev=known.rev, hash=f"sha256-{'A' * 43}=")
    rules = [one.rule for one in findings_of("onnxruntime-python313-cuda12_9-sm90-avx2", text, Path("/x"))]
    assert rules
    assert "TS905" not in rules


@pytest.mark.parametrize("text", [b"this is { not nix", bytes(range(256))])
def test_a_file_that_is_named_and_is_no_nix_is_an_error_and_one_that_is_met_is_not(
    tmp_path: Path, text: bytes
) -> None:
    (tmp_path / "bad.nix").write_bytes(text)
    (tmp_path / "good.nix").write_text("{ a = 1; }")
    named = audit((tmp_path / "bad.nix", tmp_path / "good.nix"))
    assert [(one.rule, one.severity.value) for one in named.findings] == [("TS001", "error")]
    assert audit((tmp_path,)).findings == ()


def test_repositories_further_down_are_found(tmp_path: Path) -> None:
    for place in ("near", "a/b/far", "node_modules/not", ".hidden/not"):
        (pkgs := tmp_path / place / ".flox/pkgs").mkdir(parents=True)
        (pkgs / f"{NAME}.nix").write_text(RIGHT[NAME])
    assert audit((tmp_path,)).recipes == 2


def test_files_of_installed_python_packages_are_not_read(tmp_path: Path) -> None:
    (installed := tmp_path / "env/lib/python3.13/site-packages/tool").mkdir(parents=True)
    (installed / "torch.nix").write_text("@HEADER@")
    (tmp_path / "own.nix").write_text("{ }")
    assert audit((tmp_path,)).searched == 1


def test_recipes_that_were_just_generated_carry_no_note(tmp_path: Path) -> None:
    (tmp_path / "torchsmith.toml").write_text(TOML)
    apply(ApplyRequest(workspace=tmp_path, git=False))
    report = audit((tmp_path,))
    assert report.recipes
    assert report.findings == ()
