"""The matrix for other people's machinery: a workflow for GitHub, a jobset for Hydra."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from torchsmith import __version__
from torchsmith.catalog import Catalog
from torchsmith.matrix import Cell

ARCHITECTURES = {"x86_64-linux": "X64", "aarch64-linux": "ARM64"}
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
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        found.setdefault(cell.variant.stack, []).append(cell)
    return [
        CiRow(
            key,
            tuple(cell.name for cell in sorted(own, key=lambda one: one.variant.sort_key)),
            catalog.isas[own[0].variant.isa].platform,
            own[0].variant.isa,
        )
        for key, own in found.items()
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
        f"            arch: {ARCHITECTURES[row.system]}\n"
        f"            isa: {row.isa}\n"
        for row in rows
    )
    text = files("torchsmith.build").joinpath("workflow.yml").read_text()
    text = text.replace("@NOTE@", "" if torchsmith else UNPUBLISHED)
    text = text.replace("@TORCHSMITH@", torchsmith or f"./wheels/torchsmith-{__version__}-py3-none-any.whl")
    for name, action in catalog.actions.items():
        text = text.replace(f"@{name}@", action.uses)
    return text.replace("@ROWS@", lines)


def hydra_jobset(cells: Sequence[Cell]) -> str:
    """A release.nix: every cell as a job, read through its repository's default.nix."""
    repos: dict[str, list[str]] = {}
    for cell in cells:
        repos.setdefault(cell.variant.package.folder, []).append(cell.name)
    parts = "".join(
        f"  inherit (repo ./{repo})\n" + "".join(f"    {name}\n" for name in names) + "    ;\n"
        for repo, names in repos.items()
    )
    return (
        "# Written by `torchsmith ci hydra`: a job for every cell of the matrix.\n"
        "{ torchsmithNixpkgs ? null, ... }:\n\n"
        "let\n"
        "  repo = path: import path { inherit torchsmithNixpkgs; };\n"
        "in\n"
        f"{{\n{parts}}}\n"
    )


def hydra_spec(address: str, branch: str) -> str:
    """The declarative description of the jobset, for Hydra's project settings."""
    spec = {
        "enabled": 1,
        "hidden": False,
        "description": "PyTorch builds",
        "nixexprinput": "builds",
        "nixexprpath": "release.nix",
        "checkinterval": 3600,
        "schedulingshares": 100,
        "enableemail": False,
        "emailoverride": "",
        "keepnr": 1,
        "inputs": {"builds": {"type": "git", "value": f"{address} {branch}", "emailresponsible": False}},
    }
    return json.dumps(spec, indent=2) + "\n"
