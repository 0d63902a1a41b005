"""What a compile cache saves from one instruction set to the next, with the real nvcc, gcc and ccache.

    python -m tools.ccache_saving

Takes nvcc 13.0 from PyPI (some 95 MB, kept in torchsmith's cache) and compiles the same CUDA and C++ files as
PyTorch's build does: CUDA files with the flags of their GPU alone, C++ files with those of the CPU.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

from torchsmith.core.files import cache_dir

WHEELS = ("nvidia-cuda-nvcc", "nvidia-cuda-runtime", "nvidia-cuda-cccl", "nvidia-cuda-crt", "nvidia-nvvm")
ISAS = {
    "x86_64": (
        ("avx2", "-mavx2 -mfma -mf16c"),
        ("avx512", "-mavx512f -mavx512dq -mavx512vl -mfma"),
    ),
    "aarch64": (("armv8_2", "-march=armv8.2-a+fp16+dotprod"), ("armv9", "-march=armv9-a+sve+sve2")),
}
FILES = 6
KERNELS = """
#include <cub/block/block_reduce.cuh>
template <typename T, int N> __global__ void total(const T* in, T* out) {
  using Reduce = cub::BlockReduce<T, N>;
  __shared__ typename Reduce::TempStorage scratch;
  T sum = Reduce(scratch).Sum(in[blockIdx.x * N + threadIdx.x] * T(@));
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}
template __global__ void total<float, 128>(const float*, float*);
template __global__ void total<double, 256>(const double*, double*);
template __global__ void total<int, 512>(const int*, int*);
"""
HOST = """
#include <algorithm>
#include <map>
#include <regex>
#include <string>
#include <vector>
double total@(std::vector<double> v) {
  double s = @;
  std::sort(v.begin(), v.end());
  for (double x : v) s += x * x;
  return s;
}
bool match@(const std::string& s) { return std::regex_match(s, std::regex("a+@")); }
"""


def toolkit() -> Path:
    """nvcc and its headers, downloaded once."""
    folder = cache_dir() / "nvcc-13.0"
    if not (folder / "nvidia").is_dir():
        with TemporaryDirectory() as wheels:
            wanted = [f"{name}==13.0.*" for name in WHEELS]
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", wheels, *wanted]
            subprocess.run(pip, check=True)
            for wheel in Path(wheels).glob("*.whl"):
                zipfile.ZipFile(wheel).extractall(folder)
        for program in folder.glob("nvidia/cu13/**/bin/*"):
            if program.is_file():
                program.chmod(0o755)
    return folder / "nvidia/cu13"


def compile_all(folder: Path, nvcc: Path, flags: str, cache: Path | None) -> tuple[float, float]:
    """Seconds for the CUDA files and for the C++ files."""
    launcher = [str(shutil.which("ccache"))] if cache else []
    env = {**os.environ, "CCACHE_DIR": str(cache), "CCACHE_COMPILERCHECK": "content"}
    include = nvcc.parent.parent / "include"
    gpu = [str(nvcc), "-arch=sm_90", "-O2", f"-I{include}", f"-I{include}/cccl"]
    times = []
    for compiler, ending in ((gpu, "cu"), (["g++", "-O3", *flags.split()], "cpp")):
        start = time.perf_counter()
        for number in range(FILES):
            source = folder / f"f{number}.{ending}"
            argv = [*launcher, *compiler, "-c", str(source), "-o", f"{source}.o"]
            subprocess.run(argv, check=True, env=env)
        times.append(time.perf_counter() - start)
    return times[0], times[1]


def main() -> int:
    """Compile for two instruction sets, without and with the cache, and print what it came to."""
    if shutil.which("ccache") is None:
        print("ccache is not installed", file=sys.stderr)
        return 3
    nvcc = toolkit() / "bin/nvcc"
    (first, first_flags), (second, second_flags) = ISAS[os.uname().machine]
    with TemporaryDirectory() as made:
        folder = Path(made)
        for number in range(FILES):
            (folder / f"f{number}.cu").write_text(KERNELS.replace("@", str(number + 1)))
            (folder / f"f{number}.cpp").write_text(HOST.replace("@", str(number + 1)))
        rows = [
            (f"{second}, no cache", compile_all(folder, nvcc, second_flags, None)),
            (f"{first}, empty cache", compile_all(folder, nvcc, first_flags, folder / "cache")),
            (f"{second}, cache of {first}", compile_all(folder, nvcc, second_flags, folder / "cache")),
        ]
    print(f"{FILES} CUDA and {FILES} C++ files, sm_90")
    for name, (cuda, host) in rows:
        print(f"{name:28} CUDA {cuda:6.1f} s  C++ {host:6.1f} s  together {cuda + host:6.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
