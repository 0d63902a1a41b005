"""Recipes in the manners of other hands: each gets the findings that it deserves, and silence otherwise."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from torchsmith.auditing.finding import Severity, Sure
from torchsmith.auditing.rule import all_rules
from torchsmith.auditing.run import AuditReport, audit
from torchsmith.auditing.suppress import RuleSelection
from torchsmith.core.process import run
from torchsmith.workspace.start import derive_workspace, write_derived

MANNERS = sorted(path for path in (Path(__file__).parent / "other-hands").iterdir() if path.is_dir())


BY_NAME = {path.name: path for path in MANNERS}
PLAIN = next(BY_NAME["pinned-beside-an-unused-argument"].glob("*.nix"))
# What is changed in a plain recipe, and what that deserves.
CHANGED: Mapping[str, tuple[dict[str, str], set[str]]] = {
    "false claims": (
        {"(SM90, Hopper) with AVX-512": "(SM90: H100, L40S) with AVX-512"},
        {"TS601"},
    ),
    "a false generation, in short": ({"(SM90, Hopper) with": "(SM90, Ada) with"}, {"TS601"}),
    "words about other builds": (
        {'with AVX-512";': 'with AVX-512. For small batches use avx512vnni, for BF16 another.";'},
        set(),
    ),
    "no MAGMA on purpose": ({"export CFLAGS": "export USE_MAGMA=0\n      export CFLAGS"}, {"TS305"}),
    "the default of its major": ({"cudaPackages_12_9": "cudaPackages_12"}, {"TS304"}),  # 12.8 at that pin
    "a default that nothing binds": (
        {"{ pkgs ? import <nixpkgs> {} }": "{ cudaSet ? cudaPackages }"},
        {"TS805"},
    ),
    "a file of one machine": ({"= [ gpuArchSM ]": "= import /home/me/gpus.nix"}, {"TS006"}),
    "a file beside the repository": ({"= [ gpuArchSM ]": "= [ (import ../../../gpus.nix) ]"}, {"TS006"}),
    "a file that is not there": ({"= [ gpuArchSM ]": "= [ (import ./gpus.nix) ]"}, {"TS006"}),
    "a file that may be missing": (
        {"= [ gpuArchSM ]": "= if builtins.pathExists ./gpus.nix then import ./gpus.nix else [ gpuArchSM ]"},
        set(),
    ),
}


def judged(folder: Path, **more: object) -> AuditReport:
    return audit((folder,), **more)  # type: ignore[arg-type]


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
    fixed = {
        one.where.file.removeprefix(f"{folder}/")
        for one in judged(folder).findings
        if one.fix and one.fix.safe
    }
    assert fixed <= wrong


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_a_release_that_nothing_tells_is_said_once_and_can_be_told() -> None:
    folder = BY_NAME["pin-that-nobody-knows"]
    told = [one for one in judged(folder).findings if one.rule == "TS210"]
    assert [one.severity for one in told] == [Severity.NOTE]
    known = judged(folder, choice=RuleSelection(line="2.9"))
    assert "TS210" not in {one.rule for one in known.findings}


LATER = ("6a030d535719c5190187c4cec156f335e95e3211", "0182a361324364ae3f436a63005877674cf45efb")


def _repository(manner: str, folder: Path) -> Path:
    """A repository in a manner of public ones."""
    package = "onnxruntime" if manner == "onnxruntime" else "pytorch"
    pkgs = folder / f"build-{package}/.flox/pkgs"
    if manner in BY_NAME:
        shutil.copytree(BY_NAME[manner], pkgs)
        return Path("build-pytorch")
    pkgs.mkdir(parents=True)
    text = PLAIN.read_text().replace("torch.override", f"{package.removeprefix('py')}.override")
    if "later" in manner:
        source = 'version = "2.10.0"; src = pinned.fetchFromGitHub { owner = "pytorch"; }; patches = [ ];'
        text = text.replace(*LATER).replace("pname =", f"{source} pname =")
    (pkgs / PLAIN.name.replace("pytorch", package)).write_text(text.replace("pytorch-", f"{package}-"))
    return Path(f"build-{package}")


@pytest.mark.parametrize(
    "manner",
    [
        "parametric",
        "other-ways-to-configure",
        "defects",
        "torch of the pin",
        "torch from its own source at a later pin",
        "onnxruntime",
    ],
)
def test_the_findings_are_the_same_before_and_after_init(
    manner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = _repository(manner, tmp_path)
    monkeypatch.chdir(tmp_path)
    before = judged(repository)
    derived = derive_workspace([repository])
    write_derived(derived)
    assert bool(derived.pins) is ("later" in manner)  # the workspace then moves the line to that nixpkgs
    after = judged(repository)
    assert [(one.rule, one.where, one.message) for one in after.findings] == [
        (one.rule, one.where, one.message) for one in before.findings
    ]


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
    (folder / PLAIN.name).write_text("# for the H100 (SM90), not AVX2\n" * 40_000 + PLAIN.read_text())
    assert [one.rule for one in judged(tmp_path).findings if one.severity is not Severity.NOTE] == ["TS004"]


@pytest.mark.parametrize("change", CHANGED)
def test_one_change_of_a_plain_recipe_is_told_and_nothing_else(change: str, tmp_path: Path) -> None:
    edits, wanted = CHANGED[change]
    text = PLAIN.read_text()
    for old, new in edits.items():
        assert old in text
        text = text.replace(old, new)
    (folder := tmp_path / ".flox/pkgs").mkdir(parents=True)
    (folder / PLAIN.name).write_text(text)
    assert {line.split()[0] for line in spoken(judged(tmp_path), tmp_path)} == wanted


def test_files_that_git_does_not_know_are_told_where_recipes_that_it_knows_read_them(tmp_path: Path) -> None:
    shutil.copytree(BY_NAME["parametric"], tmp_path / ".flox/pkgs")
    (tmp_path / ".gitignore").write_text("lib/\n")
    run(["git", "init", "-q", tmp_path])
    assert "TS007" not in {one.rule for one in judged(tmp_path).findings}  # nothing is committed yet
    run(["git", "-C", tmp_path, "add", "."])
    told = {
        Path(one.where.file).name: one.message for one in judged(tmp_path).findings if one.rule == "TS007"
    }
    assert set(told) == {"mk.nix", "cpus.nix", "gpus.nix"}
    assert "5 recipes" in told["mk.nix"]
    run(["git", "-C", tmp_path, "add", "-f", "."])
    assert "TS007" not in {one.rule for one in judged(tmp_path).findings}
    shutil.rmtree(tmp_path / ".flox/pkgs/lib")
    missing = [one for one in judged(tmp_path).findings if one.rule == "TS006"]
    assert ["./lib/mk.nix" in one.message for one in missing] == [True] * 5


WHOLE_SET = """let pkgs = import (builtins.fetchTarball {
  url = "https://github.com/NixOS/nixpkgs/archive/1111111111111111111111111111111111111111.tar.gz";
}) {
  config = { allowUnfree = true; cudaSupport = true; cudaCapabilities = [ "10.0" ]; };
  overlays = [ (final: prev: { cudaPackages = final.cudaPackages_12_9; }) ];
};
in pkgs.python312Packages.vllm.overrideAttrs (old: { pname = "vllm"; })
"""


@pytest.mark.parametrize("end", ["arm64", "", "avx2-tuned"])
def test_a_package_set_for_one_gpu_needs_no_torch_of_its_own(end: str, tmp_path: Path) -> None:
    (folder := tmp_path / ".flox/pkgs").mkdir(parents=True)
    (folder / f"vllm-python312-cuda12_9-sm100-{end}.nix".replace("-.", ".")).write_text(WHOLE_SET)
    assert spoken(judged(tmp_path), tmp_path) == set()


def test_a_table_beside_recipes_is_not_a_recipe(tmp_path: Path) -> None:
    (folder := tmp_path / ".flox/pkgs/lib").mkdir(parents=True)
    (folder / "torchvision-metadata.nix").write_text('{ "0.25-313" = { torch = "2.10.0"; }; }\n')
    assert spoken(judged(tmp_path), tmp_path) == set()


def test_a_name_that_rules_cannot_read_is_a_note_that_is_always_shown(tmp_path: Path) -> None:
    (folder := tmp_path / ".flox/pkgs").mkdir(parents=True)
    (folder / "pytorch-python313-cuda12_8-sm86-avx2-v2.nix").write_text(WHOLE_SET)
    [finding] = judged(tmp_path).shown(notes=False).findings
    assert (finding.rule, finding.severity) == ("TS101", Severity.NOTE)
    assert "did not run" in finding.message


TABLE = 'avx = [ "-mavx" ]; avx2 = [ "-mavx2" "-mfma" "-mf16c" ]; avx512 = [ "-mavx512f" ];'


@pytest.mark.parametrize("key", ["avx2", "avx512"])
@pytest.mark.parametrize(
    "flags",
    ["{ TABLE }.KEY", "{ TABLE }.KEY or [ ]", 'let isa = "KEY"; of = { TABLE }; in of.${isa}'],
)
def test_a_table_of_flags_is_judged_by_what_is_taken(flags: str, key: str, tmp_path: Path) -> None:
    text = Path(PLAIN).read_text()
    stated = text[text.index("cpuFlags = [") :].partition(";")[0]
    taken = f"cpuFlags = {flags}".replace("TABLE", TABLE).replace("KEY", key)
    (tmp_path / PLAIN.name.replace("avx512", "avx2")).write_text(text.replace(stated, taken))
    found = [one for one in judged(tmp_path).findings if one.rule == "TS501"]
    assert len(found) == (key != "avx2")


def test_a_table_of_which_only_an_evaluation_knows_the_entry_is_not_judged(tmp_path: Path) -> None:
    text = Path(PLAIN).read_text()
    stated = text[text.index("cpuFlags = [") :].partition(";")[0]
    unknown = f"cpuFlags = {{ {TABLE} }}.${{(import <nixpkgs> {{ }}).isa}}"
    (tmp_path / PLAIN.name).write_text(text.replace(stated, unknown))
    assert "TS501" not in {one.rule for one in judged(tmp_path).findings}


@pytest.mark.parametrize(("package", "found"), [("bitsandbytes", False), ("torch", True)])
def test_cmake_flags_of_other_packages_than_torch_have_an_effect(
    package: str, found: bool, tmp_path: Path
) -> None:
    given = f"pkgs.python312.override {{ packageOverrides = self: super: {{ {package} = super.{package}"
    flags = '.overrideAttrs (old: { cmakeFlags = old.cmakeFlags ++ [ "-DX=1" ]; }); }; }'
    text = WHOLE_SET.replace("pkgs.python312Packages", f"({given}{flags}).pkgs")
    (tmp_path / "vllm-python312-cuda12_9-sm100-avx2.nix").write_text(text)
    assert ("TS801" in {one.rule for one in judged(tmp_path).findings}) is found


def test_what_the_catalogs_lines_build_is_not_said_of_other_recipes(tmp_path: Path) -> None:
    text = "{ python3Packages }: python3Packages.torchaudio.overrideAttrs (old: { })"
    (tmp_path / "torchaudio-python313-cpu-avx2.nix").write_text(text)
    assert "TS403" not in {one.rule for one in judged(tmp_path).findings}


BY_OVERLAY = """let pkgs = import (builtins.fetchTarball {
  url = "https://github.com/NixOS/nixpkgs/archive/6a030d535719c5190187c4cec156f335e95e3211.tar.gz";
}) {
  system = "x86_64-linux";
  config = { allowUnfree = true; cudaSupport = true; cudaCapabilities = [ "9.0" ]; };
  overlays = [ (final: prev: {
    python3Packages = prev.python3Packages.override {
      overrides = pfinal: pprev: {
        torch = (pprev.torch.override { cudaSupport = true; gpuTargets = [ "9.0" ]; }).overrideAttrs (old: {
          preConfigure = (old.preConfigure or "") + ''
            export CFLAGS="-mavx2 -mfma -mf16c" CXXFLAGS="-mavx2 -mfma -mf16c"
          '';
        });
      };
    };
  }) ];
};
in TORCHVISION.overrideAttrs (old: {
  pname = "torchvision-python313-cuda12_8-sm90-avx2";
  propagatedBuildInputs = old.propagatedBuildInputs ++ [ pkgs.python3Packages.torch.out ];
  preConfigure = ''
    export CFLAGS="-mavx2 -mfma -mf16c"
    export CXXFLAGS="-mavx2 -mfma -mf16c"
  '';
  meta = old.meta // { platforms = [ "x86_64-linux" ]; };
})
"""


@pytest.mark.parametrize("arguments", ["", ".override { torch = pkgs.python3Packages.torch; }"])
def test_an_overlay_may_make_the_torch_of_a_companion(arguments: str, tmp_path: Path) -> None:
    (folder := tmp_path / ".flox/pkgs").mkdir(parents=True)
    package = f"(pkgs.python3Packages.torchvision{arguments})"
    text = BY_OVERLAY.replace("TORCHVISION", package)
    (folder / "torchvision-python313-cuda12_8-sm90-avx2.nix").write_text(text)
    assert {one.split()[0] for one in spoken(judged(tmp_path), tmp_path)}.isdisjoint({"TS303", "TS702"})


CALLS = WHOLE_SET.replace("in pkgs", "cpu = (import ./lib/cpus.nix).KEY; in import ./lib/torch.nix cpu pkgs")


@pytest.mark.parametrize(("key", "told"), [("avx2", False), ("avx512", True)])
def test_a_table_is_followed_and_a_function_of_another_file_is_said_to_be_not(
    key: str, told: bool, tmp_path: Path
) -> None:
    (folder := tmp_path / ".flox/pkgs/lib").mkdir(parents=True)
    flags = 'avx2.flags = [ "-mavx2" "-mfma" "-mf16c" ]; avx512.flags = [ "-mavx512f" ];'
    (folder / "cpus.nix").write_text(f"{{ {flags} }}")
    (folder / "torch.nix").write_text("cpu: pkgs: pkgs.torch")
    (folder.parent / "vllm-python312-cuda12_9-sm100-avx2.nix").write_text(CALLS.replace("KEY", key))
    report = judged(tmp_path)
    assert ("TS501" in {one.rule for one in report.findings}) is told
    [called] = [one for one in report.shown(notes=False).findings if one.rule == "TS014"]
    assert called.message.startswith("./lib/torch.nix is a function")
    assert called.where.line
