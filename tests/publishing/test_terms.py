"""Licences by the packages that are under them."""

from __future__ import annotations

from torchsmith.nix.graph import Inventory
from torchsmith.publishing.sbom import UNKNOWN, terms


def test_what_a_result_holds_and_no_package_states_is_under_unknown_terms() -> None:
    path = f"/nix/store/{'0' * 32}-blob-1.0"
    (unknown,) = terms(Inventory(roots={}, components=(), built=True, strangers=(path,)))
    assert (unknown.license, unknown.packages) == (UNKNOWN, ("blob-1.0",))
