"""Update a line to another nixpkgs or torch release: all of its builds, or none."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torchsmith.catalog import TORCH, Catalog, Line, LineBuild, Pin, builtin_catalog
from torchsmith.catalog.facts import SOURCE, build_name
from torchsmith.catalog.package import CPU
from torchsmith.catalog.ranges import in_range, version_key
from torchsmith.core.problem import CannotBuild, Conflict, Empty, Incomplete, Invalid, by_name
from torchsmith.core.text import grouped, listed
from torchsmith.core.toml_edit import merged
from torchsmith.edit.facts import HEAD, FactEdit, FactMove, fact_edit, text_of
from torchsmith.matrix import Cell
from torchsmith.matrix.cells import find_line
from torchsmith.nix.channel import REVISION
from torchsmith.nix.hashes import parse_hash
from torchsmith.nix.probe import probe
from torchsmith.nix.tool import find_nix
from torchsmith.workspace.change import Change
from torchsmith.workspace.load import Workspace

FROM_SOURCE, STUB = (SOURCE, "torch-version"), "find-cuda-toolkit-stub"
UNPROBED = {
    "source": "this workspace",
    "unproved": "its contents are unknown",
}
VERSION = re.compile(r"\d+\.\d+[\w.+-]*")
FactTable = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Move:
    """The update of a line: another nixpkgs, another torch, or both. Empty: unchanged."""

    line: str
    rev: str = ""
    sha256: str = ""
    torch: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)  # of other packages, by name
    probed: Mapping[str, Any] = field(default_factory=dict)  # what a tree of the revision has


def moves(name: str, before: Catalog | None, after: Catalog) -> list[FactMove]:
    """What changes in a line: the nixpkgs of its builds, torch, CUDA releases, companions and Pythons."""
    old, new = (catalog.lines.get(name) if catalog else None for catalog in (before, after))
    names = {name for line in (old, new) if line for name in line.every_build}
    builds = grouped(
        ((_pin_of(old, build), _pin_of(new, build)), build_title(build, after))
        for build in sorted(names, key=lambda name: (not name[0].isdigit(), version_key(name), name))
    )
    pins = [FactMove("nixpkgs", was, now, titles) for (was, now), titles in builds.items()]
    had, has = (_line_facts(line, catalog) for line, catalog in ((old, before), (new, after)))
    facts = [FactMove(what, had.get(what, ""), has.get(what, "")) for what in {**had, **has}]
    return [fact for fact in (*pins, *facts) if fact.before != fact.after]


def _pin_of(line: Line | None, build: str) -> str:
    found = line.every_build.get(build) if line else None
    return found.pin if found else ""


def _line_facts(line: Line | None, catalog: Catalog | None) -> dict[str, str]:
    if line is None or catalog is None:
        return {}
    pins = {build.pin for build in line.every_build.values() if build.pin}
    pythons = {python for pin in pins for python in catalog.pins[pin].pythons}.intersection(line.pythons)
    return {
        TORCH: line.torch,
        **line.versions,
        "CUDA": ", ".join(line.cudas),
        "Python": ", ".join(map(str, sorted(pythons))),
    }


def build_title(name: str, catalog: Catalog) -> str:
    """What people call a build of a line: CUDA 13.0, CPU, ROCm 6.4."""
    backend, _, release = name.partition(" ")
    if name == CPU:
        return "CPU"
    return f"CUDA {name}" if name[0].isdigit() else f"{catalog.backends[backend].title} {release}".strip()


def propose(workspace: Workspace, move: Move) -> FactEdit:
    """The facts that an update changes. A pin that the line has already gets its facts and hash; builds that
    a pin lacks stay at theirs."""
    catalog, line = workspace.catalog, used_line(workspace, move.line)
    variants = [cell.variant for cell in workspace.matrix.cells if cell.line == line.name]
    used = {build_name(variant.toolkit) for variant in variants}
    entry: FactTable = {}
    facts: dict[str, FactTable] = {"lines": {line.name: entry}}
    builds = line.every_build
    pin: Pin | None = None
    if move.rev:
        old = {build.pin for name, build in builds.items() if name in used and build.pin}
        if not old:
            raise Empty(f"line {line.name} imports no nixpkgs that could be updated")
        pin, table = pin_at(move, catalog)
        builds = {name: build for name, build in builds.items() if build.pin in old and has_build(pin, name)}
        if (lacking := sorted(used - builds.keys())) and pin.name not in old:
            titles = ", ".join(build_title(name, catalog) for name in lacking)
            able = [
                other.name
                for other in catalog.pins.values()
                if other.probed and all(has_build(other, name) for name in used)
            ]
            hint = f"take the builds of {titles} out of torchsmith.toml first"
            if able:
                hint = f"these have all that the builds of line {line.name} need: {', '.join(able)}"
            raise CannotBuild(f"nixpkgs {pin.name} has no {titles}", hint=hint)
        facts |= {"pins": {pin.name: table}} if table else {}
    if move.torch:
        packages = {variant.package.name for variant in variants}
        entry |= release_of(line, move, catalog, packages if pin else None)
    _add_builds(entry, builds_at(pin, builds, move.torch or line.torch, catalog), builds)
    stated = {name: table for name, table in facts.items() if any(table.values())}
    return FactEdit.of(workspace, [merged_file(workspace, name, table) for name, table in stated.items()])


def used_line(workspace: Workspace, name: str) -> Line:
    """A line by its name. Raises Empty if the workspace has no build of it."""
    line = find_line(workspace.catalog, name)
    if not any(cell.line == line.name for cell in workspace.matrix.cells):
        lines = listed(dict.fromkeys(cell.line for cell in workspace.matrix.cells))
        raise Empty(f"no build of this workspace is of line {line.name}", hint=f"its builds are of {lines}")
    return line


def find_pin(rev: str, catalog: Catalog) -> Pin | None:
    """The pin of a revision, or by its name; None if the catalog has none."""
    return next((pin for pin in catalog.pins.values() if rev in (pin.rev, pin.name)), None)


def probed(move: Move, tree: Path | None, catalog: Catalog) -> Move:
    """The move with what a tree of its revision has, if there is one and the catalog does not know it."""
    known = find_pin(move.rev, catalog)
    if not move.rev or tree is None or (known and known.torch_shape):
        return move
    return replace(move, probed=probe(find_nix(), tree, catalog))


def has_build(pin: Pin, name: str) -> bool:
    """Whether a pin may have what a build needs: a release of CUDA or of another backend. True if the pin was
    not probed."""
    backend, _, release = name.partition(" ")
    if name == CPU or not pin.probed:
        return True
    if not release:  # CUDA, or a backend without releases
        return name in map(str, pin.cudas) or not name[0].isdigit()
    return backend in pin.backends and pin.backends[backend].release == release


def builds_at(
    pin: Pin | None, builds: Mapping[str, LineBuild], torch: str, catalog: Catalog
) -> dict[str, FactTable]:
    """How a torch release is built at a nixpkgs, or each at its own: the pin, and the fixes needed there."""
    shipped = next((line for line in builtin_catalog().lines.values() if line.torch == torch), None)
    models = shipped.every_build if shipped else {}
    pins = {name: pin or catalog.pins.get(build.pin) for name, build in builds.items()}
    return {
        name: {"pin": at.name, "fixes": _fixes_at(at, builds[name], torch, catalog, models.get(name))}
        for name, at in pins.items()
        if at is not None
    }


def _require_torch(pin: Pin, torch: str, catalog: Catalog) -> None:
    """Raise CannotBuild for a release that cannot replace the one of a nixpkgs."""
    limit = catalog.fixes[SOURCE].torch
    if not pin.torch or in_range(torch, limit):
        return
    able = [other.name for other in catalog.pins.values() if other.torch == torch]
    hint = f"--rev names a nixpkgs that has torch {torch}" + (f": {listed(able, 'or')}" if able else "")
    if line := next((line for line in catalog.releases if line.torch == torch), None):
        hint += f'; line = "{line.name}" in torchsmith.toml asks for builds of torch {torch}'
    message = f"torch {torch} cannot be built from nixpkgs {pin.name}, which has torch {pin.torch}"
    raise CannotBuild(f"{message}: only {limit} can be built from a nixpkgs with another torch", hint=hint)


def _fixes_at(pin: Pin, build: LineBuild, torch: str, catalog: Catalog, model: LineBuild | None) -> list[str]:
    """The fixes of a build at a pin: torch's source is replaced if the pin has another release. A fix by
    patches looks in nixpkgs itself whether it has them."""
    fixes = list(build.fixes)
    if pin.torch == torch:
        gone = {*FROM_SOURCE, STUB}
        if pin.torch_shape == "structured":  # its torch of today needs none of torch's fixes
            gone = {name for name in fixes if (fix := catalog.fixes[name]).packages and not fix.patches}
        return [name for name in fixes if name not in gone]
    _require_torch(pin, torch, catalog)
    if pin.torch and SOURCE not in fixes:
        return list(model.fixes) if model and model.pin == pin.name else [*fixes, *FROM_SOURCE]
    return fixes


def _add_builds(entry: FactTable, builds: Mapping[str, FactTable], before: Mapping[str, LineBuild]) -> None:
    """Add builds to a line's entry, with what differs from before."""
    for name, table in builds.items():
        old = {"pin": before[name].pin, "fixes": list(before[name].fixes)}
        changed = {key: value for key, value in table.items() if value != old[key]}
        if changed:
            place_build(entry, name, changed)


def place_build(entry: FactTable, name: str, build: FactTable) -> None:
    """Add a build to a line's entry."""
    backend, _, release = name.partition(" ")
    if name == CPU:
        entry[CPU] = build
    elif name[0].isdigit():
        entry.setdefault("cuda", {})[name] = build
    else:
        entry.setdefault("backends", {}).setdefault(backend, {})[release] = build


def pin_at(move: Move, catalog: Catalog) -> tuple[Pin, FactTable]:
    """The pin of a revision, and what the catalog lacks of its entry."""
    stated: FactTable = {}
    if move.sha256:
        digest = parse_hash(move.sha256)
        if digest is None or digest.algorithm != "sha256":
            hint = "as nix-hash --type sha256 --base32 TREE prints it"
            raise Invalid(f"{move.sha256!r} is not a sha256", hint=hint)
        others = (pin for pin in catalog.pins.values() if move.rev not in (pin.rev, pin.name))
        if same := next((pin for pin in others if parse_hash(pin.sha256) == digest), None):
            hint = "leave --sha256 out to download it and record its hash"
            raise Conflict(f"{move.sha256} is the hash of nixpkgs {same.name}", hint=hint)
        stated["sha256"] = move.sha256
    known = find_pin(move.rev, catalog)
    if known is not None and not move.probed:
        return known, stated
    if known is None and not REVISION.fullmatch(move.rev):
        hint = f"give 40 digits, or one of {', '.join(catalog.pins)}"
        raise Invalid(f"{move.rev!r} is not a revision", hint=hint)
    rev = known.rev if known else move.rev
    settled = {"unproved": ""} if known and known.unproved else {}
    entry = {"rev": rev, **stated, **(move.probed or UNPROBED)} | settled
    return catalog.pin_of(rev[:7], entry), entry


def release_of(line: Line, move: Move, catalog: Catalog, needed: Collection[str] | None = None) -> FactTable:
    """Another torch with its companions and hashes, as far as the catalog or the user knows them. The
    releases of `needed` packages, by default of all, must be known."""
    if not VERSION.fullmatch(move.torch):
        raise Invalid(f"{move.torch!r} is not a torch release", hint="such as 2.10.1")
    for name in move.versions:
        by_name("package", name, catalog.packages)
    known = next((line for line in catalog.lines.values() if line.torch == move.torch), None)
    own = [package for package in catalog.packages.values() if line.builds(package)]
    pairs = {
        name: move.versions.get(name) or (known.version_of(name) if known else "")
        for name in {**line.versions, **move.versions}
    }
    unknown = [package.name for package in own if not pairs.get(package.name, "none")]
    if missing := [name for name in unknown if needed is None or name in needed]:
        hint = " ".join(f"--pair {name}=VERSION" for name in missing)
        message = f"which release of {' and '.join(missing)} goes with torch {move.torch} is not known"
        raise Incomplete(message, hint=hint)
    pairs = {name: version for name, version in pairs.items() if name not in unknown}
    hashes = dict(known.hashes) if known else {}
    unchanged = {name: text for name, text in line.hashes.items() if pairs.get(name) == line.version_of(name)}
    return {
        "torch": move.torch,
        "prefix": f"{TORCH}{''.join(move.torch.split('.')[:2])}",
        **pairs,
        "hashes": {name: hashes.get(name, unchanged.get(name, "")) for name in (TORCH, *pairs)},
    }


def present_cells(workspace: Workspace) -> Sequence[Cell]:
    """The cells of a workspace; none if its file asks for nothing yet."""
    try:
        return workspace.matrix.cells
    except Empty:
        return ()


def merged_file(workspace: Workspace, name: str, table: FactTable) -> Change:
    """A file of the catalog with these entries; everything else in it stays."""
    path = f"catalog/{name}.toml"
    text = text_of(workspace.home, path)
    return fact_edit(workspace, path, merged(HEAD if text is None else text, table))
