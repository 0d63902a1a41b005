"""Nix files without a naming scheme: overlays, flakes, package functions, modules, shells."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Call
from torchsmith.auditing.finding import Finding, Severity, fixed
from torchsmith.auditing.rule import all_rules, wanted_by
from torchsmith.auditing.run import AuditReport, audit
from torchsmith.core.process import find, run
from torchsmith.recipe.read import Recipe, read_recipe
from torchsmith.recipe.read.open import Asker
from torchsmith.workspace.subject import FACTS, Subject

HELLO = '{ stdenv }: stdenv.mkDerivation { name = "hello"; }\n'


def judged(root: Path, **files: str) -> AuditReport:
    for name, text in files.items():
        path = root / f"{name.replace('__', '/').replace('_', '-')}.nix"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return audit((root,))


def told(report: AuditReport) -> list[str]:
    """The rules that speak, each with its severity, but for notes."""
    return [f"{one.rule} {one.severity}" for one in report.findings if one.severity is not Severity.NOTE]


def only(report: AuditReport, rule: str) -> Finding:
    (found,) = [one for one in report.findings if one.rule == rule]
    return found


@pytest.mark.parametrize("name", ["default", "pytorch-cuda", "torch.overlay", "0-torch"])
def test_names_of_files_that_flox_does_not_build_are_nobodys_business(name: str, tmp_path: Path) -> None:
    (tmp_path / f"{name}.nix").write_text("final: prev: { torch = prev.torch; }\n")
    assert told(audit((tmp_path,))) == []


def test_a_file_is_named_after_its_folder_also_where_that_is_the_one_we_are_in(
    tmp_path: Path, call: Call
) -> None:
    (tmp_path / "default.nix").write_text("{ torch }: torch\n")
    (done := call("audit", ".", cwd=tmp_path))
    assert (done.code, done.out.splitlines()[0].split(":")[0]) == (
        0,
        "1 Nix file read, 1 concerns torch or CUDA (checked by text)",
    )


def test_a_flox_name_that_begins_with_a_digit_gets_another_one(tmp_path: Path) -> None:
    finding = only(judged(tmp_path, **{".flox__pkgs__0torch": HELLO}), "TS103")
    assert "_0torch" in finding.hint


PACKAGES = """{ python3Packages, pkgs }: {
  a = python3Packages.pytorch-metric-learning;
  b = python3Packages.pytorch-lightning.overridePythonAttrs (old: { doCheck = false; });
  c = "python3Packages.pytorch is gone";
  d = python3Packages.PYTORCH;
}
"""


def test_only_the_attribute_pytorch_is_renamed(tmp_path: Path) -> None:
    lock(tmp_path, 1764000000)
    report = judged(tmp_path, packages=PACKAGES.replace("PYTORCH", "pytorch"))
    finding = only(report, "TS406")
    assert finding.where.line == 5
    ((change,), _) = fixed(report.findings)
    assert change.after == PACKAGES.replace("PYTORCH", "torch")


TESTED = """{ torch }: torch.overrideAttrs (old: {
  patches = (old.patches or [ ]) ++ [ PATCH ];
  passthru = old.passthru // { tests.gpu = TEST; };
})
"""


def test_a_missing_file_that_no_build_reads_is_a_warning(tmp_path: Path) -> None:
    (pkgs := tmp_path / ".flox/pkgs").mkdir(parents=True)
    file = pkgs / "torch.nix"
    file.write_text(TESTED.replace("PATCH", "").replace("TEST", "./gone.nix"))
    assert only(audit((tmp_path,)), "TS006").severity is Severity.WARNING
    file.write_text(TESTED.replace("PATCH", "./gone.patch").replace("TEST", "{ }"))
    assert only(audit((tmp_path,)), "TS006").severity is Severity.ERROR


SOURCE = """{ fetchurl, torch }:
torch.overrideAttrs { src = fetchurl { url = "https://example.org/x"; hash = "%s"; }; }
"""
DIGEST = "RKiZLHBCneMtZKRgTEuW1K7+Jpi+tx11BMXuS1jC1xQ"


@pytest.mark.parametrize(
    ("hash", "wrong"),
    [
        (f"sha256-{DIGEST}", False),
        (f"sha256-{DIGEST}=", False),
        (f"sha256:{DIGEST}=", False),
        (f"{DIGEST}=", False),
        (f"sha512-{'A' * 85}Q==", False),
        (f"sha256-{DIGEST[:-1]}", True),
        ("sha256-" + "A" * 43, True),
    ],
)
def test_hashes_are_read_as_nix_reads_them(hash: str, wrong: bool, tmp_path: Path) -> None:
    assert ("TS902 error" in told(judged(tmp_path, source=SOURCE % hash))) == wrong


def test_files_below_are_read_and_counted_by_what_they_concern(tmp_path: Path, call: Call) -> None:
    report = judged(tmp_path, a__b__hello=HELLO, a__overlay="final: prev: { torch = prev.torch; }", c=HELLO)
    assert (report.searched, report.concerned, report.named, report.recipes) == (3, 1, 0, 0)
    document = json.loads(call("audit", ".", "--json", cwd=tmp_path).out)
    assert [document[name] for name in ("searched", "concerned", "named")] == [3, 1, 0]


def test_a_checkout_without_torch_is_fine_and_one_without_nix_is_a_wrong_request(
    tmp_path: Path, call: Call
) -> None:
    done = call("audit", ".", cwd=tmp_path)
    assert done.code == 2
    judged(tmp_path, a__b__hello=HELLO)
    done = call("audit", ".", cwd=tmp_path)
    assert (done.code, "none concerns torch" in done.out) == (0, True)


def test_text_in_comments_make_no_file_concern_torch(tmp_path: Path) -> None:
    assert judged(tmp_path, x="# torch and cudaSupport = true;\n{ a = 1; }").concerned == 0


def test_files_that_git_ignores_are_not_read(tmp_path: Path) -> None:
    run(["git", "init", "-q", tmp_path])
    (tmp_path / ".gitignore").write_text("copies/\n")
    overlay = "final: prev: { torch = prev.torch; }"
    assert judged(tmp_path, copies__overlay=overlay, overlay=overlay).searched == 1


def test_syntax_that_this_reader_does_not_know_is_no_error_of_the_file(tmp_path: Path) -> None:
    report = judged(tmp_path, piped="{ torch }: [ torch ] |> map (one: one)", broken="{ torch }: = torch")
    unread = {Path(one.where.file).name: one.severity for one in report.findings if one.rule == "TS001"}
    certain = find("nix-instantiate") is not None  # Nix has the last word, if it is installed
    wanted = Severity.ERROR if certain else Severity.WARNING
    assert unread == {"piped.nix": Severity.NOTE, "broken.nix": wanted}


def test_align_says_which_repository_has_no_named_recipe(tmp_path: Path, call: Call) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "overlay.nix").write_text("final: prev: { torch = prev.torch; }")
    done = call("align", "one", "two", "--json", cwd=tmp_path)
    message = json.loads(done.out)["error"]["message"]
    assert (done.code, "one, two" in message, "two or more" in message) == (2, True, False)


def test_rules_ask_for_what_a_recipe_can_tell() -> None:
    for one in all_rules():
        if one.over == "recipe":
            assert set(wanted_by(one.check)) <= {Subject} | FACTS.keys(), one.id


def test_only_files_with_a_word_of_torch_or_cuda_are_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(40):
        (tmp_path / f"hello{number}.nix").write_text(HELLO)
    (tmp_path / "overlay.nix").write_text("final: prev: { torch = prev.torch; }")
    parsed: list[str] = []

    def read(path: Path, **more: Asker) -> Recipe:
        parsed.append(path.name)
        return read_recipe(path, **more)

    monkeypatch.setattr("torchsmith.auditing.run.read_recipe", read)
    assert audit((tmp_path,)).searched == 41
    assert parsed == ["overlay.nix"]


LOCK = {
    "nodes": {"root": {"inputs": {"nixpkgs": "n"}}, "n": {"locked": {"rev": "0" * 40, "lastModified": 0}}},
    "root": "root",
}
OLD_NAME = "{ python3Packages }: python3Packages.pytorch"


def lock(root: Path, modified: int) -> None:
    table = json.dumps(LOCK).replace('"lastModified": 0', f'"lastModified": {modified}')
    (root / "flake.lock").write_text(table)


@pytest.mark.parametrize(
    ("modified", "more", "found"),
    [
        (1764000000, {}, ["TS406 warning"]),
        (1640000000, {}, []),  # nixpkgs of 2021 calls it pytorch
        (0, {}, []),  # the date is not known
        (1764000000, {"overlay": "final: prev: { pytorch = prev.python3Packages.torch; }"}, []),
    ],
)
def test_an_old_name_is_wrong_at_a_known_nixpkgs_unless_the_repository_defines_it(
    modified: int, more: dict[str, str], found: list[str], tmp_path: Path
) -> None:
    lock(tmp_path, modified)
    assert told(judged(tmp_path, shell=OLD_NAME, **more)) == found


def test_a_single_file_does_not_say_what_its_repository_defines(tmp_path: Path) -> None:
    lock(tmp_path, 1764000000)
    judged(tmp_path, shell=OLD_NAME)
    assert told(audit((tmp_path / "shell.nix",))) == []


@pytest.mark.parametrize("owner", ["prev", "pyproject", "super"])
def test_a_torch_that_is_not_known_to_be_of_nixpkgs_is_not_checked(owner: str, tmp_path: Path) -> None:
    text = f"""final: {owner}: {{
  torch = ({owner}.torch.override {{ cudaPackages = final.cudaPackages_12_6; }}).overrideAttrs (old: {{
    buildInputs = [ final.cudaPackages.nccl ];
  }});
}}"""
    assert told(judged(tmp_path, uv2nix=text)) == []


PLACEHOLDERS = """{ lib, fetchurl, torch, mkDriver, hash ? "" }:
[
  torch
  (fetchurl { url = "https://example.org/x"; inherit hash; })
  (mkDriver { version = "580.1"; sha256_64bit = lib.fakeHash; sha256_aarch64 = lib.fakeHash; })
]
"""


def test_hashes_that_a_caller_passes_or_a_driver_does_without_are_not_placeholders(tmp_path: Path) -> None:
    assert told(judged(tmp_path, open=PLACEHOLDERS)) == []
    (tmp_path / "open.nix").write_text(PLACEHOLDERS.replace("inherit hash", "hash = lib.fakeHash"))
    assert told(audit((tmp_path,))) == ["TS902 error"]


@pytest.mark.parametrize(
    "text",
    [
        "let pkgs = import <nixpkgs> { }; in pkgs.python3Packages.torch",
        "{ pkgs ? import <nixpkgs> { } }: pkgs.python3Packages.torch",
    ],
)
def test_an_import_of_what_the_machine_has_is_a_note(text: str, tmp_path: Path) -> None:
    found = [(one.rule, one.severity) for one in judged(tmp_path, shell=text).findings]
    assert found == [("TS212", Severity.NOTE)]


SETTINGS = """{
  nixpkgs.config = {
    cudaSupport = true;
    cudaVersion = "12";
    cudnnSupport = true;
    cudaCapability = [ "8.9" ];
  };
}
"""


def test_settings_that_nixpkgs_does_not_read_have_no_effect(tmp_path: Path) -> None:
    lock(tmp_path, 1764000000)
    report = judged(tmp_path, module=SETTINGS)
    assert told(report) == ["TS811 warning"] * 3
    every = "nixpkgs reads cudaSupport, cudaCapabilities, cudaForwardCompat and rocmSupport"
    assert [one.hint for one in report.findings] == [every, every, "nixpkgs reads config.cudaCapabilities"]


@pytest.mark.parametrize("name", ["cudatoolkit", "pytorchWithCuda", "tensorflowWithCuda", "rocmPackages"])
def test_files_that_name_cuda_or_rocm_are_read_also_in_hidden_folders(name: str, tmp_path: Path) -> None:
    assert judged(tmp_path, **{".config__nixpkgs__home": f"{{ pkgs }}: [ pkgs.{name} ]"}).concerned == 1


@pytest.mark.parametrize(
    ("text", "concerned"),
    [
        ("{ callPackage }: callPackage ./pkgs/torch { }", 1),
        ("[ (import ./overlays/vllm.nix) ]", 1),
        ('ps: builtins.map (name: ps.${name}) [ "torch" "numpy" ]', 1),
        ('{ fileSystems."/var/lib/vllm" = { }; }', 0),
        ('{ description = "a torch for the dark"; }', 0),
    ],
)
def test_files_and_strings_that_are_called_torch_concern_it(
    text: str, concerned: int, tmp_path: Path
) -> None:
    (tmp_path / "file.nix").write_text(text)
    assert audit((tmp_path,)).concerned == concerned
