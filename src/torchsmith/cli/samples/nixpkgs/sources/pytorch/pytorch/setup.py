"""Builds the miniature torch with the recipe's flags, laid out like PyTorch."""

import os
import re
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


def dispatched() -> dict[str, list[str]]:
    """What PyTorch compiles its kernels with for each CPU capability, on top of the flags it was given."""
    if os.environ["system"] == "aarch64-linux":
        return {"SVE256": ["-march=armv8-a+sve", "-msve-vector-bits=256"]}
    text = Path("cmake/Codegen.cmake").read_text()
    names, flags = (re.findall(rf'CPU_CAPABILITY_{what} "(.*)"', text) for what in ("NAMES", "FLAGS"))
    return {name: own.split() for name, own in zip(names, flags, strict=True)}


def settings() -> dict[str, str]:
    """The environment variables that setup.py hands to CMake, and the options that PyTorch sets itself."""
    names = sorted(name for name in os.environ if name.startswith(("CMAKE_", "USE_", "BUILD_")))
    return {name: os.environ[name] for name in names} | xnnpack_options()


def xnnpack_options() -> dict[str, str]:
    """The options of XNNPACK; CMake stops at the name of a library that they leave out."""
    text = Path("cmake/Dependencies.cmake").read_text()
    options = dict(re.findall(r"^set\((XNNPACK_\w+) (\w+) CACHE", text, re.MULTILINE))
    left_out = options.get("XNNPACK_BUILD_ALL_MICROKERNELS") == "OFF"
    if left_out and "microkernels-all" in text:
        sys.exit('CMake Error: Cannot specify compile options for target "microkernels-all"')
    return options


# Units of plain code, so that a sample is less than all; objects lie where PyTorch's do.
OPERATIONS = ("Copy", "TensorShape", "Activation", "Loss")
NATIVE = "CMakeFiles/torch_{}.dir/__/aten/src/ATen/native/"


def commands() -> dict[str, list[str]]:
    """How each object of the CPU is compiled, by its name; the Python module is the last."""
    flags = os.environ.get("CXXFLAGS", "").split()
    text = f"Build settings: CXX_FLAGS={' '.join(flags)}, " + ", ".join(
        f"{k}={v}" for k, v in settings().items()
    )
    define = '-DBUILD_SETTINGS="' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    kinds = {"DEFAULT": [], **dispatched()}
    native = NATIVE.format("cpu")
    wanted = {f"{native}Config.cpp.o": ("config", [define])}
    for kind, more in kinds.items():
        name = f"{native}cpu/ReduceOpsKernel.cpp.{kind}.cpp.o"
        wanted[name] = ("kernels", [f"-DCPU_CAPABILITY={len(kind)}{kind}", *more])
    for number, name in enumerate(OPERATIONS):
        wanted[f"{native}{name}.cpp.o"] = ("operation", [f"-DNUMBER={number}"])
    found = {
        name: cpp_extension.command(f"csrc/{source}.c", more, name) for name, (source, more) in wanted.items()
    }
    module = "CMakeFiles/torch_python.dir/csrc/Module.cpp.o"
    return found | {module: cpp_extension.command("csrc/module.c", [], module, flags="CFLAGS")}


def cuda_commands(arch_list: str) -> dict[str, list[str]]:
    """The same for CUDA."""
    found = {}
    for number, name in enumerate(("AbsKernel", "GroupMM", "Sort", "Indexing") if arch_list else ()):
        output = f"{NATIVE.format('cuda')}cuda/{name}.cu.o"
        found[output] = cpp_extension.nvcc(f"csrc/{name}.cu", arch_list, output, number)
    return found


def main() -> None:
    for name in INSTALLED:
        if not Path(name).is_file():
            sys.exit(f"CMake Error: file INSTALL cannot find {name!r}")
    version = os.environ.get("PYTORCH_BUILD_VERSION") or Path("version.txt").read_text().strip()
    arch_list = os.environ.get("TORCH_CUDA_ARCH_LIST", "") if os.environ.get("USE_CUDA") == "1" else ""
    cpu, cuda = commands(), cuda_commands(arch_list)
    if "--cmake-only" in sys.argv:
        cpp_extension.write_tree(Path("build"), cpu | cuda)
        return
    lib = BUILD / "lib"
    shutil.copytree("torch", BUILD)
    lib.mkdir()
    print(f"Building wheel torch-{version} with MAX_JOBS={os.environ.get('MAX_JOBS', '')}")
    steps = len(cpu) + len(cuda) + 2
    for number, (output, words) in enumerate((cpu | cuda).items(), 1):
        (Path("build") / output).parent.mkdir(parents=True, exist_ok=True)
        cpp_extension.run(words, (number, steps))
    *native, module = [f"build/{output}" for output in cpu]
    cpp_extension.link(lib / "libtorch_cpu.so", native, step=(steps - 1, steps))
    if cuda:
        cpp_extension.link(lib / "libtorch_cuda.so", [f"build/{output}" for output in cuda])
    rpath = f"-Wl,-rpath,{os.environ.get('lib', '')}/lib"
    cpp_extension.link(
        BUILD / "_C.abi3.so", [module], (f"-L{lib}", "-ltorch_cpu", rpath), step=(steps, steps)
    )

    cuda_version = os.environ.get("CUDA_VERSION") or None
    lines = [
        f"__version__ = {version!r}",
        f"cuda = {cuda_version!r}",
        f"arch_list = {cpp_extension.arch_names(arch_list)!r}",
    ]
    (BUILD / "version.py").write_text("\n".join(lines) + "\n")


main()
