"""A package of the workspace's own: its entry and its recipes written in one step, or taken out."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
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
    NotKnown,
    Problem,
    did_you_mean,
    nearest,
)
from torchsmith.core.toml import place
from torchsmith.core.toml_edit import drop, set_list, set_string
from torchsmith.edit.package_entry import NewPackage, PackageProbe, entry_text, pin_of, probe
from torchsmith.edit.proposal import HEAD, Proposal, fact_edit, proposed, text_of
from torchsmith.matrix import Variant
from torchsmith.nix.evaluate import Evaluate
from torchsmith.nix.tool import Nix
from torchsmith.workspace.change import Change
from torchsmith.workspace.load import FILE, Workspace, open_workspace

PACKAGES, PINS = "catalog/packages.toml", "catalog/pins.toml"


def check_name(workspace: Workspace, new: NewPackage) -> None:
    """Refuse a name that cannot be one, or that is taken; what can be known before Nix is asked."""
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
        return
    own = taken.name in tomllib.loads(text_of(workspace.home, PACKAGES) or "")
    where = catalog.place("packages", (taken.name,)) if own else None
    what = "is a package already" if taken.name == new.name else f"is the package {taken.name} already"
    requested = _requested(workspace)
    if taken.name not in requested:
        hint = f"name it in {workspace.source.name}: packages = {json.dumps([*requested, taken.name])}"
    else:
        removal = "" if taken.is_torch else "; torchsmith package remove takes it out"
        hint = f"it is in this workspace{removal}"
    raise Exists(f"{new.name if taken.name == new.name else new.attr} {what}", hint=hint, where=where)


def propose(
    workspace: Path | None,
    new: NewPackage,
    evaluate: Evaluate,
    nix: Nix,
    trees: Mapping[str, Path],
    *,
    adopt: bool = False,
) -> Proposal:
    """Ask Nix, and work out what adding a package changes; nothing is written."""
    opened = open_workspace(workspace)
    check_name(opened, new)
    # As if it were there already: a template asks for its release and source.
    probes = probe(opened.with_texts(_with_package(opened, new, ())), new.name, evaluate, nix, trees)
    _require_answer(opened, new, probes)
    texts = _with_package(opened, new, probes)
    return replace(proposed(opened, texts, _edits(opened.home, texts), adopt=adopt), probes=tuple(probes))


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


def _with_package(workspace: Workspace, new: NewPackage, probes: Sequence[PackageProbe]) -> dict[str, str]:
    """The workspace's files with the package in them."""
    good = [probe for probe in probes if not probe.error and probe.version]
    pins = {pin_of(workspace.catalog, probe.cell).name: probe.version for probe in good}
    before = text_of(workspace.home, PACKAGES) or ""
    head = before if before.strip() else HEAD
    texts = {PACKAGES: f"{head.rstrip()}\n\n{entry_text(workspace, new, probes)}"}
    pins_text = text_of(workspace.home, PINS) or ""
    for pin, version in pins.items():
        try:
            pins_text = set_string(pins_text, (pin, new.name), version)
        except Problem as problem:
            raise problem.replace(where=place(pins_text, PINS, problem.path)) from None
    texts[PINS] = pins_text
    texts[FILE] = set_list(workspace.source.text, "packages", [*_requested(workspace), new.name])
    return texts


def _requested(workspace: Workspace) -> Sequence[str]:
    """The packages that a workspace asks for, by name."""
    if (named := workspace.settings.packages) is not None:
        return named
    return [package.name for package in workspace.catalog.packages.values() if package.default]


def _edits(root: Path, texts: Mapping[str, str]) -> list[Change]:
    return [fact_edit(root, name, text, "the package") for name, text in texts.items()]


def propose_removal(workspace: Path | None, name: str, *, adopt: bool) -> Proposal:
    """Work out what taking a package out changes; an entry of torchsmith's own stays in the catalog."""
    opened = open_workspace(workspace)
    root = opened.home
    if name not in opened.catalog.packages:
        raise NotKnown(f"unknown package {name!r}", hint=did_you_mean(name, opened.catalog.packages))
    if opened.catalog.packages[name].is_torch:
        raise Conflict(f"{name} cannot be removed: the other packages are built on it")
    users = [package.name for package in opened.catalog.packages.values() if name in package.needs]
    packages_text = text_of(root, PACKAGES) or ""
    own = name in tomllib.loads(packages_text)
    if own and users and name not in builtin_catalog().packages:
        where = opened.catalog.place("packages", (users[0], "needs"))
        raise Conflict(f"{users[0]} needs {name}", hint=f"take {users[0]} out first", where=where)
    texts = {}
    if own:
        texts[PACKAGES] = drop(packages_text, name)
        pins = text_of(root, PINS) or ""
        for pin in opened.catalog.pins:
            pins = drop(pins, pin, name)
        texts[PINS] = pins
    packages, cells = _requested(opened), opened.settings.include
    remaining = [cell for cell in cells if Variant.parse(cell, opened.catalog).package.name != name]
    text = opened.source.text
    if name in packages:
        text = set_list(text, "packages", [package for package in packages if package != name])
    texts[FILE] = set_list(text, "include", remaining) if len(remaining) < len(cells) else text
    edits = _edits(root, texts)
    if not any(edit.pending for edit in edits):
        raise NotFound(f"{name} is not part of this workspace", hint="torchsmith package list shows what is")
    return proposed(opened, texts, edits, adopt=adopt, gone=opened.catalog.packages[name].folder)


def unchanged(proposal: Proposal) -> Proposal:
    """The proposal. Raises Conflict if a file that it edits has changed since."""
    for edit in proposal.edits:
        if text_of(proposal.workspace.home, edit.path) != edit.before:
            raise Conflict(f"{edit.path} changed while Nix was asked", hint="try again")
    return proposal
