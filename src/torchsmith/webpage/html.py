"""The page as one HTML file: no request to anywhere, a policy that allows its own script alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib.resources import files

from torchsmith.catalog import Catalog
from torchsmith.catalog.ranges import version_key
from torchsmith.core.text import counted, grouped
from torchsmith.matrix import Cell
from torchsmith.webpage.document import STATES, CellState, PageCell, PageReport
from torchsmith.webpage.embedded import embedded, packed, source_hash
from torchsmith.webpage.markup import Child, Markup, join, tag
from torchsmith.webpage.stories import address, moment, stories
from torchsmith.webpage.views import PageView, views

GENERATOR = "torchsmith"
MANY_CELLS = 300  # with more, grids are laid out when they are scrolled into view
BUILT: tuple[CellState, ...] = ("published", "verified", "built")
FEW_OTHERS = 24  # other recipes are listed at once up to this number
Numbers = Mapping[str, int]  # of cells, by name
LinksByName = Mapping[str, Markup]  # of cells, by name
ASSETS = files("torchsmith.webpage") / "assets"


def page(document: PageReport, catalog: Catalog, cells: Iterable[Cell]) -> str:
    """The whole file."""
    style = (ASSETS / "page.css").read_text()
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
        tag("title", f"{document.title}: PyTorch builds" if document.title else "PyTorch builds"),
        tag("style", Markup(style)),
    )
    sections = [*views(document, catalog, cells)]
    sections.insert(1, ("matrix", "All builds", _matrix(document, catalog)))
    articles = join(stories(document, catalog))
    few = len(document.cells) <= MANY_CELLS
    folded = articles if few else tag("p", f"The stories of {len(document.cells)} cells need JavaScript.")
    cell_section = tag("section", tag("noscript", folded), id="stories", aria_label="Cells")
    body = (
        tag("a", "Skip to all builds", href="#matrix", class_="skip"),
        _header(document, sections),
        tag(
            "main", [_section(*section) for section in sections], cell_section, class_=None if few else "many"
        ),
        tag("footer", tag("p", f"Made by torchsmith {document.version} on {moment(document.made)}.")),
        tag("script", packed(embedded(document, catalog, cells, articles)), type="text/plain", id="data"),
        tag("script", Markup(script)),
    )
    return f"<!DOCTYPE html>\n{tag('html', tag('head', head), tag('body', body), lang='en')}\n"


def _header(document: PageReport, sections: Sequence[PageView]) -> Markup:
    variants = [cell for cell in document.cells if cell.package]
    counts = Counter(cell.state for cell in variants or document.cells)
    chips = [tag("li", _chip(state, counts[state])) for state in STATES if counts[state]]
    warned = sum(_warned(cell, document, {}) for cell in document.cells)
    if warned:
        where = "findings" if document.findings else "matrix"
        chips.append(tag("li", tag("a", f"▲ warning {warned}", href=f"#{where}", class_="chip")))
    links = [tag("a", view, href=f"#{name}") for name, view, _ in sections]
    title = document.title or (f"Profile {document.profile}" if document.profile else "PyTorch builds")
    return tag(
        "header",
        tag("h1", Markup((ASSETS / "logo.svg").read_text()), title),
        tag("p", headline(document), class_="headline"),
        tag("p", _details(document), class_="about"),
        _bar(document),
        [tag("p", note, class_="note") for note in document.notes],
        tag("ul", chips, class_="chips", aria_label="States"),
        tag("nav", links, aria_label="Views"),
    )


def headline(document: PageReport) -> str:
    """`108 PyTorch builds for 36 kinds of machine, 20 built`."""
    cells = [cell for cell in document.cells if cell.package]
    built = sum(cell.state in BUILT for cell in cells)
    kinds = len({(*_table_key(cell), cell.sm, cell.isa) for cell in cells})
    builds = counted(len(cells), "PyTorch build")
    done = f"{built} built" if built else "none built yet"
    return f"{builds} for {counted(kinds, 'kind')} of machine, {done}" if cells else "no PyTorch build"


def _details(document: PageReport) -> Child:
    """The releases that the builds are of, and how to write their recipes if there are none."""
    cells = [cell for cell in document.cells if cell.package]
    other = len(document.cells) - len(cells)
    lines, pythons = {cell.line for cell in cells}, {cell.python for cell in cells}
    cudas = sorted({cell.cuda for cell in cells if cell.cuda[:1].isdigit()}, key=version_key)
    named = {
        "torch": lines,
        "CUDA": {" to ".join(dict.fromkeys([*cudas[:1], *cudas[-1:]]))},
        "Python": pythons,
    }
    parts = [
        f"{name} {', '.join(sorted(values, key=version_key))}"
        for name, values in named.items()
        if any(values)
    ]
    parts += sorted({cell.toolkit for cell in cells if cell.cuda not in cudas} - {""})
    text = ", ".join([*parts, *([counted(other, "other recipe")] if other else [])])
    if not document.in_workspace or any(cell.file for cell in cells):
        return text
    return text, "; no recipes yet: ", tag("code", f"torchsmith apply{document.where}")


def _bar(document: PageReport) -> Markup | None:
    """How far the matrix is: a segment for each state, the best first, and the share of what is built."""
    cells = [cell for cell in document.cells if cell.package]
    if not cells:
        return None
    counts = Counter(cell.state for cell in cells)
    states = [state for state in dict.fromkeys((*BUILT, *STATES)) if counts[state]]
    segments, start = [], 0.0
    for state in states:
        width = 100 * counts[state] / len(cells)
        about = tag("title", f"{STATES[state][1]}: {counts[state]} of {len(cells)}")
        place = {"x": f"{start:.2f}", "y": "0", "width": f"{width:.2f}", "height": "4"}
        segments.append(tag("rect", about, class_=f"b-{state}", **place))
        start += width
    label = ", ".join(f"{STATES[state][1]} {counts[state]}" for state in states)
    box = {"viewBox": "0 0 100 4", "preserveAspectRatio": "none"}
    built, verified = (sum(counts[state] for state in some) for some in (BUILT, BUILT[:2]))
    share = f"{built / len(cells):.0%} built, {verified / len(cells):.0%} verified".replace("%", " %")
    bar = tag("svg", segments, class_="bar", role="img", aria_label=label, **box)
    return join((bar, tag("p", share, class_="about")))


def _table_key(cell: PageCell) -> tuple[str, ...]:
    """What all variants of one table have in common."""
    return (cell.line, cell.cuda, cell.python, cell.flavor)


def _warned(cell: PageCell, document: PageReport, said: Mapping[tuple[str, str], Sequence[str]]) -> bool:
    """There is something to be warned of that neither its state nor the text above its tables says."""
    warnings = any(document.findings[number].severity == "warning" for number in cell.findings)
    why = {*cell.why}.difference(said.get((cell.line, cell.toolkit), ()))
    return cell.state not in ("failed", "wrong") and (warnings or bool(why))


def _chip(state: CellState, count: int) -> Markup:
    """A state and how many cells have it, to be pressed."""
    sign, title, about = STATES[state]
    content = (tag("span", sign, class_="sign", aria_hidden="true"), f" {title} ", tag("b", str(count)))
    kind = f"chip s-{state}"
    return tag(
        "button", content, type="button", class_=kind, data_state=state, aria_pressed="false", title=about
    )


def _section(name: str, title: str, content: Child) -> Markup:
    return tag(
        "section", tag("h2", title, id=f"{name}-title"), content, id=name, aria_labelledby=f"{name}-title"
    )


def _matrix(document: PageReport, catalog: Catalog) -> Child:
    numbers = {cell.name: number for number, cell in enumerate(document.cells)}
    search = tag(
        "div",
        tag("label", "Find a GPU, CPU, package or name ", for_="search"),
        tag(
            "input",
            type="search",
            id="search",
            placeholder="RTX 4090, Zen 4, failed",
            autocomplete="off",
            spellcheck="false",
            list="products",
        ),
        tag("span", id="found", role="status"),
        tag("datalist", id="products"),
        class_="search js",
    )
    lines = grouped((cell.line, cell) for cell in document.cells if cell.package)
    groups = grouped(((cell.line, cell.toolkit), cell) for cell in document.cells if cell.package)
    said = {key: _common(cells) for key, cells in groups.items()}
    warned = {cell.name for cell in document.cells if _warned(cell, document, said)}
    links = {cell.name: _link(cell, numbers, cell.name in warned) for cell in document.cells}
    grids = [_line(cells, catalog, links, warned) for cells in lines.values()]
    others = [
        _link(cell, numbers, cell.name in warned, cell.name) for cell in document.cells if not cell.package
    ]
    return search, grids, _others(others)


def _line(cells: Sequence[PageCell], catalog: Catalog, links: LinksByName, warned: Collection[str]) -> Markup:
    """A torch release: a table for each CUDA and Python, whose cells show all packages."""
    releases = {cell.package: cell.version for cell in cells}
    order = [
        *(name for name in catalog.packages if name in releases),
        *sorted(set(releases) - set(catalog.packages)),
    ]
    titles = [_title(name, releases[name], catalog) for name in order]
    toolkits = grouped(
        (cell.toolkit, cell) for cell in sorted(cells, key=lambda one: order.index(one.package))
    )
    newest = sorted(toolkits, key=lambda title: version_key(title.rpartition(" ")[2]), reverse=True)
    newest.sort(key=lambda title: (not title, title.partition(" ")[0]))  # what needs no GPU comes last
    few = len(links) <= MANY_CELLS
    groups = [
        _toolkit(title, toolkits[title], catalog, links, opened=few or title == newest[0]) for title in newest
    ]
    return tag(
        "section",
        tag("h3", titles[0]),
        _legend(cells, titles, warned),
        tag("div", groups, class_="toolkits"),
        class_="package release",
    )


def _toolkit(
    title: str, cells: Sequence[PageCell], catalog: Catalog, links: LinksByName, *, opened: bool
) -> Markup:
    """The tables of a release of CUDA or ROCm, one for each Python, and what holds for all of its builds."""
    tables = grouped((_table_key(cell), cell) for cell in cells)
    built = sum(cell.state in BUILT for cell in cells)
    makers = {one.title: f"{one.vendor}, " for one in catalog.backends.values() if one.vendor}
    maker = makers.get(title.partition(" ")[0], "")
    reasons = [tag("p", f"All of these: {reason}.", class_="note") for reason in _common(cells)]
    return tag(
        "details",
        tag("summary", f"{maker}{title or 'CPU only'}: {counted(len(cells), 'build')}, {built} built"),
        reasons,
        tag("div", [_grid(own, catalog, links) for _, own in sorted(tables.items())], class_="grids"),
        open=opened,
    )


def _common(cells: Sequence[PageCell]) -> list[str]:
    """The reasons that all cells of several have."""
    return [why for why in cells[0].why if cells[1:] and all(why in cell.why for cell in cells)]


def _legend(cells: Sequence[PageCell], titles: Sequence[str], warned: Collection[str]) -> Markup:
    """What a place in a table is, the packages in it, and the signs that these cells have."""
    used = {cell.state for cell in cells}
    signs: list[tuple[Child, str]] = [
        (tag("span", sign, class_=f"box s-{state}"), f"{title}: {about}")
        for state, (sign, title, about) in STATES.items()
        if state in used
    ]
    if any(cell.name in warned for cell in cells):
        signs.append((tag("span", "▲", class_="box"), "a warning: open the build to read it"))
    order = ", in this order:" if titles[1:] else "."
    empty = "An empty place is not in the matrix."
    return tag(
        "aside",
        tag("p", f"A row is a GPU, a column what the CPU runs. {empty} Each box is a build{order}"),
        tag("ol", [tag("li", title) for title in titles]) if titles[1:] else None,
        tag("ul", [tag("li", sign, tag("span", about)) for sign, about in signs]),
        class_="legend about",
        aria_label="Legend",
    )


def _title(package: str, release: str, catalog: Catalog) -> str:
    title = catalog.packages[package].title if package in catalog.packages else package
    return f"{title} {release}".strip()


def _grid(cells: Sequence[PageCell], catalog: Catalog, links: LinksByName) -> Markup:
    first = cells[0]
    isas = [isa for isa in catalog.isas if any(cell.isa == isa for cell in cells)]
    isas += sorted({cell.isa for cell in cells} - set(isas))
    sms = sorted({cell.sm for cell in cells}, key=lambda sm: (len(sm), sm))
    places = grouped(((cell.sm, cell.isa), cell) for cell in cells)
    head = tag("tr", tag("th", "GPU", scope="col"), [tag("th", _broken(isa), scope="col") for isa in isas])
    cells_of = {
        place: tag("div", [links[cell.name] for cell in own], class_=f"cells w{_worst(own)}")
        for place, own in places.items()
    }
    rows = [
        tag("tr", _row_head(sm, cells, catalog), [tag("td", cells_of.get((sm, isa))) for isa in isas])
        for sm in sms
    ]
    caption = tag("caption", ", ".join(filter(None, [f"Python {first.python}", first.flavor])))
    table = tag("table", caption, tag("thead", head), tag("tbody", rows), class_="grid")
    return tag("div", table, class_="place")


def _worst(cells: Sequence[PageCell]) -> int:
    """The place, from 1, of the cell that a phone shows of them: what failed, else what is least far."""
    far = (*BUILT, "generated", "foreign", "edited", "wanted", "building", "unhashed", "wrong", "failed")
    return 1 + max(range(len(cells)), key=lambda place: (far.index(cells[place].state), -place))


def _broken(isa: str) -> Child:
    """A long name may break after its digits, and after arm: avx512 bf16, arm v8_2."""
    match = re.fullmatch(r"([a-z]+\d+|arm)([a-z]\w*)", isa)
    return (match[1], tag("wbr"), match[2]) if match else isa


def _row_head(sm: str, cells: Sequence[PageCell], catalog: Catalog) -> Markup:
    systems = {cell.system for cell in cells if cell.sm == sm}
    titles = {gpu.name: catalog.title_on(gpu, *systems) for gpu in catalog.gpus.values()}
    titles |= {gfx.name: gfx.title for gfx in catalog.gfx.values()}
    return tag("th", sm or "none", tag("small", titles[sm]) if sm in titles else None, scope="row")


def _link(cell: PageCell, numbers: Numbers, warned: bool, *texts: str) -> Markup:
    sign, title, _ = STATES[cell.state]
    return tag(
        "a",
        " ".join((sign, *texts)),
        href=f"#{address(cell.name)}",
        class_=f"c s-{cell.state}{' warned' if warned else ''}",
        aria_label=f"{cell.name}: {title}{', with a warning' if warned else ''}",
        data_c=numbers[cell.name],
    )


def _others(links: Sequence[Markup]) -> Markup | None:
    """Recipes that are not a variant of a known package; many of them are folded."""
    if not links:
        return None
    items = tag("ul", [tag("li", link) for link in links], class_="others")
    if len(links) > FEW_OTHERS:
        items = tag("details", tag("summary", f"{len(links)} recipes"), items)
    return tag("section", tag("h3", "Other recipes"), items, class_="package")
