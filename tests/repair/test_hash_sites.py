"""Where the hashes of generated recipes come from."""

from __future__ import annotations

from pathlib import Path

from torchsmith.matrix import Cell
from torchsmith.repair.hash_sites import _origins
from torchsmith.workspace.load import open_workspace


def test_a_line_states_hashes_of_the_releases_that_it_names_alone(tmp_path: Path) -> None:
    (tmp_path / "torchsmith.toml").write_text('format = 1\nprofile = "real"\n')
    workspace = open_workspace(tmp_path)
    cell = next(cell for cell in workspace.matrix.cells if cell.variant.package.name == "torchvision")
    for line in workspace.catalog.lines.values():
        sites = _origins(Cell(cell.variant, line.name), workspace)
        packages = {site.path[2] for site in sites if site.path[1:2] == ("hashes",)}
        assert packages == {name for name in ("pytorch", "torchvision") if line.version_of(name)} | {
            *line.hashes
        }
