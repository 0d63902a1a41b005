"""What has to be compiled: PyTorch configured by a recipe's flags, and the commands of that build."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from tools.gpu_half.toolkit import lay_out
from tools.gpu_half.work import Plan, Unit, Work
from torchsmith.catalog import Catalog, builtin_catalog
from torchsmith.catalog.recorded import CXX_MARK, HOST_MARK, RECORD
from torchsmith.core.problem import Problem
from torchsmith.matrix.variant import Variant

GENERATORS = ("ATEN_CUDA_FILES_GEN_TARGET", "ATEN_CPU_FILES_GEN_TARGET", "generate-torch-sources")
LIBRARIES = (
    *("libtensorpipe_uv.a", "libtensorpipe.a", "libtensorpipe_cuda.a", "libgloo.a", "libgloo_cuda.a"),
    *("libc10_cuda.so", "libtorch_cuda.so"),
)
# Parts of libtorch_cpu.so, which stays the wheel's; their macros are in units of libtorch_cuda.so too.
LEFT_TO_THE_WHEEL = ("FBGEMM", "PYTORCH_QNNPACK", "XNNPACK")
OFF = (
    *("BUILD_PYTHON", "BUILD_TEST", "USE_ITT", "USE_KINETO", "USE_MAGMA", "USE_MIMALLOC", "USE_MKLDNN"),
    *("USE_MPI", "USE_NNPACK", "USE_NUMPY", "USE_ROCM", "USE_XPU"),
)
ON = (
    *("USE_CUDA", "USE_CUDNN", "USE_CUFILE", "USE_CUSPARSELT", "USE_NCCL", "USE_NVSHMEM", "USE_OPENMP"),
    *("BUILD_CUSTOM_PROTOBUF", "USE_SYSTEM_NCCL"),
)

CUDA_FOLDERS = (
    *("CMAKE_PREFIX_PATH", "CUDAToolkit_ROOT", "CUDA_TOOLKIT_ROOT_DIR", "CUDNN_ROOT", "CUSPARSELT_ROOT"),
    *("NCCL_ROOT", "NVSHMEM_HOME"),
)


def recipe_environment(variant: Variant, catalog: Catalog) -> dict[str, str]:
    """The variables by which the recipe of a variant passes its flags. Raises Problem."""
    if variant.sm is None:
        raise Problem(f"{variant} has no code for NVIDIA's GPUs")
    flags = " ".join((*catalog.isas[variant.isa].flags, CXX_MARK, RECORD))
    return {
        "TORCH_CUDA_ARCH_LIST": variant.sm.capability,
        "CFLAGS": flags,
        "CXXFLAGS": " ".join((flags, *(f"-DUSE_{name}" for name in LEFT_TO_THE_WHEEL))),
        "NVCC_APPEND_FLAGS": f"-Xcompiler={HOST_MARK},{RECORD}",
    }


def prepare(work: Work, site: Path, name: str) -> Plan:
    """Configure WORK/source, generate its sources, and write the plan. Raises Problem."""
    catalog = builtin_catalog()
    environment = recipe_environment(Variant.parse(name, catalog), catalog)
    lay_out(work, site)
    _linear_algebra_apart(work)
    folders = ["-S", str(work.source), "-B", str(work.build)]
    _run(["cmake", "-G", "Ninja", *folders, *_options(work, site)], environment)
    _as_the_wheel(work, site)
    _run(["ninja", "-C", str(work.build), *GENERATORS], environment)
    plan = Plan(name, environment, *_commands(work))
    work.write(plan)
    return plan


def _options(work: Work, site: Path) -> list[str]:
    cuda, libraries = work.cuda, work.cuda / "lib64"
    values = {
        **dict.fromkeys((*OFF, *(f"USE_{name}" for name in LEFT_TO_THE_WHEEL)), "OFF"),
        **dict.fromkeys(ON, "ON"),
        **dict.fromkeys(CUDA_FOLDERS, str(cuda)),
        "CUDNN_INCLUDE_DIR": str(cuda / "include"),
        "CUDNN_LIBRARY": str(libraries / "libcudnn.so"),
        "CMAKE_CUDA_COMPILER": str(cuda / "bin/nvcc"),
        "CMAKE_BUILD_TYPE": "Release",
        "BLAS": "Eigen",
        "Python_EXECUTABLE": str(site.parents[2] / "bin/python"),  # with PyYAML, for torchgen
    }
    return [f"-D{name}={value}" for name, value in values.items()]


def _linear_algebra_apart(work: Work) -> None:
    """Build the units that call MAGMA as a separate library, as the wheel does, without Python as well."""
    lists = work.source / "CMakeLists.txt"
    lists.write_text(lists.read_text().replace("USE_CUDA AND LINUX AND BUILD_PYTHON", "USE_CUDA AND LINUX"))


def _as_the_wheel(work: Work, site: Path) -> None:
    """State in ATen's headers what the wheel's CPU half has, and its MAGMA."""
    wheel, ours = site / "torch/include/ATen", work.source / "aten/src/ATen"
    (ours / "Config.h").write_text((wheel / "Config.h").read_text())
    cuda = ours / "cuda/CUDAConfig.h"
    cuda.write_text(cuda.read_text().replace("AT_MAGMA_ENABLED() 0", "AT_MAGMA_ENABLED() 1"))


def _commands(work: Work) -> tuple[tuple[Unit, ...], dict[str, str]]:
    """The commands that link the libraries, and those that compile what is linked, attention last."""
    ninja = ["ninja", "-C", str(work.build), "-t", "commands", "-s"]
    links = {name: subprocess.check_output([*ninja, f"lib/{name}"], text=True).strip() for name in LIBRARIES}
    wanted = {word for command in links.values() for word in command.split() if word.endswith(".o")}
    database = json.loads((work.build / "compile_commands.json").read_text())
    objects = {os.path.relpath(row["output"], work.build): row["command"] for row in database}
    units = [Unit(name, objects[name]) for name in wanted if name in objects]
    if missing := wanted - objects.keys():
        raise Problem(f"{len(missing)} linked objects have no compile command: {min(missing)}")
    units.sort(key=lambda unit: (unit.attention, not unit.object.endswith(".cu.o"), unit.object))
    return tuple(units), links


def _run(command: list[str], environment: dict[str, str]) -> None:
    if subprocess.run(command, env={**os.environ, **environment}, check=False).returncode:
        raise Problem(f"{command[0]} failed; its last lines say why")
