"""Packages of a workspace: those that torchsmith.toml asks for, and the entry of one that is new."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from torchsmith.catalog import builtin_catalog
from torchsmith.catalog.check import ATTRIBUTE, PACKAGE_NAME
from torchsmith.core.problem import (
    CannotBuild,
    Conflict,
    Exists,
    Incomplete,
    Invalid,
    NotFound,
    Problem,
    by_name,
    nearest,
)
from torchsmith.core.text import listed
from torchsmith.core.toml import place
from torchsmith.core.toml_edit import drop, set_list, set_string
from torchsmith.edit.facts import HEAD, FactEdit, fact_edit, text_of, without_entry
from torchsmith.edit.package_entry import NewPackage, PackageProbe, entry_text, pin_of, probe
from torchsmith.matrix import Accepted, Variant, assess
from torchsmith.matrix.cells import toolkit_title
from torchsmith.nix.evaluate import Evaluate
from torchsmith.nix.tool import Nix
from torchsmith.recipe.values import RecipeOptions
from torchsmith.recipe.write import RecipeWriter
from torchsmith.workspace.change import Change
from torchsmith.workspace.load import DEFAULT, FILE, Workspace, open_workspace

PACKAGES, PINS = "catalog/packages.toml", "catalog/pins.toml"


def is_known(workspace: Workspace, new: NewPackage) -> bool:
    """Whether the catalog has a new package already, and the workspace does not ask for it. Raises Invalid or
    Exists for a name that cannot be one, or that is taken; what can be known before Nix is asked."""
    catalog = workspace.catalog
    if not PACKAGE_NAME.fullmatch(new.name) or "-python" in new.name:
        hint = "lower-case letters, digits and dashes, such as flash-attn"
        raise Invalid(f"{new.name!r} cannot be a package's name", hint=hint)
    if not ATTRIBUTE.fullmatch(new.attr):
        hint = "as nixpkgs' Python packages spell it: torchvision, flash-attn"
        raise Invalid(f"{new.attr!r} is not an attribute of Nix", hint=hint)
    same = {package.attr: package for package in catalog.packages.values()}.get(new.attr)
    taken = catalog.packages.get(new.name) or same
    if taken is None:
        return False
    requested = taken.name in _requested(workspace)
    if not requested and new == NewPackage(name=taken.name, attr=new.name):
        return True
    own = taken.name in tomllib.loads(text_of(workspace.home, PACKAGES) or "")
    hint = f"torchsmith package add {taken.name}, without other options, adds it to this workspace"
    if requested:
        hint = (
            f"it is in this workspace{'' if taken.is_torch else '; torchsmith package remove takes it out'}"
        )
    what = "is a package already" if taken.name == new.name else f"is the package {taken.name} already"
    where = catalog.place("packages", (taken.name,)) if own else None
    raise Exists(f"{new.name if taken.name == new.name else new.attr} {what}", hint=hint, where=where)


def propose(
    workspace: Workspace, new: NewPackage, evaluate: Evaluate, nix: Nix, trees: Mapping[str, Path]
) -> tuple[FactEdit, list[PackageProbe]]:
    """The facts that adding a package changes, and what Nix said of it."""
    # As if it were there already: a template asks for its release and source.
    there = FactEdit.of(workspace, _with_package(workspace, new, ())).after
    probes = probe(there, new.name, evaluate, nix, trees)
    _require_answer(workspace, new, probes)
    edit = FactEdit.of(workspace, _with_package(workspace, new, probes))
    writer = RecipeWriter(edit.after.catalog, RecipeOptions())
    for cell in [cell for cell in edit.after.matrix.cells if cell.variant.package.name == new.name][:1]:
        writer.recipe(cell)  # a Problem if its template asks for what is not known
    return edit, probes


def propose_known(workspace: Workspace, name: str) -> FactEdit:
    """The facts that change if a workspace gets a package that the catalog has. Raises CannotBuild if none of
    its builds can have it."""
    edit = FactEdit.of(workspace, [_requesting(workspace, name)])
    if not (workspace.settings.matrix or workspace.settings.profile):  # it names its builds one by one
        package = workspace.catalog.packages[name]
        torchs = [cell for cell in workspace.matrix.cells if cell.variant.package.is_torch]
        new = [
            cell.variant.of(package).name
            for cell in torchs
            if isinstance(assess(cell.variant.of(package), workspace.catalog, cell.line), Accepted)
        ]
        if not new:
            raise CannotBuild(f"no build of this workspace can have {name}")
        text = set_list(workspace.source.text, "include", [*workspace.settings.include, *new])
        edit = FactEdit.of(workspace, [fact_edit(workspace, FILE, text)])
    left = [left for left in edit.after.matrix.left_out if left.variant.package.name == name]
    if left and not cells_of(edit.after, name):
        counts = Counter(str(reason) for one in left for reason in one.reasons)
        ((why, count),) = counts.most_common(1)
        every = open_workspace(DEFAULT, "every").matrix.cells
        variants = {cell.variant.of(left[0].variant.package) for cell in every}
        able = [one for one in variants if isinstance(assess(one, workspace.catalog), Accepted)]
        targets = sorted({toolkit_title(variant, workspace.catalog) or "the CPU" for variant in able})
        hint = f"it can be built for {listed(targets)}: add a [[matrix]] with one" if targets else ""
        message = f"no build of this workspace can have {name}; for {count} of {len(left)}: {why}"
        raise CannotBuild(message, hint=hint)
    return edit


def _requesting(workspace: Workspace, name: str) -> Change:
    """The torchsmith.toml that asks for one package more."""
    text = set_list(workspace.source.text, "packages", [*_requested(workspace), name])
    return fact_edit(workspace, FILE, text)


def _require_answer(workspace: Workspace, new: NewPackage, probes: Sequence[PackageProbe]) -> None:
    """Raise a Problem if no nixpkgs of the workspace has the package, or its source is not known."""
    if not probes:
        raise CannotBuild("no build of this workspace imports a nixpkgs that could be asked")
    good = [probe for probe in probes if not probe.error]
    written = workspace.catalog.template_of(new.name)
    if not good:
        pins = ", ".join(sorted({pin_of(workspace.catalog, probe.cell).name for probe in probes}))
        if (alike := probes[0].alike) is not None:
            hint = f"did you mean {near}?" if (near := nearest(new.attr, alike)) else ""
            hint = hint or f"a package that nixpkgs lacks takes a template: templates/{new.name}.nix"
            raise NotFound(f"nixpkgs {pins} has no python3Packages.{new.attr}", hint=hint)
        raise CannotBuild(
            f"Nix cannot evaluate {new.attr} for any build of this workspace: {probes[0].error}",
            hint=f"fix {written}" if written else "another CUDA release or line may have it",
        )
    own = {probe.version for probe in good}
    if new.version and own != {new.version} and new.upstream is None and not written:
        raise Incomplete(
            f"nixpkgs has {new.name} {', '.join(sorted(own))}, and nothing says where {new.version} is",
            hint="--source github:pytorch/ao --tag 'v{version}'",
        )
    torch = workspace.catalog.torch.name
    if not new.gpu_list and not any(torch in probe.uses or probe.gpu_lists for probe in good):
        raise Incomplete(
            f"{new.name} uses no torch, and nothing in its derivation shows how the GPU target is passed",
            hint="--gpu-list variable:NAME:90, cmake:CMAKE_CUDA_ARCHITECTURES:90-real or argument:gpuTargets",
        )


def _with_package(workspace: Workspace, new: NewPackage, probes: Sequence[PackageProbe]) -> Iterator[Change]:
    """The workspace's files with the package in them."""
    good = [probe for probe in probes if not probe.error and probe.version]
    pins = {pin_of(workspace.catalog, probe.cell).name: probe.version for probe in good}
    before = text_of(workspace.home, PACKAGES) or ""
    head = before if before.strip() else HEAD
    yield fact_edit(workspace, PACKAGES, f"{head.rstrip()}\n\n{entry_text(workspace, new, probes)}")
    pins_text = text_of(workspace.home, PINS) or ""
    for pin, version in pins.items():
        try:
            pins_text = set_string(pins_text, (pin, new.name), version)
        except Problem as problem:
            raise problem.replace(where=place(pins_text, PINS, problem.path)) from None
    yield fact_edit(workspace, PINS, pins_text)
    yield _requesting(workspace, new.name)


def _requested(workspace: Workspace) -> Sequence[str]:
    """The packages that a workspace asks for, by name."""
    if (named := workspace.settings.packages) is not None:
        return named
    return [package.name for package in workspace.catalog.packages.values() if package.default]


def propose_removal(workspace: Workspace, name: str) -> FactEdit:
    """The facts that change if a package is taken out; an entry of torchsmith's own stays in the catalog."""
    catalog = workspace.catalog
    package = by_name("package", name, catalog.packages)
    if package.is_torch:
        raise Conflict(f"{name} cannot be removed: the other packages are built on it")
    files = {path: text_of(workspace.home, path) or "" for path in (PACKAGES, PINS)}
    if name in tomllib.loads(files[PACKAGES]):
        users = [other.name for other in catalog.packages.values() if name in other.needs]
        if users and name not in builtin_catalog().packages:
            where = catalog.place("packages", (users[0], "needs"))
            raise Conflict(f"{users[0]} needs {name}", hint=f"take {users[0]} out first", where=where)
        files[PACKAGES] = drop(files[PACKAGES], name)
        for pin in catalog.pins:
            files[PINS] = drop(files[PINS], pin, name)
    changes = [without_entry(workspace, path, text) for path, text in files.items()]
    packages, cells, text = _requested(workspace), workspace.settings.include, workspace.source.text
    if name in packages:
        text = set_list(text, "packages", [other for other in packages if other != name])
    remaining = [cell for cell in cells if Variant.parse(cell, catalog).package != package]
    text = set_list(text, "include", remaining) if len(remaining) < len(cells) else text
    edit = FactEdit.of(workspace, [*changes, fact_edit(workspace, FILE, text)])
    if not edit.files:
        raise NotFound(f"{name} is not part of this workspace", hint="torchsmith package list shows what is")
    return edit


def cells_of(workspace: Workspace, package: str) -> list[str]:
    """A package's cells in the matrix."""
    return [cell.name for cell in workspace.matrix.cells if cell.variant.package.name == package]


def left_out_of(workspace: Workspace, package: str) -> dict[str, str]:
    """A package's cells that the matrix leaves out, each with the reason; if it has some, also the cells that
    only torch has."""
    cells, reason = cells_of(workspace, package), f"torchsmith.toml has other packages than {package} there"
    torchs = [cell.variant for cell in workspace.matrix.cells if cell.variant.package.is_torch]
    names = [variant.of(workspace.catalog.packages[package]).name for variant in torchs]
    return {name: reason for name in names if cells and name not in cells} | {
        left.variant.name: "; ".join(map(str, left.reasons))
        for left in workspace.matrix.left_out
        if left.variant.package.name == package
    }
