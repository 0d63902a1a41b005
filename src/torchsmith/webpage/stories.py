"""A cell's story as far as it can be read without JavaScript; the script adds recipe, log and commands."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence

from torchsmith.catalog import Catalog
from torchsmith.catalog.runs import drivers_of
from torchsmith.core.text import duration, grouped, some_of
from torchsmith.host.rank import driver_condition
from torchsmith.record.estimate import estimate_row
from torchsmith.webpage.document import STATES, PageBuild, PageCell, PageReport
from torchsmith.webpage.markup import Child, Markup, tag

PLAIN = re.compile(r"[A-Za-z0-9_./-]{1,120}")


def address(name: str) -> str:
    """The fragment of a cell; of a name with other characters, their bytes in hexadecimal."""
    return "cell-" + (name if PLAIN.fullmatch(name) else name.encode(errors="replace").hex()[:200])


def stories(document: PageReport, catalog: Catalog) -> Iterator[Markup]:
    """An article for each cell."""
    places = grouped((_place(cell), cell) for cell in document.cells)
    for number, cell in enumerate(document.cells):
        yield _story(number, cell, places[_place(cell)] if cell.package else (), document, catalog)


def _place(cell: PageCell) -> tuple[str, ...]:
    """What the packages of one place in a table have in common."""
    return cell.line, cell.cuda, cell.python, cell.flavor, cell.sm, cell.isa


def _story(
    number: int, cell: PageCell, beside: Sequence[PageCell], document: PageReport, catalog: Catalog
) -> Markup:
    sign, title, about = STATES[cell.state]
    why = dict.fromkeys(cell.why)
    others = [
        (tag("a", f"{STATES[one.state][0]} {one.package}", href=f"#{address(one.name)}"), " ")
        for one in beside
        if one is not cell
    ]
    return tag(
        "article",
        tag("a", "×", href="#matrix", class_="close", aria_label="Close"),
        tag("h3", cell.name, id=f"h{number}", tabindex="-1"),
        tag("p", tag("b", f"{sign} {title}", class_=f"s-{cell.state}"), f" {about}"),
        tag("p", "Beside it: ", others) if others else None,
        tag("ul", [tag("li", reason) for reason in why], class_="why") if why else None,
        tag("dl", [(tag("dt", label), tag("dd", value)) for label, value in _facts(cell, catalog) if value]),
        _findings(cell, document),
        id=address(cell.name),
        class_="story",
        data_cell=number,
        aria_labelledby=f"h{number}",
    )


def _facts(cell: PageCell, catalog: Catalog) -> Iterator[tuple[str, Child]]:
    gpu = next((gpu for gpu in catalog.gpus.values() if gpu.name == cell.sm), None)
    isa = catalog.isas.get(cell.isa)
    yield "package", f"{cell.package} {cell.version}".strip()
    yield "GPU", f"{cell.sm}: {some_of(gpu.parts, 6)}" if gpu else cell.sm
    toolkit = next((one for one in catalog.cuda.values() if str(one.version) == cell.cuda), None)
    if gpu and toolkit:
        needed = max(drivers_of(toolkit, windows=False)[0], gpu.min_driver)
        yield "runs if", driver_condition(needed, [gpu], catalog)[1]
    yield "CPU", f"{isa.title} ({isa.platform})" if isa else cell.isa
    yield "GPU code", cell.toolkit
    if cell.package and bool(toolkit) == bool(cell.cuda):
        row = estimate_row(catalog, cell.package, bool(toolkit))
        hours, memory = row.hours + row.gpu_hours, row.memory_gb(row.cores)
        yield "to build", f"about {round(hours, 1):g} h and {memory:.0f} GB of memory on {row.cores} cores"
    yield "recipe", tag("code", cell.file) if cell.file else ""
    yield "derivation", tag("code", cell.derivation) if cell.derivation else ""
    yield "result", tag("code", cell.outputs[0]) if cell.outputs else ""
    if cell.build:
        yield "last build", _build(cell.build)
    yield "verified", cell.verified


def moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))


def _build(build: PageBuild) -> str:
    parts = [f"{build.state} in run {build.run}"]
    if build.started:
        parts.append(moment(build.started))
    if build.seconds:
        parts.append(f"took {duration(build.seconds)}")
    if build.builder:
        parts.append(f"on {build.builder}")
    return ", ".join(parts) + (f": {build.error}" if build.error else "")


def _findings(cell: PageCell, document: PageReport) -> Markup | None:
    items = []
    for finding in (document.findings[number] for number in cell.findings):
        if finding.severity != "note":
            rule = tag("b", f"{finding.severity} {finding.rule} ", class_=f"f-{finding.severity}")
            items.append(tag("li", rule, finding.message))
    return tag("div", tag("h4", "Findings"), tag("ul", items)) if items else None
