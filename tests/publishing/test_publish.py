"""Publishing: refused with everything that is missing, one commit, nothing twice, and no token anywhere."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from tests.building.conftest import MINI, Place
from tests.building.test_flox import STAND_IN
from tests.cli.conftest import Call, Result
from torchsmith.nix.fetch import tree_hash
from torchsmith.nix.tool import find_nix
from torchsmith.publishing.publish import missing
from torchsmith.record import Record, VerificationRow, open_record

TOKEN = "floxhub-very-secret-token"


@pytest.fixture(autouse=True)
def _flox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "store").mkdir()
    monkeypatch.setenv("FLOX_STANDIN_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("FLOX_STANDIN_CATALOG", str(tmp_path / "catalog.json"))
    monkeypatch.setenv("FLOX_FLOXHUB_TOKEN", TOKEN)
    monkeypatch.setenv("PATH", str(STAND_IN.parent), prepend=os.pathsep)


def catalog(tmp_path: Path) -> list[list[str]]:
    file = tmp_path / "catalog.json"
    found: list[list[str]] = json.loads(file.read_text()) if file.exists() else []
    return found


@pytest.fixture
def ready(place: Place, tmp_path: Path, call: Call) -> Place:
    """Built, verified, with a lock file and a remote in each repository; nothing is committed yet."""
    assert call(*place.words("build", "--backend", "flox")).code == 0
    record = open_record(place.root)
    for name in (place.torch, place.vision):
        built = record.built(name)
        assert built is not None
        record.note_verdict(VerificationRow(output=built.outputs[0], name=name, ok=True))
    with_remotes(place, tmp_path)
    return place


def with_remotes(place: Place, tmp_path: Path) -> None:
    for repo in ("build-pytorch", "build-torchvision"):
        (place.root / repo / ".flox/env/manifest.lock").write_text("{}")
        subprocess.run(["git", "-C", place.root / repo, "add", ".flox"], check=True)
        subprocess.run(["git", "init", "--quiet", "--bare", tmp_path / f"{repo}.git"], check=True)
        remote = ["remote", "add", "origin", str(tmp_path / f"{repo}.git")]
        subprocess.run(["git", "-C", place.root / repo, *remote], check=True)


def standings(answer: Result) -> dict[str, str]:
    return {row["name"]: row["standing"] for row in json.loads(answer.out)["packages"]}


def test_everything_that_is_missing_is_told_at_once_and_nothing_leaves(
    place: Place, tmp_path: Path, call: Call
) -> None:
    answer = call(*place.words("publish", "--org", "us"))
    assert answer.code == 1
    for repo, recipe in (("build-pytorch", place.torch), ("build-torchvision", place.vision)):
        assert f"{repo}:" in answer.err
        lacks = [one.lack for one in missing(place.root / repo, [place.recipe(recipe)])]
        assert lacks == ["lock", "commit", "remote"]
    assert catalog(tmp_path) == []


def test_one_commit_and_push_then_every_package_from_that_commit(
    ready: Place, tmp_path: Path, call: Call
) -> None:
    assert "--push" in call(*ready.words("publish", "--org", "us")).err
    answer = call(*ready.words("publish", "--org", "us", "--push"))
    assert answer.code == 0, answer.err
    published = catalog(tmp_path)
    assert [row[:2] for row in published] == [["us", ready.torch], ["us", ready.vision]]
    log = subprocess.run(
        ["git", "-C", ready.root / "build-pytorch", "log", "--format=%H", "@{upstream}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert log.stdout.split() == [published[0][2]]
    again = call(*ready.words("publish", "--org", "us", "--json"))
    assert set(standings(again).values()) == {"published before"}
    assert len(catalog(tmp_path)) == 2


def test_a_run_that_was_cut_off_goes_on_where_it_stopped(
    ready: Place, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLOX_STANDIN_REFUSES", ready.vision)
    first = call(*ready.words("publish", "--org", "us", "--push", "--json"))
    assert (first.code, standings(first)) == (1, {ready.torch: "published", ready.vision: "failed"})
    monkeypatch.delenv("FLOX_STANDIN_REFUSES")
    second = call(*ready.words("publish", "--org", "us", "--json"))
    assert second.code == 0
    assert standings(second) == {ready.torch: "published before", ready.vision: "published"}


def test_what_is_not_verified_is_left_unless_forced(ready: Place, tmp_path: Path, call: Call) -> None:
    record = open_record(ready.root)
    built = record.built(ready.vision)
    assert built is not None
    record.note_verdict(
        VerificationRow(output=built.outputs[0], name=ready.vision, ok=False, detail="no code for its GPU")
    )
    answer = call(*ready.words("publish", "--org", "us", "--push", "--json"))
    assert answer.code == 1
    assert standings(answer) == {ready.torch: "published", ready.vision: "not verified"}
    assert [row[1] for row in catalog(tmp_path)] == [ready.torch]
    assert call(*ready.words("publish", "--org", "us", "--force")).code == 0
    assert len(catalog(tmp_path)) == 2


def test_a_dry_run_publishes_and_pushes_nothing(ready: Place, tmp_path: Path, call: Call) -> None:
    answer = call(*ready.words("publish", "--org", "us", "--push", "--dry-run", "--json"))
    assert answer.code == 0, answer.err
    assert standings(answer) == dict.fromkeys((ready.torch, ready.vision), "would be published")
    assert catalog(tmp_path) == []


def test_the_token_reaches_no_log_no_report_and_no_database(ready: Place, tmp_path: Path, call: Call) -> None:
    answer = call(*ready.words("publish", "--org", "us", "--push", "--json"))
    assert answer.code == 0
    assert TOKEN not in answer.out + answer.err
    log = ready.root / f".torchsmith/logs/publish/{ready.torch}.log"
    assert "using token [FLOX_FLOXHUB_TOKEN]" in log.read_text(), "Flox did say it"
    for file in (ready.root / ".torchsmith").rglob("*"):
        if file.is_file():
            assert TOKEN.encode() not in file.read_bytes(), file


def commit_all(place: Place) -> None:
    for repo in ("build-pytorch", "build-torchvision"):
        subprocess.run(["git", "-C", place.root / repo, "commit", "-qam", "changed"], check=False)
        subprocess.run(["git", "-C", place.root / repo, "push", "-q", "-u", "origin", "HEAD"], check=True)


def test_a_recipe_that_changed_after_flox_built_it_is_not_published(
    ready: Place, tmp_path: Path, call: Call
) -> None:
    recipe = ready.recipe(ready.torch)
    recipe.write_text(recipe.read_text() + "# one byte more is another recipe\n")
    commit_all(ready)
    answer = call(*ready.words("publish", "--org", "us", "--json"))
    assert (answer.code, standings(answer)[ready.torch]) == (1, "not verified")
    assert [row[1] for row in catalog(tmp_path)] == [ready.vision]


@pytest.fixture
def pinned(
    place: Place, nix_here: Path, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> Place:
    """A workspace whose pin is the miniature, by its hash. Built, verified, committed and pushed."""
    tree = tmp_path / "nixpkgs"
    shutil.copytree(MINI, tree, ignore=shutil.ignore_patterns("__pycache__"))
    (place.root / "catalog/pins.toml").write_text(f'[6a030d5]\nsha256 = "{tree_hash(find_nix(), tree)}"\n')
    assert call(*place.words("apply")).code == 0
    monkeypatch.setenv("TORCHSMITH_NIXPKGS", str(tree))
    assert call(*place.words("build")).code == 0
    record = open_record(place.root)
    for name in (place.torch, place.vision):
        note_verified(record, name)
    with_remotes(place, tmp_path)
    commit_all(place)
    return place


def note_verified(record: Record, name: str) -> None:
    built = record.built(name)
    assert built is not None
    verdict = VerificationRow(output=built.outputs[0], name=name, ok=True, derivation=built.derivation)
    record.note_verdict(verdict)


def publish(call: Call, place: Place, *words: str) -> tuple[int, str]:
    """The exit code, and how torch stands; or the error."""
    answer = call(*place.words("publish", "--org", "us", "--json", place.torch, *words))
    return answer.code, answer.error or standings(answer)[place.torch]


@pytest.mark.needs("nix")
def test_what_was_built_and_verified_is_published_with_a_mirror_of_the_pin_s_nixpkgs(
    pinned: Place, call: Call
) -> None:
    assert publish(call, pinned) == (0, "published")


@pytest.mark.needs("nix")
def test_a_recipe_that_is_another_derivation_than_the_one_built_is_not_published(
    pinned: Place, call: Call
) -> None:
    recipe, right = pinned.recipe(pinned.torch), pinned.recipe(pinned.torch).read_text()
    recipe.write_text(right.replace("preConfigure = ", 'sneaked = "in"; preConfigure = '))
    assert recipe.read_text() != right
    assert publish(call, pinned, "--push", "--dry-run") == (1, "not verified")
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
def test_another_nixpkgs_than_the_pin_s_publishes_nothing(
    pinned: Place, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nixpkgs/README.md").write_text("another byte\n")
    answer = call(*pinned.words("publish", "--org", "us", "--json", pinned.torch))
    assert (answer.code, standings(answer)[pinned.torch]) == (1, "not verified")
    assert "hash" in json.loads(answer.out)["packages"][0]["words"]
    monkeypatch.delenv("TORCHSMITH_NIXPKGS")
    assert publish(call, pinned, "--nixpkgs", str(tmp_path / "nixpkgs")) == (1, "not verified")
    assert catalog(tmp_path) == []


@pytest.mark.needs("nix")
def test_a_pin_without_a_hash_cannot_be_stood_for(
    place: Place, nix_here: Path, tmp_path: Path, call: Call
) -> None:
    assert call(*place.words("build", place.torch)).code == 0
    with_remotes(place, tmp_path)
    commit_all(place)
    note_verified(open_record(place.root), place.torch)
    assert publish(call, place) == (1, "not verified")
    assert publish(call, place, "--nixpkgs", "sample") == (1, "not verified")


@pytest.mark.needs("nix")
def test_a_result_that_the_store_has_not_as_it_was_built_is_not_published(
    own_store: Path, pinned: Place, tmp_path: Path, call: Call
) -> None:
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
    shutil.rmtree(pinned.root / ".torchsmith/results")
    subprocess.run(["nix-collect-garbage"], check=True, capture_output=True)
    assert publish(call, pinned) == (1, "not verified")
    assert catalog(tmp_path) == []


def test_a_branch_of_this_repository_is_no_remote_and_a_rewound_remote_has_not_the_commit(
    place: Place, tmp_path: Path, call: Call
) -> None:
    with_remotes(place, tmp_path)
    commit_all(place)
    repo, recipes = place.root / "build-pytorch", [place.recipe(place.torch)]
    (repo / "note").write_text("more\n")
    for words in (("add", "note"), ("commit", "-qm", "more"), ("branch", "side"), ("branch", "-u", "side")):
        subprocess.run(["git", "-C", repo, *words], check=True, capture_output=True)
    assert [one.lack for one in missing(repo, recipes)] == ["upstream"]
    subprocess.run(["git", "-C", repo, "push", "-q", "-u", "origin", "HEAD"], check=True)
    assert list(missing(repo, recipes)) == []
    remote = tmp_path / "build-pytorch.git"
    before = subprocess.run(["git", "-C", repo, "rev-parse", "HEAD~1"], capture_output=True, text=True).stdout
    subprocess.run(["git", "-C", remote, "update-ref", "refs/heads/main", before.strip()], check=True)
    assert [one.lack for one in missing(repo, recipes)] == ["pushed"]
    assert publish(call, place) == (1, "refused")
    remote.rename(tmp_path / "gone")
    assert [one.lack for one in missing(repo, recipes)] == ["remote"]
