"""Builds the miniature torchaudio with torch's own cpp_extension."""

import os
import shutil
from pathlib import Path

import cpp_extension

BUILD = Path("build/torchaudio")


def main() -> None:
    shutil.copytree("torchaudio", BUILD)
    objects = [cpp_extension.compile("csrc/ops.c", [], step=(1, 2))]
    arch_list = os.environ.get("TORCH_CUDA_ARCH_LIST", "")
    if arch_list:
        objects.append(cpp_extension.fatbin(arch_list, containers=2))
    cpp_extension.link(BUILD / "_C.so", objects, step=(2, 2))
    (BUILD / "version.py").write_text(f"__version__ = {os.environ['version']!r}\n")


main()
