"""The other views of the page, each a picture and the same as text."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial

from torchsmith.catalog import Catalog
from torchsmith.core.text import counted, grouped
from torchsmith.webpage import pictures
from torchsmith.webpage.answers import NO_GPU, offer
from torchsmith.webpage.document import PageReport, SharedBuild
from torchsmith.webpage.draw import NARROW, WIDTH, Picture
from torchsmith.webpage.markup import Child, Markup, tag

PageView = tuple[str, str, Child]


def views(document: PageReport, catalog: Catalog) -> Iterator[PageView]:
    """Those that have something to show: name, title, content."""
    yield "mine", "Which one is mine?", _mine(catalog, {cell.sm for cell in document.cells})
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
    if document.cover:
        yield "cover", "Cover", drawn(partial(pictures.cover_curve, document.cover), "Cover")
    if len({revision.at for revision in document.history}) > 1:
        picture = drawn(partial(pictures.history_picture, document.history), "History")
        yield "history", "History", (picture, _history(document))


def _mine(catalog: Catalog, archs: Collection[str]) -> Child:
    """Boxes to choose a machine in, and how to ask `pick`."""
    offered = offer((), catalog)
    gpus = [
        tag("optgroup", [_option(part, gpu.name, gpu.name in archs) for part in gpu.parts or (gpu.title,)],
            label=f"NVIDIA {gpu.title} ({gpu.name})")
        for gpu in reversed(offered.gpus)
    ]  # fmt: skip
    amd = [
        tag("option", f"{gfx.name}: {gfx.title}", value=gfx.name)
        for gfx in catalog.gfx.values()
        if gfx.name in archs
    ]
    cpus = grouped((str(cpu.platform), _option(cpu.title, cpu.name)) for cpu in offered.cpus)
    choices = {
        "gpu": ("GPU", (
            tag("option", "none of these", value=NO_GPU),
            gpus,
            tag("optgroup", amd, label="AMD") if amd else None,
        )),
        "cpu": ("CPU", [
            tag("optgroup", tag("option", f"another or unknown, {system}", value=system),
                cpus.get(system, ()), label=system)
            for system in offered.systems
        ]),
        "driver": ("NVIDIA driver", tag("option", "unknown", value="")),
        "workload": ("Use", [tag("option", name, value=name) for name in offered.workloads]),
    }  # fmt: skip
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
    about = "Another GPU, a Mac, several kinds of GPU, or reports of another machine? Ask torchsmith pick:"
    return form, tag("p", about), tag("pre", command, tabindex="0", role="region", aria_label="Command")


EXAMPLES = ("RTX 4090", "zen4")  # what is chosen at first, if the matrix has it


def _option(text: str, value: str, known: bool = True) -> Markup:
    selected = "" if known and (text in EXAMPLES or value in EXAMPLES) else None
    return tag("option", text, value=value, selected=selected)


FEW_RECIPES = 60  # more are drawn behind a click
RECENT_COMMITS = 12


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


def _history(document: PageReport) -> Markup:
    rows = [
        tag(
            "tr",
            tag("td", time.strftime("%Y-%m-%d", time.gmtime(commit.at))),
            tag("td", tag("code", commit.revision), class_="spare"),
            tag("td", f"{commit.repository}: " if commit.repository else None, commit.subject, class_="what"),
            tag("td", f"+{commit.added} ~{commit.changed} -{commit.deleted}", class_="number"),
            tag("td", str(commit.recipes), class_="number"),
        )
        for commit in sorted(document.history, key=lambda commit: -commit.at)[:RECENT_COMMITS]
    ]
    names = {"date": None, "commit": "spare", "what": None, "changes": None, "recipes": None}
    return _table(names, rows, "Latest commits")


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
