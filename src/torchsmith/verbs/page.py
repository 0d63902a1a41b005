"""`torchsmith page`: the matrix and the state of its builds on one page."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from time import time
from typing import Annotated

from torchsmith.cli.console import print_json, write, write_stderr
from torchsmith.cli.nix_options import NixOptions, NixpkgsOption, evaluation
from torchsmith.cli.options import JsonOption, ProfileOption, WorkspaceOption
from torchsmith.cli.reporter import SILENT, Reporter, Terminal
from torchsmith.cli.request import Argument, Option, Request
from torchsmith.core.files import check_own, write_atomic
from torchsmith.core.problem import NotFound
from torchsmith.core.text import grouped, some_of
from torchsmith.nix.graph import Graph, graph_of
from torchsmith.webpage.collect import PageInput, collect, pickable
from torchsmith.webpage.document import PageReport
from torchsmith.webpage.html import GENERATOR, headline
from torchsmith.webpage.html import page as html
from torchsmith.workspace.checkout import recipes_in
from torchsmith.workspace.load import FILE, Workspace, open_workspace

EXAMPLE = "torchsmith init builds && torchsmith apply -w builds && torchsmith page -w builds -o page.html"
PAGE = Path("torchsmith.html")


@dataclass(frozen=True, kw_only=True)
class PageRequest(Request):
    """What the page shows, and where it is written."""

    folder: Annotated[
        Path | None, Argument("Any repository; by default the workspace.", metavar="[FOLDER]")
    ] = None
    output: Annotated[
        Path | None,
        Option("--output", "-o", "Where to write the page; by default torchsmith.html.", metavar="FILE"),
    ] = None
    evaluate: Annotated[bool, Option("--eval", "Evaluate with Nix: a build counts by its derivation.")] = (
        False
    )
    nixpkgs: NixpkgsOption = ()
    workspace: WorkspaceOption = None
    profile: ProfileOption = None


def page(request: PageRequest = PageRequest(), reporter: Reporter = SILENT) -> PageReport:
    """Collect what is known about a matrix; with `output`, write it as a self-contained HTML page."""
    if request.output is not None:
        check_own(request.output, f'content="{GENERATOR} ')
        if not request.output.absolute().parent.is_dir():
            raise NotFound(f"no such folder: {request.output.parent}")
    source = _input(request, reporter)
    document = collect(source)
    for note in document.notes:
        reporter.note(note)
    if request.output is not None:
        write_atomic(request.output, html(document, source.workspace.catalog, pickable(source)))
    return document


def run(*, request: PageRequest, json: JsonOption = False) -> None:
    """Write the matrix as one HTML page that opens from disk and loads nothing else.

    It shows the state of every build and the reason, and which build pick chooses for a machine. A build
    counts only while its recipe is the one that was built. Nothing outside the folder is read or built.
    """
    output = request.output or (None if json else PAGE)
    document = page(replace(request, output=output), Terminal())
    if output is not None:
        size = f"{output.stat().st_size / 1024:.0f} KiB"
        (write_stderr if json else write)(f"{output}, {size}: {headline(document)}")
    if json:
        print_json(document)


def _input(request: PageRequest, reporter: Reporter) -> PageInput:
    """Return what to show: a named folder without its matrix, a workspace with it, or the default matrix."""
    folder, named = request.folder, request.workspace
    if folder is not None and not folder.is_dir():
        raise NotFound(f"no such folder: {folder}")
    if folder is not None and named is None and (folder / FILE).is_file():
        named = folder
    workspace = open_workspace(named, request.profile, default_profile="every")
    if folder is not None and named is None:
        root, with_matrix = folder, False
    elif workspace.root is not None:
        root, with_matrix = workspace.root, bool(workspace.lines)
    else:
        root = Path.cwd()
        with_matrix = request.profile is not None or not recipes_in(root)
    if not with_matrix and not recipes_in(root):
        raise NotFound(f"no recipe in {root}", hint="recipes are .nix files below .flox/pkgs")
    graph = _graph(request, root, workspace, reporter) if request.evaluate else None
    return PageInput(root, workspace, with_matrix, time(), graph, _as_given(named))


def _as_given(workspace: Path | None) -> str:
    """The folder of a workspace as commands name it; empty if it is this one."""
    if workspace is None:
        return ""
    folder = workspace if workspace.is_dir() else workspace.parent
    return "" if folder.absolute() == Path.cwd() else str(folder)


def _graph(request: PageRequest, root: Path, workspace: Workspace, reporter: Reporter) -> Graph:
    nix, ask = evaluation(
        NixOptions(request.nixpkgs), workspace=workspace, instantiate=True, reporter=reporter
    )
    results = ask(recipes_in(root, workspace))
    failures = grouped((result.cause.message, result.name) for result in results if result.cause)
    for message, names in failures.items():
        reporter.note(f"{some_of(names)}: {message}")
    return graph_of(nix, results)
