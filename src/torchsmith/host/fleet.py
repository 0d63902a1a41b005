"""An inventory of machines: a CSV file or a folder of reports, read into kinds with counts."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torchsmith.catalog import Catalog
from torchsmith.core.problem import Empty, Invalid, NotFound, Problem, Where
from torchsmith.host.facts import HostFacts, merge
from torchsmith.host.read_report import read_report, report_text
from torchsmith.host.scan import scan
from torchsmith.host.stated import stated_facts

SAMPLE = Path(__file__).with_name("sample.csv")
# What the columns of an inventory may be called.
COLUMNS: dict[str, tuple[str, ...]] = {
    "name": ("name", "kind", "host", "hostname", "host name", "node", "machine", "id"),
    "count": ("count", "machines", "quantity", "n"),
    "weight": ("weight", "importance"),
    "system": ("system", "arch", "architecture", "platform"),
    "cpu": ("cpu", "microarchitecture", "cpu_name", "cpu_model", "model name", "processor"),
    "isa": ("isa",),
    "features": ("features", "flags"),
    "gpu": ("gpu", "gpus", "gpu_name", "gpu_model", "gpu model", "gpu_type"),
    "sm": ("sm", "compute_cap", "capability"),
    "driver": ("driver", "driver_version", "nvidia driver", "nvidia_driver"),
}
COLUMN_NAMES = ", ".join(COLUMNS)


@dataclass(frozen=True, slots=True)
class MachineKind:
    """Machines of one kind: how many, and how much each of them counts."""

    name: str
    facts: HostFacts
    count: int = 1
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Unread:
    """An entry of the inventory that could not be used, and why."""

    where: Where
    why: str


@dataclass(frozen=True, slots=True)
class Fleet:
    """All machines that could be read, and what could not."""

    kinds: tuple[MachineKind, ...]
    unread: tuple[Unread, ...] = ()
    unused_columns: tuple[str, ...] = ()

    @property
    def machines(self) -> int:
        return sum(kind.count for kind in self.kinds)


def read_fleet(path: Path, catalog: Catalog) -> Fleet:
    """The inventory at a path, or the sample. Raises a Problem if no machine can be read."""
    if path == Path("sample") and not path.exists():
        path = SAMPLE
    if not path.exists():
        hint = "an inventory is a CSV file or a folder of reports"
        raise NotFound(f"no such file: {path}", hint=hint)
    fleet = _read_folder(path) if path.is_dir() else _read_csv(report_text(path), str(path), catalog)
    if not fleet.kinds:
        first = f": {fleet.unread[0].where}: {fleet.unread[0].why}" if fleet.unread else ""
        raise Empty(f"{path} holds no machine that can be read{first}", hint=f"columns: {COLUMN_NAMES}")
    return fleet


def _read_csv(text: str, name: str, catalog: Catalog) -> Fleet:
    lines = text.splitlines()
    delimiter = max(",;\t", key=lines[0].count)
    rows = csv.reader(lines, delimiter=delimiter, strict=True)
    try:
        header = [cell.strip().lower() for cell in next(rows)]
        reader = _RowReader(catalog, name, header)
        for row in rows:
            values = dict(zip(header, (cell.strip() for cell in row), strict=False))
            if any(values.values()):
                reader.add(values, f"row {rows.line_num}", Where(name, rows.line_num))
    except csv.Error as error:
        hint = "quotes come in pairs, and a quote within quotes is doubled"
        raise Invalid(f"not valid CSV: {error}", hint=hint, where=Where(name, rows.line_num)) from error
    return reader.fleet()


class _RowReader:
    """Rows one by one; equal descriptions are read once, whatever the size of the fleet."""

    def __init__(self, catalog: Catalog, name: str, header: Sequence[str]) -> None:
        self.catalog = catalog
        self.column = {word: field for field, titles in COLUMNS.items() for word in titles}
        self.unused = tuple(word for word in header if word and word not in self.column)
        self.known = {self.column[word] for word in header if word in self.column}
        if not self.known & {"cpu", "isa", "features", "gpu", "sm"}:
            hint = f"columns that describe machines: {COLUMN_NAMES}"
            raise Empty(f"{name} describes no machine", hint=hint)
        self.kinds: list[MachineKind] = []
        self.unread: list[Unread] = []
        self.seen: dict[tuple[object, ...], HostFacts] = {}

    def add(self, row: Mapping[str, str], title: str, where: Where) -> None:
        try:
            self.kinds.append(self._kind(row, title))
        except Problem as problem:
            hint = re.sub(r"--(cpu|isa|features|gpu|driver|system)\b", r"column \1", problem.hint or "")
            self.unread.append(Unread(where, problem.message + (f" ({hint})" if hint else "")))

    def _kind(self, row: Mapping[str, str], title: str) -> MachineKind:
        fields: dict[str, str] = {}
        for key, value in row.items():
            if value and key in self.column:
                fields.setdefault(self.column[key], value)
        count = _number(fields.pop("count", "1"), "count")
        weight = _number(fields.pop("weight", "1"), "weight")
        if count != int(count):
            raise Invalid(f"count {count:g} is not a whole number")
        name = fields.pop("name", title)
        if self.known & {"gpu", "sm"}:
            fields.setdefault("gpu", "none")
        unused = "\n".join(f"{key}: {value}" for key, value in row.items() if value and key in self.unused)
        described = (*fields.items(), unused)
        if described not in self.seen:
            facts = stated_facts(self.catalog, "the inventory", **fields)
            # A GPU in a column that is not known is not taken for none.
            self.seen[described] = scan(unused, "the inventory", self.catalog, facts) if unused else facts
        return MachineKind(name, self.seen[described], int(count), weight)

    def fleet(self) -> Fleet:
        return Fleet(tuple(self.kinds), tuple(self.unread), self.unused)


def _number(word: str, what: str) -> float:
    try:
        number = float(word)
    except ValueError:
        raise Invalid(f"{what} {word!r} is not a number") from None
    if not 0 <= number < 1e9:
        raise Invalid(f"{what} {word} is out of range")
    return number


def _read_folder(folder: Path) -> Fleet:
    """A machine for each file name up to its first dot, and for each folder: its reports read together."""
    machines: dict[str, list[Path]] = {}
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") for part in relative.parts):
            name = relative.parts[0] if len(relative.parts) > 1 else path.name.partition(".")[0]
            machines.setdefault(name, []).append(path)
    kinds: list[MachineKind] = []
    unread: list[Unread] = []
    for name, paths in machines.items():
        parts = []
        for path in paths:
            try:
                parts.append(read_report(report_text(path), path.name))
            except Problem as problem:
                unread.append(Unread(Where(str(path)), problem.message))
        if parts:
            kinds.append(MachineKind(name, merge(parts)))
    return Fleet(tuple(kinds), tuple(unread))
