"""The other views of the page, each a picture and the same in words."""

from __future__ import annotations

from collections.abc import Iterator

from torchsmith.catalog import Catalog
from torchsmith.page.document import PageDocument
from torchsmith.page.markup import Child, Markup, tag

PageView = tuple[str, str, Child]


def views(document: PageDocument, catalog: Catalog) -> Iterator[PageView]:
    """Those that have something to show: name, title, content."""
    yield "mine", "Which one is mine?", _mine(catalog)
    if document.findings:
        yield "findings", "Findings", _findings(document)


def _mine(catalog: Catalog) -> Child:
    """The box that answers as `pick` does; without JavaScript, how to ask `pick` itself."""
    boxes = [
        (
            tag("label", words, for_=f"report-{number}"),
            tag("textarea", id=f"report-{number}", spellcheck="false", autocomplete="off", rows="6"),
        )
        for number, words in enumerate(("What lscpu prints (or /proc/cpuinfo)", "What nvidia-smi -q prints"))
    ]
    options = [tag("option", name, value=name) for name in catalog.workloads]
    form = tag(
        "div",
        tag("p", "Paste what these commands print on your machine. Nothing leaves this page."),
        tag("div", [tag("div", box) for box in boxes], class_="boxes"),
        tag("p", tag("label", "For ", for_="workload"), tag("select", options, id="workload"), " use. "),
        tag("button", "Which one is mine?", type="button", id="ask", class_="go"),
        tag("div", id="answer", role="status"),
        class_="js",
    )
    command = "lscpu > cpu.txt; nvidia-smi -q > gpu.txt; torchsmith pick --from cpu.txt --from gpu.txt"
    return form, tag("div", tag("p", "This command answers:"), tag("pre", command), class_="nojs")


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
