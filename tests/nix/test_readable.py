"""What recipes may read while they are evaluated."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchsmith.nix.readable import Root


@pytest.mark.parametrize("name", [".git/config", ".torchsmith/record", ".netrc", "netrc", "sub/.netrc"])
def test_private_files_are_not_readable_even_if_git_tracks_them(name: str, tmp_path: Path) -> None:
    private, public = tmp_path / name, tmp_path / "default.nix"
    root = Root(tmp_path, frozenset((private, public)))
    assert (root.allows(private), root.allows(public)) == (False, True)
    assert not Root(tmp_path, None).allows(private)
