"""Publishing: refused with everything that is missing, one commit, nothing twice, and no token anywhere."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.build.conftest import Place
from tests.build.test_flox import STAND_IN
from tests.cli.conftest import Call, Result
from torchsmith.publish.publish import missing
from torchsmith.record import VerificationRow, open_record

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


@pytest.mark.needs("nix")
def test_a_recipe_that_is_another_derivation_than_the_one_built_is_not_published(
    place: Place, nix_here: Path, tmp_path: Path, call: Call
) -> None:
    assert call(*place.words("build")).code == 0
    record = open_record(place.root)
    for name in (place.torch, place.vision):
        built = record.built(name)
        assert built is not None
        verdict = VerificationRow(output=built.outputs[0], name=name, ok=True, derivation=built.derivation)
        record.note_verdict(verdict)
    with_remotes(place, tmp_path)
    recipe, right = place.recipe(place.torch), place.recipe(place.torch).read_text()
    recipe.write_text(right.replace("preConfigure = ", 'sneaked = "in"; preConfigure = '))
    assert recipe.read_text() != right
    commit_all(place)
    answer = call(*place.words("publish", "--org", "us", "--json"))
    assert (answer.code, standings(answer)[place.torch]) == (1, "not verified")
    assert [row[1] for row in catalog(tmp_path)] == [place.vision]
    recipe.write_text(right + "# a comment is no other derivation\n")
    commit_all(place)
    answer = call(*place.words("publish", "--org", "us", place.torch))
    assert answer.code == 0, answer.out + answer.err
