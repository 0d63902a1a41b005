"""The other views of the page, each a picture and the same as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from torchsmith.catalog import Catalog
from torchsmith.core.text import counted, grouped
from torchsmith.matrix import Cell
from torchsmith.webpage import pictures
from torchsmith.webpage.answers import EXAMPLE, offer
from torchsmith.webpage.document import PageReport, SharedBuild
from torchsmith.webpage.draw import NARROW, WIDTH, Picture
from torchsmith.webpage.markup import Child, Markup, tag

PageView = tuple[str, str, Child]


def views(document: PageReport, catalog: Catalog, wanted: Iterable[Cell]) -> Iterator[PageView]:
    """Those that have something to show: name, title, content. `wanted`: the cells that can be picked."""
    yield "mine", "Which one is mine?", _mine(catalog, wanted)
    if document.runs:
        runs = [drawn(partial(pictures.run_picture, run), f"Run {run.id}") for run in document.runs]
        yield "timeline", "Timeline", runs
    if document.findings:
        picture = drawn(partial(pictures.findings_picture, document), "Findings by rule")
        yield "findings", "Findings", (picture, _findings(document))
    shared = [build for build in document.shared if len(build.users) > 1]
    if shared:
        yield "shared", "Shared builds", _shared(shared)
    if any(cell.sizes and cell.sizes.total for cell in document.cells):
        yield "sizes", "GPU code", drawn(partial(pictures.sizes_picture, document), "GPU code")


def _mine(catalog: Catalog, wanted: Iterable[Cell]) -> Child:
    """Boxes to choose a machine in, and how to ask `pick`; the script fills those that depend on another."""
    cells = list(wanted)
    archs = {cell.variant.arch for cell in cells}
    offered = offer(cells, catalog)
    groups = grouped(
        (product.group, _option(name, product.key, selected=name == EXAMPLE and product.key in archs))
        for product in offered.products
        for name in product.names
    )
    gpus = [tag("optgroup", options, label=group) if group else options for group, options in groups.items()]
    choices = {
        "gpu": ("GPU", gpus),
        "system": ("System", ()),
        "cpu": ("CPU", ()),
        "driver": ("NVIDIA driver", ()),
        "workload": ("Use", [_option(name, name) for name in offered.workloads]),
    }
    boxes = [
        tag("div", tag("label", label, for_=name), tag("select", options, id=name))
        for name, (label, options) in choices.items()
    ]
    ask = tag("button", "Show my build", type="button", id="ask", class_="go")
    form = tag(
        "div",
        tag("div", tag("div", boxes, class_="boxes"), ask),
        tag("div", id="answer", role="status"),
        class_="js mine",
    )
    command = "lscpu > cpu.txt; nvidia-smi -q > gpu.txt; torchsmith pick --from cpu.txt --from gpu.txt"
    about = "Another GPU, several kinds of GPU, or reports of another machine? Ask torchsmith pick:"
    return form, tag("p", about), tag("pre", command, tabindex="0", role="region", aria_label="Command")


def _option(text: str, value: str, *, selected: bool = False) -> Markup:
    return tag("option", text, value=value, selected="" if selected else None)


FEW_RECIPES = 60  # more are drawn behind a click


def _shared(shared: Sequence[SharedBuild]) -> Child:
    """Who shares what, drawn; for a large matrix behind a click."""
    recipes = len({user for build in shared for user in build.users})
    sure = all(build.sure for build in shared)
    how = "by derivation" if sure else "by the text of the recipes; page --eval asks Nix"
    summary = tag("p", f"{recipes} recipes share {counted(len(shared), 'long build')} ({how}).")
    picture = drawn(partial(pictures.shared_picture, shared), "Shared builds")
    if recipes <= FEW_RECIPES:
        return summary, picture
    return summary, tag("details", tag("summary", f"Draw all {recipes} recipes"), picture)


def _findings(document: PageReport) -> Markup:
    rows = [
        tag(
            "tr",
            tag("td", tag("b", finding.severity, class_=f"f-{finding.severity}")),
            tag("td", finding.rule),
            tag("td", str(len(finding.places)), class_="number"),
            tag("td", finding.message, tag("small", finding.hint) if finding.hint else None, class_="what"),
        )
        for finding in document.findings
    ]
    names = {"severity": None, "rule": None, "places": "number", "what": None}
    return _table(names, rows, "All findings")


def _table(names: Mapping[str, str | None], rows: Sequence[Markup], label: str) -> Markup:
    """Rows below their columns' names, each with its class."""
    head = tag("tr", [tag("th", word, scope="col", class_=kind) for word, kind in names.items()])
    return scrolled(tag("table", tag("thead", head), tag("tbody", rows), class_="rows"), label)


def drawn(picture: Callable[[int], Picture], label: str) -> Markup:
    """A picture in two widths, of which the style shows the one that the screen has room for."""
    phone = tag("div", picture(NARROW).inline(), class_="phone")
    return tag("div", phone, scrolled(picture(WIDTH).inline(), f"{label}, drawn"), class_="drawn")


def scrolled(content: Markup, label: str) -> Markup:
    """Content that may be wider than the screen, reachable by the keyboard."""
    return tag("div", content, class_="wide", tabindex="0", role="region", aria_label=label)
