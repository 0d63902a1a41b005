"""`torchsmith init`: a torchsmith.toml to start from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import msgspec

from torchsmith.catalog import Catalog
from torchsmith.cli.console import answer, command, next_step, warn, write, write_stderr
from torchsmith.cli.options import JsonOption, ProfileChoice, complete_cells, complete_gpus
from torchsmith.cli.reporter import SILENT, Reporter, Terminal
from torchsmith.cli.request import Argument, Option, Request
from torchsmith.core.files import write_atomic
from torchsmith.core.problem import Conflict, Incomplete, MissingRequirement
from torchsmith.core.text import counted, grouped, listed, some_of
from torchsmith.matrix import Cell
from torchsmith.workspace.checkout import UnusedRecipe
from torchsmith.workspace.load import FILE, bare_workspace, open_workspace
from torchsmith.workspace.start import (
    block_title,
    derive_workspace,
    require_new,
    sources_text,
    started_text,
    write_derived,
    write_workspace,
)
from torchsmith.workspace.subject import PKGS

EXAMPLE = "torchsmith init builds --for 'RTX 4090'"
EMPTY = "# Which PyTorch builds this workspace ships.\nformat = 1\n"


@dataclass(frozen=True, kw_only=True)
class InitRequest(Request):
    """Where a workspace is to be, and which matrix it starts with."""

    folders: Annotated[
        tuple[Path, ...],
        Argument(
            "The folder of the workspace; by default this one. With --from: more repositories, and the folder"
            " that holds them if this one does not.",
            metavar="[FOLDER]",
        ),
    ] = ()
    profile: ProfileChoice = "real"
    cell: Annotated[
        tuple[str, ...],
        Option("Ask for this build only, in every package.", complete=complete_cells),
    ] = ()
    gpus: Annotated[
        tuple[str, ...],
        Option(
            "--for",
            "Every build for this GPU, by product or architecture.",
            metavar="GPU",
            complete=complete_gpus,
        ),
    ] = ()
    existing: Annotated[
        tuple[Path, ...],
        Option("--from", "Derive the matrix from the recipes of these repositories."),
    ] = ()
    line: Annotated[
        str | None,
        Option("Start with this torch release, such as 2.14; with --from: that of recipes that state none."),
    ] = None
    source: Annotated[
        tuple[str, ...],
        Option("A mirror to ask: nixpkgs or archive.", metavar="NAME=ADDRESS"),
    ] = ()
    force: Annotated[bool, Option("Replace torchsmith.toml; git or .orig keeps the old text.")] = False


class InitReport(msgspec.Struct, frozen=True):
    """The file that was written and the number of its builds. Of recipes that were read: what was left out,
    and their nixpkgs if it is not the catalog's."""

    FORMAT: ClassVar = 4
    file: Path
    variants: int
    warned: int = 0
    recipes: int = 0
    left_out: Sequence[UnusedRecipe] = ()
    pins: dict[str, str] = {}
    drivers: dict[str, str] = {}  # the oldest NVIDIA driver that runs the builds of each CUDA release
    copy: str = ""  # of a torchsmith.toml that was replaced and not committed


def init(request: InitRequest = InitRequest(), reporter: Reporter = SILENT) -> InitReport:
    """Write a torchsmith.toml: for a profile, a torch release, single builds, GPUs, or existing repositories.
    Raises Conflict for options that exclude each other, Exists if there is a file already, unless `force`."""
    sources = {
        "--from": request.existing,
        "--for": request.gpus,
        "--cell": request.cell,
        "--profile": request.profile != "real",
        "--line": request.line and not request.existing,
    }
    given = [option for option, value in sources.items() if value]
    if len(given) > 1:
        raise Conflict(f"{listed(given)} each say which builds: give one of them")
    addresses = sources_text(request.source)
    return _derived(request, addresses) if request.existing else _started(request, addresses, reporter)


def _started(request: InitRequest, addresses: str, reporter: Reporter) -> InitReport:
    """Write a workspace for a profile, a torch release, single builds or GPUs."""
    if len(request.folders) > 1:
        hint = "--from takes repositories in"
        raise Conflict(f"{request.folders[1]}: a workspace is one folder", hint=hint)
    folder = request.folders[0] if request.folders else Path()
    if recipes := len(list(folder.glob(f"{PKGS}/*.nix"))):
        hint = f"{command('init', '--from', str(folder))} asks for the builds that they are for"
        raise Conflict(f"{folder} is a repository with {counted(recipes, 'recipe')}", hint=hint)
    file = folder / FILE
    require_new(file, force=request.force)
    if request.line:
        text, facts = _line_files(folder, request.line, addresses, reporter)
        for path, fact in facts.items():
            write_atomic(folder / path, fact)
    else:
        text = started_text(request.profile, cells=request.cell, gpus=request.gpus) + addresses
    copy = write_workspace(file, text)
    opened = open_workspace(file)
    cells = opened.matrix.cells
    return InitReport(
        file,
        len(cells),
        warned=sum(bool(cell.warnings) for cell in cells),
        drivers=_drivers(cells, opened.catalog),
        copy=copy,
    )


def _derived(request: InitRequest, addresses: str) -> InitReport:
    """Write a workspace that has the builds of existing repositories."""
    places = [*request.existing, *request.folders]
    derived = derive_workspace(places, request.line)
    home = derived.file.parent
    known = [Path.cwd(), *(place.resolve() for place in places)]
    if not any(home.resolve().is_relative_to(place) for place in known):
        raise Incomplete(
            f"the workspace would be {home}, the folder that holds the repositories",
            hint=f"name it too: {command('init', '--from', *map(str, places), str(home))}",
        )
    copy = write_derived(derived, more=addresses, force=request.force)
    return InitReport(
        file=derived.file,
        variants=len(derived.cells),
        warned=sum(bool(cell.warnings) for cell in derived.cells),
        recipes=derived.recipes,
        left_out=derived.left_out,
        pins={block_title(block): pin for block, pin in derived.pins.items()},
        copy=copy,
    )


def _line_files(folder: Path, name: str, addresses: str, reporter: Reporter) -> tuple[str, Mapping[str, str]]:
    """A torchsmith.toml with the builds of a torch release; and if the catalog has no nixpkgs for that, the
    files of facts that add the line, as `line add` does."""
    from torchsmith.edit.line import is_buildable, matrix_of_line
    from torchsmith.verbs.line import LineAddRequest, new_line

    opened = bare_workspace(folder, EMPTY + addresses)
    catalog = opened.catalog
    if is_buildable(name, catalog):
        text = f"{opened.source.text}\n{matrix_of_line(opened, catalog.lines[name], catalog)}"
        _ = opened.with_texts({FILE: text}).matrix  # a Problem leaves nothing behind
        return text, {}
    try:
        edit = new_line(opened, LineAddRequest(name=name, matrix=True), reporter)
    except MissingRequirement as problem:
        hint = "--source NAME=ADDRESS names a mirror; line add takes a tree that you have"
        raise problem.replace(hint=hint) from problem
    files = {file.path: file.after or "" for file in edit.files}
    return files.pop(FILE), files


def _drivers(cells: Sequence[Cell], catalog: Catalog) -> dict[str, str]:
    """The oldest NVIDIA driver for the builds of each CUDA release, the oldest release first."""
    needed = grouped(
        (variant.cuda, max(catalog.cuda[variant.cuda].min_driver, catalog.gpus[variant.sm].min_driver))
        for variant in (cell.variant for cell in cells)
        if variant.cuda and variant.sm
    )
    return {str(cuda): str(min(needed[cuda])) for cuda in sorted(needed)}


def run(*, request: InitRequest, json: JsonOption = False) -> None:
    """Write a torchsmith.toml, the file that says which builds you ship.

    [bold]--for 'RTX 4090'[/bold] starts with every build for that GPU. Without it, the file names the profile
    [bold]real[/bold]: all GPUs from sm80 with CUDA 13.0. [bold]wide[/bold] has more CUDA releases.
    [bold]--line 2.14[/bold] has the builds of that torch release, and adds it as line add does.
    """
    report = init(request, Terminal())
    answer(report, _print_report, as_json=json)
    next_step("plan" if request.existing else "apply", workspace=report.file.parent)


def _print_report(report: InitReport) -> None:
    """What was read, and what was left out."""
    if report.left_out:
        write(f"left out: {counted(len(report.left_out), 'recipe')}")
    for why, names in grouped((recipe.why, recipe.name) for recipe in report.left_out).items():
        write(f"  {some_of(names)}: {why}")
    for block, pin in report.pins.items():
        warn(f"wrote catalog/lines.toml: {block} at nixpkgs {pin}, as all of its recipes are")
    source = f" from {counted(report.recipes, 'recipe')}" if report.recipes else ""
    lists = command("list", workspace=report.file.parent)
    warned = f", {report.warned} of them with a warning ({lists})" if report.warned else ""
    warn(f"wrote {report.file}: {counted(report.variants, 'build')}{source}{warned}")
    if report.copy:
        warn(f"kept the old torchsmith.toml as {report.file.with_name(report.copy)}")
    spans = [
        (driver, " to ".join(dict.fromkeys((cudas[0], cudas[-1]))))
        for driver, cudas in grouped((driver, cuda) for cuda, driver in report.drivers.items()).items()
    ]
    if spans:
        (driver, first), *more = spans
        other = (
            f"; CUDA {more[-1][1]}: {more[-1][0]} or newer"
            if more
            else "; for an older one: torchsmith pick --gpu GPU --driver VERSION"
        )
        write_stderr(f"CUDA {first}: needs NVIDIA driver {driver} or newer{other}")
