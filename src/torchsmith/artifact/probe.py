"""Runs in another interpreter, beside the package under test: one JSON line on stdout per step.

Only the standard library and the package itself are imported here. A step announces itself before it starts,
so that a crash can be told from the step that caused it.
"""

import importlib
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from typing import Any


class Skip(Exception):
    """A step that cannot be tried here, and why."""


def tell(out: Any, **event: Any) -> None:
    """One event for the parent."""
    out.write(json.dumps(event) + "\n")
    out.flush()


def close(got: Any, want: Any, limit: float) -> str:
    """The largest error relative to a float64 reference, or AssertionError above the limit."""
    difference = (got.double().cpu() - want.double().cpu()).abs().max().item()
    scale = max(want.double().abs().max().item(), 1e-30)
    error = difference / scale
    if not error <= limit:
        raise AssertionError(f"differs from the float64 reference by {error:.2g}, more than {limit:g}")
    return f"relative error {error:.1g}"


def matrix_product(torch: Any, device: str) -> str:
    left, right = torch.randn(384, 512, dtype=torch.float64), torch.randn(512, 256, dtype=torch.float64)
    got = left.float().to(device) @ right.float().to(device)
    return close(got, left @ right, 1e-4)


def convolution(torch: Any, device: str) -> str:
    image, kernel = (
        torch.randn(2, 8, 40, 40, dtype=torch.float64),
        torch.randn(16, 8, 3, 3, dtype=torch.float64),
    )
    conv = torch.nn.functional.conv2d
    got = conv(image.float().to(device), kernel.float().to(device), padding=1)
    return close(got, conv(image, kernel, padding=1), 1e-4)


def linear_algebra(torch: Any, device: str) -> str:
    matrix = torch.randn(96, 96, dtype=torch.float64)
    matrix = matrix @ matrix.T + 96 * torch.eye(96, dtype=torch.float64)
    single = matrix.float().to(device)
    close(single @ torch.linalg.inv(single), torch.eye(96, dtype=torch.float64), 1e-3)
    return close(torch.linalg.eigvalsh(single), torch.linalg.eigvalsh(matrix), 1e-4)


def magma(torch: Any, device: str) -> str:
    if not torch.cuda.has_magma:
        raise Skip("torch was built without MAGMA")
    before = torch.backends.cuda.preferred_linalg_library()
    torch.backends.cuda.preferred_linalg_library("magma")
    try:
        return linear_algebra(torch, device)
    finally:
        torch.backends.cuda.preferred_linalg_library(before)


def vision_ops(torch: Any, device: str) -> str:
    ops = importlib.import_module("torchvision").ops
    corners = torch.rand(200, 2) * 80
    boxes = torch.cat([corners, corners + 4 + torch.rand(200, 2) * 20], dim=1)
    scores = torch.rand(200)
    kept = ops.nms(boxes.to(device), scores.to(device), 0.5).tolist()
    if kept != kept_boxes(boxes.tolist(), scores.tolist(), 0.5):
        raise AssertionError("nms keeps other boxes than its definition says")
    image = torch.randn(1, 4, 60, 60, dtype=torch.float64)
    rois = torch.cat([torch.zeros(20, 1), boxes[:20] / 2], dim=1)
    got = ops.roi_align(image.float().to(device), rois.to(device), (5, 5))
    return "nms, roi_align: " + close(got, ops.roi_align(image, rois.double(), (5, 5)), 1e-4)


def kept_boxes(boxes: list[list[float]], scores: list[float], limit: float) -> list[int]:
    """Non-maximum suppression by its definition: the best box first, then what overlaps no kept one."""
    kept: list[int] = []
    for index in sorted(range(len(boxes)), key=lambda index: -scores[index]):
        if all(overlap(boxes[index], boxes[other]) <= limit for other in kept):
            kept.append(index)
    return kept


def overlap(one: list[float], two: list[float]) -> float:
    """Intersection over union of two boxes."""
    width = min(one[2], two[2]) - max(one[0], two[0])
    height = min(one[3], two[3]) - max(one[1], two[1])
    common = max(width, 0.0) * max(height, 0.0)
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, two)]
    return common / (sum(areas) - common)


def audio_transform(torch: Any, device: str) -> str:
    functional = importlib.import_module("torchaudio").functional
    wave = torch.randn(1, 16000, dtype=torch.float64)
    single = wave.float().to(device)
    poles, zeros = torch.tensor([1.0, -0.5]), torch.tensor([0.5, 0.5])
    filtered = functional.lfilter(single, poles.to(device), zeros.to(device), clamp=False)
    close(filtered, functional.lfilter(wave, poles.double(), zeros.double(), clamp=False), 1e-4)
    resampled = functional.resample(single, 16000, 8000)
    return "resample, lfilter: " + close(resampled, functional.resample(wave, 16000, 8000), 1e-4)


class Probe:
    """The steps, in order, each told to the parent."""

    def __init__(self, out: Any) -> None:
        self.out = out

    def step(self, name: str, action: Callable[..., Any], *args: Any) -> Any:
        """Run one step; its value, or None when it was skipped or failed."""
        tell(self.out, event="start", step=name)
        start = time.monotonic()
        value, status, detail = None, "passed", ""
        try:
            value = action(*args)
            detail = value if isinstance(value, str) else ""
        except Skip as reason:
            status, detail = "skipped", str(reason)
        except BaseException as error:  # whatever a broken build raises is the answer
            status, detail = "failed", f"{type(error).__name__}: {error}"[:4000]
        tell(self.out, event="end", step=name, status=status, detail=detail, seconds=time.monotonic() - start)
        return value if status == "passed" else None

    def skip(self, name: str, reason: str) -> None:
        tell(self.out, event="end", step=name, status="skipped", detail=reason, seconds=0.0)

    def run(self, packages: list[str]) -> None:
        torch = self.load("torch")
        if torch is None:
            return
        torch.manual_seed(0)
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        self.step("read its versions", self.facts, torch)
        companions = [name for name in packages if name != "pytorch" and self.load(name) is not None]
        self.cpu(torch, companions)
        self.gpus(torch, companions)

    def load(self, name: str) -> Any:
        """Import a package and tell where it came from."""
        module = self.step(f"import {name}", importlib.import_module, name)
        if module is not None:
            tell(self.out, event="module", file=str(module.__file__), version=str(module.__version__))
        return module

    def facts(self, torch: Any) -> str:
        """What the build says of itself."""
        tell(
            self.out,
            event="facts",
            torch=str(torch.__version__),
            python=".".join(map(str, sys.version_info[:3])),
            machine=platform.machine(),
            cuda=str(torch.version.cuda or ""),
            arch_list=list(torch.cuda.get_arch_list()),
            cpu_capability=str(torch.backends.cpu.get_cpu_capability()),
        )
        return f"torch {torch.__version__}"

    def cpu(self, torch: Any, companions: list[str]) -> None:
        self.step("matrix product on the CPU", matrix_product, torch, "cpu")
        self.step("convolution on the CPU", convolution, torch, "cpu")
        self.step("linear algebra on the CPU", linear_algebra, torch, "cpu")
        self.companions(torch, companions, "cpu", "the CPU")

    def companions(self, torch: Any, names: list[str], device: str, where: str) -> None:
        if "torchvision" in names:
            self.step(f"torchvision's operators on {where}", vision_ops, torch, device)
        if "torchaudio" in names:
            self.step(f"torchaudio's transforms on {where}", audio_transform, torch, device)

    def gpus(self, torch: Any, companions: list[str]) -> None:
        """Every GPU, one after the other; without one, a skip that says so."""
        if torch.version.cuda is None:
            self.skip("GPU", "a build without CUDA")
            return
        count = self.step("find GPUs", torch.cuda.device_count)
        if not count:
            self.skip("GPU", "no GPU that CUDA can see on this machine")
            return
        for index in range(count):
            device, where = f"cuda:{index}", f"GPU {index}"
            if self.step(f"open {where}", self.device, torch, device) is None:
                continue
            self.step(f"matrix product on {where}", matrix_product, torch, device)
            self.step(f"convolution on {where}", convolution, torch, device)
            self.step(f"linear algebra on {where}", linear_algebra, torch, device)
            self.step(f"MAGMA on {where}", magma, torch, device)
            self.companions(torch, companions, device, where)

    def device(self, torch: Any, device: str) -> str:
        name, capability = torch.cuda.get_device_name(device), torch.cuda.get_device_capability(device)
        tell(self.out, event="gpu", device=device, name=name, capability=list(capability))
        return f"{name}, capability {capability[0]}.{capability[1]}"


def main() -> None:
    """Keep the pipe for results alone: what libraries print goes to stderr."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    Probe(out).run(sys.argv[2:])
    tell(out, event="done")


main()
