"""Builds the miniature torch with the recipe's flags, laid out like PyTorch."""

import os
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "torch" / "utils"))
import cpp_extension

BUILD = Path("build/torch")
INSTALLED = [
    "version.txt",
    "cmake/Modules/FindCUDAToolkit.cmake",
]
# What PyTorch compiles its dispatched kernels with, on top of the flags it was given.
DISPATCHED = {
    "x86_64": {
        "AVX2": ["-mavx2", "-mfma", "-mf16c"],
        "AVX512": ["-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mfma"],
    },
    "aarch64": {"SVE256": ["-march=armv8-a+sve", "-msve-vector-bits=256"]},
}


def settings() -> dict[str, str]:
    """The environment variables that PyTorch's setup.py hands to CMake."""
    names = sorted(name for name in os.environ if name.startswith(("CMAKE_", "USE_", "BUILD_")))
    return {name: os.environ[name] for name in names}


def main() -> None:
    for name in INSTALLED:
        if not Path(name).is_file():
            sys.exit(f"CMake Error: file INSTALL cannot find {name!r}")
    version = os.environ.get("PYTORCH_BUILD_VERSION") or Path("version.txt").read_text().strip()
    lib = BUILD / "lib"
    shutil.copytree("torch", BUILD)
    lib.mkdir()
    print(f"Building wheel torch-{version} with MAX_JOBS={os.environ.get('MAX_JOBS', '')}")

    flags = os.environ.get("CXXFLAGS", "").split()
    text = f"Build settings: CXX_FLAGS={' '.join(flags)}, " + ", ".join(
        f"{k}={v}" for k, v in settings().items()
    )
    define = '-DBUILD_SETTINGS="' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    kinds = {"DEFAULT": [], **DISPATCHED[os.environ["system"].removesuffix("-linux")]}
    steps = len(kinds) + 3
    objects = [cpp_extension.compile("csrc/config.c", [define], step=(1, steps))]
    for number, (kind, more) in enumerate(kinds.items(), 2):
        extra = [f"-DCPU_CAPABILITY={len(kind)}{kind}", *more]
        objects.append(cpp_extension.compile("csrc/kernels.c", extra, f"kernels.{kind}.o", (number, steps)))
    cpp_extension.link(lib / "libtorch_cpu.so", objects, step=(steps - 1, steps))

    arch_list = os.environ.get("TORCH_CUDA_ARCH_LIST", "") if os.environ.get("USE_CUDA") == "1" else ""
    if arch_list:
        cpp_extension.link(lib / "libtorch_cuda.so", [cpp_extension.fatbin(arch_list)])
    rpath = f"-Wl,-rpath,{os.environ.get('lib', '')}/lib"
    module = cpp_extension.compile("csrc/module.c", [], flags="CFLAGS")
    cpp_extension.link(
        BUILD / "_C.abi3.so", [module], (f"-L{lib}", "-ltorch_cpu", rpath), step=(steps, steps)
    )

    cuda = os.environ.get("CUDA_VERSION") or None
    lines = [
        f"__version__ = {version!r}",
        f"cuda = {cuda!r}",
        f"arch_list = {cpp_extension.arch_names(arch_list)!r}",
    ]
    (BUILD / "version.py").write_text("\n".join(lines) + "\n")


main()
