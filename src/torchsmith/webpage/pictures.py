"""What each picture of the page is drawn from: a graph, a run, a document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from torchsmith.artifact.check import megabytes
from torchsmith.artifact.gpu import chosen_code
from torchsmith.artifact.report import Report
from torchsmith.catalog import Catalog, Gpu
from torchsmith.catalog.facts import Gfx
from torchsmith.core.text import counted, duration
from torchsmith.webpage import draw
from torchsmith.webpage.document import PageReport, PageRun, PageSizes, SharedBuild

NAMES = ("blue", "green", "orange", "violet", "red", "grey")  # of COLOURS
STATE_COLOURS = {"done": ("b", ""), "failed": ("e", "✗"), "running": ("a", "▶")}
SEVERITIES = {"error": "e", "warning": "c", "note": "f"}
MOST_ROWS = 60  # bars of a picture


def shared_picture(shared: Sequence[SharedBuild], width: int = draw.WIDTH) -> draw.Picture:
    """Recipes and the long builds below them; builds of one name are numbered."""
    links, seen = [], Counter[str]()
    for build in shared:
        seen[build.name] += 1
        name = build.name if seen[build.name] == 1 else f"{build.name} ({seen[build.name]})"
        links += [draw.DrawnLink(user, name, build.kind) for user in build.users]
    links.sort(key=lambda link: tuple(reversed(link.user.split("-", 1))))  # a torch beside its companions
    several = sum(len(build.users) > 1 for build in shared)
    return draw.sharing(f"{len(shared)} long builds, {several} of them below several recipes", links, width)


def run_picture(run: PageRun, width: int = draw.WIDTH) -> draw.Picture:
    """A run of the record: a lane for each builder, failures with a sign."""
    spans = [
        draw.DrawnJob(
            job.builder or "this machine",
            job.start,
            max(job.end, job.start + run.seconds / 400),
            job.name,
            *STATE_COLOURS.get(job.state, ("f", "?")),
        )
        for job in run.jobs
    ]
    failed = sum(job.state == "failed" for job in run.jobs)
    title = f"run {run.id}: {counted(len(spans), 'job')} in {duration(run.seconds)}"
    title += f", {failed} failed (red, ✗)" if failed else ""
    return draw.gantt(title, spans, width, title)


def _gpus(catalog: Catalog) -> dict[str, Gpu | Gfx]:
    return {gpu.name: gpu for gpu in catalog.gpus.values()} | dict(catalog.gfx)


def sizes_of(report: Report, catalog: Catalog) -> PageSizes:
    """What the page keeps of a verified build: its GPU code, and which of it its own GPU uses."""
    targets = {f"{row.kind} {row.target}": row.size for row in report.gpu}
    gpus = [gpu for name, gpu in _gpus(catalog).items() if f"-{name}-" in report.variant]
    used = [row for gpu in gpus for row in chosen_code(report.gpu, gpu, catalog)]
    return PageSizes(targets, tuple(f"{row.kind} {row.target}" for row in used))


def sizes_picture(document: PageReport, width: int = draw.WIDTH) -> draw.Picture:
    """The GPU code of every verified build: what its GPU uses, and what it carries besides."""
    rows = []
    for cell in document.cells:
        if cell.sizes and cell.sizes.total:
            total, used = cell.sizes.total, cell.sizes.bytes_used
            label = f"{megabytes(used)} used" + (f", {megabytes(total - used)} not" if total > used else "")
            rows.append(draw.BarRow(cell.name, used, label, "b", total - used))
    return draw.bars("GPU code of verified builds, used and unused", rows[:MOST_ROWS], width)


def findings_picture(document: PageReport, width: int = draw.WIDTH) -> draw.Picture:
    """How many findings each rule has."""
    counts = Counter[tuple[str, str, str]]()
    for finding in document.findings:
        counts[finding.severity, finding.rule, finding.title] += len(finding.places)
    rows = [
        draw.BarRow(f"{rule} {title}", count, counted(count, severity), SEVERITIES[severity])
        for (severity, rule, title), count in counts.items()
    ]
    return draw.bars("findings by rule", rows[:MOST_ROWS], width)
