"""Lines of a workspace's own: a torch release that is built like another line, and removing it again."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from torchsmith.catalog import Catalog, CudaVersion, Line, LineBuild, Pin, builtin_catalog
from torchsmith.catalog.facts import CLAIM
from torchsmith.catalog.package import CPU
from torchsmith.catalog.ranges import version_key
from torchsmith.core.problem import Conflict, Empty, Exists, Invalid, NotFound
from torchsmith.core.text import counted, grouped
from torchsmith.core.toml import place
from torchsmith.core.toml_edit import drop, table_text
from torchsmith.edit.pin import (
    FactTable,
    Move,
    builds_at,
    laid_over,
    pin_at,
    place_build,
    release_of,
    with_unknown,
)
from torchsmith.edit.proposal import Proposal, fact_edit, proposed, text_of
from torchsmith.matrix import Accepted, Cell, assess
from torchsmith.matrix.cells import find_line
from torchsmith.matrix.describe import state_of
from torchsmith.matrix.variant import Cuda
from torchsmith.workspace.change import Change
from torchsmith.workspace.load import DEFAULT, FILE, Workspace, open_workspace

LINES = "catalog/lines.toml"
NAME = re.compile(r"[0-9A-Za-z][\w.-]*")


class LineRow(msgspec.Struct, frozen=True):
    """A known torch release: its companions, what it is built from, and what it lacks."""

    name: str
    torch: str
    companions: Mapping[str, str]
    pins: list[str]
    cudas: list[str]
    backends: list[str]  # others than CUDA, with their releases
    own: bool
    unproved: str
    cells: int
    lacks: list[str]  # for a build
    remarks: list[str]  # on a build of it
    next: str  # command; empty: nothing is to do


def line_rows(workspace: Workspace) -> list[LineRow]:
    """Every line that a workspace knows, the newest torch first, and the number of its cells."""
    cells = Counter(cell.line for cell in workspace.matrix.cells)
    catalog = workspace.catalog
    lines = sorted(catalog.lines.values(), key=lambda line: version_key(line.torch), reverse=True)
    own = tomllib.loads(text_of(workspace.home, LINES) or "") if workspace.root else {}
    return [_row(line, cells[line.name], workspace, own=line.name in own) for line in lines]


def _row(line: Line, cells: int, workspace: Workspace, *, own: bool) -> LineRow:
    catalog = workspace.catalog
    pins = sorted({build.pin for build in line.every_build.values() if build.pin})
    state = state_of(line, catalog, cells=cells if workspace.root else None)
    return LineRow(
        name=line.name,
        torch=line.torch,
        companions={name: version for name, version in line.versions.items() if version},
        pins=pins,
        cudas=line.cudas,
        backends=[
            f"{catalog.backends[name].title} {release}".strip()
            for name, releases in line.backends.items()
            for release in releases
        ],
        own=own,
        unproved=line.unproved,
        cells=cells,
        lacks=state.lacks,
        remarks=state.remarks,
        next=state.next,
    )


def check_new(name: str, catalog: Catalog) -> None:
    """Raise Invalid or Exists for a name that cannot be a line's, or a line that can be built already."""
    if not NAME.fullmatch(name):
        raise Invalid(f"{name!r} is not a name of a line", hint="such as 2.11")
    if is_buildable(name, catalog):
        hint = f"torchsmith line update {name} changes it; torchsmith line list shows all"
        raise Exists(f"line {name} exists already: torch {catalog.lines[name].torch}", hint=hint)


def propose_line(path: Path | None, name: str, like: Move, *, matrix: bool = False) -> Proposal:
    """What adding a line changes: it has the pins and fixes of another line and its own torch release. With
    `matrix`, torchsmith.toml gets its cells. Nothing is written."""
    workspace = open_workspace(path)
    catalog, root = workspace.catalog, workspace.home
    check_new(name, catalog)
    packages = {cell.variant.package.name for cell in present_cells(workspace)}
    facts = _facts(name, like, catalog, packages or None)
    edits = [laid_over(root, f"catalog/{file}.toml", table) for file, table in facts.items()]
    texts = {edit.path: edit.after for edit in edits if edit.after is not None}
    after = workspace.with_texts(texts)
    line = after.catalog.lines[name]
    if matrix:
        before = workspace.source.text
        text = f"{before.rstrip()}\n\n{matrix_of_line(workspace, line, after.catalog)}"
        edits.append(Change("rewrite", FILE, "the builds of the line", before, text))
        after = workspace.with_texts({**texts, FILE: text})
    proposal = Proposal(workspace=workspace, after=after, edits=tuple(edits))
    return with_unknown(proposal, line, line.every_build)


def propose_removal(path: Path | None, name: str, *, adopt: bool) -> Proposal:
    """What removing a workspace's entry for a line changes; a built-in line is again as it was.
    Raises NotFound if there is no entry, Conflict if cells still need it."""
    workspace = open_workspace(path)
    find_line(workspace.catalog, name)
    text = text_of(workspace.home, LINES) or ""
    if name not in tomllib.loads(text):
        hint = "torchsmith line list marks the workspace's own lines with *"
        raise NotFound(f"line {name} has no entry in this workspace", hint=hint)
    users = sum(cell.line == name for cell in workspace.matrix.cells)
    if users and not is_buildable(name, builtin_catalog()):
        source, hint = workspace.source, "remove that from torchsmith.toml first"
        at = next((block.path for block in workspace.spec.blocks if block.line == name), ())
        where = place(source.text, source.name, at) if at else None
        raise Conflict(f"{counted(users, 'build')} of line {name} would be lost", hint=hint, where=where)
    after = drop(text, name)
    edit = fact_edit(workspace.home, LINES, after, "the line")
    proposal = proposed(workspace, {LINES: after}, [edit], adopt=adopt)
    existing = (change for change in proposal.changes if change.kind != "create")
    return replace(proposal, changes=tuple(existing))


def present_cells(workspace: Workspace) -> Sequence[Cell]:
    """The cells of a workspace; none if its file asks for nothing yet."""
    try:
        return workspace.matrix.cells
    except Empty:
        return ()


def is_buildable(name: str, catalog: Catalog) -> bool:
    """Whether the catalog has a line with a nixpkgs to build it from."""
    line = catalog.lines.get(name)
    return line is not None and any(not build.lacks_pin for build in line.every_build.values())


def matrix_of_line(workspace: Workspace, line: Line, catalog: Catalog) -> str:
    """Blocks of torchsmith.toml for the cells of profile `real` that the line can build, in the Python that
    the nixpkgs prefers and the profile's CUDA, or the newest that the line has."""
    cells = open_workspace(DEFAULT, "real").matrix.cells
    cudas = {str(cell.variant.cuda) for cell in cells}.intersection(line.cudas) or line.cudas
    cuda = max(cudas, key=version_key, default="")
    pins = [catalog.pins[build.pin] for build in line.every_build.values() if build.pin]
    pythons = [python for python in line.pythons if all(python in pin.pythons for pin in pins if pin.probed)]
    defaults = [pin.default_python for pin in pins if pin.default_python in pythons]
    python = defaults[0] if defaults else max(pythons or line.pythons)
    taken = {cell.variant.name for cell in present_cells(workspace)}
    wanted = [cell.variant.changed(python=python) for cell in cells]
    if cuda:
        version = CudaVersion.parse(cuda)
        wanted = [v.changed(target=Cuda(version, v.sm)) if v.sm else v for v in wanted]
    wanted = [one for one in wanted if isinstance(assess(one, catalog, line.name), Accepted)]
    sms = grouped((one.isa, str(one.sm)) for one in wanted if one.sm)
    blocks = []
    for gpus, isas in grouped((tuple(dict.fromkeys(gpus)), isa) for isa, gpus in sms.items()).items():
        blocks.append({"cuda": [cuda], "sm": list(gpus), "isa": isas})
    if isas := list(dict.fromkeys(one.isa for one in wanted if not one.sm)):
        blocks.append({"cuda": [CPU], "isa": isas})
    shared: FactTable = {"line": line.name, "python": [str(python)]}
    if any(one.name in taken for one in wanted):
        shared["prefix"] = True
    return table_text({"matrix": [shared | block for block in blocks]})


def _facts(new: str, move: Move, catalog: Catalog, packages: Collection[str] | None) -> dict[str, FactTable]:
    like = find_line(catalog, move.line)
    if not like.torch or like.flavor:
        raise Invalid(f"line {like.name} is not a torch release that another could be built like")
    known = next((line for line in catalog.lines.values() if line.torch == move.torch), None)
    builds = {name: build for name, build in like.every_build.items() if build.pin}
    if not builds:
        raise Invalid(f"line {like.name} has no nixpkgs that the new one could be built from")
    facts: dict[str, FactTable] = {}
    pin: Pin | None = None
    if move.rev:
        old = Counter(build.pin for build in builds.values()).most_common(1)[0][0]
        pin, table = pin_at(move, catalog)
        builds = _builds_of(pin, {name: build for name, build in builds.items() if build.pin == old}, catalog)
        facts |= {"pins": {pin.name: table}} if table else {}
    # A nixpkgs with another torch has what that needs, for its Pythons.
    own = pin is not None and pin.torch == move.torch
    pythons = [python for python in (known or like).pythons if own or python in like.pythons]
    entry: FactTable = {
        **release_of(like, move, catalog, packages),
        "pythons": [*map(str, pythons)],
        "triton": known.triton if known else "",
        "source": "this workspace",
    }
    made = builds_at(pin, builds, move.torch, catalog)
    made = {name: build | {"unproved": CLAIM, "claimed": True} for name, build in made.items()}
    for name, build in made.items():
        place_build(entry, name, build)
    return facts | {"lines": {new: entry}}


def _builds_of(pin: Pin, builds: Mapping[str, LineBuild], catalog: Catalog) -> dict[str, LineBuild]:
    """Builds for all CUDA releases of a pin, each like the nearest older one of its major release, and for
    its releases of other backends. At a pin that was not probed they stay as they are."""
    if not pin.probed:
        return dict(builds)
    made = {CPU: builds[CPU]} if CPU in builds else {}
    for cuda in (str(cuda) for cuda in pin.cudas if cuda in catalog.cuda):
        older = [name for name in builds if name[0].isdigit() and version_key(name) <= version_key(cuda)]
        nearest = max(older, key=version_key, default="")
        if nearest.partition(".")[0] == cuda.partition(".")[0]:
            made[cuda] = builds[nearest]
    for name, build in builds.items():
        backend, _, release = name.partition(" ")
        if backend in catalog.backends and backend != CPU:
            offer = pin.backends.get(backend)
            made |= {f"{backend} {offer.release}": build} if offer else {} if release else {name: build}
    return made
