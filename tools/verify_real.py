"""`make verify-real`: real wheels, GPU code entry by entry against cuobjdump.

Some 3 GB are fetched from PyPI once and kept in torchsmith's cache.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.artifact import toolkit
from tools.proof.readings import download_wheel
from torchsmith.artifact.contents import open_contents
from torchsmith.artifact.elf import read_elf
from torchsmith.artifact.known import Owners
from torchsmith.artifact.readers import containers_of
from torchsmith.artifact.source import CHUNK, FileSlice, open_file
from torchsmith.catalog import builtin_catalog
from torchsmith.core.files import cache_dir

X86_313 = ("--platform", "manylinux_2_28_x86_64", "--python-version", "3.13")
X86_CUDA = (
    *("--platform", "manylinux_2_27_x86_64", "--platform", "manylinux_2_18_x86_64"),
    *("--platform", "manylinux2014_x86_64", "--python-version", "3.13"),
)
X86_PLAIN = (
    *("--platform", "manylinux_2_24_x86_64", "--platform", "manylinux1_x86_64"),
    *("--python-version", "3.12"),
)
ARM_312 = ("--platform", "manylinux_2_28_aarch64", "--python-version", "3.12")
WHEELS = {
    "torch==2.10.0": X86_313,
    "torch==2.15.0": X86_313,
    "torch==2.11.0": ARM_312,
    "torchvision==0.25.0": X86_313,
    "torchaudio==2.10.0": X86_313,
    "xformers==0.0.33.post2": X86_313,
    "onnxruntime-gpu==1.22.0": X86_CUDA,
    "bitsandbytes==0.48.2": X86_PLAIN,
    "vllm==0.11.0": X86_PLAIN,
    "nvidia-cublas==13.1.0.3": X86_CUDA,
    "nvidia-cufft==12.0.0.61": X86_CUDA,
    "nvidia-nccl-cu13==2.28.9": X86_CUDA,
}


@dataclass
class Sum:
    """What was compared so far."""

    libraries: int = 0
    entries: int = 0
    faults: int = 0
    unread: int = 0  # libraries that cuobjdump itself stops at


def main() -> int:
    """Compare all of them; 1 when any entry differs."""
    total = Sum()
    for requirement, options in WHEELS.items():
        wheel = fetched(requirement, options)
        print(f"{wheel.name} ({wheel.stat().st_size >> 20} MiB)", flush=True)
        for name, library in unpacked(wheel):
            compare_gpu_code(name, library, total)
    print(
        f"{total.entries} entries in {total.libraries} libraries compared, {total.faults} differ;"
        f" cuobjdump could not read {total.unread} more"
    )
    return 1 if total.faults else 0


def _folder(requirement: str, options: tuple[str, ...]) -> Path:
    return cache_dir() / "real" / f"{requirement.replace('==', '-')}-{options[1]}"


def cached(requirement: str, options: tuple[str, ...]) -> Path | None:
    """A wheel that was fetched before."""
    return next(_folder(requirement, options).glob("*.whl"), None)


def fetched(requirement: str, options: tuple[str, ...]) -> Path:
    """A wheel, from the cache or from PyPI."""
    folder = _folder(requirement, options)
    folder.mkdir(parents=True, exist_ok=True)
    return cached(requirement, options) or download_wheel(requirement, folder, *options)


def unpacked(wheel: Path) -> Iterator[tuple[str, Path]]:
    """The libraries of a wheel, one at a time on disk."""
    with (
        open_contents(wheel, Owners.of(builtin_catalog())) as contents,
        tempfile.TemporaryDirectory() as folder,
    ):
        for item in contents.libraries:
            path = Path(folder) / item.name.rsplit("/", 1)[-1]
            with item.open() as source:
                copy(source, path)
            yield item.name, path
            path.unlink()


def copy(source: FileSlice, path: Path) -> None:
    with open(path, "wb") as file:
        for at in range(0, source.size, CHUNK):
            file.write(source.read(at, min(CHUNK, source.size - at)))


def compare_gpu_code(name: str, library: Path, total: Sum) -> None:
    """Our list of cubins and PTX against NVIDIA's."""
    start = time.perf_counter()
    with open_file(library) as source:
        ours = toolkit.listed(containers_of(read_elf(source)))
    middle = time.perf_counter()
    if not ours and library.stat().st_size < 1 << 20:
        return
    try:
        theirs = toolkit.cuobjdump(library)
    except AssertionError as stopped:
        total.unread += 1
        print(f"  {name}: {len(ours)} entries, cuobjdump stops: {str(stopped).strip()[:80]}", flush=True)
        return
    seconds = middle - start, time.perf_counter() - middle
    total.libraries += 1
    total.entries += len(ours)
    verdict = "the same" if ours == theirs else f"DIFFER: cuobjdump lists {len(theirs)}"
    total.faults += ours != theirs
    print(
        f"  {name}: {len(ours)} entries, {verdict} ({seconds[0]:.3f} s, cuobjdump {seconds[1]:.1f} s)",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
