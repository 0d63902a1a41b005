"""The other views of the page, each a picture and the same in words."""

from __future__ import annotations

from collections.abc import Iterator

from torchsmith.catalog import Catalog
from torchsmith.page.document import PageDocument
from torchsmith.page.markup import Child, Markup, tag

PageView = tuple[str, str, Child]


def views(document: PageDocument, catalog: Catalog) -> Iterator[PageView]:
    """Those that have something to show: name, title, content."""
    if document.findings:
        yield "findings", "Findings", _findings(document)


def _findings(document: PageDocument) -> Markup:
    rows = [
        tag(
            "tr",
            tag("td", tag("b", one.severity, class_=f"f-{one.severity}")),
            tag("td", one.rule),
            tag("td", one.message, tag("small", one.hint) if one.hint else None),
            tag("td", str(len(one.places)), class_="number"),
        )
        for one in document.findings
    ]
    head = tag("tr", [tag("th", word, scope="col") for word in ("how bad", "rule", "what", "places")])
    return scrolled(tag("table", tag("thead", head), tag("tbody", rows), class_="rows"), "All findings")


def scrolled(content: Markup, label: str) -> Markup:
    """Content that may be wider than the screen, reachable by the keyboard."""
    return tag("div", content, class_="wide", tabindex="0", role="region", aria_label=label)
