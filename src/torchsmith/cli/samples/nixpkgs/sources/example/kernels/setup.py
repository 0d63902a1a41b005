"""Builds a stand-in: $module with $library, for the GPUs that the variable or CMake flag $listName names."""

import os
import re
from pathlib import Path

import cpp_extension

LOADER = '''\
"""A stand-in for the package of this name."""

import ctypes
from pathlib import Path

library = ctypes.CDLL(str(Path(__file__).parent / "{library}"))
'''


def arch_list() -> str:
    """The list as torch spells it: 9.0 for 9.0, 90 and 90-real."""
    name = os.environ["listName"]
    told = re.findall(rf"-D{name}(?::\w+)?=(\S+)", os.environ.get("cmakeFlags", ""))
    text = told[-1] if told else os.environ.get(name, "")
    return ";".join(re.sub(r"^(\d+)(\d)(-real)?$", r"\1.\2", one) for one in text.split(";"))


def main() -> None:
    build = Path("build", os.environ["module"])
    build.mkdir(parents=True)
    objects = [cpp_extension.compile("csrc/scale.c", [], step=(1, 2))]
    if arch_list():
        objects.append(cpp_extension.fatbin(arch_list(), containers=2))
    cpp_extension.link(build / os.environ["library"], objects, step=(2, 2))
    (build / "__init__.py").write_text(LOADER.format(library=os.environ["library"]))


main()
