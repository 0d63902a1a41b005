"""Files are written whole or not at all, and a kill leaves nothing that stays."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.anybody import weakened
from torchsmith.core.files import exclusive, read_bytes, read_text, write_atomic
from torchsmith.core.problem import CannotRead, CannotWrite, Exit, Problem, TooLarge

KILLED_BEFORE_THE_RENAME = """
import os, signal, sys
from pathlib import Path
from torchsmith.core.files import read_bytes, read_text, write_atomic
os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
write_atomic(Path(sys.argv[1]), "new" * 1000)
"""


def test_a_kill_leaves_the_old_text_and_the_next_run_writes(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text("old")
    done = subprocess.run([sys.executable, "-c", KILLED_BEFORE_THE_RENAME, file], check=False)
    assert done.returncode == -signal.SIGKILL
    assert file.read_text() == "old"
    write_atomic(file, "short")
    assert file.read_text() == "short"
    assert file.stat().st_mode & 0o777 == 0o644
    assert all(path.name.startswith(".") for path in tmp_path.iterdir() if path != file)


def test_writers_at_the_same_time_leave_the_whole_text_of_one(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    texts = [str(number) * 50_000 for number in range(8)]
    threads = [threading.Thread(target=write_atomic, args=(file, text)) for text in texts * 5]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert file.read_text() in texts
    assert list(tmp_path.iterdir()) == [file]


def test_a_write_that_fails_says_why_and_leaves_no_draft(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/inside").touch()
    with pytest.raises(Problem, match=str(tmp_path / "a")) as caught:
        write_atomic(tmp_path / "a", "text")
    assert caught.value.exit is Exit.ENVIRONMENT
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_file_where_a_folder_is_wanted_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    for place in ("a/b", "a/b/c"):
        with pytest.raises(CannotWrite, match=f": {tmp_path}/a "):
            write_atomic(tmp_path / place, "text")


def test_a_folder_that_may_not_be_written_is_told_as_that(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    try:
        script = "import sys; from pathlib import Path; from torchsmith.core.files import write_atomic\n"
        script += "from torchsmith.core.problem import CannotWrite\n"
        script += "try: write_atomic(Path(sys.argv[1]), 'text')\nexcept CannotWrite as told: print(told)"
        argv = [*weakened(), sys.executable, "-c", script, str(tmp_path / "a")]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    finally:
        tmp_path.chmod(0o755)
    assert f" {tmp_path}/a: {os.strerror(errno.EACCES)}\n" in done.stdout
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(("umask", "mode"), [(0o077, 0o600), (0o002, 0o664)])
def test_a_new_file_has_what_the_umask_leaves_and_another_keeps_its_mode(
    tmp_path: Path, umask: int, mode: int
) -> None:
    before = os.umask(umask)
    try:
        write_atomic(tmp_path / "a", "text")
        (tmp_path / "b").touch(0o640)
        (tmp_path / "b").chmod(0o640)
        write_atomic(tmp_path / "b", "text")
    finally:
        os.umask(before)
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in "ab"] == [mode, 0o640]


def test_only_regular_files_of_a_bounded_size_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    (tmp_path / "sparse").touch()
    os.truncate(tmp_path / "sparse", 2 << 30)
    for name, kind in {"pipe": CannotRead, "link": CannotRead, "sparse": TooLarge, ".": CannotRead}.items():
        with pytest.raises(kind):
            read_text(tmp_path / name)
    (tmp_path / "own").write_text("text")
    (tmp_path / "to").symlink_to("own")
    assert read_bytes(tmp_path / "to") == b"text"
    assert read_bytes("/proc/self/status").startswith(b"Name:"), "its size is said to be 0"
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
        read_bytes(tmp_path / "to", links=False)


# These read what torchsmith ships, its own store and cache, and files of the kernel.
OWN = {
    *("__init__", "benchmark/cores", "building/ci", "building/rehearsal", "building/rehearse_child"),
    *("cli/panels", "core/cores", "core/process", "core/state", "core/toml", "nix/cache"),
    *("nix/derivation", "nix/errors", "nix/probe", "nix/worker", "recipe/template", "verbs/audit"),
    *("webpage/html", "workspace/proved"),
}


def test_files_of_others_are_read_in_one_way() -> None:
    source = Path(__file__).parents[2] / "src/torchsmith"
    reads = re.compile(r"\.read_(text|bytes)\(")
    found = {
        path.relative_to(source).with_suffix("").as_posix()
        for path in source.rglob("*.py")
        if reads.search(path.read_text()) and "samples" not in path.parts
    }
    assert found == OWN


def test_a_lock_makes_the_folders_that_it_is_in(tmp_path: Path) -> None:
    with exclusive(tmp_path / "a/b/lock", what="it"):
        assert (tmp_path / "a/b/lock").read_text() == f"{os.getpid()}\n"
