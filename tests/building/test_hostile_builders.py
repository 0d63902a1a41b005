"""Builders that answer whatever they like: checking them ends, and nothing of theirs reaches the terminal."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Call
from torchsmith.core.process import run

TOML = """format = 1
profile = "seed"
[[builder]]
address = "ssh://hostile"
systems = ["x86_64-linux"]
"""
MARK = "==torchsmith=="
GOOD = f"{MARK}machine\nx86_64\n{MARK}nix\nnix-store 2.8\n{MARK}disk\n/dev/sda 1 1 99999999 1% /\n"
# What stands for ssh, as a shell script; whether the builder is then said to be fine.
BUILDERS = {
    "says nothing": ("exit 0", False),
    "refuses": ("exit 255", False),
    "is killed": ("kill -9 $$", False),
    "is a web server": ("printf 'HTTP/1.1 400 Bad Request\\r\\n\\r\\n'", False),
    "never ends": ("exec yes", False),
    "never ends its line": ("exec cat /dev/zero", False),
    "never ends its errors": ("exec yes >&2", False),
    "hangs": ("exec sleep 600", False),
    "leaves a process behind": ("sleep 600 & exit 0", False),
    "has a title for the terminal": ("printf '\\033]0;owned\\007\\n' >&2; exit 255", False),
    "clears the screen": (f"printf '{MARK}machine\\n\\033[2Jx86_64\\n{MARK}nix\\n\\033[31m9\\n'", False),
    "is no text": (f"printf '{MARK}machine\\n\\377\\376\\n{MARK}nix\\n\\000\\n'", False),
    "has endless numbers": (
        f"echo {MARK}machine; echo x86_64; echo {MARK}disk; echo a 1 1 {'9' * 4000} x",
        False,
    ),
    "adds a machine": (
        f"cat <<'END'\n{GOOD}{MARK}features\nsystem-features = big-parallel kvm ; ssh://evil i686-linux\nEND",
        True,
    ),
}


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that stands for ssh, first on PATH."""
    program = tmp_path / "bin/ssh"
    program.parent.mkdir()
    program.touch(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return program


@pytest.mark.parametrize("builder", BUILDERS)
def test_a_hostile_builder_is_checked_and_named(
    builder: str, ssh: Path, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, fine = BUILDERS[builder]
    if "sleep" in script:
        monkeypatch.setattr("torchsmith.building.farm.SSH_SECONDS", 2.0)
    ssh.write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "torchsmith.toml").write_text(TOML)
    table = call("doctor", "--builders", "--workspace", str(tmp_path))
    document = call("doctor", "--builders", "--json", "--workspace", str(tmp_path))
    assert (table.code == 0, document.code == 0) == (fine, fine)
    rows = json.loads(document.out)["builders"]
    assert [(row["builder"], row["ok"], bool(row["faults"])) for row in rows] == [
        ("ssh://hostile", fine, not fine)
    ]
    for text in (table.out, table.err, document.out, document.err):
        assert not {sign for sign in text if ord(sign) < 32} - set("\n")
        assert "Traceback" not in text


def test_a_program_that_writes_too_much_is_ended() -> None:
    begun = time.monotonic()
    for stream in ("", ">&2"):
        assert run(["sh", "-c", f"exec yes {stream}"], timeout=300, max_bytes=10_000).timed_out
    assert time.monotonic() - begun < 200
    done = run(["sh", "-c", "echo out; echo err >&2; exit 3"], timeout=300, max_bytes=10_000)
    assert (done.code, done.stdout, done.stderr, done.timed_out) == (3, "out\n", "err\n", False)
