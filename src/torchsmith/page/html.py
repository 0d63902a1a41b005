"""The page as one HTML file: no request to anywhere, a policy that allows its own script alone."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files

from torchsmith.catalog import Catalog
from torchsmith.core.words import grouped
from torchsmith.matrix import Cell
from torchsmith.page.document import STATES, CellState, PageCell, PageDocument
from torchsmith.page.embedded import as_script_data, embedded, source_hash
from torchsmith.page.markup import Child, Markup, tag
from torchsmith.page.stories import address, stories
from torchsmith.page.views import views

GENERATOR = "torchsmith"
MANY = 300  # cells, from which on grids are laid out when they are seen
TALLEST = 16  # rows of a grid, as the style knows them
Numbers = Mapping[str, int]  # of cells, by name
ASSETS = files("torchsmith.page") / "assets"


def page(document: PageDocument, catalog: Catalog, cells: Iterable[Cell]) -> str:
    """The whole file."""
    style = "".join((ASSETS / name).read_text() for name in ("page.css", "draw.css"))
    script = (ASSETS / "page.js").read_text()
    policy = (
        f"default-src 'none'; script-src {source_hash(script)}; style-src {source_hash(style)};"
        " base-uri 'none'; form-action 'none'"
    )
    head = (
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="generator", content=f"{GENERATOR} {document.version}"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{document.title}: build matrix"),
        tag("style", Markup(style)),
    )
    sections = list(views(document, catalog))
    # A script takes a story out of here when it is asked for; thousands of them at once would be slow.
    folded = tag("noscript", stories(document, catalog), id="folded")
    told = tag("section", folded, id="stories", aria_label="Cells")
    numbers = {cell.name: number for number, cell in enumerate(document.cells)}
    drawn = [_section(*one) for one in sections]
    many = "many" if len(document.cells) > MANY else None
    body = (
        tag("a", "Skip to the matrix", href="#matrix", class_="skip"),
        _header(document, [(name, title) for name, title, _ in sections]),
        tag("main", _matrix(document, catalog, numbers), drawn, told, class_=many),
        _footer(document),
        tag("script", as_script_data(embedded(document, catalog, cells)), type="application/json", id="data"),
        tag("script", Markup(script)),
    )
    return f"<!DOCTYPE html>\n{tag('html', tag('head', head), tag('body', body), lang='en')}\n"


def _header(document: PageDocument, sections: Sequence[tuple[str, str]]) -> Markup:
    real = [cell for cell in document.cells if cell.state != "impossible"]
    counts = Counter(cell.state for cell in document.cells)
    chips = [tag("li", _chip(state, counts[state])) for state in STATES if counts[state]]
    links = [tag("a", title, href=f"#{name}") for name, title in (("matrix", "Matrix"), *sections)]
    other = sum(not cell.package for cell in document.cells)
    words = f"{len(real) - other} cells" + (f", {other} other recipes" if other else "")
    words += f", profile {document.profile}" if document.profile else ""
    return tag(
        "header",
        tag("h1", document.title),
        tag("p", words, class_="about"),
        [tag("p", note, class_="note") for note in document.notes],
        tag("nav", links, aria_label="Views"),
        tag("ul", chips, class_="chips", aria_label="States"),
    )


def _chip(state: CellState, count: int) -> Markup:
    """A state and how many cells have it, to be pressed."""
    sign, title, about = STATES[state]
    words = (tag("span", sign, class_="sign", aria_hidden="true"), f" {title} ", tag("b", str(count)))
    kind = f"chip s-{state}"
    return tag(
        "button", words, type="button", class_=kind, data_state=state, aria_pressed="false", title=about
    )


def _section(name: str, title: str, content: Child) -> Markup:
    return tag(
        "section", tag("h2", title, id=f"{name}-title"), content, id=name, aria_labelledby=f"{name}-title"
    )


def _matrix(document: PageDocument, catalog: Catalog, numbers: Numbers) -> Markup:
    search = tag(
        "div",
        tag("label", "Find a GPU, CPU, package or name ", for_="search"),
        tag(
            "input",
            type="search",
            id="search",
            placeholder="RTX 4090, Zen 4, sm90 avx512, failed",
            autocomplete="off",
            spellcheck="false",
            list="products",
        ),
        tag("span", id="found", role="status"),
        tag("datalist", [tag("option", value=name) for name in _products(catalog)], id="products"),
        class_="search js",
    )
    packages = grouped((cell.package, cell) for cell in document.cells)
    others = packages.pop("", [])
    grids = [_package(name, cells, catalog, numbers) for name, cells in packages.items()]
    head = tag("h2", "Matrix", id="matrix-title")
    return tag("section", head, search, grids, _others(others, numbers), id="matrix")


def _products(catalog: Catalog) -> Iterable[str]:
    parts = [part for gpu in catalog.gpus.values() for part in gpu.parts]
    return dict.fromkeys([*parts, *(cpu.title for cpu in catalog.cpus.values())])


def _package(name: str, cells: Sequence[PageCell], catalog: Catalog, numbers: Numbers) -> Markup:
    grids = grouped(((cell.version, cell.line, cell.python, cell.cuda, cell.flavor), cell) for cell in cells)
    order = sorted(grids, key=lambda key: (not key[3], key))  # what needs no GPU comes last
    title = catalog.packages[name].title if name in catalog.packages else name
    tables = [_grid(grids[key], title, catalog, numbers) for key in order]
    return tag("section", tag("h3", title), tag("div", tables, class_="grids"), class_="package")


def _grid(cells: Sequence[PageCell], title: str, catalog: Catalog, numbers: Numbers) -> Markup:
    first = cells[0]
    target = f"CUDA {first.cuda}" if first.cuda else "CPU alone"
    release = first.version or f"line {first.line or 'unknown'}"
    words = [release, target, f"Python {first.python}", first.flavor]
    isas = [isa for isa in catalog.isas if any(cell.isa == isa for cell in cells)]
    isas += sorted({cell.isa for cell in cells} - set(isas))
    sms = sorted({cell.sm for cell in cells}, key=lambda sm: (len(sm), sm))
    # Two recipes of one cell share its place.
    places = grouped(((cell.sm, cell.isa), _link(cell, numbers)) for cell in cells)
    head = tag("tr", tag("th", "GPU", scope="col"), [tag("th", _broken(isa), scope="col") for isa in isas])
    rows = [
        tag("tr", _row_head(sm, catalog), [tag("td", places.get((sm, isa))) for isa in isas]) for sm in sms
    ]
    caption = tag("caption", tag("span", f"{title} ", class_="vh"), ", ".join(filter(None, words)))
    table = tag("table", caption, tag("thead", head), tag("tbody", rows), class_="grid")
    return tag("div", table, class_=f"place h{min(len(sms), TALLEST)}")


def _broken(isa: str) -> Child:
    """A long name may break after its digits: avx512 bf16."""
    found = re.fullmatch(r"([a-z]+\d+)(_?\w+)", isa)
    return (found[1], tag("wbr"), found[2]) if found and not found[2].isdigit() else isa


def _row_head(sm: str, catalog: Catalog) -> Markup:
    gpu = next((one for one in catalog.gpus.values() if one.name == sm), None)
    return tag("th", sm or "none", tag("small", gpu.title) if gpu else None, scope="row")


def _link(cell: PageCell, numbers: Numbers, *words: str) -> Markup:
    sign, title, _ = STATES[cell.state]
    warned = " warned" if cell.why and cell.state not in ("impossible", "failed", "wrong") else ""
    return tag(
        "a",
        " ".join((sign, *words)),
        href=f"#{address(cell.name)}",
        class_=f"c s-{cell.state}{warned}",
        aria_label=f"{cell.name}: {title}{', with a warning' if warned else ''}",
        data_c=numbers[cell.name],
    )


def _others(cells: Sequence[PageCell], numbers: Numbers) -> Markup | None:
    if not cells:
        return None
    items = [tag("li", _link(cell, numbers, cell.name)) for cell in cells]
    return tag("section", tag("h3", "Other recipes"), tag("ul", items, class_="others"), class_="package")


def _footer(document: PageDocument) -> Markup:
    made = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(document.made))
    return tag("footer", tag("p", f"Made by torchsmith {document.version} on {made}."))
