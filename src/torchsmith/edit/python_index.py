"""The newest wheels on the Python index, asked of pip: its settings, mirrors and credentials hold."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from torchsmith.core.problem import Failed, MissingRequirement
from torchsmith.core.process import find, run

SECONDS = 180.0
NO_PIP = "pip is needed to ask the Python index"
REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)\s*(?:\[[^]]*\])?\s*\(?([^);]*)\)?")


class PublishedWheel(msgspec.Struct, frozen=True):
    """A release on the index: its version, and the torch that its wheel asks for."""

    package: str
    version: str
    torch: str = ""  # as its metadata has it, such as ==2.10.0; empty: it asks for none


@dataclass(frozen=True, slots=True)
class WheelPlatform:
    """The machine and Python whose wheels are meant."""

    python: str = "3.13"
    wheel: str = "manylinux_2_28_x86_64"


def newest(
    packages: Sequence[str], platform: WheelPlatform | None = None, index: str = ""
) -> dict[str, PublishedWheel]:
    """The newest release of each package that has a wheel. Raises MissingRequirement without pip, and Failed
    if the index does not answer."""
    platform = platform or WheelPlatform()
    with tempfile.TemporaryDirectory(prefix="torchsmith-") as folder:
        report = Path(folder, "report.json")
        words = ["install", "--dry-run", "--no-deps", "--ignore-installed", "--quiet", "--no-input"]
        words += [
            "--retries",
            "1",
            "--disable-pip-version-check",
            "--only-binary",
            ":all:",
            "--target",
            f"{folder}/none",
        ]
        words += ["--python-version", platform.python, "--platform", platform.wheel, "--report", str(report)]
        words += ["--index-url", index] if index else []
        done = run([*_pip(), *words, "--", *packages], timeout=SECONDS, cwd=Path(folder))
        if not done.ok or not report.is_file():
            lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            why = lines[-1].removeprefix("ERROR: ") if lines else done.line or "no answer"
            raise Failed(f"the Python index cannot be asked: {why}", hint="pip's own settings are used")
        return read_report(report.read_bytes())


def read_report(text: bytes) -> dict[str, PublishedWheel]:
    """The releases in an installation report of pip."""
    try:
        items = msgspec.json.decode(text, type=dict[str, Any])["install"]
        found = [_published(item["metadata"]) for item in items]
    except (msgspec.DecodeError, msgspec.ValidationError, KeyError, TypeError) as error:
        raise Failed(f"pip's report is not understood: {error}") from error
    return {release.package: release for release in found}


def _published(metadata: Mapping[str, Any]) -> PublishedWheel:
    torch = ""
    for requirement in metadata.get("requires_dist") or ():
        match = REQUIREMENT.match(requirement)
        if match and match[1].lower() == "torch" and "extra ==" not in requirement:
            torch = match[2].replace(" ", "")
    return PublishedWheel(str(metadata["name"]).lower(), str(metadata["version"]), torch)


def _pip() -> list[str]:
    """A pip to ask: of this Python, else the one on PATH."""
    own = [sys.executable, "-I", "-m", "pip"]
    if run([*own, "--version"], timeout=30).ok:
        return own
    if found := find("pip"):
        return [os.fspath(found)]
    raise MissingRequirement(NO_PIP, hint="python3 -m ensurepip, or install pip")
