"""The order of builds: the default matrix on simulated farms, against the bound and Nix' own order."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from bench.measure import Row, Timing
from bench.simulation import simulate_farms, simulated_jobs, tasks_of
from torchsmith.building.plan import evaluate_recipes
from torchsmith.catalog import builtin_catalog
from torchsmith.cli.samples import HERE
from torchsmith.nix.evaluate import EvaluationOptions
from torchsmith.nix.tool import find_nix
from torchsmith.verbs.apply import ApplyRequest, apply
from torchsmith.workspace.checkout import recipes_in

MINI = HERE / "nixpkgs"


def rows() -> Iterator[Row]:
    """Hours are the catalog's estimates; the graph is evaluated against the miniature nixpkgs."""
    catalog = builtin_catalog()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TORCHSMITH_CACHE"] = f"{folder}/cache"
        root = Path(folder) / "all"
        root.mkdir()
        (root / "torchsmith.toml").write_text('format = 1\nprofile = "seed"\n')
        apply(ApplyRequest(workspace=root, git=False))
        nix = replace(find_nix(), store=f"local?root={folder}/store")
        graph = evaluate_recipes(nix, recipes_in(root), EvaluationOptions(trees={"default": MINI})).graph
    for farm in simulate_farms(tasks_of(simulated_jobs(graph, catalog), catalog, []), (1, 4, 16)):
        ours, nixs, bound = (Timing((hours * 3600,)) for hours in (farm.ours, farm.nix, farm.bound))
        what = f"132 packages on {farm.farm}"
        yield Row(what, "lower bound", ours, bound, 1.05, "lower", note="simulated with the catalog's hours")
        yield Row(what, "Nix' own order", ours, nixs, 1.0, "lower", note="simulated with the catalog's hours")
