"""A build that takes a moment instead of hours: real headers, and a torch that computes in plain Python."""

from __future__ import annotations

import shutil
import sys
import zipfile
from pathlib import Path

from tests.artifact import elves
from tests.artifact.toy import TOY
from torchsmith.catalog import builtin_catalog
from torchsmith.catalog.recorded import CXX_MARK
from torchsmith.cli.samples import HERE

TORCH = TOY.read_text()
AVX512 = b"\x62\xf1\x6d\x48\xfc\xd9\xc3"
FLAGS = " ".join(builtin_catalog().isas["avx512"].flags)
CPU_LIBRARY = elves.code_library({"_ZN2at3addEv": AVX512}, recorded=[f"{CXX_MARK} {FLAGS} -O3 -fPIC"])
GPU_LIBRARY = elves.gpu_library(elves.container(elves.entry(120)))


def build(folder: Path) -> Path:
    """`result` below a folder: a torch for sm120 and AVX-512, and an interpreter."""
    site = folder / "result" / "lib" / "python3.13" / "site-packages"
    with zipfile.ZipFile(HERE / "torch.whl") as sample:
        sample.extractall(site, [name for name in sample.namelist() if name.startswith("torch/")])
    shutil.copy(TOY, site / "torch")
    (folder / "result" / "bin").mkdir()
    (folder / "result" / "bin" / "python3").symlink_to(sys.executable)
    return folder / "result"
