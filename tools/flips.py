"""Single wrong facts put into the catalog, and which check catches each: loading, `facts`, or the tests that
hold it against second sources. Prose (titles, notes, sources) is left alone; nothing is compared with a copy
of the catalog. `python -m tools.flips [SHARE] [EVERY]` tries every EVERYth of them (1), and fails if
fewer than SHARE percent (98) are caught.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tests.catalog.second import differences
from tools.proof.checks import check_catalog
from tools.proof.readings import Readings, read_tools
from torchsmith.catalog import Catalog, builtin_catalog
from torchsmith.catalog.check import check
from torchsmith.catalog.load import DATA, KINDS, Layer
from torchsmith.core.problem import Problem

# Words for people, and the wheel that a reading was taken from, which is a source.
PROSE = {
    "wheel",
    "title",
    "note",
    "source",
    "unproved",
    "why",
    "reason",
    "words",
    "first_cpus",
    "also_called",
    "ended",
    "retired",
}
FILES = (
    "gpus",
    "cuda",
    "cpus",
    "isas",
    "features",
    "pythons",
    "pins",
    "lines",
    "fixes",
    *("retired", "instances", "gfx", "jetpacks"),
)
MOVED = ("parts", "vgpus", "products")  # names, each of which is given to another entry
LISTS = {  # what may stand in a list besides what is there
    "isas": ["avx", "avx2", "avx512", "avx512vnni", "avx512bf16", "armv8_2", "armv9"],
    "platforms": ["x86_64-linux", "aarch64-linux"],
    "pythons": ["3.11", "3.12", "3.13", "3.14", "3.15"],
    "cudas": ["12.6", "12.8", "12.9", "13.0", "13.1"],
    "targets": ["52", "61", "75", "87", "90a", "100", "100f", "103", "110", "121a"],
    "features": ["avx", "avx2", "fma", "f16c", "avx512f", "avx512_vnni", "sve", "asimddp"],
}

PROPERTIES = {file: {"cudapackages": "cuda_packages"}.get(file, file) for file in KINDS}
TOOLED = {"cuda", "isas", "features", "cpus", "gfx"}  # what tools are asked about


@dataclass(frozen=True)
class Flip:
    """One wrong fact: its kind, what it is, and the layer that says it."""

    kind: str
    what: str
    layer: Layer


def flips() -> Iterator[Flip]:
    """Every value that is not prose, changed; every list, one entry given or taken; every part moved."""
    for file in FILES:
        tables = tomllib.loads((DATA / f"{file}.toml").read_text())
        for entry, fields in tables.items():
            for path, value in _leaves(fields, (entry,)):
                for wrong in _wrong(file, path, value):
                    yield _flip(file, path, value, wrong)
    drivers = tomllib.loads((DATA / "backends.toml").read_text())["rocm"]["drivers"]
    for release, oldest in drivers.items():
        yield _flip("backends", ("rocm", "drivers", release), oldest, _near(oldest))
    for file, field in (("gpus", "parts"), ("gpus", "vgpus"), ("cpus", "products"), ("cpus", "also_called")):
        yield from _moves(file, field)


def _leaves(table: dict[str, Any], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*path, key))
        elif not PROSE & {key}:
            yield (*path, key), value


def _wrong(file: str, path: tuple[str, ...], value: Any) -> Iterator[Any]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + 1, value - 1)
    elif isinstance(value, str):
        yield _near(value)
    elif isinstance(value, list) and (path[-1] not in MOVED or file in ("retired", "gfx")):
        yield from ([one for one in value if one != gone] for gone in value)
        yield from ([*value, more] for more in LISTS.get(path[-1], []) if more not in value)
        if path[-1] == "ids":
            yield from ([_near(one) if one == changed else one for one in value] for changed in value)


def _near(text: str) -> str:
    """The same with its last digit another, or its first letter if it has none."""
    digits = [at for at, letter in enumerate(text) if letter.isdigit()]
    if not digits:
        return chr((ord(text[0]) - 97 + 1) % 26 + 97) + text[1:] if text else "x"
    at = digits[-1]
    return f"{text[:at]}{(int(text[at]) + 1) % 10}{text[at + 1 :]}"


def _flip(file: str, path: tuple[str, ...], value: Any, wrong: Any) -> Flip:
    table = ".".join(json.dumps(part) for part in path[:-1])
    text = f"[{table}]\n{json.dumps(path[-1])} = {json.dumps(wrong)}\n"
    field = path[-1] if len(path) < 3 or path[1] in ("cuda", "cpu", "limits", "patches") else path[1]
    shown = f"{value} -> {wrong}"
    if isinstance(value, list):
        taken, given = [one for one in value if one not in wrong], [one for one in wrong if one not in value]
        shown = " ".join([*(f"-{one}" for one in taken), *(f"+{one}" for one in given)])
    what = f"{'.'.join(path)}: {shown}"
    return Flip(f"{file}.{field}", what, Layer({file: text}, {file: "flip.toml"}))


def _moves(file: str, field: str) -> Iterator[Flip]:
    """Every part, product and name given to the next entry instead of its own."""
    tables = tomllib.loads((DATA / f"{file}.toml").read_text())
    names = list(tables)
    for at, name in enumerate(names):
        other = names[(at + 3) % len(names)]
        for part in tables[name].get(field, []):
            kept = [one for one in tables[name][field] if one != part]
            given = [*tables[other].get(field, []), part]
            text = "".join(
                f"[{entry}]\n{field} = {json.dumps(own)}\n" for entry, own in ((name, kept), (other, given))
            )
            yield Flip(
                f"{file}.{field}", f"{part}: {name} -> {other}", Layer({file: text}, {file: "flip.toml"})
            )


def caught_by(flip: Flip, readings: Readings) -> str:
    """The first check that sees it, or nothing."""
    catalog = Catalog([*builtin_catalog().layers, flip.layer])
    for file in set(PROPERTIES) - set(flip.layer.texts):  # read once, as they are
        catalog.__dict__[PROPERTIES[file]] = getattr(builtin_catalog(), PROPERTIES[file])
    try:
        check(catalog)
    except Problem:
        return "load"
    if TOOLED & set(flip.layer.texts) and _wrong_by_tools(catalog, readings):
        return "facts"
    return "second source" if next(differences(catalog), None) is not None else ""


def _wrong_by_tools(catalog: Catalog, readings: Readings) -> bool:
    return any(one.outcome == "wrong" for one in check_catalog(catalog, readings))


def report(flips_: Iterable[Flip], readings: Readings) -> float:
    """Print how many of each kind are caught, by what, and every one that is not; the share that is."""
    by: dict[str, Counter[str]] = {}
    survivors = []
    for flip in flips_:
        catch = caught_by(flip, readings)
        by.setdefault(flip.kind, Counter())[catch] += 1
        if not catch:
            survivors.append(f"{flip.kind}: {flip.what}")
    print(f"{'kind':26}{'flips':>7}{'load':>7}{'facts':>7}{'second':>8}{'caught':>9}")
    total: Counter[str] = Counter()
    for kind, counts in by.items():
        total += counts
        _row(kind, counts)
    _row("all", total)
    print(f"\n{len(survivors)} not caught:", *survivors, sep="\n  ")
    return 100 * (1 - total[""] / sum(total.values()))


def _row(kind: str, counts: Counter[str]) -> None:
    flips_ = sum(counts.values())
    share = 100 * (1 - counts[""] / flips_)
    print(f"{kind:26}{flips_:7}{counts['load']:7}{counts['facts']:7}{counts['second source']:8}{share:8.1f}%")


def main() -> None:
    wanted = float(sys.argv[1]) if len(sys.argv) > 1 else 98.0
    every = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    readings = read_tools(builtin_catalog().cuda.values(), download=True)
    share = report(islice(flips(), 0, None, every), readings)
    sys.exit(share < wanted)


if __name__ == "__main__":
    main()
