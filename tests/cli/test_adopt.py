"""`init --from`: what it says to a person with recipes, and what is there afterwards."""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path

import pytest

from tests.cli.conftest import Call
from torchsmith.catalog import builtin_catalog

OTHER_HANDS = Path(__file__).parents[1] / "auditing/other-hands"
RIGHT = "pytorch-python313-cuda12_9-sm90-avx2"


def repository(folder: Path, *names: str, change: tuple[str, str] = ("", "")) -> Path:
    """A repository of copies of one recipe under these names."""
    (pkgs := folder / ".flox/pkgs").mkdir(parents=True)
    (recipe,) = (OTHER_HANDS / "other-ways-to-configure").glob("*.nix")
    for name in names:
        (pkgs / f"{name}.nix").write_text(recipe.read_text().replace(*change))
    return folder


def test_what_is_taken_in_and_what_is_not_is_told_with_reasons(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    impossible = [f"pytorch-python313-cuda13_0-sm70-{isa}" for isa in ("avx2", "avx512")]
    repository(tmp_path / "build-pytorch", RIGHT, *impossible, "pytorch-python313-windows-xpu")
    monkeypatch.chdir(tmp_path)
    said = call("init", "--from", "build-pytorch")
    assert said.code == 0
    lines = said.out.splitlines()
    assert lines[0].endswith(": 3 recipes")
    assert lines[1].startswith(f"  {impossible[0]} and 1 more: torchsmith cannot generate it: sm70 ")
    assert "windows" in lines[2]
    assert "4 recipes" in said.err
    assert "next: torchsmith plan\n" in said.err
    assert (tmp_path / "torchsmith.toml").is_file()
    assert call("init", "--from", "build-pytorch").code == 2  # one is there already
    assert call("init", "--from", "build-pytorch", "--force").code == 0


def test_pages_are_written_into_a_repository_of_others_only_when_asked(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = {"README.md", "BUILD_MATRIX.md", "ALIGNMENT.md", "pytorch-2.9-cuda12-build-notes.md"}
    repository(tmp_path / "build-pytorch", RIGHT)
    monkeypatch.chdir(tmp_path)
    assert call("init", "--from", "build-pytorch").code == 0
    assert call("apply", "--no-git").code == 0
    assert not [*tmp_path.rglob("*.md")]
    file = tmp_path / "torchsmith.toml"
    file.write_text(file.read_text().replace("pages = false", "pages = true"))
    assert call("apply", "--no-git").code == 0
    assert {page.name for page in tmp_path.rglob("*.md")} == pages
    assert call("plan", "--check").code == 0
    (tmp_path / "build-pytorch/README.md").write_text("ours\n")
    assert call("plan", "--check").code == 0


def test_recipes_at_another_nixpkgs_than_their_line_are_told(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    pins = builtin_catalog().pins
    change = (pins["6a030d5"].rev, pins["0182a36"].rev)
    repository(tmp_path / "build-pytorch", RIGHT, change=change)
    monkeypatch.chdir(tmp_path)
    said = call("init", "--from", "build-pytorch")
    assert said.code == 0, said.err
    assert "line 2.9 for CUDA 12.9 at nixpkgs 0182a36" in said.err
    line = tomllib.loads((tmp_path / "catalog/lines.toml").read_text())["2.9"]
    assert line == {"cuda": {"12.9": {"pin": "0182a36"}}}
    assert call("plan").code == 0
    assert call("apply", "--no-git").code == 0  # recipes of others stay, and nothing is wrong with that
    assert "0182a36" in call("show", RIGHT).out
    assert call("init", "--from", "build-pytorch", "--force").code == 0  # what it wrote is in nobody's way


@pytest.mark.parametrize("rev", ["", "0" * 40])
def test_a_nixpkgs_that_a_line_cannot_have_is_named_by_the_plan(
    rev: str, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Since only some of its recipes are at it, or since what it has is unknown."""
    pins = builtin_catalog().pins
    other = rev or pins["0182a36"].rev
    repo = repository(tmp_path / "build-pytorch", RIGHT, change=(pins["6a030d5"].rev, other))
    if not rev:
        recipe = next((repo / ".flox/pkgs").iterdir())
        text = recipe.read_text().replace(other, pins["6a030d5"].rev)
        recipe.with_name(f"{RIGHT.replace('avx2', 'avx512')}.nix").write_text(text)
    monkeypatch.chdir(tmp_path)
    said = call("init", "--from", "build-pytorch", "--line", "2.9")
    assert said.code == 0, said.err
    assert f"kept with nixpkgs {other[:7]} (line 2.9 has " in " ".join(call("plan").out.split())
    assert not (tmp_path / "catalog").exists()


def test_companions_that_their_line_does_not_build_are_of_their_torchs_line(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository(tmp_path / "build-pytorch", RIGHT)
    companion = RIGHT.replace("pytorch", "torchaudio")
    (pkgs := tmp_path / "build-torchaudio/.flox/pkgs").mkdir(parents=True)
    (pkgs / f"{companion}.nix").write_text("{ python3Packages }: python3Packages.torchaudio\n")
    monkeypatch.chdir(tmp_path)
    said = call("init", "--from", *sorted(one.name for one in tmp_path.glob("build-*")))
    assert said.code == 0, said.err
    assert call("init", "one", "two").code == 2
    assert "left out" not in said.out
    assert companion in call("list", "--names").out.split()


def test_a_repository_of_which_nothing_can_be_taken_says_why(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository(tmp_path / "mine", "pytorch-python313-cuda13_0-sm70-avx2")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    said = call("init", "--from", "mine")
    assert (said.code, said.error) == (2, "empty")
    assert "1 of them: torchsmith cannot generate it: sm70 " in said.err
    assert ".flox/pkgs" in call("init", "--from", "empty").err
    assert not (tmp_path / "torchsmith.toml").exists()


def test_apply_without_a_committer_writes_nothing(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository(tmp_path / "build-pytorch", RIGHT)
    monkeypatch.chdir(tmp_path)
    assert call("init", "--from", "build-pytorch").code == 0
    for name in ("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"):
        monkeypatch.delenv(name, raising=False)
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(name, "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "user.useConfigOnly")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "true")
    before = {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if ".torchsmith" not in path.parts}
    said = call("apply", "--commit", "--allow-dirty")
    assert said.code == 3
    assert "user.name" in said.err
    after = {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if ".torchsmith" not in path.parts}
    assert after == before
    assert call("apply").code in (0, 1)
    assert call("apply", "--commit", "--allow-dirty").code == 3  # files are as wanted and not committed
    assert call("plan").code == call("list").code == 0
    assert call("apply").code in (0, 1)  # no commit was begun that would stop the next run


def test_a_cell_without_a_package_is_asked_for_in_every_package(tmp_path: Path, call: Call) -> None:
    for folder, name in (("one", RIGHT), ("two", RIGHT.removeprefix("pytorch-"))):
        assert call("init", tmp_path / folder, "--cell", name).code == 0
    one, two = ((tmp_path / folder / "torchsmith.toml").read_text() for folder in ("one", "two"))
    assert one == two


def test_a_plan_says_which_kept_recipes_have_warnings_and_apply_what_is_left(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("init", ".", "--cell", RIGHT, "--cell", RIGHT.replace("avx2", "avx512")).code == 0
    assert call("apply", "--no-git").code == 0
    pkgs = Path("build-pytorch/.flox/pkgs")
    for path in pkgs.glob("*.nix"):  # somebody else's
        path.write_text(path.read_text().partition("\n")[2])
    doubtful = pkgs / f"{RIGHT}.nix"
    doubtful.write_text(doubtful.read_text().replace("SM90", "SM89"))
    changes = json.loads(call("plan", "--json").out)["changes"]
    rows = {row["path"]: row for row in changes if row["path"].startswith(str(pkgs))}
    assert [row["kind"] for row in rows.values()] == ["keep", "keep"]
    assert {path: row["warnings"] > 0 for path, row in rows.items()} == {
        str(path): path == doubtful for path in pkgs.glob("*.nix")
    }
    applied = call("apply")
    assert applied.code == 0
    assert "next: torchsmith audit" in applied.err


def test_a_copy_that_is_made_is_named(tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    repository(tmp_path / "build-pytorch", RIGHT, change=('"9.0"', '"8.9"'))
    monkeypatch.chdir(tmp_path)
    assert call("init", "--from", "build-pytorch").code == 0
    skipped = call("apply")
    assert skipped.code == 1
    assert "next: torchsmith apply --adopt all" in skipped.err
    shutil.copytree(tmp_path, tmp_path.with_suffix(".twin"))
    report = json.loads(call("apply", "--adopt", "all", "--json").out)
    assert report["copies"] == [f"build-pytorch/.flox/pkgs/{RIGHT}.nix.orig"]
    assert Path(report["copies"][0]).is_file()
    assert call("apply", "--adopt", "all").code == 0  # the copy is in nobody's way
    monkeypatch.chdir(tmp_path.with_suffix(".twin"))
    assert report["copies"][0] in call("apply", "--adopt", "all").err


@pytest.mark.parametrize(
    ("change", "fixed"), [(('"x86_64-linux" ];', '"aarch64-linux" ];'), True), (('"9.0"', '"8.9"'), False)]
)
def test_a_fix_is_suggested_before_a_file_is_taken_over(
    change: tuple[str, str], fixed: bool, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository(tmp_path / "build-pytorch", RIGHT, change=change)
    monkeypatch.chdir(tmp_path)
    assert call("init", "--from", "build-pytorch").code == 0
    assert call("apply").code == 1
    first, *_ = [line for line in call("plan").err.splitlines() if line.startswith("next: ")]
    assert first.startswith("next: torchsmith audit . --fix") is fixed
    assert call("audit", ".", "--fix").code == (0 if fixed else 1)
    checked = call("plan", "--check")
    assert checked.code == (0 if fixed else 1)
    assert ("skipped: --adopt replaces 1 file" in checked.err) is not fixed


def test_a_plan_and_its_next_step_say_what_the_same_options_write(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two broken recipes can be replaced, and one is not in torchsmith.toml."""
    other, gone = RIGHT.replace("sm90", "sm120"), RIGHT.replace("sm90", "sm100")
    repo = repository(tmp_path / "build-pytorch", RIGHT, other, gone, change=('"9.0"', '"8.9"'))
    monkeypatch.chdir(tmp_path)
    assert call("init", ".", "--cell", RIGHT, "--cell", other).code == 0
    assert call("apply", "--no-git").code == 1
    every = call("plan")
    assert ", 3 skipped;" in every.out.splitlines()[-1]
    assert "next: torchsmith apply --adopt all   # replaces 2 files, deletes 1 file" in every.err
    assert "+++" not in call("plan", "--diff").out
    path = repo.relative_to(tmp_path) / f".flox/pkgs/{RIGHT}.nix"
    one = call("plan", "--adopt", path)
    assert f"next: torchsmith apply --adopt {path}\n" in one.err
    assert "skip " not in one.out
    assert "recipes: 1 to change, 4 up to date, 2 skipped;" in one.out.splitlines()[-1]
    diff = call("plan", "--adopt", path, "--diff")
    assert [line for line in diff.out.splitlines() if line.startswith("+++")] == [f"+++ b/{path}"]
    assert one.out.splitlines()[-1] in diff.err.splitlines()


def test_a_plan_counts_files_that_are_kept_and_names_them_when_asked(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("init", ".", "--profile", "real").code == 0
    assert call("apply", "--no-git").code == 0
    theirs = list(Path("build-pytorch/.flox/pkgs").glob("*-cuda*-avx*.nix"))
    for recipe in theirs:  # right, and somebody else's
        recipe.write_text(recipe.read_text().partition("\n")[2])
    assert "no changes; " in (unchanged := call("plan").out)
    assert "  keep " not in unchanged
    gone = next(Path("build-pytorch/.flox/pkgs").glob("*-cpu-*.nix"))
    gone.unlink()
    changing = call("plan").out
    assert "  keep " not in changing
    assert f"recipes: 1 to create, {len(theirs)} to keep, " in " ".join(changing.split())
    assert any(change["why"] for change in json.loads(call("plan", "--json").out)["changes"])
    assert call("apply", "--no-git").code == 0
    every = [line.split() for line in call("plan", "--verbose").out.splitlines()]
    assert sorted(words[1] for words in every if words[0] == "keep") == sorted(map(str, theirs))


def test_a_file_that_a_kept_recipe_imports_is_not_deleted(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither one of theirs that is a build already, nor one of ours that is no longer asked for."""
    repo = repository(tmp_path / "build-pytorch", RIGHT, f"{RIGHT}-magma")
    monkeypatch.chdir(tmp_path)
    assert call("init", "--from", "build-pytorch").code == 0
    asked = (tmp_path / "torchsmith.toml").read_text()
    (tmp_path / "torchsmith.toml").write_text(asked.replace("avx2", "avx512"))
    assert call("apply", "--no-git", "--adopt", "all", "--yes").code == 0
    (tmp_path / "torchsmith.toml").write_text(asked)
    ours = RIGHT.replace("avx2", "avx512")
    pkgs = repo / ".flox/pkgs"
    (pkgs / f"{RIGHT}-magma.nix").write_text("{ }: { }\n")
    (pkgs / "wrapper.nix").write_text(
        f"{{ callPackage }}: [ (callPackage ./{RIGHT}-magma.nix {{ }}) (import ./{ours}.nix) ]\n"
    )
    assert call("apply", "--no-git", "--adopt", "all", "--yes").code == 0
    assert {path.stem for path in pkgs.glob("*.nix")} == {RIGHT, f"{RIGHT}-magma", ours, "wrapper"}
    report = json.loads(call("plan", "--json").out)
    kept = {Path(change["path"]).stem: change for change in report["changes"] if change["kind"] == "keep"}
    assert kept[ours]["why"] == "imported by wrapper"
    (pkgs / "wrapper.nix").unlink()
    assert call("apply", "--no-git", "--adopt", "all", "--yes").code == 0
    assert [path.stem for path in pkgs.glob("*.nix")] == [RIGHT]


def test_init_writes_beside_the_repositories_only_if_that_folder_is_named(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = repository(tmp_path / "build-pytorch", RIGHT)
    for folder, words in ((repo, (".", "..")), (tmp_path / "elsewhere", (str(repo), ".."))):
        folder.mkdir(exist_ok=True)
        monkeypatch.chdir(folder)
        refused = call("init", "--from", words[0])
        assert (refused.code, refused.error) == (2, "incomplete")
        assert f"torchsmith init --from {' '.join(words)}" in refused.err
        assert not (tmp_path / "torchsmith.toml").exists()
        assert call("init", "--from", *words).code == 0
        (tmp_path / "torchsmith.toml").unlink()


def test_a_recipe_that_is_kept_with_errors_is_the_end_of_apply(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = repository(tmp_path / "build-pytorch", RIGHT, RIGHT.replace("avx2", "avx512"))
    monkeypatch.chdir(tmp_path)
    assert call("init", "--from", "build-pytorch").code == 0
    (repo / f".flox/pkgs/{RIGHT.replace('cuda12_9-sm90', 'cpu')}.nix").write_text("{ }: ( 1\n")
    (repo / f".flox/pkgs/{RIGHT}.nix").unlink()
    (repo / f".flox/pkgs/{RIGHT}.nix").symlink_to(tmp_path / "torchsmith.toml")
    linked = call("apply", "--no-git", "--adopt", "all", "--yes")
    assert (linked.code, "it is a link: replace it yourself" in linked.err) == (1, True)
    (repo / f".flox/pkgs/{RIGHT}.nix").unlink()
    applied = call("apply", "--no-git", "--adopt", "all", "--yes")
    assert applied.code == 1
    assert "torchsmith audit . # 1 recipe kept with errors" in " ".join(applied.err.split())


def test_a_folder_of_recipes_that_leads_out_of_the_repository_is_refused(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository(tmp_path / "build-pytorch", RIGHT)
    monkeypatch.chdir(tmp_path)
    assert call("init", "--from", "build-pytorch").code == 0
    pkgs, other = tmp_path / "build-pytorch/.flox/pkgs", tmp_path / "other"
    pkgs.rename(other)
    pkgs.symlink_to("../../other")
    before = {file: file.read_bytes() for file in other.iterdir()}
    done = call("apply", "--adopt", "all", "--yes")
    assert done.error == "cannot-write"
    assert {file: file.read_bytes() for file in other.iterdir()} == before


def test_links_are_named_as_what_flox_does_not_build(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    pkgs = repository(tmp_path / "build-pytorch", RIGHT) / ".flox/pkgs"
    other = RIGHT.replace("sm90", "sm80")
    (pkgs / f"{other}.nix").symlink_to(f"{RIGHT}.nix")
    monkeypatch.chdir(tmp_path)
    found = json.loads(call("audit", ".", "--json").out)["findings"]
    assert [Path(one["where"]["file"]).stem for one in found if one["rule"] == "TS008"] == [other]
    started = json.loads(call("init", "--from", "build-pytorch", "--json").out)
    assert [left["name"] for left in started["left_out"]] == [other]
    changes = json.loads(call("plan", "--json").out)["changes"]
    assert [Path(one["path"]).stem for one in changes if one["code"] == "not-text"] == [other]
    (pkgs / f"{RIGHT}.nix").unlink()
    assert call("audit", "build-pytorch", "--json").code == 0


@pytest.mark.parametrize("text", ["{ }: ( 1\n", ""])
def test_a_recipe_in_the_repository_of_another_package_is_told_its_place(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    vision = RIGHT.replace("pytorch", "torchvision")
    pkgs = repository(tmp_path / "build-pytorch", RIGHT, vision) / ".flox/pkgs"
    monkeypatch.chdir(tmp_path)
    assert call("init", "--from", "build-pytorch").code == 0
    (tmp_path / "catalog/packages.toml").unlink()  # which says that both are in one repository
    (pkgs / f"{vision}.nix").write_text(text or (pkgs / f"{vision}.nix").read_text())
    changes = json.loads(call("plan", "--json").out)["changes"]
    [there] = [one for one in changes if one["path"] == f"build-pytorch/.flox/pkgs/{vision}.nix"]
    assert "its place is build-torchvision" in there["why"]


@pytest.mark.parametrize("words", [(), ("--line", "2.10"), ("--force",)])
def test_init_in_a_repository_with_recipes_names_the_way_to_use_them(
    words: tuple[str, ...], tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository(tmp_path / "build-pytorch", RIGHT)
    monkeypatch.chdir(tmp_path)
    refused = call("init", "build-pytorch", *words)
    assert (refused.code, "1 recipe" in refused.err) == (2, True)
    assert "torchsmith init --from build-pytorch" in refused.err
    assert not list(tmp_path.rglob("torchsmith*"))


def test_every_apply_names_the_reason_of_what_it_skips(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    pkgs = repository(tmp_path / "build-pytorch", RIGHT) / ".flox/pkgs"
    monkeypatch.chdir(tmp_path)
    assert call("init", "--from", "build-pytorch").code == 0
    (pkgs / f"{RIGHT}.nix").write_text("{ }: ( 1\n")
    for said in (call("apply", "--no-git"), call("apply", "--no-git")):
        assert said.code == 1
        assert f"{RIGHT}.nix would rewrite (needs --adopt): broken: " in " ".join(said.err.split())


def test_fixes_are_not_written_through_links(tmp_path: Path, call: Call) -> None:
    pkgs = repository(tmp_path / "build-pytorch", RIGHT) / ".flox/pkgs"
    link = pkgs / f"{RIGHT.replace('sm90', 'sm80')}.nix"
    link.symlink_to(f"{RIGHT}.nix")
    before = (pkgs / f"{RIGHT}.nix").read_text()
    call("audit", link, "--fix", "--unsafe-fixes")
    assert (pkgs / f"{RIGHT}.nix").read_text() == before


def test_an_edited_recipe_that_is_not_asked_for_is_named_when_it_is_to_be_taken_over(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    gone = RIGHT.replace("sm90", "sm120")
    assert call("init", ".", "--cell", RIGHT, "--cell", gone).code == 0
    assert call("apply", "--no-git").code == 0
    path = Path(f"build-pytorch/.flox/pkgs/{gone}.nix")
    path.write_text(text := f"{path.read_text()}# mine\n")
    assert call("init", ".", "--cell", RIGHT, "--force").code == 0
    for verb in (["plan"], ["apply", "--yes"]):
        said = call(*verb, "--adopt", path)
        assert f"--adopt leaves {path}: valid, but not in torchsmith.toml" in " ".join(said.err.split())
    assert path.read_text() == text


def test_a_page_that_is_no_longer_wanted_and_was_edited_says_the_option_that_deletes_it(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("init", ".", "--cell", RIGHT).code == 0
    assert call("apply", "--no-git").code == 0
    page = Path("build-torchaudio/README.md")
    page.write_text(f"{page.read_text()}mine\n")
    assert call("package", "remove", "torchaudio").code == 0
    planned = call("plan")
    assert f"would delete (needs --adopt {page})" in " ".join(planned.out.split())
    assert "--adopt all" not in planned.err
    shutil.copytree(tmp_path, later := tmp_path.with_suffix(".twin"))
    assert call("apply", "--no-git", "--yes", "--adopt", page).code == 0
    assert not page.exists()
    monkeypatch.chdir(later)  # a workspace that does not know of the repository
    assert json.loads(call("plan", "--adopt", page, "--json").out)["not_adopted"].keys() == {str(page)}
