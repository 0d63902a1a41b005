"""Runs in a build's own interpreter: answers each request, a line of JSON, with a line of JSON.

Only the standard library and torch are imported here. The parent chooses the next operation, so that two
builds can take turns within milliseconds of each other.
"""

import contextlib
import ctypes
import importlib
import importlib.util
import json
import math
import os
import random
import sys
import time
from collections.abc import Callable
from typing import Any

Tensors = tuple[Any, ...]
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # of glibc's mallopt
LINE = 64  # bytes of a cache line, to which torch aligns its tensors
MOST_OFFSET = 1 << 20  # bytes before and behind an input, chosen at random
COMPILED = ("perceptron", "layer norm")  # operations that are also measured compiled, on a GPU
SAMPLE_SIZE = 16  # numbers of a reference that are reported, so that two builds' references can be compared


def numbers(torch: Any, shape: tuple[int, ...], seed: int = 1, distinct: bool = False) -> Any:
    """Numbers in [-0.5, 0.5), the same in every build: made by integer arithmetic, which rounds nothing."""
    index = torch.arange(math.prod(shape), dtype=torch.int64) * 48271 + seed * 7919
    prime = 1048573 if distinct else 65537
    return ((index % prime).double() / prime - 0.5).float().reshape(shape)


def inputs(torch: Any, *shapes: tuple[int, ...]) -> Tensors:
    return tuple(numbers(torch, shape, seed) for seed, shape in enumerate(shapes, 1))


def backward(torch: Any, model: Callable[..., Any]) -> Any:
    """A function that runs a model forward and backward: the gradient of its first weight."""

    def run(values: Any, *weights: Any) -> Any:
        leaves = [weight.detach().requires_grad_() for weight in weights]
        return torch.autograd.grad(model(values, *leaves).square().mean(), leaves)[0]

    return torch.enable_grad()(run)


def table(torch: Any) -> dict[str, tuple[Tensors, Callable[..., Any], float]]:
    """Every operation: its inputs, itself, and how far it may be from float64."""
    nn = torch.nn.functional
    large, rows, image = (1 << 18,), (256, 512), (1, 32, 32, 32)
    lookup = (numbers(torch, (4096,)).double().add(0.5).mul(8000).long(), numbers(torch, (8000, 64)))
    positive = numbers(torch, large).add(0.75)
    linear = inputs(torch, (64, 512), (512, 512), (512,))
    half = tuple(tensor.to(torch.bfloat16) for tensor in inputs(torch, (256, 256), (256, 256)))
    norm = (numbers(torch, rows), (rows[1],))
    attention = tuple(tensor.mul(2) for tensor in inputs(torch, *((1, 8, 128, 64),) * 3))
    sequence = (numbers(torch, (1 << 16,), distinct=True),)
    square = numbers(torch, (128, 128), distinct=True)
    definite = square.mm(square.T).add(torch.eye(128), alpha=2)
    model = inputs(torch, (64, 256), (512, 256), (256, 512))
    small_net = inputs(torch, (4, 3, 32, 32), (16, 3, 3, 3), (16, 16, 3, 3))

    def perceptron(values: Any, first: Any, second: Any) -> Any:
        return nn.linear(nn.gelu(nn.linear(values, first)), second)

    def network(values: Any, first: Any, second: Any) -> Any:
        return nn.conv2d(nn.conv2d(values, first, padding=1).relu(), second, stride=2)

    return {
        "add": (inputs(torch, large, large), torch.add, 1e-6),
        "multiply-add": (inputs(torch, large, large, large), torch.addcmul, 1e-6),
        "exp": (inputs(torch, large), torch.exp, 1e-5),
        "log": ((positive,), torch.log, 1e-5),
        "tanh": (inputs(torch, large), torch.tanh, 1e-5),
        "gelu": (inputs(torch, large), nn.gelu, 1e-5),
        "to bfloat16 and back": (inputs(torch, large), lambda a: a.bfloat16().to(a.dtype), 1e-2),
        "sum": ((positive,), torch.sum, 1e-5),
        "maximum of rows": (inputs(torch, rows), lambda a: a.amax(1), 0.0),
        "softmax": (inputs(torch, rows), lambda a: torch.softmax(a, 1), 1e-5),
        "layer norm": (norm, nn.layer_norm, 1e-5),
        "group norm": (inputs(torch, image), lambda a: nn.group_norm(a, 8), 1e-5),
        "cumulative sum": ((positive,), lambda a: a.cumsum(0), 1e-4),
        "GEMM 256": (inputs(torch, (256, 256), (256, 256)), torch.mm, 1e-4),
        "GEMM 256 bfloat16": (half, torch.mm, 2e-2),
        "GEMV": (inputs(torch, (512, 512), (512,)), torch.mv, 1e-4),
        "linear layer": (linear, nn.linear, 1e-4),
        "attention": (attention, nn.scaled_dot_product_attention, 1e-4),
        "convolution 3x3": (
            inputs(torch, image, (32, 32, 3, 3)),
            lambda a, w: nn.conv2d(a, w, padding=1),
            1e-2,
        ),
        "depthwise convolution": (
            inputs(torch, image, (32, 1, 3, 3)),
            lambda a, w: nn.conv2d(a, w, padding=1, groups=32),
            1e-2,
        ),
        "max pool": (inputs(torch, image), lambda a: nn.max_pool2d(a, 2), 0.0),
        "sort": (sequence, lambda a: torch.sort(a)[0], 0.0),
        "top 16": (sequence, lambda a: torch.topk(a, 16)[0], 0.0),
        "embedding": (lookup, nn.embedding, 0.0),
        "Cholesky": ((definite,), torch.linalg.cholesky, 1e-4),
        "solve": ((definite, square), torch.linalg.solve, 1e-3),
        "singular values": ((square,), torch.linalg.svdvals, 1e-4),
        "perceptron": (model, perceptron, 1e-4),
        "perceptron backward": (model, backward(torch, perceptron), 1e-3),
        "convolutions backward": (small_net, backward(torch, network), 1e-2),
        "small add": (inputs(torch, (8,), (8,)), torch.add, 1e-6),
        "small GEMM": (inputs(torch, (8, 8), (8, 8)), torch.mm, 1e-5),
        "small chain": (inputs(torch, (16,)), lambda a: (a * 2 + 1).relu().sum(), 1e-5),
    }


def moved(values: Tensors, device: str, double: bool = False) -> Tensors:
    """Inputs on a device; with `double`, what is a floating-point number in float64."""

    def move(value: Any) -> Any:
        if not hasattr(value, "to"):
            return value
        return value.double() if double and value.is_floating_point() else value.to(device)

    return tuple(map(move, values))


def keep_memory() -> None:
    """Have malloc keep what is freed; what it gives back costs a fault for every page of the next result."""
    with contextlib.suppress(OSError, AttributeError):  # a C library without it
        libc = ctypes.CDLL(None)
        libc.mallopt(M_TRIM_THRESHOLD, -1)
        libc.mallopt(M_MMAP_MAX, 0)


def scattered(torch: Any, values: Tensors) -> Tensors:
    """Copies of the inputs at random pages and lines. The place of tensors as large as a core's cache can
    double an operation's time, and without this malloc chooses it once for a process's life."""

    def copied(value: Any) -> Any:
        if not hasattr(value, "nbytes"):
            return value
        before, behind = (LINE * random.randrange(MOST_OFFSET // LINE) for _ in range(2))
        room = torch.empty(value.nbytes + before + behind, dtype=torch.uint8)
        place = room[before : value.nbytes + before]
        return place.view(value.dtype).view(value.shape).copy_(value)

    return tuple(map(copied, values))


class Measured:
    """A build, and the operations that were laid out in it."""

    def __init__(self) -> None:
        self.torch: Any = None
        # inputs, what is timed, the same without torch.compile, how far it may be from float64
        self.operations: dict[str, tuple[Tensors, Callable[..., Any], Callable[..., Any], float]] = {}

    def load(self, threads: int) -> dict[str, Any]:
        """Import torch, timed; what the process then holds in memory."""
        start, cpu = time.perf_counter(), time.process_time()
        torch = importlib.import_module("torch")
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        memory = resident()
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        self.torch = torch
        return {
            "import": seconds,
            "import_cpu": cpu,
            "memory": memory,
            "file": str(torch.__file__),
            "version": str(torch.__version__),
            "cuda": str(torch.version.cuda or ""),
            "hip": str(getattr(torch.version, "hip", None) or ""),
            "capability": str(torch.backends.cpu.get_cpu_capability()),
            "gpu": self.gpu(),
            "clock_step": clock_step(),
        }

    def gpu(self) -> dict[str, Any] | None:
        """The first GPU that a build for CUDA or ROCm sees."""
        hip = getattr(self.torch.version, "hip", None)
        if (self.torch.version.cuda is None and not hip) or not self.torch.cuda.is_available():
            return None
        name, capability = self.torch.cuda.get_device_name(0), self.torch.cuda.get_device_capability(0)
        arch = str(self.torch.cuda.get_device_properties(0).gcnArchName).partition(":")[0] if hip else ""
        return {"name": name, "capability": list(capability), "arch": arch}

    def open(self, device: str) -> dict[str, Any]:
        """Lay the operations out on a device; on a GPU the first call is timed."""
        keep_memory()
        start = time.perf_counter()
        self.torch.ones(8, device=device).add_(1).sum().item()
        seconds = time.perf_counter() - start
        memory = resident()
        operations = table(self.torch)
        for name, (values, action, limit) in operations.items():
            self.operations[f"{device} {name}"] = (moved(values, device), action, action, limit)
        compiled = COMPILED if device != "cpu" and importlib.util.find_spec("triton") else ()
        for name in compiled:
            values, action, _, limit = self.operations[f"{device} {name}"]
            self.operations[f"{device} {name}, compiled"] = (
                values,
                self.torch.compile(action),
                action,
                max(limit, 1e-3),  # Triton may multiply in TF32
            )
        return {
            "first": seconds,
            "memory": memory,
            "operations": [*operations, *(f"{name}, compiled" for name in compiled)],
        }

    def check(self, device: str, name: str) -> dict[str, Any]:
        """An operation's largest error relative to float64 on the CPU, and some numbers of that reference."""
        values, action, plain, limit = self.operations[f"{device} {name}"]
        wanted = plain(*moved(moved(values, "cpu"), "cpu", double=True)).double().flatten()
        got = action(*values).cpu().double().flatten()
        scale = max(float(wanted.abs().max()), 1e-30)
        error = float((got - wanted).abs().max()) / scale
        step = max(wanted.numel() // SAMPLE_SIZE, 1)
        sample = [*wanted[::step][:SAMPLE_SIZE].tolist(), float(wanted.sum())]
        return {"right": error <= limit, "error": error, "limit": limit, "sample": sample}  # NaN: not right

    def time(self, device: str, name: str, count: int, cpu_clock: bool) -> dict[str, Any]:
        """Seconds for one call, as the mean of `count` after one that is not counted."""
        values, action, *_ = self.operations[f"{device} {name}"]
        if device == "cpu":
            values = scattered(self.torch, values)
        clock = time.thread_time_ns if cpu_clock else time.perf_counter_ns
        finish = self.torch.cuda.synchronize if device != "cpu" else int
        action(*values)
        finish()
        start = clock()
        for _ in range(count):
            action(*values)
        finish()
        return {"seconds": (clock() - start) / count / 1e9}

    def loaded(self) -> dict[str, Any]:
        """The libraries that the process has mapped, with their sizes."""
        files = set()
        with open("/proc/self/maps") as maps:
            for line in maps:
                path = line.rstrip("\n").partition("/")[2]
                if ".so" in path:
                    files.add("/" + path)
        return {"libraries": {file: os.path.getsize(file) for file in sorted(files) if os.path.exists(file)}}


def clock_step() -> float:
    """The shortest step of a thread's own clock, in seconds; some sandboxes count in hundredths."""
    steps: list[int] = []
    start, last = time.perf_counter(), time.thread_time_ns()
    while len(steps) < 20 and time.perf_counter() - start < 0.05:
        now = time.thread_time_ns()
        if now != last:
            steps.append(now - last)
            last = now
    return sorted(steps)[len(steps) // 2] / 1e9 if steps else 1.0


def resident() -> int:
    """Bytes of memory that this process holds."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    """Answer requests until the input ends; what libraries print goes to stderr."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    measured = Measured()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = getattr(measured, request.pop("do"))(**request)
        except Exception as error:
            answer = {"failed": f"{type(error).__name__}: {error}"[:1000]}
        out.write(json.dumps(answer) + "\n")
        out.flush()


main()
