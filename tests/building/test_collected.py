"""Collecting garbage at any moment of a run takes nothing that the run needs."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.building.conftest import Place
from tests.cli.conftest import Call
from torchsmith.building.by_name import workspace_record
from torchsmith.building.start import BuildSpec, prepare
from torchsmith.core.state import state_folder
from torchsmith.nix.evaluate import EvaluationOptions, EvaluationRequest, evaluate
from torchsmith.nix.keeper import Keeper
from torchsmith.nix.tool import Nix, find_nix
from torchsmith.record import open_record

pytestmark = pytest.mark.needs("nix")


def collect() -> None:
    subprocess.run(["nix-collect-garbage"], check=True, capture_output=True)


@contextmanager
def collecting() -> Iterator[None]:
    """Garbage is collected again and again."""
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            collect()
            stop.wait(0.05)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_a_collection_between_evaluation_and_the_first_job_takes_nothing(
    place: Place, own_store: Path
) -> None:
    trees = {"default": Path(os.environ["TORCHSMITH_NIXPKGS"])}
    with workspace_record(place.root) as (workspace, record):
        ready = prepare(BuildSpec((place.torch,), trees=trees), workspace, record)
        collect()
        finished = ready.run(lambda _: None)
    assert (finished.state, finished.failed) == ("done", {})
    assert not (state_folder(place.root) / "roots").exists(), "what kept it ends with the run"


def test_a_build_goes_well_while_garbage_is_collected_all_the_time(
    place: Place, own_store: Path, call: Call
) -> None:
    with collecting():
        answer = call(*place.words("build"))
    assert answer.code == 0, answer.err
    with closing(open_record(place.root)) as record:
        done = {row.name for row in record.jobs(1) if row.state == "done"}
    assert {"magma", place.torch, place.vision} <= {name.split("-2")[0] for name in done}
    assert not (state_folder(place.root) / "roots").exists(), "what was shared can be collected afterwards"


def test_what_is_evaluated_stays_until_the_keeper_lets_go(tmp_path: Path, own_store: Path) -> None:
    recipe = tmp_path / "x.nix"
    recipe.write_text('derivation { name = "x"; system = "x86_64-linux"; builder = "/bin/sh"; }')
    nix = find_nix()
    with Keeper(nix) as keeper, collecting():
        for _ in range(3):
            requests = [EvaluationRequest("x", recipe)]
            result = evaluate(requests, nix, EvaluationOptions(instantiate=True, keeper=keeper))[0]
            assert result.evaluated, result.cause
            path = result.evaluated.drv_path
            collect()
            assert Path(path).exists()
    collect()
    assert not Path(path).exists()


def test_the_keeper_says_what_is_not_there(own_store: Path) -> None:
    nix = find_nix()
    absent = f"{os.environ['NIX_STORE_DIR']}/{'0' * 32}-absent.drv"
    with Keeper(nix) as keeper:
        assert keeper.keep([absent]) == frozenset()
        assert keeper.keep([]) == frozenset()


def test_a_nix_that_serves_no_store_holds_nothing(tmp_path: Path) -> None:
    program = tmp_path / "nix-store"
    program.write_text("#!/bin/sh\nhead -c 64 /dev/zero\ncat >/dev/null\n")
    program.chmod(0o755)
    with Keeper(Nix(program, (2, 18))) as keeper:
        assert keeper.keep(["/nix/store/x"]) == {"/nix/store/x"}
