"""The other views of the page: which build is whose, findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from torchsmith.catalog import Catalog
from torchsmith.core.text import grouped
from torchsmith.matrix import Cell
from torchsmith.webpage.answers import EXAMPLE, offer
from torchsmith.webpage.document import PageReport
from torchsmith.webpage.markup import Child, Markup, tag

PageView = tuple[str, str, Child]


def views(document: PageReport, catalog: Catalog, wanted: Iterable[Cell]) -> Iterator[PageView]:
    """Those that have something to show: name, title, content. `wanted`: the cells that can be picked."""
    yield "mine", "Which one is mine?", _mine(document, catalog, wanted)
    if document.findings:
        yield "findings", "Findings", _findings(document)


def _mine(document: PageReport, catalog: Catalog, wanted: Iterable[Cell]) -> Child:
    """Boxes to choose a machine in, and how to ask `pick`; the script fills those that depend on another."""
    cells = list(wanted)
    archs = {str(cell.variant.arch) for cell in cells}
    offered = offer(cells, catalog)
    listed = offered.listed()
    built = [name for name, product in listed if product.arch in archs]
    example = EXAMPLE if EXAMPLE in built else next(iter(built), "")
    groups = grouped(
        (
            product.maker,
            _option(name + f" ({product.arch})" * bool(product.arch), product.key, selected=name == example),
        )
        for name, product in listed
    )
    gpus = [tag("optgroup", options, label=maker) if maker else options for maker, options in groups.items()]
    pythons = [str(python) for python in reversed(offered.pythons)]
    choices = {
        "gpu": ("GPU", gpus),
        "driver": ("NVIDIA driver", ()),
        "system": ("System", ()),
        "cpu": ("CPU", ()),
        "python": ("Python", [_option("any", ""), *(_option(python, python) for python in pythons)]),
        "workload": ("Use", [_option(name, name) for name in offered.workloads]),
    }
    boxes = [
        tag("div", tag("label", label, for_=name), tag("select", options, id=name))
        for name, (label, options) in choices.items()
    ]
    more = tag("details", tag("summary", "More about the machine"), boxes[2:], id="more", open=True)
    form = tag(
        "div",
        tag("div", boxes[:2], more, class_="boxes"),
        tag("div", id="answer", role="status"),
        class_="js mine",
    )
    ask = f"torchsmith pick{document.where} --from cpu.txt --from gpu.txt"
    command = f"lscpu > cpu.txt; nvidia-smi -q > gpu.txt; {ask}"
    about = "Another GPU, several kinds of GPU, or reports of another machine? Ask torchsmith pick:"
    plain = "Choosing a machine here needs JavaScript. torchsmith pick does the same for any machine:"
    words = [(tag("span", word, class_="word"), " ") for word in command.split()]
    asked = tag("pre", words, tabindex="0", role="region", aria_label="Command")
    asked = tag("div", asked, class_="command")
    return form, tag("p", about, class_="js"), tag("noscript", tag("p", plain)), asked


def _option(text: str, value: str, *, selected: bool = False) -> Markup:
    return tag("option", text, value=value, selected="" if selected else None)


def _findings(document: PageReport) -> Markup:
    rows = [
        (
            tag("b", finding.severity, class_=f"f-{finding.severity}"),
            finding.rule,
            str(len(finding.places)),
            (finding.message, tag("small", finding.hint) if finding.hint else None),
        )
        for finding in document.findings
    ]
    return _table({"severity": None, "rule": None, "places": "number", "what": "what"}, rows, "Findings")


def _table(columns: Mapping[str, str | None], rows: Iterable[Sequence[Child]], label: str) -> Markup:
    """Rows below the names of their columns, each with its class; wider than the screen if need be, and
    reachable by the keyboard."""
    head = tag("tr", [tag("th", name, scope="col", class_=kind) for name, kind in columns.items()])
    kinds = list(columns.values())
    body = [
        tag("tr", [tag("td", cell, class_=kind) for cell, kind in zip(row, kinds, strict=True)])
        for row in rows
    ]
    table = tag("table", tag("thead", head), tag("tbody", body), class_="rows")
    return tag("div", table, class_="wide", tabindex="0", role="region", aria_label=f"{label}, a table")
