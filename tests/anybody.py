"""Command prefixes under which permissions count, also if root runs the tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

NOBODY = 65534
CLONE = Path(__file__).parent.parent


def _setpriv(*words: str) -> tuple[str, ...]:
    if os.geteuid() != 0:
        return ()
    setpriv = shutil.which("setpriv")
    assert setpriv, "setpriv (util-linux) lets root try what others meet"
    return (setpriv, *words, "--")


def weakened() -> tuple[str, ...]:
    """The same user, who may not pass over permissions."""
    return _setpriv("--bounding-set", "-dac_override,-dac_read_search")


def shells_may_start(program: str) -> bool:
    """Whether a shell of that user can start a program: not if it is below root's home."""
    return (
        subprocess.run([*ordinary(), "sh", "-c", '"$0" -c 1', program], capture_output=True).returncode == 0
    )


@cache
def ordinary() -> tuple[str, ...]:
    """A user who is not root; nobody, where root asks, and where nobody may read this clone."""
    prefix = _setpriv("--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups")
    tried = subprocess.run([*prefix, sys.executable, "-c", "import torchsmith.cli.main"], capture_output=True)
    if tried.returncode:
        pytest.skip(f"users other than root cannot enter {CLONE}: clone torchsmith outside of /root")
    return prefix
