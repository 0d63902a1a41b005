"""Runs in another interpreter, beside the package under test: one JSON line on stdout per step.

Only the standard library and the package itself are imported here. A step announces itself before it starts,
so that the step of a crash is known.
"""

import ctypes
import importlib
import json
import math
import operator
import os
import platform
import random
import sys
import sysconfig
import time
from collections.abc import Callable
from typing import Any


class Skip(Exception):
    """A step that cannot be tried here, and why."""


def skip(why: str) -> bool:
    """End a trial that cannot be made here."""
    raise Skip(why)


def send(out: Any, **event: Any) -> None:
    """Send an event to the parent."""
    out.write(json.dumps(event) + "\n")
    out.flush()


Grid = list[list[float]]
NUMBERS = random.Random(0)  # eighths, which every floating-point type here holds exactly
KERNEL_DRIVER = "/dev/kfd"  # by which programs reach AMD GPUs
SIDE = 48  # of matrices whose eigenvalues are known


def numbers(*shape: int) -> Any:
    """Pseudo-random numbers, nested by a shape."""
    if not shape:
        return NUMBERS.randint(-32, 32) / 8
    return [numbers(*shape[1:]) for _ in range(shape[0])]


def quartered(value: Any) -> Any:
    """Smaller numbers, so that a small fault is a large part of them."""
    return [quartered(part) for part in value] if isinstance(value, list) else value / 4


def flat(value: Any) -> list[float]:
    return [number for part in value for number in flat(part)] if isinstance(value, list) else [float(value)]


def close(got: Any, want: Any, limit: float) -> float:
    """The largest error of all elements, by the largest number; AssertionError for one above the limit."""
    actual, wanted = flat(got.cpu().tolist()), flat(want)
    if len(actual) != len(wanted):
        raise AssertionError(f"{len(actual)} numbers instead of {len(wanted)}")
    scale = max(max(map(abs, wanted)), 1e-30)
    worst = 0.0
    for place, (value, right) in enumerate(zip(actual, wanted, strict=True)):
        error = abs(value - right) / scale
        if not error <= limit:  # so that NaN is an error
            off = f"{error:.2g} of the largest, more than {limit:g}"
            raise AssertionError(f"number {place} is {value:.9g} and should be {right:.9g}: off by {off}")
        worst = max(worst, error)
    return worst


# The largest errors in float32 and float64 that pass: several times those of stock wheels (docs/verify.md),
# with room for Winograd's transform on a GPU; a fault of 0.001 in any one number is above each.
LIMITS = {
    "matrix product": (2e-6, 1e-13),
    "convolution": (3e-5, 1e-12),
    "softmax": (2e-5, 1e-12),
    "layer norm": (2e-5, 1e-12),
    "inverse": (1e-4, 1e-11),
    "eigenvalues": (1e-5, 1e-12),
    "roi_align": (1e-5, 1e-12),
    "lfilter": (1e-5, 1e-12),
    "resample": (1e-5, 1e-10),
}


def in_both(
    torch: Any, device: str, name: str, action: Callable[[Callable[[Any], Any]], Any], want: Any
) -> str:
    """An operation in both floating-point types, against numbers that no torch computed."""
    errors = []
    for kind, limit in zip(("float32", "float64"), LIMITS[name], strict=True):
        if kind == "float64" and device == "mps":
            continue  # Metal has no such numbers
        dtype = getattr(torch, kind)

        def tensor(values: Any, dtype: Any = dtype) -> Any:
            return torch.tensor(values, dtype=dtype).to(device)

        errors.append(f"{close(action(tensor), want, limit):.1g} in {kind}")
    return f"relative error {', '.join(errors)}"


def product(left: Grid, right: Grid) -> Grid:
    columns = list(zip(*right, strict=True))
    return [[math.fsum(map(operator.mul, row, column)) for column in columns] for row in left]


def matrix_product(torch: Any, device: str) -> str:
    left, right = numbers(96, 256), numbers(256, 64)
    return in_both(torch, device, "matrix product", lambda t: t(left) @ t(right), product(left, right))


def convolved(images: Any, kernels: Any) -> Any:
    """Convolution by its definition, with a border of one zero."""
    size = range(len(images[0][0]))

    def at(image: Any, kernel: Any, row: int, column: int) -> float:
        return math.fsum(
            image[c][row + i - 1][column + j - 1] * kernel[c][i][j]
            for c in range(len(image))
            for i in range(3)
            for j in range(3)
            if row + i - 1 in size and column + j - 1 in size
        )

    return [
        [[[at(image, kernel, row, column) for column in size] for row in size] for kernel in kernels]
        for image in images
    ]


def convolution(torch: Any, device: str) -> str:
    images, kernels = quartered(numbers(2, 4, 16, 16)), quartered(numbers(8, 4, 3, 3))
    conv, want = torch.nn.functional.conv2d, convolved(images, kernels)
    return in_both(torch, device, "convolution", lambda t: conv(t(images), t(kernels), padding=1), want)


def normalized(torch: Any, device: str) -> str:
    rows = numbers(64, 100)
    softmax, layer_norm = torch.nn.functional.softmax, torch.nn.functional.layer_norm
    shares, layers = [], []
    for row in rows:
        powers = [math.exp(value - max(row)) for value in row]
        shares.append([power / math.fsum(powers) for power in powers])
        mean = math.fsum(row) / len(row)
        spread = math.sqrt(math.fsum((value - mean) ** 2 for value in row) / len(row) + 1e-5)
        layers.append([(value - mean) / spread for value in row])
    in_both(torch, device, "softmax", lambda t: softmax(t(rows), dim=1), shares)
    return in_both(torch, device, "layer norm", lambda t: layer_norm(t(rows), (100,)), layers)


def linear_algebra(torch: Any, device: str) -> str:
    """A symmetric matrix with eigenvalues that are known: mirrored at a plane, a diagonal keeps them."""
    values = [1.0 + index for index in range(SIDE)]
    normal = numbers(SIDE)
    length = math.fsum(value * value for value in normal)
    mirror = [
        [float(i == j) - 2 * a * b / length for j, b in enumerate(normal)] for i, a in enumerate(normal)
    ]
    matrix = product([[a * value for a, value in zip(row, values, strict=True)] for row in mirror], mirror)
    inverse = product([[a / value for a, value in zip(row, values, strict=True)] for row in mirror], mirror)
    in_both(torch, device, "inverse", lambda t: torch.linalg.inv(t(matrix)), inverse)
    return in_both(torch, device, "eigenvalues", lambda t: torch.linalg.eigvalsh(t(matrix)), values)


def magma(torch: Any, device: str) -> str:
    if not torch.cuda.has_magma:
        raise Skip("torch was built without MAGMA")
    before = torch.backends.cuda.preferred_linalg_library()
    torch.backends.cuda.preferred_linalg_library("magma")
    try:
        return linear_algebra(torch, device)
    finally:
        torch.backends.cuda.preferred_linalg_library(before)


def known_numbers() -> Any:
    """Inputs of operators and their results by definition, stored because the definitions are long."""
    with open(os.path.join(os.path.dirname(sys.argv[1]), "data", "operators.json")) as file:
        return json.load(file)


def vision_ops(torch: Any, device: str) -> str:
    ops, known = importlib.import_module("torchvision").ops, known_numbers()
    boxes, scores = (torch.tensor(known["nms"][name]).to(device) for name in ("boxes", "scores"))
    kept_boxes = ops.nms(boxes, scores, known["nms"]["limit"]).tolist()
    if kept_boxes != known["nms"]["kept"]:
        raise AssertionError("nms keeps other boxes than its definition says")
    align = known["roi_align"]

    def pooled(tensor: Callable[[Any], Any]) -> Any:
        places = tensor([[0.0, *box] for box in align["boxes"]])
        return ops.roi_align(tensor([align["image"]]), places, (5, 5), sampling_ratio=2, aligned=True)

    return "nms, roi_align: " + in_both(torch, device, "roi_align", pooled, align["result"])


def audio_transform(torch: Any, device: str) -> str:
    functional, known = importlib.import_module("torchaudio").functional, known_numbers()["resample"]
    wave, poles, zeros = known["wave"], [1.0, -0.5], [0.5, 0.5]
    filtered: list[float] = []
    for index, value in enumerate(wave):
        before, last = (wave[index - 1], filtered[-1]) if index else (0.0, 0.0)
        filtered.append(zeros[0] * value + zeros[1] * before - poles[1] * last)

    def filtering(tensor: Callable[[Any], Any]) -> Any:
        return functional.lfilter(tensor([wave]), tensor(poles), tensor(zeros), clamp=False)

    def resampling(tensor: Callable[[Any], Any]) -> Any:
        return functional.resample(tensor([wave]), 16000, 8000)

    in_both(torch, device, "lfilter", filtering, filtered)
    return "resample, lfilter: " + in_both(torch, device, "resample", resampling, known["result"])


def compiled_targets(torch: Any) -> list[str]:
    """The GPU targets of a build; get_arch_list() is empty on a machine without a GPU."""
    if torch.version.cuda is None and not hip_release(torch):
        return []
    return str(torch._C._cuda_getArchFlags()).split()


def hip_release(torch: Any) -> str:
    """The release of HIP that a build for AMD GPUs has; empty of every other."""
    return str(getattr(torch.version, "hip", None) or "")


def has_metal(torch: Any) -> bool:
    """Whether a build is for Apple's GPUs."""
    backend = getattr(torch.backends, "mps", None)
    return backend is not None and backend.is_built() is True


def why_no_amd_gpu() -> str:
    """What keeps ROCm from seeing a GPU."""
    reason = "no GPU that ROCm can see on this machine"
    if not os.path.exists(KERNEL_DRIVER):
        return f"{reason}: {KERNEL_DRIVER} is missing (the amdgpu driver)"
    readable = os.access(KERNEL_DRIVER, os.R_OK | os.W_OK)
    return reason if readable else f"{reason}: {KERNEL_DRIVER} cannot be opened (groups render and video)"


def gpus_of_driver() -> int:
    """How many GPUs the driver has, without torch."""
    count = ctypes.c_int(0)
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        return 0 if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)) else count.value
    except (OSError, AttributeError):
        return 0


TORCH_OPERATIONS = {
    "matrix product": matrix_product,
    "convolution": convolution,
    "softmax and layer norm": normalized,
    "linear algebra": linear_algebra,
}
OPERATIONS = {"vision_ops": ("operators", vision_ops), "audio_transform": ("transforms", audio_transform)}


def own_trial(package: dict[str, Any]) -> Callable[[Any, str], str]:
    """A trial that a packages.toml holds as Python; its variable `detail` is shown."""

    def run(torch: Any, device: str) -> str:
        module = package["module"]
        names = {"torch": torch, "device": device, "skip": skip, module: sys.modules[module]}
        exec(compile(package["trial"], "trial", "exec"), names)
        return str(names.get("detail", ""))

    return run


class Probe:
    """The steps, in order, each reported to the parent."""

    def __init__(self, out: Any) -> None:
        self.out = out

    def step(self, name: str, action: Callable[..., Any], *args: Any) -> Any:
        """Run one step; its value, or None when it was skipped or failed."""
        send(self.out, event="start", step=name)
        start = time.monotonic()
        value, status, detail = None, "passed", ""
        try:
            value = action(*args)
            detail = value if isinstance(value, str) else ""
        except Skip as reason:
            status, detail = "skipped", str(reason)
        except NotImplementedError as error:
            status = "skipped" if "mps" in args else "failed"
            detail = f"{type(error).__name__}: {error}"[:4000]
        except BaseException as error:  # whatever a broken build raises is the answer
            status, detail = "failed", f"{type(error).__name__}: {error}"[:4000]
        send(self.out, event="end", step=name, status=status, detail=detail, seconds=time.monotonic() - start)
        return value if status == "passed" else None

    def skip(self, name: str, reason: str) -> None:
        send(self.out, event="end", step=name, status="skipped", detail=reason, seconds=0.0)

    def run(self, packages: list[dict[str, Any]]) -> None:
        own = [package for package in packages if package["module"] != "torch"]
        if not any(package["torch"] for package in packages):
            loaded = [package for package in own if self.load(package["module"]) is not None]
            self.companions(None, loaded, "cpu", "the CPU")
            for index in range(gpus_of_driver()):
                self.companions(None, loaded, f"cuda:{index}", f"GPU {index}")
            return
        torch = self.load("torch")
        if torch is None:
            return
        if self.step("read its versions", self.facts, torch) is None:
            return  # what else it lacks adds nothing
        companions = [package for package in own if self.load(package["module"]) is not None]
        self.operations(torch, "cpu", "the CPU")
        self.companions(torch, companions, "cpu", "the CPU")
        self.gpus(torch, companions)

    def load(self, name: str) -> Any:
        """Import a package and send where it came from."""
        module = self.step(f"import {name}", importlib.import_module, name)
        if module is not None:
            send(self.out, event="module", file=str(module.__file__))
        return module

    def facts(self, torch: Any) -> str:
        """Report the facts of the build, once it computes the same every time."""
        torch.manual_seed(0)
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        send(
            self.out,
            event="facts",
            torch=str(torch.__version__),
            python=".".join(map(str, sys.version_info[:3])),
            machine=platform.machine(),
            cuda=str(torch.version.cuda or ""),
            hip=hip_release(torch),
            metal=has_metal(torch),
            arch_list=compiled_targets(torch),
            cpu_capability=str(torch.backends.cpu.get_cpu_capability()),
            free_threaded=bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
        )
        return f"torch {torch.__version__}"

    def operations(self, torch: Any, device: str, where: str) -> None:
        for name, operation in TORCH_OPERATIONS.items():
            self.step(f"{name} on {where}", operation, torch, device)

    def companions(self, torch: Any, packages: list[dict[str, Any]], device: str, where: str) -> None:
        """Each by its own operation, by the code that its entry has, or not at all."""
        for package in packages:
            what, operation = OPERATIONS.get(package["trial"], ("trial", own_trial(package)))
            if package["trial"]:
                self.step(f"{package['name']}'s {what} on {where}", operation, torch, device)
            else:
                self.skip(f"{package['name']} on {where}", "its entry in packages.toml has no trial")

    def gpus(self, torch: Any, companions: list[dict[str, Any]]) -> None:
        """Every GPU, one after the other; without one, a skip that says so."""
        if torch.version.cuda is None and not hip_release(torch):
            self.apple_gpu(torch, companions)
            return
        count = self.step("find GPUs", torch.cuda.device_count)  # of AMD too
        if torch.version.cuda is not None:
            self.driver(torch)
        if not count:
            cuda = torch.version.cuda is not None
            self.skip("GPU", "no GPU that CUDA can see on this machine" if cuda else why_no_amd_gpu())
            return
        for index in range(count):
            device, where = f"cuda:{index}", f"GPU {index}"
            if self.step(f"open {where}", self.device, torch, device) is None:
                continue
            self.operations(torch, device, where)
            self.step(f"MAGMA on {where}", magma, torch, device)
            self.companions(torch, companions, device, where)

    def apple_gpu(self, torch: Any, companions: list[dict[str, Any]]) -> None:
        """The GPU of a Mac, in a build that has Metal."""
        if not has_metal(torch):
            self.skip("GPU", "this torch computes on the CPU alone")
        elif not self.step("find GPUs", torch.mps.device_count):
            self.skip("GPU", "no GPU that Metal can see on this machine")
        else:
            send(self.out, event="gpu", device="mps", name="Apple", capability=[0, 0], arch="mps")
            self.operations(torch, "mps", "the GPU")
            self.companions(torch, companions, "mps", "the GPU")

    def driver(self, torch: Any) -> None:
        """The driver's library as the loader really mapped it; counting devices alone may not need it."""
        getattr(torch.cuda, "is_available", torch.cuda.device_count)()
        try:
            with open("/proc/self/maps") as maps:
                files = {line.split()[-1] for line in maps if "/libcuda.so" in line}
        except OSError:
            return
        send(self.out, event="driver", file=min(files, default=""))

    def device(self, torch: Any, device: str) -> str:
        name, capability = torch.cuda.get_device_name(device), torch.cuda.get_device_capability(device)
        arch = ""
        if hip_release(torch):  # gfx942:sramecc+:xnack-
            arch = str(torch.cuda.get_device_properties(device).gcnArchName).partition(":")[0]
        send(self.out, event="gpu", device=device, name=name, capability=list(capability), arch=arch)
        return f"{name}, {arch or f'capability {capability[0]}.{capability[1]}'}"


def main() -> None:
    """Keep the pipe for results alone: what libraries print goes to stderr."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    Probe(out).run(json.loads(sys.argv[2]))
    send(out, event="done")


main()
