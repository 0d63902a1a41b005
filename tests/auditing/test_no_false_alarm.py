"""False alarms are defects: what torchsmith generates has no error and no warning but for cells without a
machine."""

from __future__ import annotations

import tempfile
import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from torchsmith.auditing.finding import Finding, Severity
from torchsmith.auditing.run import audit
from torchsmith.catalog import builtin_catalog
from torchsmith.core.problem import CannotBuild, Conflict, Empty
from torchsmith.verbs.apply import ApplyRequest, apply

CATALOG = builtin_catalog()
EMPTY_HASH = "TS901"
UNUSABLE = "TS404"
LINES = {name: line for name, line in CATALOG.lines.items() if line.torch}
NIGHTLY = """
include = ["pytorch-python313-cuda13_0-sm121-armv9-nightly",
  "torchvision-python313-cuda13_0-sm121-armv9-nightly",
  "pytorch-python313-cuda13_0-sm121-armv9-nightly-wrapper"]
[nightly]
self_contained = {self_contained}
pytorch = {{ rev = "{rev}", version = "2.11.0a0", hash = "" }}
torchvision = {{ rev = "{rev}", version = "0.26.0a0", hash = "" }}
cudatoolkit = {{ owner = "flox", rev = "{rev}" }}
"""


def quoted(values: object) -> str:
    return "[" + ", ".join(f'"{value}"' for value in values) + "]"  # type: ignore[attr-defined]


@st.composite
def workspaces(draw: st.DrawFn) -> str:
    """A torchsmith.toml with a few random cells of a random line."""
    name = draw(st.sampled_from([*LINES, "flox"]))
    line = CATALOG.lines[name]
    cudas = draw(st.lists(st.sampled_from(["cpu", *line.cuda]), min_size=1, max_size=2, unique=True))
    sms = draw(st.lists(st.sampled_from(list(map(str, CATALOG.gpus))), min_size=1, max_size=2, unique=True))
    isas = draw(st.lists(st.sampled_from(list(CATALOG.isas)), min_size=1, max_size=2, unique=True))
    pythons = draw(st.lists(st.sampled_from(list(map(str, line.pythons))), min_size=1, max_size=1))
    packages = '\npackages = ["pytorch"]' if name == "flox" else ""
    text = f"""format = 1
max_jobs = {draw(st.sampled_from([8, 32]))}{packages}
cudatoolkit = {quoted(["13.0"] if draw(st.booleans()) else [])}
"""
    if draw(st.integers(0, 3)) == 0:
        # A nightly needs CUDA recipes at hand when it is self-contained.
        contained = draw(st.booleans())
        text = text.replace("cudatoolkit = []", 'cudatoolkit = ["13.0"]')
        text += NIGHTLY.format(self_contained=str(contained).lower(), rev="0" * 39 + "1")
    return (
        text
        + f"""
[[matrix]]
line = "{name}"
python = {quoted(pythons)}
cuda = {quoted(cudas)}
sm = {quoted(sms)}
isa = {quoted(isas)}
"""
    )


def alarms(root: Path, **more: bool) -> list[Finding]:
    report = audit((root,), **more)  # type: ignore[arg-type]
    return [one for one in report.findings if one.severity is not Severity.NOTE]


@pytest.mark.long
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(workspaces())
def test_a_random_workspace_raises_no_alarm(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "torchsmith.toml").write_text(text)
        try:
            report = apply(ApplyRequest(workspace=root, git=False))
        except (CannotBuild, Conflict, Empty):
            return  # no cell of this draw can be built
        assert report.pending
        # A line whose source hash nobody knows has it empty, for fix-hashes to learn: a true finding.
        line = CATALOG.lines[tomllib.loads(text)["matrix"][0]["line"]]
        builds = filter(None, (line.cpu, *line.cuda.values()))
        unknown = any(CATALOG.unknown_hashes(line, build) for build in builds)
        expected = {UNUSABLE, EMPTY_HASH} if unknown else {UNUSABLE}
        found = [one for one in alarms(root) if one.rule not in expected]
        assert not found, "\n".join(f"{one.where} {one.rule} {one.message}" for one in found[:5])


def test_the_plan_has_its_eight_cells_without_a_machine_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "torchsmith.toml").write_text('format = 1\nprofile = "seed"\n')
    apply(ApplyRequest(workspace=tmp_path, git=False))
    found = alarms(tmp_path)
    assert {one.rule for one in found} == {UNUSABLE}
    per_repo = [sum(repo in one.where.file for one in found) for repo in ("pytorch/", "vision/", "audio/")]
    assert per_repo == [8, 8, 8]


def test_a_generated_repo_is_right_without_its_workspace_too(tmp_path: Path) -> None:
    (tmp_path / "torchsmith.toml").write_text('format = 1\nprofile = "real"\n')
    apply(ApplyRequest(workspace=tmp_path, git=False))
    (tmp_path / "torchsmith.toml").unlink()
    assert alarms(tmp_path / "build-torchvision") == []
