"""An inventory of machines: CSV, JSON, or a folder of reports, read into kinds with counts."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchsmith.catalog import Catalog
from torchsmith.core.problem import Empty, Invalid, NotFound, Problem, Where
from torchsmith.host.document import from_document
from torchsmith.host.facts import MARK, HostFacts, merge
from torchsmith.host.nodes import Node, load_json, split_nodes
from torchsmith.host.normalise import normalise
from torchsmith.host.read_report import read_report, read_text, report_text
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
    if path.is_dir():
        fleet = _read_folder(path)
    elif not path.exists():
        raise NotFound(
            f"no such file: {path}",
            hint="an inventory is a CSV or JSON file, what scontrol or kubectl print, or a folder of reports",
        )
    else:
        text = report_text(path).removeprefix("\ufeff")
        columns = {word.strip().lower() for word in re.split("[,;\t]", text.partition("\n")[0])}
        inventory = len(columns & {word for titles in COLUMNS.values() for word in titles}) > 1
        nodes = [] if inventory else split_nodes(normalise(text), path.name)
        if nodes:
            return Fleet(tuple(_kinds(nodes, path.name)))
        reader = _read_json if text.lstrip()[:1] in ("[", "{") else _read_csv
        fleet = reader(text, str(path), catalog)
    if not fleet.kinds:
        first = f": {fleet.unread[0].where}: {fleet.unread[0].why}" if fleet.unread else ""
        raise Empty(f"{path} holds no machine that can be read{first}", hint=f"columns: {COLUMN_NAMES}")
    return fleet


def _read_csv(text: str, name: str, catalog: Catalog) -> Fleet:
    lines = text.splitlines()
    if not lines:
        raise Empty(f"{name} is empty", hint=f"columns: {COLUMN_NAMES}")
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


def _read_json(text: str, name: str, catalog: Catalog) -> Fleet:
    data = load_json(text, name)
    if isinstance(data, dict) and MARK not in data:
        data = data.get("machines", [])
    entries = data if isinstance(data, list) else [data]
    rows = [entry for entry in entries if isinstance(entry, dict)]
    own = any(MARK in row for row in rows)
    columns = dict.fromkeys(key.lower() for row in rows if MARK not in row for key in row)
    reader = _RowReader(catalog, name, columns, documents=own)
    for number, entry in enumerate(entries, start=1):
        if isinstance(entry, dict):
            reader.add(entry, f"entry {number}", Where(f"{name}, entry {number}"))
        else:
            reader.refuse(Where(f"{name}, entry {number}"), "it is not an object")
    return reader.fleet()


class _RowReader:
    """Rows one by one; equal descriptions are read once, whatever the size of the fleet."""

    def __init__(self, catalog: Catalog, name: str, header: Iterable[str], documents: bool = False) -> None:
        self.catalog = catalog
        self.file = name
        self.column = {word: field for field, titles in COLUMNS.items() for word in titles}
        self.unused = tuple(word for word in header if word and word not in self.column)
        known = {self.column[word] for word in header if word in self.column}
        if not documents and not known & {"cpu", "isa", "features", "gpu", "sm"}:
            hint = f"columns that describe machines: {COLUMN_NAMES}"
            raise Empty(f"{name} describes no machine", hint=hint)
        self.kinds: list[MachineKind] = []
        self.unread: list[Unread] = []
        self.seen: dict[tuple[object, ...], HostFacts] = {}

    def refuse(self, where: Where, why: str) -> None:
        self.unread.append(Unread(where, why))

    def add(self, row: Mapping[str, Any], title: str, where: Where) -> None:
        try:
            self.kinds.append(self._kind(row, title))
        except Problem as problem:
            hint = re.sub(r"--(cpu|isa|features|gpu|driver|system)\b", r"column \1", problem.hint or "")
            self.refuse(where, problem.message + (f" ({hint})" if hint else ""))

    def _kind(self, row: Mapping[str, Any], title: str) -> MachineKind:
        fields: dict[str, str] = {}
        for key, value in row.items():
            field = self.column.get(key.lower())
            if field and value not in (None, ""):
                fields.setdefault(field, _word(value))
        count = _number(fields.pop("count", "1"), "count")
        weight = _number(fields.pop("weight", "1"), "weight")
        if count != int(count):
            raise Invalid(f"count {count:g} is not a whole number")
        name = fields.pop("name", title)
        return MachineKind(name, self._facts(row, fields), int(count), weight)

    def _facts(self, row: Mapping[str, Any], fields: dict[str, str]) -> HostFacts:
        if MARK in row:
            counted = (*COLUMNS["name"], *COLUMNS["count"], *COLUMNS["weight"])
            return from_document({key: row[key] for key in row if key not in counted}, self.file)
        if {self.column.get(key.lower()) for key in row} & {"gpu", "sm"}:
            fields.setdefault("gpu", "none")
        unused = tuple(
            f"{key}: {value}" for key, value in row.items() if value and key.lower() in self.unused
        )
        described = (*fields.items(), unused)
        if described not in self.seen:
            facts = stated_facts(self.catalog, "the inventory", **fields)
            text = "\n".join(unused)
            self.seen[described] = scan(text, "the inventory", self.catalog, facts) if unused else facts
        return self.seen[described]

    def fleet(self) -> Fleet:
        return Fleet(tuple(self.kinds), tuple(self.unread), self.unused)


def _word(value: Any) -> str:
    if isinstance(value, list):
        return "; ".join(str(part) for part in value)
    return str(value).strip()


def _number(word: str, what: str) -> float:
    try:
        number = float(word)
    except ValueError:
        raise Invalid(f"{what} {word!r} is not a number") from None
    if not 0 <= number < 1e9:
        raise Invalid(f"{what} {word} is out of range")
    return number


def _kinds(nodes: Iterable[Node], source: str) -> Iterator[MachineKind]:
    """Each node a kind; equal facts are one object, which is ranked once."""
    seen: dict[HostFacts, HostFacts] = {}
    for node in nodes:
        facts = read_text(node.text, source)
        yield MachineKind(node.name, seen.setdefault(facts, facts))


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
                text = report_text(path)
                nodes = split_nodes(normalise(text), path.name)
                if len(nodes) > 1:
                    kinds += _kinds(nodes, path.name)
                else:
                    parts.append(read_report(text, path.name))
            except Problem as problem:
                unread.append(Unread(Where(str(path)), problem.message))
        if parts:
            kinds.append(MachineKind(name, merge(parts)))
    return Fleet(tuple(kinds), tuple(unread))
