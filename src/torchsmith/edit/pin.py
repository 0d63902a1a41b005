"""Update a line to another nixpkgs or torch release: facts and recipes in one step, or not at all."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torchsmith.catalog import TORCH, Catalog, Line, LineBuild, Pin, builtin_catalog
from torchsmith.catalog.facts import SOURCE, build_name
from torchsmith.catalog.package import CPU
from torchsmith.catalog.ranges import in_range
from torchsmith.core.problem import CannotBuild, Empty, Incomplete, Invalid
from torchsmith.core.text import listed
from torchsmith.core.toml_edit import merged
from torchsmith.edit.proposal import HEAD, FactMove, Proposal, fact_edit, proposed, text_of
from torchsmith.matrix.cells import find_line
from torchsmith.nix.channel import REVISION
from torchsmith.nix.probe import probe
from torchsmith.nix.tool import find_nix
from torchsmith.workspace.change import Change
from torchsmith.workspace.load import Workspace, open_workspace

FROM_SOURCE, STUB = (SOURCE, "torch-version"), "find-cuda-toolkit-stub"
UNPROBED = {
    "source": "this workspace",
    "unproved": "its contents are unknown",
}
VERSION = re.compile(r"\d+\.\d+[\w.+-]*")
HASH = re.compile(r"[0-9a-z]{52}|[0-9a-f]{64}|sha256-[0-9A-Za-z+/]{43}=")  # as Nix spells it
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


def moves(line: str, before: Catalog | None, after: Catalog) -> list[FactMove]:
    """What changes in a line: its nixpkgs with the Pythons there, torch, CUDA releases and companions."""
    old, new = (_line_facts(line, catalog) if catalog else {} for catalog in (before, after))
    facts = [FactMove(what, old.get(what, ""), new.get(what, "")) for what in {**old, **new}]
    return [fact for fact in facts if fact.before != fact.after]


def _line_facts(name: str, catalog: Catalog) -> dict[str, str]:
    line = catalog.lines.get(name)
    if line is None:
        return {}
    pins = [
        catalog.pins[pin] for pin in dict.fromkeys(build.pin for build in line.every_build.values()) if pin
    ]
    pythons = sorted({python for pin in pins for python in pin.pythons}.intersection(line.pythons))
    return {
        "nixpkgs": ", ".join(pin.name for pin in pins),
        TORCH: line.torch,
        **line.versions,
        "CUDA": ", ".join(line.cudas),
        "Python": ", ".join(map(str, pythons)),
    }


def propose(workspace: Path | None, move: Move, *, adopt: bool = False) -> Proposal:
    """What an update changes; nothing is written."""
    opened = open_workspace(workspace)
    root = opened.home
    line = used_line(opened, move.line)
    variants = [cell.variant for cell in opened.matrix.cells if cell.line == line.name]
    used = {build_name(variant.toolkit) for variant in variants}
    facts = _facts(line, move, opened.catalog, used, {variant.package.name for variant in variants})
    edits = [laid_over(root, f"catalog/{name}.toml", table) for name, table in facts.items()]
    texts = {edit.path: edit.after for edit in edits if edit.after is not None}
    proposal = proposed(opened, texts, edits, adopt=adopt)
    catalog = proposal.after.catalog
    return with_unknown(proposal, catalog.lines[line.name], used)


def used_line(workspace: Workspace, name: str) -> Line:
    """A line by its name. Raises Empty if the workspace has no build of it."""
    line = find_line(workspace.catalog, name)
    if not any(cell.line == line.name for cell in workspace.matrix.cells):
        raise Empty(f"no build of this workspace is of line {line.name}")
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


def _facts(
    line: Line, move: Move, catalog: Catalog, used: set[str], packages: Collection[str]
) -> dict[str, FactTable]:
    """The entries of the catalog for an update. A pin that the line has already gets its facts and hash;
    builds that a pin lacks stay at theirs."""
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
            titles = ", ".join(f"CUDA {name}" if name[0].isdigit() else name for name in lacking)
            able = [
                other.name
                for other in catalog.pins.values()
                if other.probed and all(has_build(other, name) for name in used)
            ]
            hint = (
                f"these have all that the builds of line {line.name} need: {', '.join(able)}" if able else ""
            )
            hint = hint or f"take the builds of {titles} out of torchsmith.toml first"
            raise CannotBuild(f"nixpkgs {pin.name} has no {titles}", hint=hint)
        facts |= {"pins": {pin.name: table}} if table else {}
    if move.torch:
        entry |= release_of(line, move, catalog, packages if pin else None)
    _add_builds(entry, builds_at(pin, builds, move.torch or line.torch, catalog), builds)
    return {name: table for name, table in facts.items() if table and any(table.values())}


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
    if move.sha256 and not HASH.fullmatch(move.sha256):
        hint = "as nix-hash --type sha256 --base32 TREE prints it"
        raise Invalid(f"{move.sha256!r} is not a sha256", hint=hint)
    stated = {"sha256": move.sha256} if move.sha256 else {}
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


def with_unknown(proposal: Proposal, line: Line, used: Collection[str]) -> Proposal:
    """The proposal with what lacks a hash in the builds of a line that are used: sources and nixpkgs."""
    catalog = proposal.after.catalog
    builds = [build for name, build in line.every_build.items() if build.pin and name in used]
    pins = sorted({build.pin for build in builds if not catalog.pins[build.pin].sha256})
    packages = {name for build in builds for name in catalog.unknown_hashes(line, build)}
    sources = (f"{name} {line.version_of(name)}" for name in catalog.packages if name in packages)
    return replace(proposal, to_learn=tuple(sources), unhashed=tuple(pins))


def laid_over(root: Path, name: str, table: FactTable) -> Change:
    """A catalog file with these entries; everything else in it stays."""
    text = text_of(root, name)
    return fact_edit(root, name, merged(HEAD if text is None else text, table), "the line")
