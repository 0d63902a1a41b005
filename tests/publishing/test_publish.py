"""Publishing: refused with everything that is missing, one commit, nothing twice, and no token anywhere."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from tests.building.conftest import MINI, Place, nix_variables
from tests.building.test_flox import STAND_IN
from tests.cli.conftest import Call, Result
from torchsmith.building.backends import require_flox
from torchsmith.catalog import builtin_catalog
from torchsmith.core.problem import Invalid
from torchsmith.core.state import WORKSPACE, make_state_folder, state_folder
from torchsmith.nix.hashes import to_sri
from torchsmith.publishing.clone import is_address, make_clone, source_of
from torchsmith.publishing.committed import _is_twice
from torchsmith.publishing.publish import LOCK, Publisher, missing, require_environments
from torchsmith.publishing.verified import why_unverified
from torchsmith.record import Built, Record, VerificationRow, open_record
from torchsmith.verbs.apply import ApplyRequest, apply
from torchsmith.verbs.build import BuildRequest, build
from torchsmith.workspace.checkout import RecipeFile, choose, recipes_in
from torchsmith.workspace.load import open_workspace

TOKEN = "floxhub-very-secret-token"
SERVER = "https://git.test/"
REPOSITORIES = ("build-pytorch", "build-torchvision")


@pytest.fixture(autouse=True)
def _flox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("store", "bin"):
        (tmp_path / name).mkdir()
    # Of the stand-in: a version manager's python3 takes ten times as long to start.
    (tmp_path / "bin/python3").symlink_to(sys.executable)
    monkeypatch.setenv("FLOX_STANDIN_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("FLOX_STANDIN_CATALOG", str(tmp_path / "catalog.json"))
    monkeypatch.setenv("FLOX_FLOXHUB_TOKEN", TOKEN)
    monkeypatch.setenv("PATH", f"{STAND_IN.parent}:{tmp_path / 'bin'}", prepend=os.pathsep)
    # The user's own configuration: the server is a folder of this machine.
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", f"url.file://{tmp_path}/.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", SERVER)


def catalog(tmp_path: Path) -> list[list[str]]:
    file = tmp_path / "catalog.json"
    found: list[list[str]] = json.loads(file.read_text()) if file.exists() else []
    return found


@pytest.fixture(scope="session")
def tree_alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The miniature alone, under the name that an archive of it has in the store."""
    tree = tmp_path_factory.mktemp("tree") / "source"
    shutil.copytree(MINI, tree, ignore=shutil.ignore_patterns("__pycache__"))
    return tree


@pytest.fixture(scope="session")
def pinned_pattern(_pattern: Path, tree_alone: Path, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A workspace whose pin is the miniature, by its hash. Each repository has a lock file and a remote
    beside the workspace; everything is committed, and nothing is pushed."""
    folder = tmp_path_factory.mktemp("pinned")
    place = Place(folder / "workspace")
    shutil.copytree(_pattern, place.root, symlinks=True)
    digest = subprocess.check_output(["nix-hash", "--type", "sha256", str(tree_alone)], text=True).strip()
    (place.root / "catalog/pins.toml").write_text(f'[6a030d5]\nsha256 = "{to_sri(digest)}"\n')
    apply(ApplyRequest(workspace=place.root))
    for repo in REPOSITORIES:
        (place.root / repo / ".flox/env/manifest.lock").write_text("{}")
        git(place.root / repo, "add", ".flox")
        git(folder, "init", "--quiet", "--bare", f"{repo}.git")
        git(place.root / repo, "remote", "add", "origin", f"{SERVER}{repo}.git")
    commit(place)
    return place


def make_verified(place: Place, tree: Path) -> None:
    """Build a workspace and record that its builds are right. The store gets the pin's tree, by its hash."""
    fixed = ["nix-store", "--add-fixed", "--recursive", "sha256", str(tree)]
    subprocess.run(fixed, check=True, capture_output=True)
    assert build(BuildRequest(workspace=place.root, nixpkgs=(str(tree),))).state == "done"
    record = open_record(place.root)
    for name in (place.torch, place.vision):
        note_verified(record, name)


@pytest.fixture(scope="session")
def verified_pattern(pinned_pattern: Place, tree_alone: Path, _store: Path) -> Place:
    """The same, built in the store of all tests and verified."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in nix_variables(_store).items():
            patch.setenv(name, value)
        make_verified(pinned_pattern, tree_alone)
    return pinned_pattern


@pytest.fixture(scope="session")
def pushed_pattern(verified_pattern: Place, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The same, pushed."""
    folder = tmp_path_factory.mktemp("pushed")
    place = copied_verified(verified_pattern, folder)
    for repo in REPOSITORIES:
        server = f"url.file://{folder}/.insteadOf={SERVER}"
        git(place.root / repo, "-c", server, "push", "-q", "-u", "origin", "HEAD")
    return place


def copied(pattern: Place, folder: Path) -> Place:
    """A copy of a workspace and of the remotes beside it, of whose builds nothing is known."""
    shutil.copytree(pattern.root.parent, folder, symlinks=True, dirs_exist_ok=True)
    return Place(folder / "workspace")


def copied_verified(pattern: Place, folder: Path) -> Place:
    """The same with what is known of its builds."""
    place = copied(pattern, folder)
    state = make_state_folder(place.root)
    own = (state / WORKSPACE).read_bytes()
    shutil.copytree(state_folder(pattern.root), state, symlinks=True, dirs_exist_ok=True)
    (state / WORKSPACE).write_bytes(own)
    return place


@pytest.fixture
def tree(tree_alone: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The miniature alone is what pins are evaluated with."""
    monkeypatch.setenv("TORCHSMITH_NIXPKGS", str(tree_alone))
    return tree_alone


@pytest.fixture
def ready(verified_pattern: Place, nix_here: Path, tree: Path, tmp_path: Path) -> Place:
    """A workspace that is built, verified and committed; nothing is pushed yet."""
    return copied_verified(verified_pattern, tmp_path)


@pytest.fixture
def pinned(pushed_pattern: Place, nix_here: Path, tree: Path, tmp_path: Path) -> Place:
    """The same, pushed."""
    return copied_verified(pushed_pattern, tmp_path)


def states(answer: Result) -> dict[str, str]:
    return {row["name"]: row["state"] for row in json.loads(answer.out)["packages"]}


def test_everything_that_is_missing_is_told_at_once_and_nothing_leaves(
    place: Place, tmp_path: Path, call: Call
) -> None:
    answer = call(*place.words("publish", "--org", "us"))
    assert answer.code == 1
    for repo in ("build-pytorch", "build-torchvision"):
        assert f"{repo}:" in answer.err
        assert [one.lack for one in missing(place.root / repo)] == ["commit", "source"]
    assert catalog(tmp_path) == []


@pytest.mark.needs("nix")
def test_a_dry_run_needs_no_flox(pinned: Place, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchsmith.building.backends.find", lambda name: None)
    monkeypatch.setattr("torchsmith.verbs.publish.find", lambda name: None)
    answer = call(*pinned.words("publish", "--org", "us", "--dry-run", "--json"))
    assert set(states(answer).values()) == {"would be published"}
    assert "Flox is not installed" in answer.err
    assert call(*pinned.words("publish", "--org", "us")).error == "missing-requirement"


@pytest.mark.needs("nix")
def test_one_push_then_every_package_from_that_commit(ready: Place, tmp_path: Path, call: Call) -> None:
    assert "--push" in call(*ready.words("publish", "--org", "us")).err
    answer = call(*ready.words("publish", "--org", "us", "--push"))
    assert answer.code == 0, answer.err
    published = catalog(tmp_path)
    assert [row[:2] for row in published] == [["us", ready.torch], ["us", ready.vision]]
    assert git(tmp_path / "build-pytorch.git", "log", "--format=%H", "main").split() == [published[0][2]]
    again = call(*ready.words("publish", "--org", "us", "--json"))
    assert set(states(again).values()) == {"published before"}
    assert len(catalog(tmp_path)) == 2


@pytest.mark.needs("nix")
def test_packages_of_one_repository_are_published_from_their_folders(
    ready: Place, tmp_path: Path, call: Call
) -> None:
    for repo in REPOSITORIES:
        shutil.rmtree(ready.root / repo / ".git")
    git(tmp_path, "init", "--quiet", "--bare", "all.git")
    git(ready.root, "init", "--quiet", "--initial-branch=main")
    git(ready.root, "remote", "add", "origin", f"{SERVER}all.git")
    git(ready.root, "add", ".")
    git(ready.root, "commit", "--quiet", "-m", "all")
    answer = call(*ready.words("publish", "--org", "us", "--push", "--json"))
    assert set(states(answer).values()) == {"published"}, answer.err
    assert {row["repo"] for row in json.loads(answer.out)["packages"]} == {*REPOSITORIES}
    assert {row[2] for row in catalog(tmp_path)} == {git(ready.root, "rev-parse", "HEAD").strip()}
    (ready.root / "build-torchvision" / LOCK).unlink()
    git(ready.root, "commit", "--quiet", "-am", "no lock file")
    refused = call(*ready.words("publish", "--org", "us", "--push", "--dry-run"))
    assert refused.code == 1
    assert refused.err.count("no lock file") == 1
    assert f"in {ready.root / 'build-torchvision'};" in refused.err


@pytest.mark.needs("nix")
def test_a_run_that_was_cut_off_goes_on_where_it_stopped(
    ready: Place, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLOX_STANDIN_REFUSES", ready.vision)
    first = call(*ready.words("publish", "--org", "us", "--push", "--json"))
    assert (first.code, states(first)) == (1, {ready.torch: "published", ready.vision: "failed"})
    monkeypatch.delenv("FLOX_STANDIN_REFUSES")
    second = call(*ready.words("publish", "--org", "us", "--json"))
    assert second.code == 0
    assert states(second) == {ready.torch: "published before", ready.vision: "published"}


@pytest.mark.needs("nix")
def test_what_is_not_verified_is_left_unless_forced(ready: Place, tmp_path: Path, call: Call) -> None:
    note_verified(open_record(ready.root), ready.vision, ok=False)
    answer = call(*ready.words("publish", "--org", "us", "--push", "--json"))
    assert answer.code == 1
    assert states(answer) == {ready.torch: "published", ready.vision: "not verified"}
    assert [row[1] for row in catalog(tmp_path)] == [ready.torch]
    assert call(*ready.words("publish", "--org", "us", "--force", "--push")).code == 0
    assert len(catalog(tmp_path)) == 2


@pytest.mark.needs("nix")
def test_a_build_without_recorded_flags_needs_an_option_of_its_own(ready: Place, call: Call) -> None:
    record = open_record(ready.root)
    built = record.built(ready.vision)
    assert built is not None
    row = VerificationRow(
        output=built.outputs[0], name=ready.vision, ok=False, unrecorded=True, derivation=built.derivation
    )
    record.note_verdict(row)
    refused = call(*ready.words("publish", "--org", "us", "--push", "--dry-run", "--json"))
    assert states(refused)[ready.vision] == "not verified"
    assert "--unrecorded" in refused.out
    accepted = call(*ready.words("publish", "--org", "us", "--push", "--dry-run", "--unrecorded", "--json"))
    assert states(accepted)[ready.vision] == "would be published"


def test_an_output_that_cannot_be_read_is_not_taken_for_one_without_recorded_flags(tmp_path: Path) -> None:
    name, output = "pytorch-python313-cpu-avx2", str(tmp_path / "gone")
    (tmp_path / "torchsmith.toml").write_text("format = 1\n")
    with closing(open_record(tmp_path)) as record:
        built = Built(name=name, outputs=(output,))
        assert why_unverified(record, open_workspace(tmp_path), name, built, unrecorded=True)
        kept = record.verdict(output, "", name)
    assert kept, "it need not be read again"
    assert not kept.ok


@pytest.mark.needs("nix")
def test_a_dry_run_publishes_and_pushes_nothing(ready: Place, tmp_path: Path, call: Call) -> None:
    answer = call(*ready.words("publish", "--org", "us", "--push", "--dry-run", "--json"))
    assert answer.code == 0, answer.err
    assert states(answer) == dict.fromkeys((ready.torch, ready.vision), "would be published")
    assert catalog(tmp_path) == []


@pytest.mark.needs("nix")
def test_the_token_reaches_no_log_no_report_and_no_database(ready: Place, tmp_path: Path, call: Call) -> None:
    answer = call(*ready.words("publish", "--org", "us", "--push", "--json"))
    assert answer.code == 0
    assert TOKEN not in answer.out + answer.err
    log = state_folder(ready.root) / f"logs/publish/{ready.torch}.log"
    assert "using token [FLOX_FLOXHUB_TOKEN]" in log.read_text(), "Flox did say it"
    for file in (state_folder(ready.root)).rglob("*"):
        if file.is_file():
            assert TOKEN.encode() not in file.read_bytes(), file


def note_verified(record: Record, name: str, *, ok: bool = True) -> None:
    built = record.built(name)
    assert built is not None
    record.note_verdict(
        VerificationRow(output=built.outputs[0], name=name, ok=ok, derivation=built.derivation)
    )


def git(repo: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", repo, *words], capture_output=True, text=True, check=True).stdout


def commit(place: Place) -> None:
    for repo in REPOSITORIES:
        subprocess.run(["git", "-C", place.root / repo, "commit", "-qam", "changed"], check=False)


def commit_all(place: Place) -> None:
    commit(place)
    for repo in REPOSITORIES:
        git(place.root / repo, "push", "-q", "-u", "origin", "HEAD")


def publish(call: Call, place: Place, *words: str) -> tuple[int, str]:
    """The exit code, and how torch stands; or the error."""
    answer = call(*place.words("publish", "--org", "us", "--json", place.torch, *words))
    return answer.code, answer.error or states(answer)[place.torch]


@pytest.mark.needs("nix")
def test_what_was_built_and_verified_is_published(pinned: Place, call: Call) -> None:
    assert publish(call, pinned) == (0, "published")


@pytest.mark.needs("nix")
def test_a_recipe_that_is_another_derivation_than_the_one_built_is_not_published(
    pinned: Place, call: Call
) -> None:
    recipe, right = pinned.recipe(pinned.torch), pinned.recipe(pinned.torch).read_text()
    recipe.write_text(right.replace("preConfigure = ", 'sneaked = "in"; preConfigure = '))
    assert recipe.read_text() != right
    assert publish(call, pinned, "--push") == (1, "refused"), "it is not committed"
    commit_all(pinned)
    assert publish(call, pinned) == (1, "not verified")
    recipe.write_text(right + "# a comment is no other derivation\n")
    commit_all(pinned)
    assert publish(call, pinned) == (0, "published")


@pytest.mark.needs("nix")
def test_what_head_holds_counts_and_not_what_lies_in_the_work_tree(
    pinned: Place, tmp_path: Path, call: Call
) -> None:
    recipe, right = pinned.recipe(pinned.torch), pinned.recipe(pinned.torch).read_text()
    recipe.write_text(right.replace("preConfigure = ", 'sneaked = "in"; preConfigure = '))
    commit_all(pinned)
    recipe.write_text(right)
    repo = pinned.root / "build-pytorch"
    hidden = ["update-index", "--assume-unchanged", str(recipe.relative_to(repo))]
    subprocess.run(["git", "-C", repo, *hidden], check=True)
    assert publish(call, pinned) == (1, "not verified")
    assert publish(call, pinned, "--push") == (1, "not verified")
    assert catalog(tmp_path) == []


@pytest.mark.needs("nix")
def test_a_result_that_the_store_has_not_as_it_was_built_is_not_published(
    pinned_pattern: Place, own_store: Path, tree: Path, tmp_path: Path, call: Call
) -> None:
    pinned = copied(pinned_pattern, tmp_path)
    make_verified(pinned, tree)
    commit_all(pinned)
    record = open_record(pinned.root)
    built = record.built(pinned.torch)
    assert built is not None
    file = next(one for one in Path(built.outputs[0]).rglob("*.py") if not one.is_symlink())
    right = file.read_bytes()
    file.chmod(0o644)
    file.write_text("# another program\n")
    assert publish(call, pinned) == (1, "not verified")
    file.write_bytes(right)
    file.chmod(0o444)
    record.note_built(msgspec.structs.replace(built, outputs=(str(tmp_path),)))
    record.note_verdict(
        VerificationRow(output=str(tmp_path), name=pinned.torch, ok=True, derivation=built.derivation)
    )
    assert publish(call, pinned) == (1, "not verified"), "no output of that derivation"
    record.note_built(built)
    assert publish(call, pinned, "--dry-run") == (0, "would be published")
    shutil.rmtree(state_folder(pinned.root) / "results")
    subprocess.run(["nix-collect-garbage"], check=True, capture_output=True)
    assert publish(call, pinned) == (1, "not verified")
    assert catalog(tmp_path) == []


@pytest.mark.needs("nix")
def test_a_remote_that_does_not_have_the_commit_or_does_not_answer_is_refused(
    pinned: Place, tmp_path: Path, call: Call
) -> None:
    repo, remote = pinned.root / "build-pytorch", tmp_path / "build-pytorch.git"
    git(repo, "commit", "-q", "--allow-empty", "-m", "more")
    assert publish(call, pinned) == (1, "refused")
    git(repo, "branch", "side")
    git(repo, "branch", "-u", "side")
    assert publish(call, pinned) == (1, "refused"), "a branch of this repository is not a remote"
    remote.rename(tmp_path / "gone")
    answer = call(*pinned.words("publish", "--org", "us", "--json", pinned.torch, "--push"))
    assert (answer.code, answer.error) == (1, "refused")
    assert "--checkout-credentials" in answer.err
    assert catalog(tmp_path) == []


# Ways in which a checkout once had published what was not verified.


def sneak(place: Place) -> str:
    """Another recipe in the work tree; returns the right text."""
    recipe = place.recipe(place.torch)
    right = recipe.read_text()
    recipe.write_text(right.replace("preConfigure = ", 'sneaked = "in"; preConfigure = '))
    assert recipe.read_text() != right
    return right


@pytest.mark.needs("nix")
def test_a_replaced_commit_is_published_as_it_is_named(pinned: Place, tmp_path: Path, call: Call) -> None:
    repo = pinned.root / "build-pytorch"
    good = git(repo, "rev-parse", "HEAD").strip()
    right = sneak(pinned)
    commit_all(pinned)
    git(repo, "replace", git(repo, "rev-parse", "HEAD").strip(), good)
    pinned.recipe(pinned.torch).write_text(right)
    git(repo, "reset", "-q")
    assert git(repo, "status", "--porcelain") == ""
    assert publish(call, pinned) == (1, "refused"), "the work tree is not what the commit has"
    clone = make_clone(source_of(repo), tmp_path / "clone")
    name = pinned.recipe(pinned.torch).relative_to(repo)
    assert (clone.folder / name).read_text() != right
    assert catalog(tmp_path) == []


@pytest.mark.needs("nix")
def test_attributes_of_the_checkout_do_not_change_what_is_evaluated(
    pinned: Place, tmp_path: Path, call: Call
) -> None:
    repo, recipe = pinned.root / "build-pytorch", pinned.recipe(pinned.torch)
    right = recipe.read_text()
    recipe.write_text(right.replace("preConfigure = ", 'sneaked = "$Id$"; preConfigure = '))
    commit_all(pinned)
    (repo / ".git/info/attributes").write_text("* ident\n")
    recipe.unlink()
    git(repo, "checkout", "--", ".")
    assert "$Id: " in recipe.read_text()
    assert call(*pinned.words("build", pinned.torch)).code == 0
    note_verified(open_record(pinned.root), pinned.torch)
    assert publish(call, pinned) == (1, "not verified")
    assert catalog(tmp_path) == []


@pytest.mark.needs("nix")
def test_a_head_that_moves_after_the_check_is_not_what_is_published(pinned: Place, tmp_path: Path) -> None:
    repo = pinned.root / "build-pytorch"
    good = git(repo, "rev-parse", "HEAD").strip()

    def check(recipes: Sequence[RecipeFile]) -> Mapping[str, str]:
        sneak(pinned)
        commit_all(pinned)
        assert git(repo, "rev-parse", "HEAD").strip() != good
        return {}

    flox = require_flox()
    publisher = Publisher(flox, "us", open_record(pinned.root), tmp_path / "logs", check)
    recipes = choose([pinned.torch], open_workspace(pinned.root), pinned.root).recipes
    rows = publisher.publish(recipes)
    assert [(row.state, row.revision) for row in rows] == [("published", good)]
    assert catalog(tmp_path) == [["us", pinned.torch, good]]


@pytest.mark.needs("nix")
def test_a_second_recipe_of_the_same_name_that_the_work_tree_hides_is_seen(
    pinned: Place, tmp_path: Path, call: Call
) -> None:
    repo, recipe = pinned.root / "build-pytorch", pinned.recipe(pinned.torch)
    second = recipe.with_suffix("") / "default.nix"
    second.parent.mkdir()
    second.write_text(recipe.read_text())
    git(repo, "add", ".")
    commit_all(pinned)
    git(repo, "update-index", "--skip-worktree", str(second.relative_to(repo)))
    shutil.rmtree(second.parent)
    assert git(repo, "status", "--porcelain") == ""
    assert publish(call, pinned) == (1, "not verified")
    assert catalog(tmp_path) == []


READS = {
    "a folder": 'builtins.concatStringsSep "" (map (f: builtins.readFile (../parts + "/${f}"))'
    " (builtins.attrNames (builtins.readDir ../parts)))",
    "a computed path": 'builtins.readFile (../parts + ("/" + "one"))',
}


@pytest.mark.needs("nix")
@pytest.mark.parametrize("reads", READS)
def test_a_file_that_a_recipe_reads_in_any_way_counts_also_for_builds_by_flox(
    pinned: Place, tmp_path: Path, call: Call, reads: str
) -> None:
    repo, recipe = pinned.root / "build-pytorch", pinned.recipe(pinned.torch)
    parts = recipe.parents[1] / "parts"
    parts.mkdir()
    (parts / "one").write_text("verified\n")
    text = recipe.read_text()
    recipe.write_text(text.replace("preConfigure = ", f"part = {READS[reads]}; preConfigure = "))
    git(repo, "add", ".")
    assert call(*pinned.words("build", pinned.torch)).code == 0
    record = open_record(pinned.root)
    built = record.built(pinned.torch)
    assert built is not None
    by_flox = msgspec.structs.replace(built, derivation="")  # Flox reports none
    with closing(sqlite3.connect(record.path)) as database:
        database.execute("delete from built")
        database.commit()
    record.note_built(by_flox)
    note_verified(record, pinned.torch)
    commit_all(pinned)
    assert publish(call, pinned, "--dry-run") == (0, "would be published")
    (parts / "one").write_text("not verified\n")
    commit_all(pinned)
    assert publish(call, pinned) == (1, "not verified")
    assert catalog(tmp_path) == []


@pytest.mark.needs("nix")
def test_a_build_whose_derivation_nobody_knows_is_refused(ready: Place, tmp_path: Path, call: Call) -> None:
    assert call(*ready.words("build", "--backend", "flox", ready.torch)).code == 0
    record = open_record(ready.root)
    with closing(sqlite3.connect(record.path)) as database:
        database.execute("delete from built where derivation != ''")
        database.commit()
    note_verified(record, ready.torch)
    assert publish(call, ready, "--push") == (1, "not verified")
    assert catalog(tmp_path) == []


@pytest.mark.needs("nix")
def test_push_pushes_nothing_if_nothing_is_verified(ready: Place, tmp_path: Path, call: Call) -> None:
    sneak(ready)
    commit(ready)
    assert publish(call, ready, "--push") == (1, "not verified")
    assert git(tmp_path / "build-pytorch.git", "for-each-ref") == ""


HOOK = """#!/bin/sh
echo "$0" >> {log}
"""


@pytest.mark.needs("nix")
def test_the_user_s_own_hooks_run_on_the_push_and_the_checkout_s_do_not(
    ready: Place, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo, log, hooks = ready.root / "build-pytorch", tmp_path / "ran", tmp_path / "own"
    for folder in (hooks, repo / ".git/hooks"):
        folder.mkdir(exist_ok=True)
        for name in ("pre-push", "reference-transaction"):
            (folder / name).write_text(HOOK.format(log=log))
            (folder / name).chmod(0o755)
    git(repo, "config", "core.hooksPath", str(repo / ".git/hooks"))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "2")
    monkeypatch.setenv("GIT_CONFIG_KEY_1", "core.hooksPath")
    monkeypatch.setenv("GIT_CONFIG_VALUE_1", str(hooks))
    assert publish(call, ready, "--push", "--dry-run") == (0, "would be published")
    assert not log.exists()
    assert publish(call, ready, "--push") == (0, "published")
    ran = set(log.read_text().split())
    assert str(hooks / "pre-push") in ran
    assert all(Path(one).parent == hooks for one in ran)


@pytest.mark.parametrize(
    ("settings", "lack"),
    [
        ({"remote.origin.url": "-uid"}, "source"),
        ({"remote.origin.url": "evil.git"}, "source"),
        ({"remote.origin.pushurl": "ext::sh -c id"}, "source"),
        ({"branch.main.merge": "refs/heads/-d"}, "source"),
        ({"branch.main.merge": "--upload-pack=id"}, "source"),
    ],
    ids=str,
)
def test_what_git_could_take_for_an_option_or_runs_here_is_refused(
    tmp_path: Path, settings: Mapping[str, str], lack: str
) -> None:
    repo = tmp_path / "repo"
    git(tmp_path, "init", "--quiet", "--initial-branch=main", str(repo))
    git(repo, "commit", "--quiet", "--allow-empty", "--message", "first")
    git(repo, "remote", "add", "origin", f"{SERVER}repo.git")
    assert list(missing(repo)) == []
    for key, value in settings.items():
        git(repo, "config", key, value)
    assert [one.lack for one in missing(repo)] == [lack]


def test_a_branch_that_could_be_an_option_is_refused(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    git(tmp_path, "init", "--quiet", "--initial-branch=main", str(repo))
    git(repo, "commit", "--quiet", "--allow-empty", "--message", "first")
    git(repo, "update-ref", "refs/heads/--mirror", "HEAD")
    git(repo, "symbolic-ref", "HEAD", "refs/heads/--mirror")
    assert [one.lack for one in missing(repo)] == ["source"]


@pytest.mark.needs("nix")
def test_a_recipe_whose_derivation_depends_on_its_folder_is_refused(
    pinned: Place, tmp_path: Path, call: Call
) -> None:
    recipe = pinned.recipe(pinned.torch)
    text = recipe.read_text().replace("preConfigure = ", "here = toString ./.; preConfigure = ")
    recipe.write_text(text)
    commit_all(pinned)
    assert call(*pinned.words("build", pinned.torch)).code == 0
    note_verified(open_record(pinned.root), pinned.torch)
    answer = call(*pinned.words("publish", "--org", "us", "--json", pinned.torch))
    assert (answer.code, states(answer)[pinned.torch]) == (1, "not verified")
    assert "depends on its folder" in json.loads(answer.out)["packages"][0]["detail"]


@pytest.mark.needs("nix")
def test_a_shallow_checkout_is_refused_with_the_command_that_completes_it(
    pinned: Place, tmp_path: Path, call: Call
) -> None:
    repo = pinned.root / "build-pytorch"
    git(repo, "commit", "-q", "--allow-empty", "-m", "more")
    git(repo, "push", "-q")
    shutil.rmtree(repo)
    git(tmp_path, "clone", "-q", "--depth=1", "-b", "main", f"{SERVER}build-pytorch.git", str(repo))
    answer = call(*pinned.words("publish", "--org", "us", "--json", pinned.torch))
    assert (answer.code, answer.error) == (1, "refused")
    assert f"git -C {repo} fetch --unshallow" in answer.err
    git(repo, "fetch", "-q", "--unshallow")
    assert publish(call, pinned) == (0, "published")


def test_a_clone_is_complete_however_the_checkout_splits_its_packs(tmp_path: Path) -> None:
    repo = tmp_path / "own"
    git(tmp_path, "init", "-q", "-b", "main", str(repo))
    for name in ("a", "b", "c"):
        (repo / name).write_bytes(os.urandom(700_000))
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "large")
    git(repo, "config", "pack.packSizeLimit", "1m")
    clone = make_clone(source_of(repo), tmp_path / "clone")
    assert len(list(clone.folder.glob(".git/objects/pack/*.pack"))) > 1
    assert (clone.folder / "c").read_bytes() == (repo / "c").read_bytes()


def test_a_clone_gives_objects_their_names_whatever_the_index_of_the_checkout_says(tmp_path: Path) -> None:
    repo, names = tmp_path / "own", ("right", "wrong")
    git(tmp_path, "init", "-q", "-b", "main", str(repo))
    for name in names:
        (repo / name).write_text(f"{name}\n")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "both")
    git(repo, "-c", "pack.writeReverseIndex=false", "repack", "-adq")
    [index] = repo.glob(".git/objects/pack/*.idx")
    data = index.read_bytes()
    count = int.from_bytes(data[1028:1032])
    objects = [data[1032 + 20 * number :][:20].hex() for number in range(count)]
    first, second = (objects.index(git(repo, "rev-parse", f"HEAD:{name}").strip()) for name in names)
    words = [data[at : at + 4] for at in range(1032 + 20 * count, len(data) - 40, 4)]
    for table in (0, count):  # checksums and places in the pack
        one, other = table + first, table + second
        words[one], words[other] = words[other], words[one]
    data = data[: 1032 + 20 * count] + b"".join(words) + data[-40:-20]
    index.chmod(0o644)
    index.write_bytes(data + hashlib.sha1(data).digest())
    assert git(repo, "cat-file", "-p", "HEAD:right") == "wrong\n"
    clone = make_clone(source_of(repo), tmp_path / "clone")
    assert (clone.folder / "right").read_text() == "right\n"


@pytest.mark.needs("nix")
def test_a_lock_file_that_is_a_link_is_not_published(pinned: Place, tmp_path: Path, call: Call) -> None:
    lock = pinned.root / "build-pytorch" / LOCK
    lock.rename(tmp_path / "lock")
    lock.symlink_to(tmp_path / "lock")
    commit_all(pinned)
    assert publish(call, pinned) == (1, "refused")
    assert catalog(tmp_path) == []


def test_a_name_that_flox_could_take_for_an_option_is_refused(tmp_path: Path) -> None:
    path = tmp_path / ".flox/pkgs/--help.nix"
    path.parent.mkdir(parents=True)
    with pytest.raises(Invalid):
        require_environments([RecipeFile("--help", path, tmp_path, builtin_catalog())])


@pytest.mark.parametrize(
    ("address", "good"),
    [
        ("https://example.org/a.git", True),
        ("ssh://git@example.org/a.git", True),
        ("git@example.org:a/b.git", True),
        ("/srv/a.git", False),
        ("a.git", False),
        ("../a.git", False),
        ("file:///srv/a.git", False),
        ("", False),
        ("ext::sh -c id", False),
        ("git://example.org/a", False),
        ("--upload-pack=id", False),
        ("ssh://-oProxyCommand=id/a", False),
        ("ssh://git@-oProxyCommand=id/a", False),
        ("git@-oProxyCommand=id:a", False),
        ("-oProxyCommand=id:a", False),
        ("https://example.org/a\nb", False),
    ],
)
def test_only_known_addresses_are_given_to_git(address: str, good: bool) -> None:
    assert is_address(address) is good


@pytest.mark.needs("nix")
def test_settings_of_the_checkout_reach_the_clone_only_as_credentials_that_the_user_takes(
    pinned: Place, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = pinned.root / "build-pytorch"
    git(repo, "config", "http.https://example.org/.extraheader", "AUTHORIZATION: basic c2VjcmV0")
    git(repo, "config", "core.sshCommand", "ssh -i key")
    git(repo, "config", "url./nowhere/.insteadOf", f"{SERVER}build")
    git(repo, "config", "http.cookieFile", str(tmp_path / "cookies"))
    git(repo, "config", "core.hooksPath", "hooks")
    source = source_of(repo)
    plain, taken = (
        make_clone(source, tmp_path / str(number), credentials=bool(number)) for number in range(2)
    )
    for clone in (plain, taken):
        settings = git(clone.folder, "config", "--local", "--list")
        assert not any(
            word in settings for word in ("extraheader", "sshcommand", "insteadof", "hookspath", "cookie")
        )
        assert clone.folder.name == "build-pytorch"
        assert clone.remote_commit() == clone.commit
    assert plain.settings == ()
    keys = {"http.https://example.org/.extraheader", "core.sshcommand"}
    assert {key for key, _ in taken.settings} == keys
    assert keys <= {*taken.environment.values()}
    assert publish(call, pinned, "--checkout-credentials") == (0, "published")


def test_two_names_that_flox_takes_for_one_package_are_found(tmp_path: Path) -> None:
    packages = tmp_path / ".flox/pkgs"
    packages.mkdir(parents=True)
    for name in ("a-b", "a_b", "c"):
        (packages / f"{name}.nix").write_text("{ }: { }\n")
    assert {recipe.attr: _is_twice(recipe) for recipe in recipes_in(tmp_path)} == {
        "a-b": True,
        "a_b": True,
        "c": False,
    }
