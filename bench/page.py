"""The page in headless Chromium: first view and filter of two thousand cells, and what the default weighs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.measure import Row, Timing
from tools.browser import chromium
from torchsmith.verbs.apply import ApplyRequest, apply
from torchsmith.webpage.collect import PageInput, collect, pickable
from torchsmith.webpage.html import page
from torchsmith.workspace.load import open_workspace

REPEATS = 7
SETTINGS = """format = 1
usable = true
[[matrix]]
line = "2.10"
python = ["3.11", "3.12", "3.13", "3.14"]
cuda = ["cpu", "12.8", "12.9", "13.0"]
sm = ["sm75", "sm80", "sm86", "sm87", "sm89", "sm90", "sm100", "sm103", "sm110", "sm120", "sm121"]
isa = ["avx", "avx2", "avx512", "avx512vnni", "avx512bf16", "armv8_2", "armv9"]
"""
WORDS = ("RTX 4090", "zen 4", "sm90 avx512", "torchvision", "")
LOADED = "performance.getEntriesByType('navigation')[0].loadEventEnd / 1000"
SEEN = "performance.getEntriesByName('first-contentful-paint')[0].startTime / 1000"
# How long from a letter typed until the page is laid out again, in seconds.
FILTER = """words => words.map(word => {
  const box = document.getElementById("search");
  const start = performance.now();
  box.value = word;
  box.dispatchEvent(new Event("input"));
  document.body.getBoundingClientRect();
  return (performance.now() - start) / 1000;
})"""


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        large, count, size = written(Path(folder) / "large", SETTINGS)
        first, loaded, filters = measured(large)
        note = f"{count:,} cells, {size / 1e6:.2f} MB; first paint, and all of it in {loaded.median:.2f} s"
        yield Row("page of 2,000 cells: first view", "a second", first, Timing((1.0,)), 1.0, "lower", note)
        yield Row("page of 2,000 cells: filter", "50 ms", filters, Timing((0.05,)), 1.0, "lower")
        small, count, size = written(Path(folder) / "default", 'format = 1\nprofile = "seed"\n')
        recipes = sum(file.stat().st_size for file in small.parent.rglob("*.nix"))
        weighs, what = Timing((size / 1e6,)), "page of the default workspace: size"
        yield Row(what, "a megabyte", weighs, Timing((1.0,)), 1.0, "lower", f"{count} cells", "MB")
        yield Row("the same", "its recipes", weighs, Timing((recipes / 1e6,)), 1.0, "lower", "", "MB")


def written(folder: Path, settings: str) -> tuple[Path, int, int]:
    """The page of a generated workspace: its file, cells and bytes."""
    folder.mkdir()
    (folder / "torchsmith.toml").write_text(settings)
    apply(ApplyRequest(workspace=folder))
    workspace = open_workspace(folder)
    request = PageInput(folder, workspace, True, 0.0)
    document = collect(request)
    file = folder / "page.html"
    file.write_text(page(document, workspace.catalog, pickable(request)))
    return file, len(document.cells), file.stat().st_size


def measured(file: Path) -> tuple[Timing, Timing, Timing]:
    """Seconds until something is seen, until all is loaded, and of filters."""
    views, loads, filters = [], [], []
    with chromium() as browser:
        for _ in range(REPEATS):
            opened = browser.new_page(viewport={"width": 1280, "height": 900})
            opened.goto(file.as_uri())
            opened.wait_for_selector("html.scripted")
            opened.wait_for_function(f"{LOADED} > 0")
            loads.append(opened.evaluate(LOADED))
            opened.wait_for_function("performance.getEntriesByName('first-contentful-paint').length")
            views.append(opened.evaluate(SEEN))
            filters += opened.evaluate(FILTER, WORDS)
            opened.close()
    return Timing(tuple(views)), Timing(tuple(loads)), Timing(tuple(filters))
