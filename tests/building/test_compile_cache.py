"""A compile cache that cells share: what a plan counts with, which cells run when, what real builds take."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.building.conftest import SMALL
from tests.cli.conftest import Call
from torchsmith.building.compile_cache import with_compile_cache
from torchsmith.building.job import Job
from torchsmith.building.plan import BuildPlan, Share
from torchsmith.building.queue import JobQueue, Limits
from torchsmith.catalog import builtin_catalog
from torchsmith.core.state import state_folder
from torchsmith.record import Expected
from torchsmith.record.estimate import Basis, estimate_row
from torchsmith.verbs.apply import ApplyRequest, apply

CATALOG = builtin_catalog()
TORCH = estimate_row(CATALOG, "pytorch", gpu=True)
X86, ARM = "x86_64-linux", "aarch64-linux"


def plan(*cells: str, seconds: Mapping[str, float] = {}, basis: Basis = "guess") -> BuildPlan:
    """A plan of torches, each of which takes 100 seconds unless stated."""
    names = [f"pytorch-python313-{cell}" for cell in cells]
    jobs = [
        Job(name, name, (name,), "pytorch", True, ARM if "arm" in name else X86, recipes=(name,))
        for name in names
    ]
    costs = {
        job.key: Expected(seconds.get(cell, 100.0), 1, 1, 1, basis)
        for cell, job in zip(cells, jobs, strict=True)
    }
    return with_compile_cache(BuildPlan(tuple(jobs), costs, Share(1, 16, 64), 3.0), CATALOG)


def seconds(planned: BuildPlan) -> list[float]:
    return [round(cost.seconds, 3) for cost in planned.expected.values()]


def left(*shares: float) -> float:
    return round(100.0 * (1 - sum(shares)), 3)


def test_a_plan_counts_the_objects_of_a_gpu_and_of_an_instruction_set_once() -> None:
    cells = ("cuda13_0-sm90-avx2", "cuda13_0-sm90-avx512", "cuda13_0-sm120-avx2", "cuda13_0-sm120-avx512")
    planned = plan(*cells)
    gpu, isa = TORCH.gpu_share, TORCH.isa_share
    assert 0.9 < gpu + isa < 1, "linking and configuring come from no cache"
    assert seconds(planned) == [100, left(gpu), left(isa), left(gpu, isa)]
    assert {round(cost.seconds + cost.cached_seconds) for cost in planned.expected.values()} == {100}


def test_another_toolkit_python_or_platform_shares_nothing_and_a_cpu_build_neither() -> None:
    for other in ("cuda12_9-sm90-avx2", "cuda13_0-sm121-armv9", "cpu-avx2"):
        assert seconds(plan("cuda13_0-sm90-avx2", other)) == [100, 100], other
    assert seconds(plan("cuda13_0-sm121-avx2", "cuda13_0-sm121-armv9")) == [100, 100], "another nvcc"


def test_durations_on_record_hold_what_the_cache_gave_already() -> None:
    cells = ("cuda13_0-sm90-avx2", "cuda13_0-sm90-avx512")
    assert seconds(plan(*cells, basis="own_build")) == [100, 100]


def started(planned: BuildPlan, slots: int) -> list[list[str]]:
    """What a queue starts at once, round after round, when all of a round end together."""
    queue = JobQueue(planned.jobs, planned.expected, Limits({X86: slots}, slots, 16))
    rounds = []
    while chosen := queue.startable():
        rounds.append([job.name.removeprefix("pytorch-python313-cuda13_0-") for job in chosen])
        for job in chosen:
            queue.start(job)
        queue.done |= queue.running
        queue.running.clear()
    return rounds


def test_cells_of_one_gpu_follow_each_other_however_long_each_took() -> None:
    cells = [f"cuda13_0-{sm}-{isa}" for isa in ("avx2", "avx512") for sm in ("sm90", "sm120")]
    planned = plan(
        *cells, seconds={"cuda13_0-sm120-avx512": 90, "cuda13_0-sm90-avx2": 110}, basis="own_build"
    )
    assert started(planned, 1) == [["sm90-avx2"], ["sm90-avx512"], ["sm120-avx2"], ["sm120-avx512"]]


def test_side_by_side_run_cells_that_have_no_objects_in_common() -> None:
    planned = plan(*(f"cuda13_0-{sm}-{isa}" for sm in ("sm120", "sm90") for isa in ("avx2", "avx512")))
    assert started(planned, 2) == [["sm120-avx2", "sm90-avx512"], ["sm120-avx512", "sm90-avx2"]]
    alone = plan("cuda13_0-sm90-avx2", "cuda13_0-sm90-avx512")
    assert len(started(alone, 2)) == 1, "no builder is left idle for the cache's sake"


OLDER_ARM = """\
[armv8_1]
title = "ARMv8.1-A"
platform = "aarch64-linux"
level = 1
flags = ["-march=armv8.1-a"]
macros = ["__ARM_FEATURE_ATOMICS", "__ARM_FEATURE_CRC32", "__ARM_FEATURE_QRDMX"]
features = ["asimdrdm", "atomics", "crc32"]
first_cpus = ["ThunderX2"]
source = "gcc 12 macros"
"""
TOML = """\
format = 1
packages = ["pytorch"]
ccache = "{cache}"

[[matrix]]
line = "2.10"
python = ["3.13"]
cuda = ["13.0"]
sm = ["{gpus}"]
isa = ["{sets}"]
"""


class Cells:
    """A workspace of four torches with a compile cache, two GPUs and two instruction sets."""

    def __init__(self, root: Path, call: Call) -> None:
        self.root, self.cache, self.call = root / "workspace", root / "ccache", call
        self.cache.mkdir()
        # CI runs on either architecture; no machine must have AVX-512 or SVE2 to build for it.
        arm = os.uname().machine == "aarch64"
        self.gpus = ("sm90", "sm121") if arm else ("sm90", "sm120")
        self.sets = ("armv8_1", "armv8_2") if arm else ("avx", "avx2")
        (self.root / "catalog").mkdir(parents=True)
        (self.root / "catalog/estimates.toml").write_text(SMALL)
        (self.root / "catalog/isas.toml").write_text(OLDER_ARM)
        gpus, sets = '", "'.join(self.gpus), '", "'.join(self.sets)
        (self.root / "torchsmith.toml").write_text(TOML.format(cache=self.cache, gpus=gpus, sets=sets))
        apply(ApplyRequest(workspace=self.root))

    def name(self, gpu: int, isa: int) -> str:
        return f"pytorch-python313-cuda13_0-{self.gpus[gpu]}-{self.sets[isa]}"

    def build(self, name: str) -> dict[str, tuple[int, int]]:
        """Objects of the CPU and of CUDA that came from the cache, and that did not."""
        log = self.root / "stats"
        (self.cache / "ccache.conf").write_text(f"stats_log = {log}\n")
        log.unlink(missing_ok=True)
        built = self.call("build", name, "--workspace", str(self.root))
        assert built.code == 0, built.err
        return {kind: _hits(log.read_text().split("# ")[1:], kind) for kind in ("CPU", "CUDA")}

    def verified(self, name: str) -> dict[str, object]:
        shown = self.call("verify", name, "--workspace", str(self.root), "--json")
        assert shown.code == 0, shown.err
        report: dict[str, object] = json.loads(shown.out)
        return report

    def forget(self, name: str) -> None:
        """Take a build out of the store."""
        outputs = (state_folder(self.root) / "results" / name).resolve()
        drv = subprocess.run(
            ["nix-store", "-q", "--deriver", outputs], capture_output=True, text=True, check=True
        )
        paths = subprocess.run(
            ["nix-store", "-q", "--outputs", drv.stdout.strip()], capture_output=True, text=True, check=True
        )
        shutil.rmtree(state_folder(self.root))
        subprocess.run(["nix-store", "--delete", *paths.stdout.split()], check=True, capture_output=True)


def _hits(calls: Sequence[str], kind: str) -> tuple[int, int]:
    own = [text for text in calls if text.splitlines()[0].endswith(".cu") == (kind == "CUDA")]
    return sum("cache_hit" in text for text in own), sum("cache_miss" in text for text in own)


@pytest.mark.needs("nix")
@pytest.mark.needs("ccache")
def test_a_build_out_of_the_cache_is_verified_like_one_that_was_compiled(
    own_store: Path, tmp_path: Path, call: Call
) -> None:
    cells = Cells(tmp_path, call)
    first = cells.name(0, 0)
    rehearsed = call("rehearse", first, "--workspace", str(cells.root))
    assert rehearsed.code == 0, rehearsed.err
    cold = cells.build(first)
    objects = {kind: misses for kind, (_, misses) in cold.items()}
    assert all(hits == 0 for hits, _ in cold.values()), (
        "a rehearsal neither takes from the cache nor fills it"
    )
    assert min(objects.values()) >= 4
    compiled = cells.verified(first)
    cells.forget(first)
    warm = cells.build(first)
    assert warm == {kind: (count, 0) for kind, count in objects.items()}
    assert cells.verified(first) == compiled

    other_set = cells.build(cells.name(0, 1))
    assert other_set["CPU"] == (0, objects["CPU"]), "other flags are no hit"
    # Without a sandbox the build folder has another name: ccache hashes it for nvcc, torch embeds it.
    other_gpu = cells.build(cells.name(1, 0))
    assert other_gpu == {"CPU": (objects["CPU"] - 1, 1), "CUDA": (0, objects["CUDA"])}
    for name in (cells.name(0, 1), cells.name(1, 0)):
        cells.verified(name)
