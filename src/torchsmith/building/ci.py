"""The matrix for CI: a workflow for GitHub, a jobset for Hydra."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import PurePath

from torchsmith.catalog import Catalog
from torchsmith.core.text import grouped
from torchsmith.matrix import Cell

# The labels that GitHub gives runners.
RUNNERS = {
    "x86_64-linux": ("Linux", "X64"),
    "aarch64-linux": ("Linux", "ARM64"),
    "aarch64-darwin": ("macOS", "ARM64"),
}
MOST_JOBS = 256  # that GitHub takes in one matrix


@dataclass(frozen=True, slots=True)
class CiRow:
    """One job: a torch with its companions, which share everything."""

    cell: str
    names: tuple[str, ...]
    system: str
    isa: str


def ci_rows(cells: Sequence[Cell], catalog: Catalog) -> list[CiRow]:
    """Cells by what a torch and its companions have in common, torch first."""
    return [
        CiRow(
            key,
            tuple(cell.name for cell in sorted(own, key=lambda cell: cell.variant.sort_key)),
            catalog.isas[own[0].variant.isa].platform,
            own[0].variant.isa,
        )
        for key, own in grouped((cell.variant.stack, cell) for cell in cells).items()
    ]


def github_workflow(rows: Sequence[CiRow], catalog: Catalog, install: str, folder: PurePath) -> str:
    """An audit, then one job per cell; names hold only what needs no quoting in YAML or a shell.

    `install` is what pip installs torchsmith from, `folder` the workspace's place in its repository.
    """
    lines = "".join(
        f"          - cell: {row.cell}\n"
        f"            names: {' '.join(row.names)}\n"
        f"            os: {RUNNERS[row.system][0]}\n"
        f"            arch: {RUNNERS[row.system][1]}\n"
        f"            isa: {row.isa}\n"
        for row in rows
    )
    values = {name: action.uses for name, action in catalog.actions.items()}
    values |= {
        "NAME": workflow_name(folder),
        "FOLDER": json.dumps(str(folder).replace("${{", "${{ '${{' }}")),  # no expression of GitHub
        "TORCHSMITH": install,
        "ROWS": lines,
    }
    return re.sub("@([A-Za-z-]+)@", lambda match: values[match[1]], _template("workflow.yml"))


def workflow_name(folder: PurePath) -> str:
    """What the workflow of a workspace is called: a repository may hold several workspaces."""
    return re.sub(r"[^0-9A-Za-z_.-]+", "-", "-".join(("torchsmith", *folder.parts)))


def hydra_jobset(cells: Sequence[Cell]) -> str:
    """A release.nix: every cell as a job, read through its repository's default.nix."""
    repos = grouped((cell.variant.package.folder, cell.name) for cell in cells)
    parts = "".join(
        f"  inherit (repo ./{repo})\n" + "".join(f"    {name}\n" for name in names) + "    ;\n"
        for repo, names in repos.items()
    )
    return _template("release.nix").replace("@JOBS@", parts)


def _template(name: str) -> str:
    return files("torchsmith.building").joinpath(name).read_text()
