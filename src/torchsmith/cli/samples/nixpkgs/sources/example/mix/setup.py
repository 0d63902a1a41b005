"""Builds torchmix with torch's own cpp_extension."""

import os
import shutil
from pathlib import Path

import cpp_extension

BUILD = Path("build/torchmix")


def main() -> None:
    shutil.copytree("torchmix", BUILD)
    objects = [cpp_extension.compile("csrc/mix.c", [], step=(1, 2))]
    arch_list = os.environ.get("TORCH_CUDA_ARCH_LIST", "")
    if arch_list:
        objects.append(cpp_extension.fatbin(arch_list, containers=2))
    cpp_extension.link(BUILD / "_mix.so", objects, step=(2, 2))
    (BUILD / "version.py").write_text(f"__version__ = {os.environ['version']!r}\n")


main()
