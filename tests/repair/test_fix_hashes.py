"""Wrong hashes are learned with real Nix, and written where a person would have written them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.building.conftest import MINI, Place
from tests.cli.conftest import Call
from torchsmith.nix.hashes import PLACEHOLDER, to_sri
from torchsmith.repair.hash_sites import HashSite, best
from torchsmith.workspace.load import Workspace

pytestmark = pytest.mark.needs("nix")
LINES = f'# ours\n["2.10".hashes]\npytorch = "{PLACEHOLDER}" # to be learned\ntorchvision = ""\n'
FIXES = f'[magma-cuda13.patches.clockrate]\nhash = "{PLACEHOLDER}"\n'


def stated(place: Place) -> str:
    return (place.root / "catalog/lines.toml").read_text()


def unlearn(place: Place, call: Call, lines: str = LINES) -> None:
    (place.root / "catalog/lines.toml").write_text(lines)
    assert call(*place.words("apply")).code == 0


def test_all_wrong_hashes_of_generated_recipes_are_learned_in_one_pass(
    place: Place, nix_here: Path, call: Call
) -> None:
    (place.root / "catalog/fixes.toml").write_text(FIXES)
    unlearn(place, call)
    shown = call(*place.words("fix-hashes", "--dry-run"))
    assert stated(place) == LINES, "a dry run writes nothing"
    assert '-torchvision = ""' in shown.out
    mended = call(*place.words("fix-hashes", "--json"))
    assert mended.code == 0, mended.err
    told = json.loads(mended.out)
    assert len(told["written"]) == 3
    assert len(told["proved"]) == 3
    assert stated(place).startswith("# ours\n")
    assert "# to be learned" in stated(place)
    assert PLACEHOLDER not in stated(place) + place.recipe(place.torch).read_text()
    assert call(*place.words("apply", "--check")).code == 0
    built = call(*place.words("build", "--dry-run", "--json"))
    names = [job["name"] for job in json.loads(built.out)["jobs"]]
    assert place.torch in names, "nothing was compiled to learn them"
    assert call(*place.words("fix-hashes")).code == 0


def test_a_source_that_changed_since_it_was_proved_needs_accept(
    place: Place, nix_here: Path, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlearn(place, call)
    assert call(*place.words("fix-hashes")).code == 0
    right = stated(place)
    changed = tmp_path / "nixpkgs"
    shutil.copytree(MINI, changed)
    (changed / "sources/pytorch/vision/setup.py").write_text("# somebody was here\n")
    monkeypatch.setenv("TORCHSMITH_NIXPKGS", str(changed))
    unlearn(place, call)
    refused = call(*place.words("fix-hashes", "--json"))
    assert refused.code == 1
    assert ["vision" in row["source"] for row in json.loads(refused.out)["suspicious"]] == [True]
    assert 'torchvision = ""' in stated(place)
    assert right.splitlines()[2] == stated(place).splitlines()[2], "torch's source is what it was"
    assert call(*place.words("fix-hashes", "--accept")).code == 0
    assert PLACEHOLDER not in stated(place)
    assert right.splitlines()[3] != stated(place).splitlines()[3]


def test_a_stated_hash_that_is_no_placeholder_is_not_replaced_without_accept(
    place: Place, nix_here: Path, call: Call
) -> None:
    stranger = "sha256-" + "B" * 42 + "A="
    unlearn(place, call, LINES.replace(PLACEHOLDER, stranger))
    refused = call(*place.words("fix-hashes"))
    assert refused.code == 1
    assert stranger in stated(place)
    assert 'torchvision = "sha256-' in stated(place), "the placeholder beside it is free to be written"


PIN = "https://github.com/NixOS/nixpkgs/archive/6a030d535719c5190187c4cec156f335e95e3211.tar.gz"
ZEROS = "0" * 52


def lines_of(rows: list[dict[str, Any]]) -> list[str]:
    """Where in a recipe hashes were written."""
    return sorted(str(row["site"]["span"]["line"]) for row in rows)


FOREIGN = f"""\
# A recipe of a person: every byte but the hashes is theirs.
let
  pkgs = import (fetchTarball "{PIN}") {{ }};
  vision = pkgs.fetchFromGitHub {{ owner = "pytorch"; repo = "vision"; rev = "v1"; hash = ""; }};
  audio = pkgs.fetchFromGitHub {{ owner = "pytorch"; repo = "audio"; rev = "v1"; hash = pkgs.lib.fakeHash; }};
  old = pkgs.fetchzip {{ url = "https://github.com/pytorch/pytorch"; sha256 = "{ZEROS}"; }};
in
derivation {{
  name = "mine";
  system = builtins.currentSystem;
  builder = "/bin/sh";
  inherit vision audio old;
}}
"""


def test_hashes_of_a_foreign_recipe_are_replaced_in_place_and_nothing_else(
    place: Place, nix_here: Path, call: Call
) -> None:
    recipe = place.recipe("pytorch-mine")
    recipe.write_text(FOREIGN)
    mended = call(*place.words("fix-hashes", "--json", "pytorch-mine"))
    assert mended.code == 0, mended.err + mended.out
    rows = json.loads(mended.out)["written"]
    assert lines_of(rows) == ["4", "5", "6"]
    before, after = FOREIGN.splitlines(), recipe.read_text().splitlines()
    assert [n for n, (a, b) in enumerate(zip(before, after, strict=True), 1) if a != b] == [4, 5, 6]
    assert 'repo = "audio"; rev = "v1"; hash = "sha256-' in after[4]
    assert 'sha256 = "sha256-' in after[5], "whatever it was spelled like"


def test_the_hashes_of_the_sample_are_neither_written_nor_proved(
    place: Place, nix_here: Path, call: Call
) -> None:
    recipe = place.recipe("pytorch-mine")
    recipe.write_text(FOREIGN)
    refused = call(*place.words("fix-hashes", "--nixpkgs", "sample", "pytorch-mine"))
    assert refused.code == 2
    assert "stand-ins" in refused.err
    shown = call(*place.words("fix-hashes", "--nixpkgs", "sample", "--dry-run", "--json", "pytorch-mine"))
    assert shown.code == 0, shown.err
    told = json.loads(shown.out)
    assert lines_of(told["written"]) == ["4", "5", "6"]
    assert told["proved"] == {}
    assert recipe.read_text() == FOREIGN


def test_a_repository_needs_no_workspace(
    place: Place, nix_here: Path, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    recipes = [tmp_path / f"theirs/{name}/.flox/pkgs/mine.nix" for name in ("one", "two")]
    for recipe in recipes:
        recipe.parent.mkdir(parents=True)
        recipe.write_text(FOREIGN)
    assert call("fix-hashes", "theirs/none.nix").code == 2
    mended = call("fix-hashes", "theirs/one")
    assert mended.code == 0, mended.err + mended.out
    assert "next: " not in mended.err
    assert 'hash = ""' not in recipes[0].read_text()
    assert recipes[1].read_text() == FOREIGN
    planned = call("fix-hashes", "--dry-run", cwd=tmp_path / "theirs/two")
    assert planned.code == 0, planned.err
    assert "+++ b/.flox/pkgs/mine.nix" in planned.out
    monkeypatch.chdir(tmp_path)
    assert call("fix-hashes", *(recipe.relative_to(tmp_path) for recipe in recipes)).code == 0
    assert recipes[1].read_text() == recipes[0].read_text()


STATED = """\
let
  pkgs = import (fetchTarball "@PIN@") { };
  one = pkgs.fetchFromGitHub { owner = "pytorch"; repo = "vision"; rev = "v1"; hash = "@STATED@"; };
  two = pkgs.fetchFromGitHub { owner = "pytorch"; repo = "vision"; rev = "v1"; hash = ""; };
in
derivation { name = "mine"; system = builtins.currentSystem; builder = "/bin/sh"; inherit one two; }
"""


@pytest.mark.parametrize(
    "stated", ["sha256-" + "B" * 42 + "A=", "sha512-" + "B" * 85 + "A=="], ids=["sha256", "sha512"]
)
def test_a_stated_hash_stays_whatever_a_placeholder_beside_it_proved(
    stated: str, place: Place, nix_here: Path, call: Call
) -> None:
    recipe = place.recipe("pytorch-mine")
    recipe.write_text(STATED.replace("@PIN@", PIN).replace("@STATED@", stated))
    for attempt in range(3):
        refused = call(*place.words("fix-hashes", "pytorch-mine"))
        assert refused.code == 1, attempt
        assert stated in recipe.read_text(), f"call {attempt} wrote what the first refused"
        assert 'hash = "";' not in recipe.read_text()
    assert call(*place.words("fix-hashes", "--accept", "pytorch-mine")).code == 0
    assert stated not in recipe.read_text()


def test_a_malformed_hash_of_a_pin_remains_to_be_corrected(place: Place, nix_here: Path, call: Call) -> None:
    recipe, damaged = place.recipe("pytorch-mine"), "1" * 50
    recipe.write_text(FOREIGN.replace(f'"{PIN}"', f'{{ url = "{PIN}"; sha256 = "{damaged}"; }}'))
    for words in (("--dry-run",), ()):
        mended = call(*place.words("fix-hashes", "--json", "pytorch-mine", *words))
        assert mended.code == 1, mended.err
        told = json.loads(mended.out)
        assert lines_of(told["written"]) == ["4", "5", "6"]
        assert [damaged in one for one in told["unseen"]] == [True]
    found = call("audit", recipe, "--select", "TS902")
    assert "50 characters, 52 expected" in found.out


def test_equal_placeholders_of_one_source_are_all_mended(place: Place, nix_here: Path, call: Call) -> None:
    recipe = place.recipe("pytorch-mine")
    recipe.write_text(STATED.replace("@PIN@", PIN).replace("@STATED@", ""))
    mended = call(*place.words("fix-hashes", "pytorch-mine"))
    assert mended.code == 0, mended.err
    assert 'hash = "";' not in recipe.read_text()


def test_a_tarball_fetched_while_evaluating_is_learned_too(
    place: Place, nix_here: Path, tmp_path: Path, call: Call
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/default.nix").write_text('derivation { name = "x"; system = "s"; builder = "b"; }\n')
    subprocess.run(["tar", "-C", tmp_path, "-czf", tmp_path / "src.tar.gz", "src"], check=True)
    settings = place.root / "torchsmith.toml"
    named = f'format = 1\nfetch = ["file://{tmp_path}/src.tar.gz"]'
    settings.write_text(settings.read_text().replace("format = 1", named))
    recipe = place.recipe("pytorch-tarball")
    recipe.write_text(
        f'import (fetchTarball {{ url = "file://{tmp_path}/src.tar.gz"; sha256 = "{ZEROS}"; }})\n'
    )
    mended = call(*place.words("fix-hashes", "pytorch-tarball"))
    assert mended.code == 0, mended.err
    assert ZEROS not in recipe.read_text()


def test_the_addresses_of_the_workspace_count_for_every_verb_that_evaluates(
    place: Place, nix_here: Path, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/default.nix").write_text(
        '{ }: derivation { name = "x"; system = builtins.currentSystem or "x86_64-linux"; builder = "/b"; }\n'
    )
    subprocess.run(["tar", "-C", tmp_path, "-czf", tmp_path / "src.tar.gz", "src"], check=True)
    address = f"file://{tmp_path}/src.tar.gz"
    recipe = place.recipe("pytorch-tarball")
    recipe.write_text(f'{{ }}: import (fetchTarball "{address}") {{ }}\n')
    settings = place.root / "torchsmith.toml"
    audit = place.words("audit", str(recipe.parents[2]), "--eval")
    assert "TS003" in call(*audit).out
    settings.write_text(settings.read_text().replace("format = 1", f'format = 1\nfetch = ["{address}"]'))
    assert "TS003" not in call(*audit).out
    asked: list[tuple[str, ...]] = []

    def evaluate(*_: object, workspace: Workspace | None = None, **__: object) -> object:
        asked.append(workspace.addresses if workspace else ())
        return None, lambda requests: []

    monkeypatch.setattr("torchsmith.verbs.impact.evaluation", evaluate)
    call(*place.words("impact"))
    assert asked == [(address,)]


def test_a_short_word_inside_a_store_path_recognises_no_source() -> None:
    address, recipe = "https://github.com/pytorch/pytorch", Path("mine.nix")
    other, own = (HashSite(recipe, "", marks) for marks in (("pytorch", "gone", "v1"), (address,)))
    told = f"source\n{address}\n/nix/store/0cv1qk-source"
    assert best([other, own], to_sri(ZEROS), told) == [own]


def test_a_source_that_cannot_be_fetched_is_told_apart_from_a_wrong_hash(
    place: Place, nix_here: Path, call: Call
) -> None:
    recipe = place.recipe("pytorch-mine")
    recipe.write_text(FOREIGN.replace('repo = "vision"', 'repo = "gone"'))
    mended = call(*place.words("fix-hashes", "pytorch-mine", "--json"))
    assert mended.code == 3, "nothing is left but a download that failed"
    told = json.loads(mended.out)
    assert (told["unplaced"], told["suspicious"]) == ([], [])
    assert lines_of(told["written"]) == ["5", "6"]
    assert 'repo = "gone"; rev = "v1"; hash = "";' in recipe.read_text()
    [missing] = told["unfetched"]
    assert "pytorch/gone" in missing
    assert "Could not resolve host" in missing, "its own reason, and not that of its neighbours"


def test_a_store_that_gives_no_answer_proves_nothing(
    place: Place, nix_here: Path, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = place.recipe("pytorch-mine")
    recipe.write_text(FOREIGN.replace('repo = "vision"', 'repo = "gone"'))
    real, broken = shutil.which("nix-store"), tmp_path / "bin/nix-store"
    broken.parent.mkdir()
    for program in ("nix-instantiate", "nix"):
        (broken.parent / program).symlink_to(str(shutil.which(program)))
    broken.write_text(
        '#!/bin/sh\ncase " $* " in *" --check-validity "*)'
        ' echo "error: database is busy" >&2; exit 1;; esac\n'
        f'exec {real} "$@"\n'
    )
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(broken.parent), prepend=os.pathsep)
    mended = call(*place.words("fix-hashes", "pytorch-mine"))
    assert mended.code == 3
    assert "database is busy" in mended.err
    assert "proved" not in mended.err
    assert recipe.read_text().count('hash = ""') == 1


def test_a_source_is_not_proved_by_another_that_had_the_same_hash(
    place: Place, nix_here: Path, call: Call
) -> None:
    recipe = place.recipe("pytorch-mine")
    recipe.write_text(STATED.replace("@PIN@", PIN).replace("@STATED@", ""))
    assert call(*place.words("fix-hashes", "pytorch-mine")).code == 0
    right = recipe.read_text()
    recipe.write_text(right.replace('repo = "vision"; rev = "v1"', 'repo = "gone"; rev = "v1"', 1))
    refused = call(*place.words("fix-hashes", "pytorch-mine", "--json"))
    assert (refused.code, len(json.loads(refused.out)["unfetched"])) == (3, 1)
    recipe.write_text(right.replace('repo = "vision"; rev = "v1"', 'repo = "audio"; rev = "v1"', 1))
    refused = call(*place.words("fix-hashes", "pytorch-mine", "--json"))
    assert (refused.code, len(json.loads(refused.out)["suspicious"])) == (1, 1)


NIGHTLY = """\
format = 1
include = ["pytorch-python313-cuda13_0-CELL-nightly"]

[nightly.pytorch]
rev = "0123456789abcdef0123456789abcdef01234567" # of tonight
version = "2.11.0.dev20260101"
hash = ""
"""


# One of them is for another system than this machine's, whichever that is.
@pytest.mark.parametrize("cell", ["sm90-avx512", "sm121-armv9"])
def test_the_hash_of_a_nightly_for_any_system_goes_into_torchsmith_toml(
    cell: str, nix_here: Path, tmp_path: Path, call: Call
) -> None:
    file, text = tmp_path / "torchsmith.toml", NIGHTLY.replace("CELL", cell)
    file.write_text(text)
    assert call("apply", "-w", str(tmp_path)).code == 0
    mended = call("fix-hashes", "-w", str(tmp_path))
    assert "✗" not in mended.err
    before, _, after = file.read_text().partition("sha256-")
    assert before == text.removesuffix('"\n'), "everything else is as it was"
    recipe = next(tmp_path.glob("build-pytorch/.flox/pkgs/*.nix")).read_text()
    assert f"sha256-{after.splitlines()[0]}" in recipe


SYSTEMS = ("x86_64-linux", "aarch64-linux")
BOUND = """\
{{ pkgs ? import (fetchTarball "{pin}") {{ {argument} }} }}:
pkgs.stdenv.mkDerivation {{
  name = "bound";
  src = pkgs.fetchFromGitHub {{ owner = "pytorch"; repo = "vision"; rev = "v1"; hash = ""; }};
  meta.platforms = [ "{platform}" ];
}}
"""


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("argument", ['system = "{}";', 'localSystem = "{}"; config = _: {{ }};'])
def test_sources_of_a_package_for_one_system_are_fetched_on_any(
    system: str, argument: str, place: Place, nix_here: Path, call: Call
) -> None:
    recipe = place.recipe("pytorch-bound")
    recipe.write_text(BOUND.format(pin=PIN, argument=argument.format(system), platform=system))
    mended = call(*place.words("fix-hashes", "pytorch-bound"))
    assert mended.code == 0, mended.err
    assert 'hash = "sha256-' in recipe.read_text()


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_package_that_its_own_system_does_not_have_is_still_refused(
    system: str, place: Place, nix_here: Path, call: Call
) -> None:
    other = next(one for one in SYSTEMS if one != system)
    recipe = place.recipe("pytorch-bound")
    recipe.write_text(BOUND.format(pin=PIN, argument=f'system = "{system}";', platform=other))
    refused = call(*place.words("fix-hashes", "pytorch-bound"))
    assert refused.code == 1
    assert f"Package ‘bound’ is not available on {system}" in refused.err


THROUGH_A_FUNCTION = """\
{ pkgs }:
let
  source = hash: pkgs.fetchurl { url = "https://example.org/own.tar.gz"; inherit hash; };
  own = source HASH;
in
pkgs.stdenv.mkDerivation { name = "own"; src = own; buildPhase = "true"; }
"""


def test_a_placeholder_that_goes_through_a_function_is_named_and_is_no_success(
    place: Place, nix_here: Path, call: Call
) -> None:
    recipe = place.root / "build-pytorch/.flox/pkgs/own.nix"
    recipe.write_text(THROUGH_A_FUNCTION.replace("HASH", f'"{PLACEHOLDER}"'))
    subprocess.run(["git", "-C", recipe.parent, "add", "."], check=True)
    for words in ((), ("--accept",)):
        answer = call(*place.words("fix-hashes", "own", "--json", *words))
        told = json.loads(answer.out)
        assert answer.code == 1, answer.err
        assert ["own.tar.gz" in one for one in told["unseen"]] == [True]
        assert told["proved"] == {}
