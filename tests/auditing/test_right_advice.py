"""What a finding advises is right: it fits the place, does not contradict another finding, and is as
severe as the mistake."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tools.mutations.harness import findings_of
from tools.rule_examples import CHANGES, CPU, NAME, ROCM, VISION, right_texts
from torchsmith.auditing.finding import Finding, Severity
from torchsmith.auditing.rule import rules_called
from torchsmith.auditing.run import audit
from torchsmith.auditing.suppress import RuleSelection
from torchsmith.catalog import builtin_catalog

RIGHT = right_texts()
ARM = "pytorch-python313-cuda13_0-sm110-armv9"
WIDE = right_texts(narrowed=False)
PINS = builtin_catalog().pins
AVX512 = "-mavx512f -mavx512dq -mavx512vl -mavx512bw -mfma"


def told(name: str, *changes: tuple[str, str], texts: dict[str, str] = RIGHT) -> list[Finding]:
    """What is said of a right recipe with changes, but for notes and for what is said of the right one."""
    text = texts[name]
    known = {(one.rule, one.message) for one in findings_of(name, text)}
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    found = [one for one in findings_of(name, text) if (one.rule, one.message) not in known]
    return [one for one in found if one.severity is not Severity.NOTE]


def flags_of(name: str, flags: str, texts: dict[str, str] = RIGHT) -> list[Finding]:
    """What TS501 says of a recipe with a list of flags."""
    text = re.sub(
        r"cpuFlags = \[.*?\]",
        f"cpuFlags = [ {' '.join(f'{chr(34)}{flag}{chr(34)}' for flag in flags.split())} ]",
        texts[name],
        count=1,
        flags=re.DOTALL,
    )
    return [one for one in findings_of(name, text) if one.rule == "TS501"]


def test_a_setting_that_nixpkgs_lacks_is_not_taken_for_the_target_of_rocm() -> None:
    [finding] = told(ROCM, ("rocmSupport = true;", 'rocmSupport = true; gpuTargets = [ "gfx1030" ];'))
    assert finding.rule == "TS811"


@pytest.mark.parametrize(
    "new",
    ["rocmPackages.${gfx}", "rocmPackages.gfx1100.extend (a: b: { })"],
    ids=["interpolated", "extended"],
)
def test_a_target_of_rocm_may_be_named_in_other_ways(new: str) -> None:
    with_name = ("  cpuFlags = [", '  gfx = "gfx1100";\n  cpuFlags = [')
    assert told(ROCM, with_name, ("prev.rocmPackages.gfx1100", f"prev.{new}")) == []


@pytest.mark.parametrize(
    ("target", "hint", "severity"), [("90", "use 120", Severity.ERROR), ("12.0", "", Severity.WARNING)]
)
def test_cmake_gets_its_own_notation(target: str, hint: str, severity: Severity) -> None:
    [finding] = told(NAME, ("export TERM=dumb", f"export CMAKE_CUDA_ARCHITECTURES={target}"))
    assert (finding.hint, finding.severity) == (hint, severity)
    assert hint or "takes 120" in finding.message


TWO_USES = """{ python3Packages, lib, cudaPackages }:
let gpuArch = "TARGET";
in (python3Packages.torch.override { cudaSupport = true; inherit cudaPackages; }).overrideAttrs (old: {
  pname = "pytorch-python313-cuda12_8-sm86-avx2";
  preConfigure = old.preConfigure + ''
    export TORCH_CUDA_ARCH_LIST="${gpuArch}"
    export CMAKE_CUDA_ARCHITECTURES="${lib.removePrefix "sm_" gpuArch}"
    export CXXFLAGS="-mavx2 -mfma -mf16c" CFLAGS="-mavx2 -mfma -mf16c"
  '';
  meta = old.meta // { platforms = [ "x86_64-linux" ]; };
})
"""


@pytest.mark.parametrize(
    ("target", "messages"),
    [
        ("sm_86", ["TORCH_CUDA_ARCH_LIST is written sm_86, it takes 8.6"]),
        ("8.6", ["CMAKE_CUDA_ARCHITECTURES is written 8.6, it takes 86"]),
        (
            "sm_90",
            ["gpuArch is sm_90, the name says sm86", "TORCH_CUDA_ARCH_LIST is written sm_90, it takes 8.6"],
        ),
    ],
)
def test_a_variable_of_two_uses_is_corrected_where_it_is_wrong(target: str, messages: list[str]) -> None:
    found = findings_of("pytorch-python313-cuda12_8-sm86-avx2", TWO_USES.replace("TARGET", target))
    targets = [one for one in found if one.rule in ("TS401", "TS402")]
    assert [one.message for one in targets] == messages
    assert [one.hint for one in targets if one.rule == "TS401"] in ([], [""])


def test_a_wrong_target_is_shown_where_it_is_written() -> None:
    text = TWO_USES.replace("gpuArch =", "gpuArchNum =").replace("TARGET", "8.9")
    text = text.replace("inherit cudaPackages;", "gpuTargets = [ gpuArchNum ];")
    found = [one for one in findings_of("pytorch-python313-cuda12_8-sm86-avx2", text) if one.rule == "TS401"]
    assert (found[0].source, found[0].hint) == ('let gpuArchNum = "8.9";', "use 8.6")
    assert found[0].fix is not None


@pytest.mark.parametrize("old", ["old", "oldAttrs"])
def test_what_is_replaced_is_extended_by_the_recipes_own_name(old: str) -> None:
    text = TWO_USES.replace("TARGET", "8.6").replace("old.preConfigure +", "").replace("old", old)
    found = findings_of("pytorch-python313-cuda12_8-sm86-avx2", text)
    assert [one.hint for one in found if one.rule == "TS810"] == [f"extend {old}.preConfigure"]


def test_targets_as_an_attribute_of_torch_do_not_replace_gpu_targets() -> None:
    text = '{ python3Packages }: python3Packages.torch.overrideAttrs { TORCH_CUDA_ARCH_LIST = "9.0"; }\n'
    assert "TS405" in [one.rule for one in findings_of("pytorch-python313-cuda13_0-sm90-avx2", text)]


def test_a_cuda_that_the_pin_lacks_is_not_advised() -> None:
    wrong = [(PINS["6a030d5"].rev, PINS["fe5e41d"].rev), ("final.cudaPackages_13_0", "final.cudaPackages_13")]
    found = {one.rule: one for one in told(NAME, *wrong)}
    assert "no CUDA 13.0" in found["TS201"].message
    assert PINS["6a030d5"].rev in found["TS201"].hint
    assert "TS304" not in found


def test_a_misspelt_argument_is_named_with_the_right_one() -> None:
    text = '{ python3Packages }: python3Packages.torch.override { gpuTarget = [ "9.0" ]; }\n'
    found = [one for one in findings_of("pytorch-python313-cuda13_0-sm90-avx2", text) if one.rule == "TS405"]
    assert [one.hint for one in found] == ["gpuTarget is not an argument of torch: write gpuTargets"]
    assert found[0].where.column == text.index("[") + 1


def test_a_version_without_its_source_is_an_error_also_if_the_release_is_not_known() -> None:
    text = '{ python3Packages }: python3Packages.torch.overrideAttrs { version = "2.99.0"; }\n'
    found = [one for one in findings_of("pytorch-python313-cuda13_0-sm90-avx2", text) if one.rule == "TS803"]
    assert [one.severity for one in found] == [Severity.ERROR]


@pytest.mark.parametrize("sm", ["sm12", "sm130"])
def test_a_gpu_that_no_catalog_knows_is_one_message(sm: str) -> None:
    [finding] = [
        one for one in findings_of(NAME.replace("sm120", sm), RIGHT[NAME]) if one.severity is Severity.ERROR
    ]
    assert (finding.rule, "sm120" in finding.hint) == ("TS403", True)
    assert "TS601" not in [one.rule for one in findings_of(NAME.replace("sm120", sm), RIGHT[NAME])]
    later = RIGHT[NAME].partition("\n")[2].replace('"12.0"', '"13.0"').replace("sm120", "sm130")
    found = findings_of(NAME.replace("sm120", "sm130"), later, Path("theirs"))
    assert Severity.ERROR not in [one.severity for one in found]


def test_a_merge_conflict_is_named(tmp_path: Path) -> None:
    text = (
        RIGHT[NAME]
        .replace("  gpuArchSM", "<<<<<<< HEAD\n=======\n  gpuArchSM")
        .replace("in\n", ">>>>>>> other\nin\n")
    )
    for name in (f"{NAME}.nix", "torch.nix"):
        (tmp_path / name).write_text(text)
    findings = audit((tmp_path,)).findings
    assert [(one.rule, one.message) for one in findings] == [
        ("TS001", "a merge conflict is not resolved")
    ] * 2
    assert "<<<<<<<" in text.splitlines()[(findings[0].where.line or 0) - 1]


@pytest.mark.parametrize(
    "change", [("30d5", "3d05"), ("53571", "5357l"), ("53571", "5371"), ("53571", "535711")]
)
def test_a_mistyped_revision_is_an_error_with_the_right_one(change: tuple[str, str]) -> None:
    rev = PINS["6a030d5"].rev
    [finding] = [one for one in told(NAME, (rev, rev.replace(*change))) if one.rule in ("TS201", "TS205")]
    assert (finding.rule, finding.severity, rev in finding.hint) == ("TS201", Severity.ERROR, True)


def test_an_abbreviated_revision_is_not_mistyped() -> None:
    rev = PINS["6a030d5"].rev
    assert [one.rule for one in told(NAME, (rev, rev[:-1]))] == ["TS205"]


def test_flags_that_the_shell_does_not_export_do_not_reach_the_compiler() -> None:
    unexported = ("export CXXFLAGS=", "CXXFLAGS=")
    assert [one.rule for one in told(NAME, unexported)] == ["TS502"]
    assert told(NAME, unexported, ("export CFLAGS=", "export CXXFLAGS\n        export CFLAGS=")) == []


LINE = 'export CXXFLAGS="-I/build/cccl-compat'  # after the one that passes the flags


@pytest.mark.parametrize("line", [f'{LINE}"', f'{LINE} $CXXFLAG"', f'if true; then\n{LINE}"\nfi'])
def test_a_later_line_that_drops_the_flags_is_a_warning_in_its_place(line: str) -> None:
    [finding] = told(NAME, ("export TERM=dumb", line))
    assert (finding.rule, finding.severity) == ("TS502", Severity.WARNING)
    assert finding.source.strip().startswith(LINE)


@pytest.mark.parametrize(
    "line",
    [
        f'{LINE} $CXXFLAGS"',
        f"{LINE} ''${{CXXFLAGS:-}}\"",
        f'{LINE} \\\n  $CXXFLAGS"',
        """export CXXFLAGS='-I/build'" $CXXFLAGS\"""",
        f'before="$CXXFLAGS"\n{LINE} $before"',
        'CXXFLAGS+=" -I/build"',
        'export CFLAGS="$CXXFLAGS"',
        'export CFLAGS="$CXXFLAGS"; export CXXFLAGS="$CFLAGS -O3"',
        'CXXFLAGS="-O1" make -C tools',
    ],
)
def test_a_later_line_may_keep_the_flags_in_many_ways(line: str) -> None:
    assert "TS502" not in [one.rule for one in told(NAME, ("export TERM=dumb", line))]


def without_effect(text: str) -> int:
    found = findings_of("pytorch-python313-cuda12_8-sm86-avx2", text)
    return [one.rule for one in found].count("TS502")


@pytest.mark.parametrize("between", ["", "\\\n     "])
@pytest.mark.parametrize("quote", ['"', "'"])
def test_one_export_may_set_several_variables(between: str, quote: str) -> None:
    text = TWO_USES.replace("TARGET", "8.6").replace(" CFLAGS=", f" {between}CFLAGS=")
    text = text.replace('"-mavx2 -mfma -mf16c"', f"{quote}-mavx2 -mfma -mf16c{quote}")
    assert without_effect(text) == 0
    assert without_effect(re.sub(r"(?<!X)CFLAGS=.*", "CFLAGS=-O3", text)) == 1


ATTRIBUTES = [
    'env = (old.env or { }) // { NIX_CFLAGS_COMPILE = (old.env.NIX_CFLAGS_COMPILE or "") + " FLAGS"; };',
    'env = old.env // { NIX_CFLAGS_COMPILE = toString ([ "-O3" ] ++ march); };',
    "env = old.env // { CXXFLAGS = toString march; CFLAGS = toString march; };",
    'CXXFLAGS = lib.concatStringsSep " " march; CFLAGS = "FLAGS";',
]


@pytest.mark.parametrize("attributes", ATTRIBUTES)
@pytest.mark.parametrize("flags", ["-mavx2 -mfma -mf16c", "-O3"])
def test_attributes_have_flags_whatever_their_list_is_called(attributes: str, flags: str) -> None:
    phase = re.compile(r"preConfigure = .*?'';\n", re.DOTALL)
    march = " ".join(f'"{flag}"' for flag in flags.split())
    text = phase.sub(attributes.replace('FLAGS"', '${toString march}"'), TWO_USES)
    text = text.replace("let gpuArch =", f"let march = [ {march} ]; gpuArch =").replace("TARGET", "8.6")
    assert bool(without_effect(text)) == (flags == "-O3")


@pytest.mark.parametrize("phase", ["old.preConfigure + flagged", "''\n ${flagged}\n''"])
@pytest.mark.parametrize("flag", ["-mavx2", "-O3"])
def test_a_phase_has_the_flags_of_a_text_that_it_names(phase: str, flag: str) -> None:
    text = re.sub(r"preConfigure = .*?'';", lambda _: f"preConfigure = {phase};", TWO_USES, flags=re.DOTALL)
    snippet = f"""flagged = ''\n  export NIX_CFLAGS_COMPILE+=" {flag}"\n'';"""
    text = text.replace("let gpuArch =", f"let {snippet} gpuArch =").replace("TARGET", "8.6")
    assert bool(without_effect(text)) == (flag == "-O3")


def test_a_card_may_be_in_a_machine_that_the_catalog_does_not_know() -> None:
    name = "pytorch-python313-cuda12_8-sm70-armv8_2"
    [finding] = [one for one in findings_of(name, RIGHT[NAME]) if one.rule == "TS404"]
    assert "the catalog knows no" in finding.message


def test_a_version_that_stays_the_pins_is_reported_once() -> None:
    echoed = ("Version: $PYTORCH_BUILD_VERSION", "Version")
    found = told(NAME, ("export PYTORCH_BUILD_VERSION=${oldAttrs.version}", ""), echoed)
    assert [one.rule for one in found] == ["TS306"]
    assert found[0].where.line
    assert "-DTORCH" not in found[0].hint


def test_a_cuda_that_a_pin_lacks_is_in_another_whatever_release_is_built() -> None:
    url = f"https://github.com/NixOS/nixpkgs/archive/{PINS['fe5e41d'].rev}.tar.gz"
    text = f'{{ }}: (import (fetchTarball {{ url = "{url}"; }}) {{ }}).python3Packages.torch'
    [finding] = [one for one in findings_of(NAME, text) if one.rule == "TS201"]
    having = [pin.rev for pin in PINS.values() if "13.0" in map(str, pin.cudas)]
    assert any(rev in finding.hint for rev in having)


@pytest.mark.parametrize(
    ("name", "old", "new", "rule", "place"),
    [
        (
            VISION,
            "propagatedBuildInputs = ",
            "nativeCheckInputs = ",
            "TS703",
            "pkgs.python3Packages.torchvision",
        ),
        (NAME, "broken = false;", "", "TS306", "pkgs.python3Packages.torch.override"),
        (NAME, "export CXXFLAGS=", "export CXXFLAG=", "TS502", "cpuFlags = ["),
        (VISION, "cudaCapabilities = [ gpuArchSM ];", "", "TS409", "pkgs.python3Packages.torch.override"),
        (NAME, "allowUnfree = true;", "", "TS208", "cudaSupport = true;"),
        (NAME, "cudaSupport = true;\n      cudaCap", "cudaCap", "TS209", "allowUnfree = true;"),
    ],
)
def test_a_finding_is_beside_the_code_that_it_is_about(
    name: str, old: str, new: str, rule: str, place: str
) -> None:
    texts = WIDE if rule == "TS409" else RIGHT
    [finding] = [one for one in told(name, (old, new), texts=texts) if one.rule == rule]
    assert place in finding.source


@pytest.mark.parametrize(
    ("flags", "severity"),
    [
        (AVX512, None),
        (f"{AVX512} -O3 -mtune=haswell", None),
        (AVX512.replace("-mavx512f", "-mavx2"), Severity.NOTE),
        (f"{AVX512} -mavx2", Severity.NOTE),
        ("-march=skylake-avx512", Severity.WARNING),
        (f"-march=haswell {AVX512}", Severity.WARNING),
        ("-march=haswell", Severity.ERROR),
        (AVX512.replace("-mfma", ""), Severity.ERROR),
        (f"{AVX512} -mavx512fp16", Severity.ERROR),
        (f"{AVX512} -mno-avx2", Severity.ERROR),
        ("-mavx2 -fno-plt", Severity.ERROR),
    ],
)
def test_flags_are_judged_by_what_they_switch_on(flags: str, severity: Severity | None) -> None:
    assert [one.severity for one in flags_of(NAME, flags)] == ([severity] if severity else [])


@pytest.mark.parametrize(
    ("name", "flags", "right"),
    [
        (NAME, f"{AVX512} -march=skylake-avx521", "skylake-avx512"),
        (NAME, f"-march=armv8.2-a {AVX512}", ""),
        (ARM, "-march=armv8.2-a+fp16+dotprd", "dotprod"),
        (ARM, "-march=armv8.2a+fp16+dotprod", "armv8.2-a"),
    ],
)
def test_a_name_that_gcc_does_not_know_is_an_error_with_the_nearest(
    name: str, flags: str, right: str
) -> None:
    [finding] = flags_of(name, flags)
    assert (finding.severity, right in finding.hint) == (Severity.ERROR, True)
    [rev] = {pin.rev for pin in PINS.values() if pin.rev in RIGHT[name]}
    elsewhere = {name: RIGHT[name].replace(rev, rev[::-1])}
    [finding] = flags_of(name, flags, elsewhere)
    assert finding.severity is Severity.WARNING  # its gcc may be newer


@pytest.mark.needs("cross-gcc")
@pytest.mark.parametrize("platform", ["x86_64-linux", "aarch64-linux"])
def test_the_catalog_has_every_name_that_gcc_lists(platform: str) -> None:
    compiler = builtin_catalog().compilers[platform]
    for wrong, known in (("wrong", compiler.march), ("armv8-a+wrong", compiler.extensions)):
        command = [f"{platform}-gnu-gcc", f"-march={wrong}", "-xc", "-S", "-o-", "/dev/null"]
        said = subprocess.run(
            command, env={**os.environ, "LC_ALL": "C"}, capture_output=True, text=True
        ).stderr
        listed = re.findall(r"valid arguments .*?are: ([^;\n]*)", said)
        assert known == () or (listed and {*listed[0].split()} <= {*known})


def test_no_finding_is_worse_than_its_rule_says() -> None:
    rules = [*CHANGES, ("TS506", CPU, "export TERM=dumb", "export USE_CUDA=0")]
    for rule, name, old, new in rules:
        for text in (RIGHT[name], WIDE[name]):
            for one in findings_of(name, text.replace(old, new), Path("theirs")):
                assert one.severity.rank >= rules_called(one.rule)[0].worst.rank, (rule, one)


DESCRIBED = """{ python3Packages }:
python3Packages.torch.overrideAttrs (old: {
  meta = old.meta // {
    description = DESCRIPTION;
  };
})
"""


@pytest.mark.parametrize(
    ("description", "source"),
    [
        ('"PyTorch for L40S"', 'description = "PyTorch for L40S";'),
        ("''\n      PyTorch\n      for L40S\n    ''", "for L40S"),
        ('let card = "L40S"; in\n      "PyTorch for ${card}"', 'description = let card = "L40S"; in'),
    ],
    ids=["a line", "several lines", "interpolated"],
)
def test_a_false_claim_is_placed_at_its_word(description: str, source: str) -> None:
    text = DESCRIBED.replace("DESCRIPTION", description)
    [finding] = [one for one in findings_of(NAME, text) if one.rule == "TS601"]
    assert finding.source.strip() == source
    assert finding.message == "the description names L40S; the recipe is for sm120"
    assert finding.hint == "L40S is sm89"
    column = text.splitlines()[finding.where.line - 1].index("L40S") + 1
    assert finding.where.column == column


def test_a_false_claim_that_a_wrapper_passes_is_placed_in_the_wrapper(tmp_path: Path) -> None:
    shared = DESCRIBED.replace("DESCRIPTION", '"PyTorch for ${card}"').replace("{ py", "{ card, py")
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared/torch.nix").write_text(shared)
    recipe = tmp_path / f"{NAME}.nix"
    passed = '{ inherit python3Packages; card = "L40S"; }'
    recipe.write_text(f"{{ python3Packages }}:\nimport ./shared/torch.nix {passed}")
    [finding] = audit((recipe,), choice=RuleSelection(select=("TS601",))).findings
    assert (Path(finding.where.file).name, finding.where.line) == (recipe.name, 2)


OF_ANOTHER_FILE = """{ }:
let pkgs = import (fetchTarball "https://github.com/NixOS/nixpkgs/archive/REV.tar.gz") { }; in
pkgs.python3Packages.torchvision.override { torch = import ./torch.nix; }
"""


@pytest.mark.parametrize(
    ("pins", "hint"),
    [
        (["0182a36"], "the comment # torchsmith: line 2.9 states it"),
        (
            ["0182a36", "0182a36"],
            "--line 2.9 states it for all of them, the comment # torchsmith: line 2.9 for one",
        ),
        (
            ["0182a36", "fe5e41d"],
            "--line LINE states it for all of them, the comment # torchsmith: line LINE for one",
        ),
    ],
)
def test_the_line_to_state_is_that_of_the_torch_of_its_nixpkgs(
    pins: list[str], hint: str, tmp_path: Path
) -> None:
    (tmp_path / "torch.nix").write_text("{ }")
    for gpu, pin in zip(("sm80", "sm90"), pins, strict=False):
        recipe = tmp_path / f"torchvision-python313-cuda12_8-{gpu}-avx2.nix"
        recipe.write_text(OF_ANOTHER_FILE.replace("REV", PINS[pin].rev))
    [finding] = audit((tmp_path,), choice=RuleSelection(select=("TS210",))).findings
    assert finding.hint == hint
    assert finding.where.file.endswith("sm80-avx2.nix") is (len(pins) == 1)


def test_a_hash_that_is_right_is_not_to_be_replaced_by_itself() -> None:
    [finding] = told(NAME, ('rev = "v${version}"', 'rev = "main"'))
    assert finding.rule == "TS905"


@pytest.mark.parametrize(
    ("new", "rules"),
    [
        ('env.NIX_CFLAGS_COMPILE = "-O3";', ["TS810"]),
        ('env = oldAttrs.env // { A = "1"; };', []),
        ("patches = [ ./a.patch ];", ["TS810"]),
        ("patches = oldAttrs.patches ++ [ ./a.patch ];", []),
        ("passthru.a = 1;", ["TS810"]),
    ],
)
def test_what_torch_has_in_nixpkgs_is_not_replaced(new: str, rules: list[str]) -> None:
    found = told(ROCM, ("  pname = ", f"  {new} pname = "))
    assert [one.rule for one in found if one.rule != "TS006"] == rules


def test_patches_of_another_source_may_be_dropped_in_another_override() -> None:
    assert told(NAME, ("      pname = ", "      patches = [ ]; pname = ")) == []


def test_a_cpu_recipe_for_another_system_is_an_error_and_one_more_without_flags_a_warning() -> None:
    mac, text = (
        "pytorch-python313-darwin-mps",
        "{ torch }: torch.overrideAttrs { meta.platforms = [ LIST ]; }",
    )
    severities = [
        [one.severity for one in findings_of(mac, text.replace("LIST", platforms)) if one.rule == "TS505"]
        for platforms in ('"aarch64-darwin"', '"aarch64-darwin" "x86_64-darwin"', '"x86_64-darwin"')
    ]
    assert severities == [[], [Severity.WARNING], [Severity.ERROR]]
    [finding] = told(CPU, ('"x86_64-linux" ]', '"x86_64-linux" "aarch64-linux" ]'))
    assert finding.severity is Severity.ERROR


def test_gpu_targets_in_a_recipe_for_the_cpu_are_one_finding() -> None:
    [finding] = told(CPU, ("cudaSupport = false;", 'cudaSupport = false; gpuTargets = [ "12.0" ];'))
    assert finding.rule == "TS408"
