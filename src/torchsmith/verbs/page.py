"""`torchsmith page`: the matrix and all that is known of it, on one page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from torchsmith.api.paging import PageRequest, page
from torchsmith.cli.console import print_json, tell, write
from torchsmith.cli.options import JsonOption
from torchsmith.page.html import counts_of
from torchsmith.verbs.progress import Terminal

EXAMPLE = "torchsmith init builds && torchsmith apply -w builds && torchsmith page -w builds -o page.html"
PAGE = Path("torchsmith.html")


def run(*, request: PageRequest, json: JsonOption = False) -> None:
    """Write the matrix as one HTML page that opens from disk and loads nothing else.

    It shows the state of every cell and the reason: recipe, findings, shared builds, build and verification.
    Nothing outside the workspace is read, and nothing is built.
    """
    output = request.output or (None if json else PAGE)
    document = page(replace(request, output=output), Terminal())
    if output is not None:
        size = f"{output.stat().st_size / 1024:.0f} KiB"
        (tell if json else write)(f"{output}, {size}: {counts_of(document)}")
    if json:
        print_json(document)
