"""Command prefixes under which permissions count, also where root runs the tests."""

from __future__ import annotations

import os
import shutil

NOBODY = 65534


def _setpriv(*words: str) -> tuple[str, ...]:
    if os.geteuid() != 0:
        return ()
    setpriv = shutil.which("setpriv")
    assert setpriv, "setpriv (util-linux) lets root try what others meet"
    return (setpriv, *words, "--")


def weakened() -> tuple[str, ...]:
    """The same user, who may not pass over permissions."""
    return _setpriv("--bounding-set", "-dac_override,-dac_read_search")


def ordinary() -> tuple[str, ...]:
    """A user who is not root; nobody, where root asks."""
    return _setpriv("--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups")
