"""Pins that Nix was asked about and pins that others state: two files, and the first is only ever written."""

from __future__ import annotations

import tomllib

from tools.pins import text_of
from torchsmith.catalog import builtin_catalog
from torchsmith.catalog.load import DATA, PROBED
from torchsmith.matrix.cells import newest_line

PROBED_TEXT = (DATA / PROBED).read_text()


def test_the_probed_pins_are_as_their_tool_writes_them() -> None:
    assert text_of(tomllib.loads(PROBED_TEXT)) == PROBED_TEXT


def test_a_pin_is_either_probed_or_stated() -> None:
    probed, stated = tomllib.loads(PROBED_TEXT), tomllib.loads((DATA / "pins.toml").read_text())
    assert set(probed) == {"6a030d5", "fe5e41d", "45dbc76"}
    assert set(stated) == {"2017d6d", "0182a36"}
    assert set(builtin_catalog().pins) == {*probed, *stated}
    for pin in (builtin_catalog().pins[name] for name in probed):
        assert pin.torch_shape
        assert pin.capabilities["x86_64-linux"].keys() == set(map(str, pin.cudas))


def test_the_newest_line_was_evaluated_and_its_hashes_are_known() -> None:
    catalog = builtin_catalog()
    for cuda in (None, *catalog.cuda):
        line = newest_line(catalog, cuda)
        build = line.build_for(cuda) if line else None
        if line is not None and build is not None:
            assert catalog.unknown_hashes(line, build) == []
    assert catalog.unknown_hashes(catalog.lines["2.12"], catalog.lines["2.12"].cuda["13.0"]) == ["pytorch"]
