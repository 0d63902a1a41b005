"""Lines of a workspace's own: a torch release that is built like another line, and removing it again."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Collection, Mapping

import msgspec

from torchsmith.catalog import Catalog, CudaVersion, Line, LineBuild, Pin, builtin_catalog
from torchsmith.catalog.facts import CLAIM
from torchsmith.catalog.package import CPU
from torchsmith.catalog.ranges import version_key
from torchsmith.core.problem import Conflict, Exists, Invalid, NotFound
from torchsmith.core.text import counted, grouped
from torchsmith.core.toml import place
from torchsmith.core.toml_edit import drop, table_text
from torchsmith.edit.facts import FactEdit, fact_edit, text_of, without_entry
from torchsmith.edit.pin import (
    FactTable,
    Move,
    builds_at,
    merged_file,
    pin_at,
    place_build,
    present_cells,
    release_of,
)
from torchsmith.matrix import Accepted, assess
from torchsmith.matrix.cells import find_line
from torchsmith.matrix.describe import state_of
from torchsmith.matrix.variant import Cuda
from torchsmith.workspace.load import DEFAULT, FILE, Workspace, open_workspace

LINES, PINS = "catalog/lines.toml", "catalog/pins.toml"
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


def propose_line(workspace: Workspace, name: str, like: Move, *, matrix: bool = False) -> FactEdit:
    """The facts that adding a line changes: it has the pins and fixes of another line and its own torch
    release. With `matrix`, torchsmith.toml gets its cells."""
    check_new(name, workspace.catalog)
    packages = {cell.variant.package.name for cell in present_cells(workspace)}
    facts = _facts(name, like, workspace.catalog, packages or None)
    edit = FactEdit.of(workspace, [merged_file(workspace, file, table) for file, table in facts.items()])
    if not matrix:
        return edit
    blocks = matrix_of_line(workspace, edit.after.catalog.lines[name], edit.after.catalog)
    text = f"{workspace.source.text.rstrip()}\n\n{blocks}"
    return FactEdit.of(workspace, [*edit.files, fact_edit(workspace, FILE, text)])


def propose_removal(workspace: Workspace, name: str) -> FactEdit:
    """The facts that go with a workspace's own entry for a line: that entry, and what the workspace says of
    pins that no other line of it uses; the releases of its own packages at a built-in pin stay. A built-in
    line is again as it was. Raises NotFound if there is
    nothing, Conflict if cells still need it."""
    line, shipped = find_line(workspace.catalog, name), builtin_catalog()
    before = {path: text_of(workspace.home, path) or "" for path in (LINES, PINS)}
    own, own_pins = (tomllib.loads(text) for text in before.values())
    cells = Counter(cell.line for cell in present_cells(workspace))
    if name in own and cells[name] and not is_buildable(name, shipped):
        source, hint = workspace.source, "remove that from torchsmith.toml first"
        at = next((block.path for block in workspace.spec.blocks if block.line == name), ())
        where = place(source.text, source.name, at) if at else None
        raise Conflict(
            f"{counted(cells[name], 'build')} of line {name} would be lost", hint=hint, where=where
        )
    others = [workspace.catalog.lines[other] for other in {*own, *cells} - {name}]
    kept = {build.pin for other in others for build in other.every_build.values()}
    pins = before[PINS]
    used = {build.pin for other in workspace.catalog.lines.values() for build in other.every_build.values()}
    unused = own_pins.keys() - shipped.pins.keys() - used  # where a line has been before
    for pin in own_pins.keys() & {build.pin for build in line.every_build.values()} - kept | unused:
        packages = workspace.catalog.packages.keys() - shipped.packages if pin in shipped.pins else ()
        for fact in own_pins[pin].keys() - packages:
            pins = drop(pins, pin, fact)
    texts = {LINES: drop(before[LINES], name), PINS: pins}
    edit = FactEdit.of(workspace, [without_entry(workspace, path, text) for path, text in texts.items()])
    if not edit.files:
        hint = "torchsmith line list marks the workspace's own lines with *"
        raise NotFound(f"line {name} has no entry in this workspace", hint=hint)
    return edit


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
