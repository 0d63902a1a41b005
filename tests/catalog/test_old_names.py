"""Names of facts that were changed work for one release."""

from __future__ import annotations

import msgspec
import pytest

from torchsmith.catalog.facts import LineBuild


def test_the_old_name_of_a_style_works_with_a_warning() -> None:
    with pytest.warns(FutureWarning, match="flox"):
        build = msgspec.convert({"style": "catalog"}, LineBuild)
    assert build.style == "flox"
