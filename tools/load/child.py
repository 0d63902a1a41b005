"""A build whose own CPU time is measured: `python -m tools.load.child ROOT TOLD`.

Every event goes to the file TOLD as a line; the last line is a `Cost`.
"""

from __future__ import annotations

import resource
import signal
import sys
import time
from pathlib import Path

import msgspec

from torchsmith.building.by_name import workspace_record
from torchsmith.building.events import Event
from torchsmith.building.plan import Resources
from torchsmith.building.start import BuildSpec, prepare


class Cost(msgspec.Struct, frozen=True):
    """Seconds of CPU: to plan, to hand out the jobs, of Nix for them; and of time for all of it."""

    state: str
    plan: float
    schedule: float
    nix: float
    wall: float


def build(root: Path, told: Path) -> Cost:
    """What `torchsmith build --jobs 0` does."""
    with told.open("wb") as file, workspace_record(root) as (workspace, record):

        def on_event(event: Event) -> None:
            file.write(msgspec.json.encode(event) + b"\n")

        request = BuildSpec(resources=Resources(jobs=0))
        ready = prepare(request, workspace, record)
        planned, children, began = time.process_time(), _children(), time.monotonic()
        finished = ready.run(on_event)
        cost = Cost(
            finished.state,
            planned,
            time.process_time() - planned,
            _children() - children,
            time.monotonic() - began,
        )
        file.write(msgspec.json.encode(cost) + b"\n")
    return cost


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(0 if build(Path(sys.argv[1]), Path(sys.argv[2])).state == "done" else 1)
