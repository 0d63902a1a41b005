"""The matrix for other people's machinery: a workflow for GitHub, a jobset for Hydra."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from torchsmith import __version__
from torchsmith.catalog import Catalog
from torchsmith.core.words import grouped
from torchsmith.matrix import Cell

# The labels that GitHub gives runners.
RUNNERS = {
    "x86_64-linux": ("Linux", "X64"),
    "aarch64-linux": ("Linux", "ARM64"),
    "aarch64-darwin": ("macOS", "ARM64"),
}
MOST = 256  # jobs that GitHub takes in one matrix


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
            tuple(cell.name for cell in sorted(own, key=lambda one: one.variant.sort_key)),
            catalog.isas[own[0].variant.isa].platform,
            own[0].variant.isa,
        )
        for key, own in grouped((cell.variant.stack, cell) for cell in cells).items()
    ]


UNPUBLISHED = """\
      # torchsmith is not on PyPI: put its wheel here (python -m build), or set what pip installs in
      # torchsmith.toml, [ci] torchsmith = "git+https://...@COMMIT".
"""


def github_workflow(rows: Sequence[CiRow], catalog: Catalog, torchsmith: str = "") -> str:
    """A workflow with one job a cell; names hold only what needs no quoting in YAML or a shell.

    `torchsmith` is what pip installs: a wheel, or an address with a revision. Nothing is on PyPI yet, where
    anybody could take the name; without the setting a wheel in the repository is installed.
    """
    lines = "".join(
        f"          - cell: {row.cell}\n"
        f"            names: {' '.join(row.names)}\n"
        f"            os: {RUNNERS[row.system][0]}\n"
        f"            arch: {RUNNERS[row.system][1]}\n"
        f"            isa: {row.isa}\n"
        for row in rows
    )
    text = _template("workflow.yml").replace("@NOTE@", "" if torchsmith else UNPUBLISHED)
    text = text.replace("@TORCHSMITH@", torchsmith or f"./wheels/torchsmith-{__version__}-py3-none-any.whl")
    for name, action in catalog.actions.items():
        text = text.replace(f"@{name}@", action.uses)
    return text.replace("@ROWS@", lines)


def hydra_jobset(cells: Sequence[Cell]) -> str:
    """A release.nix: every cell as a job, read through its repository's default.nix."""
    repos = grouped((cell.variant.package.folder, cell.name) for cell in cells)
    parts = "".join(
        f"  inherit (repo ./{repo})\n" + "".join(f"    {name}\n" for name in names) + "    ;\n"
        for repo, names in repos.items()
    )
    return _template("release.nix").replace("@JOBS@", parts)


def hydra_spec(address: str, branch: str) -> str:
    """The declarative description of the jobset, for Hydra's project settings."""
    builds = json.dumps(f"{address} {branch}")
    return _template("hydra.json").replace('"@BUILDS@"', builds)


def _template(name: str) -> str:
    return files("torchsmith.building").joinpath(name).read_text()
