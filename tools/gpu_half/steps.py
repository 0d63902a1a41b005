"""Seconds of one step of three models, as JSON; run by the Python of a torch, which needs nothing else."""

from __future__ import annotations

import importlib
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

torch: Any = importlib.import_module("torch")
nn, functional = torch.nn, torch.nn.functional

WARMUP, STEPS = 5, 20
GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
SCALE = 1 if GPU else 8  # a CPU only shows that it runs


def transformer(width: int = 1024 // SCALE, length: int = 1024 // SCALE) -> Callable[[], None]:
    """Train a decoder of 12 layers in bfloat16, with flash attention and fused AdamW."""
    layer = nn.TransformerEncoderLayer(
        width, width // 64, 4 * width, 0.0, functional.gelu, batch_first=True, norm_first=True
    )
    model = nn.TransformerEncoder(layer, 12, enable_nested_tensor=False).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    data = torch.randn(8, length, width, device=DEVICE)
    mask = nn.Transformer.generate_square_subsequent_mask(length, device=DEVICE)

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast(DEVICE, torch.bfloat16):
            loss = model(data, mask=mask, is_causal=True).square().mean()
        loss.backward()
        optimizer.step()

    return step


def convolutions(width: int = 256 // SCALE) -> Callable[[], None]:
    """Train 16 residual blocks of 3x3 convolutions in bfloat16, channels last."""
    blocks = [
        nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU())
        for _ in range(16)
    ]
    model = nn.ModuleList(blocks).to(DEVICE, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
    data = torch.randn(32, width, 28, 28, device=DEVICE).to(memory_format=torch.channels_last)

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast(DEVICE, torch.bfloat16):
            value = data
            for block in model:
                value = value + block(value)
        value.float().square().mean().backward()
        optimizer.step()

    return step


def decoding(width: int = 1024 // SCALE) -> Callable[[], None]:
    """Infer 32 tokens one by one with cached keys and values in bfloat16, 12 layers: many small kernels."""
    heads, layers = width // 64, 12
    kinds = {"device": DEVICE, "dtype": torch.bfloat16}
    weights = [
        [torch.randn(width, size, **kinds) / width**0.5 for size in (3 * width, width, 4 * width)]
        for _ in range(layers)
    ]
    down = torch.randn(4 * width, width, **kinds) / (4 * width) ** 0.5
    torch.set_grad_enabled(False)  # the last of the three
    cache = torch.randn(2, layers, 1, heads, 544, 64, **kinds)

    def step() -> None:
        token = torch.randn(1, 1, width, **kinds)
        for place in range(512, 544):
            for number, (joint, output, up) in enumerate(weights):
                parts = (functional.layer_norm(token, (width,)) @ joint).view(1, 1, 3, heads, 64)
                query, *stored = parts.permute(2, 0, 3, 1, 4)
                for side, new in enumerate(stored):
                    cache[side, number, :, :, place : place + 1] = new
                keys, values = cache[:, number, :, :, : place + 1]
                seen = functional.scaled_dot_product_attention(query, keys, values)
                token = token + seen.reshape(1, 1, width) @ output
                token = token + functional.gelu(functional.layer_norm(token, (width,)) @ up) @ down

    return step


def seconds(step: Callable[[], None]) -> float:
    """The median time of a step after some that do not count."""
    times = []
    for number in range(WARMUP + STEPS if GPU else 2):
        start = time.perf_counter()
        step()
        if GPU:
            torch.cuda.synchronize()
        if number >= (WARMUP if GPU else 1):
            times.append(time.perf_counter() - start)
    return statistics.median(times)


if __name__ == "__main__":
    torch.manual_seed(1)
    print(json.dumps({make.__name__: seconds(make()) for make in (transformer, convolutions, decoding)}))
