"""The Python of the user's active environment, which need not be the one that runs torchsmith."""

from __future__ import annotations

import re

from torchsmith.catalog import PythonVersion
from torchsmith.core.process import find, run

SECONDS = 5.0
ASK = "import sys; print('%d.%d' % sys.version_info[:2])"


def active_python() -> PythonVersion | None:
    """The Python that `python3` is, as in an active virtual or conda environment; None: there is none."""
    if find("python3") is None:
        return None
    text = run(["python3", "-I", "-S", "-c", ASK], timeout=SECONDS).stdout.strip()
    return PythonVersion.parse(text) if re.fullmatch(r"\d\.\d+", text) else None
