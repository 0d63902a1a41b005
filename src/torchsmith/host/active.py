"""The Python of the user's active environment, which need not be the one that runs torchsmith."""

from __future__ import annotations

import os
import re
import shutil

from torchsmith.catalog import PythonVersion

SECONDS = 5.0
ASK = "import sys; print('python%d.%d' % sys.version_info[:2])"


def active_python() -> PythonVersion | None:
    """The release of python3 on PATH, which is that of an active environment; None: there is none."""
    python = shutil.which("python3")
    if python is None:
        return None
    name = os.path.basename(os.path.realpath(python))
    if name == "python3":  # one that starts another, as pyenv's does
        from torchsmith.core.process import run

        name = run([python, "-I", "-S", "-c", ASK], timeout=SECONDS).stdout.strip()
    match = re.fullmatch(r"python(3\.\d+)t?", name)
    return PythonVersion.parse(match[1]) if match else None
