"""Builds cudasort; its GPU architecture comes from CUDASORT_ARCHS, as 90 for capability 9.0."""

import os
import shutil
from pathlib import Path

import cpp_extension

BUILD = Path("build/cudasort")


def main() -> None:
    shutil.copytree("cudasort", BUILD)
    objects = [cpp_extension.compile("csrc/sort.c", [], step=(1, 2))]
    number = os.environ.get("CUDASORT_ARCHS", "")
    if number:
        objects.append(cpp_extension.fatbin(f"{number[:-1]}.{number[-1]}", containers=2))
    cpp_extension.link(BUILD / "libcudasort.so", objects, step=(2, 2))


main()
