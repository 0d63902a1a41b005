"""What `page` does between its options and the document: which folder, which workspace, which derivations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from torchsmith.core.clock import Clock
from torchsmith.core.problem import NotFound
from torchsmith.nix.graph import Graph, graph_of
from torchsmith.page.collect import PageRequest, pickable
from torchsmith.workspace.checkout import recipes_in
from torchsmith.workspace.load import FILE, Workspace, open_workspace


def page_request(
    folder: Path | None,
    named: Path | None,
    profile: str | None,
    nixpkgs: Sequence[str] | None,
    evaluate: bool,
) -> PageRequest:
    """A folder that is named is shown as it is; a workspace with its matrix; else the default matrix."""
    if folder is not None and not folder.is_dir():
        raise NotFound(f"there is no folder {folder}")
    if folder is not None and named is None and (folder / FILE).is_file():
        named = folder
    workspace = open_workspace(named, profile)
    if folder is not None and named is None:
        root, whole = folder, False
    elif workspace.root is not None:
        root, whole = workspace.root, bool(workspace.lines)
    else:
        root = Path.cwd()
        whole = profile is not None or not recipes_in(root)
    if not whole and not recipes_in(root):
        raise NotFound(f"there is no recipe in {root}", hint="recipes are .nix files below .flox/pkgs")
    graph = _graph(root, workspace, nixpkgs) if evaluate else None
    return PageRequest(root, workspace, whole, Clock().now(), graph)


def _graph(root: Path, workspace: Workspace, nixpkgs: Sequence[str] | None) -> Graph:
    from torchsmith.api.nix_options import NixOptions
    from torchsmith.cli.evaluation import evaluation, print_failures

    nix, ask = evaluation(NixOptions(nixpkgs), workspace=workspace, instantiate=True)
    results = ask(recipes_in(root, workspace))
    print_failures(results)
    return graph_of(nix, results)


CURVE = 12  # plans that are drawn


def with_cover(request: PageRequest, fleet: Path) -> PageRequest:
    """The same with the best plans for a fleet."""
    from torchsmith.host.cover import Cover
    from torchsmith.host.fleet import read_fleet
    from torchsmith.page.pictures import cover_points

    catalog = request.workspace.catalog
    machines = read_fleet(fleet, catalog)
    workload = next(iter(catalog.workloads.values()))
    cover = Cover(machines, pickable(request), catalog, workload)
    return replace(request, cover=cover_points(cover.curve(CURVE), machines.machines))
