"""Files are written whole or not at all, and a kill leaves nothing that stays."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.anybody import weakened
from torchsmith.core.files import write_atomic
from torchsmith.core.problem import CannotWrite, Exit, Problem

KILLED_BEFORE_THE_RENAME = """
import os, signal, sys
from pathlib import Path
from torchsmith.core.files import write_atomic
os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
write_atomic(Path(sys.argv[1]), "new" * 1000)
"""


def test_the_draft_of_a_killed_run_is_taken_over_by_the_next(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text("old")
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", KILLED_BEFORE_THE_RENAME, file], check=False)
        assert done.returncode == -signal.SIGKILL
    assert file.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 2, "one draft, however often it was killed"
    write_atomic(file, "short")
    assert (file.read_text(), list(tmp_path.iterdir())) == ("short", [file])
    assert file.stat().st_mode & 0o777 == 0o644


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


def test_a_draft_that_another_process_put_in_place_meanwhile_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, draft = tmp_path / "a", tmp_path / ".a.new"
    theirs = tmp_path / "theirs"
    lock = fcntl.flock

    def waiting(handle: int, operation: int) -> None:
        if draft.exists() and not theirs.exists():
            draft.rename(theirs)  # as the process does that held the lock
            theirs.write_text("theirs")
        lock(handle, operation)

    monkeypatch.setattr(fcntl, "flock", waiting)
    write_atomic(file, "ours")
    assert (file.read_text(), theirs.read_text()) == ("ours", "theirs")
