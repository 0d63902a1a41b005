"""doctor says what works, on a machine that has everything and on one that has nothing, and never hangs."""

from __future__ import annotations

import grp
import json
import os
from pathlib import Path

import pytest

from tests.cli.conftest import Call
from tests.cli.test_host_verbs import with_tools
from torchsmith.building import plan
from torchsmith.catalog import builtin_catalog
from torchsmith.verbs import doctor
from torchsmith.verbs.doctor import _ccache, examine
from torchsmith.workspace.load import open_workspace


def checks(call: Call) -> dict[str, dict[str, str]]:
    return {one["name"]: one for one in json.loads(call("doctor", "--json").out)["checks"]}


def test_a_bare_machine_is_told_what_to_install(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with_tools(monkeypatch)
    found = checks(call)
    assert found["Python"]["health"] == "works"
    assert found["git"]["health"] == "broken"
    assert found["Nix"]["health"] == found["Flox"]["health"] == found["workspace"]["health"] == "missing"
    assert "nixos.org" in found["Nix"]["todo"]
    assert call("doctor").code == 1
    lines = call("doctor").out.splitlines()
    assert all(len(line) <= 200 for line in lines)
    assert {name.split()[0] for name in found} <= {line.split()[0] for line in lines}


def test_a_tool_that_hangs_or_fails_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with_tools(monkeypatch, "git", "flox", "nix-instantiate")
    Path("tools-here/git").write_text("#!/bin/sh\nexec /bin/sleep 600\n")
    Path("tools-here/flox").write_text("#!/bin/sh\necho broken >&2; exit 7\n")
    Path("tools-here/nix-instantiate").write_text("#!/bin/sh\necho no version\n")
    monkeypatch.setattr(doctor, "TIMEOUT_SECONDS", 0.5)
    found = {one.name: one for one in examine(open_workspace(None))}
    assert "time" in found["git"].found
    assert found["Flox"].found == "broken"
    assert {found[name].health for name in ("git", "Flox", "Nix")} == {"broken"}


@pytest.mark.parametrize(("memory", "health"), [(10.0, "warning"), (11.0, "works")])
def test_the_memory_of_a_torch_is_that_of_the_cores_at_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: float, health: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plan, "this_machine", lambda: plan.Machine(2, memory, 100, 100, True))
    [found] = [one for one in examine(open_workspace(None)) if one.name == "memory"]
    assert 10 < builtin_catalog().estimates["pytorch-gpu"].memory_gb(2) <= 11
    assert found.health == health


@pytest.mark.needs("nix")
def test_a_machine_with_nix_is_told_its_settings(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    call("init", ".")
    found = checks(call)
    assert found["git identity"]["health"] == found["workspace"]["health"] == "works"
    assert {"Nix", "Nix store", "Nix sandbox", "Nix features", "memory", "disk"} <= found.keys()


@pytest.mark.needs("nix")
def test_a_sandbox_that_other_settings_switch_off_names_their_file(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nix.conf").write_text("sandbox = false\n")
    monkeypatch.setenv("NIX_CONF_DIR", str(tmp_path))
    checks = json.loads(call("doctor", "--json").out)["checks"]
    sandbox = next(check for check in checks if check["name"] == "Nix sandbox")
    assert (sandbox["health"], sandbox["found"]) == ("warning", f"off, by {tmp_path}/nix.conf")


def test_a_compile_cache_needs_its_folder_its_permission_and_the_sandbox(tmp_path: Path) -> None:
    folder = tmp_path / "objects"
    group = grp.getgrgid(os.getgid()).gr_name
    boxed = {"sandbox": True, "build-users-group": group, "sandbox-paths": [f"{folder}={folder}"]}

    def healths(settings: dict[str, object]) -> list[str]:
        return [check.health for check in _ccache(str(folder), settings)]

    assert list(_ccache("", boxed)) == []
    assert healths(boxed) == ["broken"], "no folder"
    folder.mkdir(mode=0o700)
    assert healths(boxed) == ["broken", "works"], "not for the build users"
    folder.chmod(0o770)
    assert healths(boxed) == ["works", "works"]
    assert healths(boxed | {"build-users-group": "another"}) == ["broken", "works"]
    assert healths(boxed | {"sandbox-paths": []}) == ["works", "broken"]
    assert healths(boxed | {"sandbox": False}) == ["works", "warning"]
