"""The Python of the user's active environment, which need not be the one that runs torchsmith."""

from __future__ import annotations

import re
import shutil

from torchsmith.catalog import PythonVersion
from torchsmith.core.process import run

SECONDS = 5.0
ASK = "import sys; print('%d.%d' % sys.version_info[:2])"


def active_python() -> PythonVersion | None:
    """The release of python3 on PATH, which is that of an active environment; None: there is none."""
    python = shutil.which("python3")
    text = run([python, "-I", "-S", "-c", ASK], timeout=SECONDS).stdout.strip() if python else ""
    return PythonVersion.parse(text) if re.fullmatch(r"\d\.\d+", text) else None
