"""The reckoning: what the derivations wrote down themselves, against what was told and what is on record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from tools.load.child import Cost
from torchsmith.building.events import Event, JobEnded, JobStarted
from torchsmith.core.state import state_folder
from torchsmith.record import Record, open_record


@dataclass(frozen=True)
class Load:
    """How much there is to do, and how often a builder dies."""

    jobs: int
    builders: int
    seconds: float = 1.0  # that a derivation takes
    every: tuple[float, float] = (1.0, 4.0)  # between two deaths
    down: tuple[float, float] = (1.0, 6.0)  # until a builder is back

    @property
    def names(self) -> list[str]:
        return [f"load-{number:04}" for number in range(self.jobs)]


@dataclass
class Result:
    """What came of it; `faults` is empty if nothing was lost, repeated or written down wrongly."""

    load: Load
    cost: Cost
    killed: int
    attempts: int = 0
    interrupted: int = 0  # builds that began and were cut off
    repeated: int = 0  # ended on a builder that died before Nix there knew, and built once more
    faults: list[str] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        cost, load = self.cost, self.load
        yield f"{load.jobs} derivations on {load.builders} builders in {cost.wall:.0f} s"
        yield f"{self.killed} builders killed, {self.attempts} attempts, {self.interrupted} builds cut off"
        yield f"{self.repeated} builds ended on a dying builder whose Nix did not learn it, and ran again"
        ours, nixs = (seconds / load.jobs * 1000 for seconds in (cost.schedule, cost.nix))
        yield f"CPU a job: scheduler {ours:.1f} ms, Nix and ssh {nixs:.0f} ms"
        yield f"CPU to evaluate and plan all of them: {cost.plan:.1f} s"
        yield from self.faults or ["every derivation is there, none was done twice, and the record is exact"]


@dataclass
class Noted:
    """What one derivation wrote down: when it began, each time, and how often it came to its end."""

    begun: list[float]
    ended: int


def read_note(file: Path) -> Noted:
    lines = file.read_text().splitlines() if file.exists() else []
    begun = [float(line.split()[1]) for line in lines if line.startswith("begin ")]
    return Noted(begun, sum(line.startswith("end ") for line in lines))


def reckon(root: Path, ledger: Path, told: Path, load: Load, killed: int) -> Result:
    """Every derivation once: done, told, written down and kept."""
    lines = told.read_bytes().splitlines()
    try:
        cost = msgspec.json.decode(lines[-1], type=Cost)
    except (IndexError, msgspec.MsgspecError):
        return Result(load, Cost("stopped", 0, 0, 0, 0), killed, faults=["the build did not end"])
    events = [msgspec.json.decode(line, type=Event) for line in lines[:-1]]
    notes = {name: read_note(ledger / name) for name in load.names}
    record = open_record(root, read_only=True)
    faults = [] if cost.state == "done" else [f"the run ended as {cost.state}"]
    faults += _faults(root, record, events, notes)
    record.close()
    return Result(
        load,
        cost,
        killed,
        sum(isinstance(event, JobStarted) for event in events),
        sum(len(note.begun) - note.ended for note in notes.values()),
        sum(max(0, note.ended - 1) for note in notes.values()),
        faults,
    )


def _faults(root: Path, record: Record, events: list[Event], notes: dict[str, Noted]) -> Iterator[str]:
    rows = {row.name: row for row in record.jobs(1)}
    if rows.keys() != notes.keys():
        yield f"{len(rows)} jobs are on record, not {len(notes)}"
    started = Counter(event.name for event in events if isinstance(event, JobStarted))
    done: dict[str, list[float]] = {name: [] for name in notes}
    for event in events:
        if isinstance(event, JobEnded) and event.state == "done":
            done[event.name].append(event.at)
    for name, note in notes.items():
        row, built = rows.get(name), record.built(name)
        last = max(done[name], default=0.0)
        checks = {
            f"was told done {len(done[name])} times": len(done[name]) == 1,
            "never came to its end": note.ended >= 1,
            "came to its end twice though no builder was lost": note.ended == 1 or started[name] > 1,
            "was begun after it was done": all(when < last for when in note.begun),
            "is not on record as done": row is not None and row.state == "done",
            "has other attempts on record": row is not None and row.attempts == started[name],
            "is not kept from being collected": (state_folder(root) / "results" / name).is_symlink(),
            "is not written down as built": built is not None and len(built.outputs) == 1,
        }
        yield from (f"{name} {words}" for words, right in checks.items() if not right)
