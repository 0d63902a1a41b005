"""What hangs or is killed in the middle, for real: a machine, a build, Nix itself."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.building.conftest import Place, title, use
from tests.building.farm import LoopbackBuilder, descendants
from tests.cli.conftest import Call
from torchsmith.core.state import state_folder
from torchsmith.record import JobRow, open_record

pytestmark = pytest.mark.needs("nix")


@contextmanager
def once_torch_compiles(place: Place, act: Callable[[str], None]) -> Iterator[None]:
    """Do something, once, when the first step of torch's first attempt is told; with its log."""
    log = state_folder(place.root) / f"logs/1/{place.torch}.log"
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.02):
            text = log.read_text() if log.exists() else ""
            if "[1/" in text:
                act(text)
                return

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def words_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def nix_of(place: Place) -> int:
    """The process that realises torch, started by this one."""
    link = f"results/{place.torch} "
    return next(
        pid for pid in descendants(os.getpid()) if "--realise" in words_of(pid) and link in words_of(pid)
    )


def build_of(place: Place) -> list[int]:
    """The processes of torch's build, the outermost first."""
    return descendants(nix_of(place))


def row(place: Place, name: str) -> JobRow:
    return next(row for row in open_record(place.root).jobs(1) if row.name == name)


@pytest.mark.needs("ssh", "mounts")
@pytest.mark.parametrize("farm", ["own stores"], indirect=True)
@pytest.mark.long
def test_a_builder_that_hangs_is_noticed_and_another_one_builds(
    place: Place, farm: dict[str, LoopbackBuilder], call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = "-o ServerAliveInterval=1 -o ServerAliveCountMax=2 -o ConnectTimeout=3"
    monkeypatch.setenv("NIX_SSHOPTS", f"{os.environ['NIX_SSHOPTS']} {quick}")
    use(place, "one", "two")
    hung = []

    def freeze(log: str) -> None:
        on = re.search(r"building \S*pytorch210\S* on ssh://(\w+)", log)
        assert on is not None
        hung.append(on[1])
        farm[on[1]].freeze()

    with once_torch_compiles(place, freeze):
        done = call(*place.words("build", "--jobs", "0"))
    assert done.code == 0, done.err
    assert title("builder-lost") in done.err
    assert "attempt 2 in" in done.err
    torch = row(place, place.torch)
    assert torch.attempts == 2
    assert torch.builder != f"ssh://{hung[0]}"


@pytest.mark.needs("ssh")
def test_a_builder_whose_host_key_is_not_known_is_not_tried_again(
    place: Place, farm: dict[str, LoopbackBuilder], call: Call, tmp_path: Path
) -> None:
    config = tmp_path / "farm/ssh_config"
    config.write_text(config.read_text().replace("StrictHostKeyChecking no", "StrictHostKeyChecking yes"))
    use(place, "one", "two")
    done = call(*place.words("build", "--jobs", "0", "--fail-fast"))
    assert done.code == 1
    assert title("builder-refuses") in done.err
    assert done.err.count("ssh://one takes no builds: ") == 1
    tried = {row.name: row.attempts for row in open_record(place.root).jobs(1) if row.attempts}
    assert set(tried.values()) == {1}


@pytest.mark.usefixtures("unbuilt")
@pytest.mark.parametrize("victim", [nix_of, lambda place: build_of(place)[0]], ids=["nix-store", "the build"])
def test_what_is_killed_from_outside_is_tried_again(
    victim: Callable[[Place], int], place: Place, call: Call
) -> None:
    with once_torch_compiles(place, lambda _: os.kill(victim(place), signal.SIGKILL)):
        done = call(*place.words("build", place.torch))
    assert done.code == 0, done.err
    assert row(place, place.torch).attempts == 2
    assert row(place, place.torch).state == "done"


@pytest.mark.usefixtures("unbuilt")
@pytest.mark.parametrize("option", [pytest.param("--timeout", marks=pytest.mark.long), "--silent-timeout"])
def test_a_build_that_hangs_is_ended_when_its_time_is_up(option: str, place: Place, call: Call) -> None:
    frozen: list[int] = []

    def freeze(_: str) -> None:
        frozen.extend(build_of(place))
        for pid in frozen:
            with contextlib.suppress(ProcessLookupError):  # a compiler that has ended meanwhile
                os.kill(pid, signal.SIGSTOP)

    began = time.monotonic()
    with once_torch_compiles(place, freeze):
        done = call(*place.words("build", place.torch, option, "20" if option == "--timeout" else "4"))
    assert done.code == 1
    assert time.monotonic() - began < 300, "it would hang for ever"
    assert title("timed-out") in done.err
    assert row(place, place.torch).attempts == 1
    assert not [pid for pid in frozen if "--realise" in words_of(pid)]
