"""An inventory of machines: a CSV file or a folder of reports, read into kinds with counts."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from torchsmith.catalog import Catalog
from torchsmith.core.problem import Empty, Invalid, NotFound, Problem, Where
from torchsmith.host.facts import HostFacts
from torchsmith.host.read_report import machine_of, read_report, report_text
from torchsmith.host.stated import stated_facts
from torchsmith.host.tokens import table

SAMPLE = Path(__file__).with_name("sample.csv")


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
        raise Empty(
            f"{path} holds no machine that can be read{first}",
            hint=f"columns: {', '.join(table()['columns'])}",
        )
    return fleet


def _read_csv(text: str, name: str, catalog: Catalog) -> Fleet:
    lines = text.splitlines()
    delimiter = max(",;\t", key=lines[0].count)
    rows = csv.reader(lines, delimiter=delimiter, strict=True)
    columns = {word: field for field, titles in table()["columns"].items() for word in titles}
    kinds: list[MachineKind] = []
    unread: list[Unread] = []
    try:
        header = [cell.strip().lower() for cell in next(rows)]
        known = {columns[word] for word in header if word in columns}
        unused = tuple(word for word in header if word and word not in columns)
        if not known & {"cpu", "isa", "features", "gpu", "sm"}:
            hint = f"columns that describe machines: {', '.join(table()['columns'])}"
            raise Empty(f"{name} describes no machine", hint=hint)
        for row in rows:
            values = {key: cell.strip() for key, cell in zip(header, row, strict=False) if cell.strip()}
            fields = {columns[key]: value for key, value in reversed(values.items()) if key in columns}
            fields |= {"gpu": fields.get("gpu", "none")} if known & {"gpu", "sm"} else {}
            try:
                kinds += [_kind(fields, f"row {rows.line_num}", catalog)] if values else []
            except Problem as problem:
                text = problem.message + (f" ({problem.hint})" if problem.hint else "")
                unread.append(Unread(Where(name, rows.line_num), text))
    except csv.Error as error:
        hint = "quotes come in pairs, and a quote within quotes is doubled"
        raise Invalid(f"not valid CSV: {error}", hint=hint, where=Where(name, rows.line_num)) from error
    return Fleet(tuple(kinds), tuple(unread), unused)


def _kind(fields: dict[str, str], title: str, catalog: Catalog) -> MachineKind:
    """The machines of a row by its known columns."""
    count = _number(fields.pop("count", "1"), "count")
    weight = _number(fields.pop("weight", "1"), "weight")
    if count != int(count):
        raise Invalid(f"count {count:g} is not a whole number")
    name = fields.pop("name", title)
    return MachineKind(name, _described(tuple(sorted(fields.items())), catalog), int(count), weight)


@lru_cache(4096)  # equal descriptions are read once, whatever the size of the fleet
def _described(fields: tuple[tuple[str, str], ...], catalog: Catalog) -> HostFacts:
    return stated_facts(catalog, "the inventory", **dict(fields))


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
            kinds.append(MachineKind(name, machine_of(parts)))
    return Fleet(tuple(kinds), tuple(unread))
