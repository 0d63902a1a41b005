"""Every command of docs/packages.md works as it stands, on the small nixpkgs that the page names."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.building.conftest import SM, SMALL
from tests.cli.conftest import Call

PAGE = Path(__file__).parents[2] / "docs" / "packages.md"
HERE = {"sm121": SM, "armv8_2": "avx2"} if SM != "sm121" else {}  # the page's cell is for ARM


@pytest.mark.needs("nix")
@pytest.mark.long
def test_the_page_walks_from_nothing_to_a_build(
    tmp_path: Path, nix_here: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = PAGE.read_text()
    for old, new in HERE.items():
        text = text.replace(old, new)
    files = re.findall(r"```(?:toml|nix)\n# ([\w./]+)\n(.*?)```", text, re.DOTALL)
    assert [name for name, _ in files] == ["torchsmith.toml", "templates/torchblend.nix"]
    for name, content in (*files, ("catalog/estimates.toml", SMALL)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    commands = [
        line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.splitlines()
    ]
    assert len(commands) >= 11
    for command in commands:
        words = shlex.split(command)
        assert words[0] == "torchsmith"
        result = call(*words[1:])
        assert result.code == 0, (command, result.out, result.err)
        if words[1:3] == ["package", "add"] and words[3] == "torchmix":
            written = (tmp_path / "catalog/packages.toml").read_text()
            shown = re.search(r"```toml\n(\[torchmix\].*?)```", text, re.DOTALL)
            assert shown
            plain = re.sub(r" +# .*", "", shown[1])
            assert plain in written, "the entry on the page is the one that is written"
