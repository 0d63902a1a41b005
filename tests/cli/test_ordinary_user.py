"""An ordinary user in folders of others, without a home or Nix' daemon, meets words and no traceback."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.anybody import ordinary
from tests.building.conftest import ARM, MINI, TOML
from torchsmith.verbs.apply import ApplyRequest, apply

REVISION = "0" * 39 + "1"


@pytest.fixture
def theirs() -> Iterator[Path]:
    """A workspace that all users may read and none may write."""
    folder = Path(tempfile.mkdtemp(prefix="torchsmith-test-"))
    root = folder / "workspace"
    root.mkdir()
    (root / "torchsmith.toml").write_text(TOML)
    apply(ApplyRequest(workspace=root))
    (root / "torchsmith.toml").write_text(TOML.replace('"torchvision"]', '"torchvision", "torchaudio"]'))
    subprocess.run(["chmod", "-R", "a+rX,a-w", folder], check=True)
    try:
        yield root
    finally:
        subprocess.run(["chmod", "-R", "u+w", folder], check=True)
        shutil.rmtree(folder)


def called(root: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """torchsmith by a user who is not root and has no home."""
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "CI")}
    env = {**kept, "HOME": "/nonexistent", "TORCHSMITH_NIXPKGS": str(MINI), **variables}
    argv = [*ordinary(), sys.executable, "-m", "torchsmith", *words]
    done = subprocess.run(argv, cwd=root, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return done


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (("init", "new"), "new/torchsmith."),
        (("apply",), ".torchsmith/lock"),
        (("line", "update", "2.10", "--rev", REVISION), ".torchsmith/lock"),
        (("fix-hashes",), "/nonexistent/.local/state/torchsmith"),
        (("build",), "/nonexistent/.local/state/torchsmith"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
@pytest.mark.needs("nix")
def test_a_folder_that_may_not_be_written_is_named(words: tuple[str, ...], place: str, theirs: Path) -> None:
    done = called(theirs, *words)
    assert done.returncode == 3, done.stderr
    assert place in done.stderr
    assert "denied" in done.stderr or "unable to open" in done.stderr


@pytest.mark.parametrize("words", [("list",), ("runs",), ("runs", "--history")])
def test_what_only_tells_needs_neither_a_home_nor_a_right_to_write(
    words: tuple[str, ...], theirs: Path
) -> None:
    done = called(theirs, *words)
    assert done.returncode in (0, 1), done.stderr
    assert done.stdout


def test_an_audit_needs_no_cache(theirs: Path) -> None:
    done = called(theirs, "audit", ".", HOME="nowhere")  # a home that is not absolute
    assert done.returncode in (0, 1), done.stderr


@pytest.mark.needs("nix")
def test_without_the_daemon_recipes_evaluate_and_what_needs_the_store_says_so(theirs: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="torchsmith-test-") as home:
        os.chmod(home, 0o777)
        # A store of the test's own: what others left in the machine's would decide whether graph has to ask.
        store = {f"NIX_{name}_DIR": f"{home}/{name.lower()}" for name in ("STORE", "STATE", "LOG", "CONF")}
        alone = {"HOME": home, **store}
        nowhere = {**alone, "NIX_REMOTE": "daemon", "NIX_DAEMON_SOCKET_PATH": f"{home}/no-socket"}
        assert called(theirs, "eval", **nowhere).returncode == 0
        for words in (("eval", "--graph"), ("build", "--dry-run")):
            done = called(theirs, *words, **nowhere)
            assert done.returncode == 3, done.stderr
            assert "no-socket" in done.stderr
        assert called(theirs, "eval", "--graph", **alone).returncode == 0
        assert called(theirs, "eval", "--graph", **nowhere).returncode == 0  # its derivations are on disk now


@pytest.mark.needs("nix")
def test_a_build_into_a_store_of_its_own_is_announced_found_and_judged() -> None:
    home = Path(tempfile.mkdtemp(prefix="torchsmith-test-"))
    os.chmod(home, 0o777)
    # Nothing of the sample is in a binary cache: without a network Nix would ask again and again.
    alone = {"NIX_CONFIG": "substitute = false"}
    variables = {"HOME": str(home), "TORCHSMITH_CACHE": str(home / "cache"), **alone}
    cell = "pytorch-python313-cpu-" + ("armv8_2" if ARM else "avx2")
    try:
        workspace = home / "workspace"
        assert called(home, "init", str(workspace), "--cell", cell, **variables).returncode == 0
        assert called(workspace, "apply", **variables).returncode == 0
        # A derivation of the test's own: what others built may lie in the machine's store.
        [recipe] = workspace.glob(f"build-pytorch/.flox/pkgs/{cell}.nix")
        text = recipe.read_text()
        recipe.write_text(text.replace("export CXXFLAGS=", f"export TEST={home.name} CXXFLAGS="))
        assert recipe.read_text() != text
        dry = called(workspace, "build", "--dry-run", "--json", "--nixpkgs", "sample", **variables)
        own_store = json.loads(dry.stdout)["own_store"]
        if not own_store:
            pytest.skip("this user may write to the machine's store")
        assert own_store == f"{home}/cache/store/nix/store"
        built = called(workspace, "build", cell, "--verify", "--nixpkgs", "sample", **variables)
        if "namespace" in built.stderr:
            pytest.skip("Nix may not make the namespaces that a store of the user's own needs")
        assert built.returncode == 0, built.stderr
        assert built.stderr.count(own_store) == 2  # before the build, and the path of the result
        assert "torchsmith test" not in built.stderr
        links = (home / ".local/state/torchsmith/workspaces").glob("*/results/*")
        [result] = [link for link in links if link.name == cell]
        for named in (cell, str(result)):
            verified = called(workspace, "verify", named, "--json", **variables)
            assert verified.returncode == 0, verified.stdout + verified.stderr
            assert json.loads(verified.stdout)["report"]["path"].startswith(own_store)
        tested = called(workspace, "test", cell, "--json", **variables)
        assert json.loads(tested.stdout)["error"]["code"] == "missing-requirement"
        assert tested.returncode == 3
    finally:
        subprocess.run(["chmod", "-R", "u+w", home], check=True)
        shutil.rmtree(home)


@pytest.mark.needs("nix")
def test_eval_without_a_place_for_its_cache_names_it(theirs: Path) -> None:
    done = called(theirs, "eval")
    assert done.returncode == 3, done.stderr
    assert "/nonexistent" in done.stderr


@pytest.mark.needs("nix")
def test_doctor_asks_nothing_of_a_daemon_that_a_store_of_its_own_does_not_need(theirs: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        store = {f"NIX_{name}_DIR": f"{folder}/{name.lower()}" for name in ("STORE", "STATE", "LOG", "CONF")}
        checks = json.loads(called(theirs, "doctor", "--json", **store).stdout)["checks"]
    healths = {check["name"]: check["health"] for check in checks}
    assert healths["Nix"] == healths["Nix store"] == "works"
