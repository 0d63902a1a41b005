"""The Python of the user's active environment, which need not be the one that runs torchsmith."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from torchsmith.catalog import PythonVersion
from torchsmith.core.files import read_text
from torchsmith.core.problem import Problem

SECONDS = 5.0
VERSION = re.compile(r"^version(?:_info)?\s*=\s*(\d\.\d+)", re.MULTILINE)
CONDA = re.compile(r"python-(\d\.\d+)\.\d+-")
ASK = "import sys; print('%d.%d' % sys.version_info[:2])"


def active_python() -> PythonVersion | None:
    """The Python of the virtual or conda environment that is active, else of python3 on PATH; None: none."""
    text = ""
    if venv := os.environ.get("VIRTUAL_ENV"):
        text = _first(VERSION, _read(Path(venv, "pyvenv.cfg")))
    elif conda := os.environ.get("CONDA_PREFIX"):
        folder = Path(conda, "conda-meta")
        names = sorted(file.name for file in folder.glob("python-*.json")) if folder.is_dir() else []
        text = _first(CONDA, "\n".join(names))
    if not text and (python := shutil.which("python3")):
        from torchsmith.core.process import run  # a short answer in an environment does without

        text = run([python, "-I", "-S", "-c", ASK], timeout=SECONDS).stdout.strip()
    return PythonVersion.parse(text) if re.fullmatch(r"\d\.\d+", text) else None


def _first(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return match[1] if match else ""


def _read(path: Path) -> str:
    try:
        return read_text(path)
    except Problem:
        return ""
