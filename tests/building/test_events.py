"""What `build --json` prints: every kind is a type, and lines of earlier releases are still read."""

from __future__ import annotations

import json
from typing import get_args

import msgspec
import pytest

from torchsmith.building.backends import _JobEvents
from torchsmith.building.events import Event, JobSteps
from torchsmith.building.job import Job
from torchsmith.nix.log import Failure, LogEvent, LogLine, LogReader

# Printed when all kinds were one struct.
EARLIER = """\
{"kind":"run-started","at":1.5,"counts":{"waiting":2}}
{"kind":"job-started","at":2.0,"job":"/nix/store/a.drv","name":"a","cores":8,"attempt":1}
{"kind":"building","job":"/nix/store/a.drv","derivation":"a"}
{"kind":"phase","job":"/nix/store/a.drv","derivation":"a","phase":"buildPhase"}
{"kind":"steps","job":"/nix/store/a.drv","total":5}
{"kind":"retry","at":3.0,"job":"a.drv","name":"a","cores":4,"attempt":2,"detail":"no memory"}
{"kind":"job-ended","at":4.0,"job":"a.drv","name":"a","state":"done","outputs":["/nix/store/a"],"counts":{}}
{"kind":"job-ended","at":4.0,"job":"b.drv","name":"b","state":"skipped","detail":"needs a"}
{"kind":"note","detail":"kept"}
{"kind":"run-ended","at":5.0,"state":"failed","counts":{"done":1}}
""".splitlines()
DECODER = msgspec.json.Decoder(Event)


@pytest.mark.parametrize("line", EARLIER)
def test_a_line_of_earlier_releases_says_the_same_now(line: str) -> None:
    again = json.loads(msgspec.json.encode(DECODER.decode(line)))
    assert again == {key: value for key, value in json.loads(line).items() if value != {}}


def test_a_job_with_fewer_cores_is_tried_again_at_once() -> None:
    [again] = [DECODER.decode(line) for line in EARLIER if '"retry"' in line]
    assert again.seconds == 0


def test_every_kind_of_event_has_a_tag_of_its_own() -> None:
    assert {type(DECODER.decode(line)) for line in EARLIER} <= set(get_args(Event))
    assert len({kind.__struct_config__.tag for kind in get_args(Event)}) == len(get_args(Event))


def test_a_small_ninja_run_beside_the_build_is_no_progress() -> None:
    told: list[object] = []
    key = "/nix/store/a-torch.drv"
    job = Job(key, "torch", (key,), "pytorch", False, "x86_64-linux")
    watched = _JobEvents(job, told.append, set())
    for done, total in ((1, 100), (3, 4), (2, 100)):
        watched.take(LogLine(key, f"[{done}/{total}] CXX x.o"))
    assert told == [JobSteps(job=key, done=1, total=100), JobSteps(job=key, done=2, total=100)]


@pytest.mark.parametrize(
    ("level", "text", "events"),
    [
        (0, "error: it failed", [Failure("error: it failed")]),
        (0, "trace: from a recipe", [LogLine("", "trace: from a recipe")]),
        (1, "warning: slow", [LogLine("", "warning: slow")]),
        (3, "these 2 derivations will be built", []),
    ],
)
def test_of_what_nix_says_errors_are_failures_and_notices_are_left_out(
    level: int, text: str, events: list[LogEvent]
) -> None:
    message = json.dumps({"action": "msg", "level": level, "msg": text})
    assert [*LogReader().read(f"@nix {message}")] == events
