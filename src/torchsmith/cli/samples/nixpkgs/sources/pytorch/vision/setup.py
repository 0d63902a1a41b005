"""Builds the miniature torchvision with torch's own cpp_extension."""

import os
import shutil
import subprocess
from pathlib import Path

import cpp_extension

BUILD = Path("build/torchvision")


TREE = Path("build/temp")


def main() -> None:
    shutil.copytree("torchvision", BUILD)
    arch_list = os.environ.get("TORCH_CUDA_ARCH_LIST", "")
    wanted = {"csrc/vision.o": cpp_extension.command("csrc/ops.c", [], "temp/csrc/vision.o")}
    for number, name in enumerate(("nms_kernel", "roi_align_kernel", "roi_pool_kernel", "deform_conv2d")):
        output = f"csrc/ops/cuda/{name}.cuda.o"
        if arch_list:
            wanted[output] = cpp_extension.nvcc(f"csrc/{name}.cu", arch_list, f"temp/{output}", number)
    cpp_extension.write_tree(TREE, wanted)
    subprocess.run(["ninja", "-v"], cwd=TREE, check=True)  # as BuildExtension does
    cpp_extension.link(BUILD / "_C.so", [f"{TREE}/{output}" for output in wanted])
    (BUILD / "version.py").write_text(f"__version__ = {os.environ['version']!r}\n")


main()
