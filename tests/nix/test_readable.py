"""What recipes may read while they are evaluated."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchsmith.nix.readable import Readable, Root


@pytest.mark.parametrize("name", [".git/config", ".torchsmith/record", ".netrc", "netrc", "sub/.netrc"])
def test_private_files_are_not_readable_even_if_git_tracks_them(name: str, tmp_path: Path) -> None:
    private, public = tmp_path / name, tmp_path / "default.nix"
    root = Root(tmp_path, frozenset((private, public)))
    assert (root.allows(private), root.allows(public)) == (False, True)
    assert not Root(tmp_path, None).allows(private)


def test_links_in_one_folder_lead_to_the_repository_of_each_recipe(tmp_path: Path) -> None:
    readable, links = Readable(), []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.nix").write_text("1")
        (link := tmp_path / f"{name}.nix").symlink_to(tmp_path / name / "x.nix")
        links.append(link)
    assert [readable.add(link) for link in links] == [tmp_path / "a", tmp_path / "b"]
