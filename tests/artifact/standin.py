"""A build that takes a moment instead of hours: real headers, and a torch that agrees with itself."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.artifact import elves

TORCH = '''
class Agreeable:
    """Whatever is asked of it, it is itself, and its errors are zero."""

    def __getattr__(self, name): return self
    def __call__(self, *args, **options): return self
    def item(self): return 0.0
    def __iter__(self): return iter(())
    __add__ = __sub__ = __mul__ = __rmul__ = __matmul__ = __truediv__ = __getitem__ = __call__

class version: cuda = None
__version__ = "2.10.0"
__getattr__ = lambda name: Agreeable()
'''
AVX512 = b"\x62\xf1\x6d\x48\xfc\xd9\xc3"


def build(folder: Path) -> Path:
    """`result` below a folder: a torch for sm120 and AVX-512, and an interpreter."""
    site = folder / "result" / "lib" / "python3.13" / "site-packages" / "torch"
    (site / "lib").mkdir(parents=True)
    (site / "__init__.py").write_text(TORCH)
    (site / "version.py").write_text("__version__ = '2.10.0'\ncuda: Optional[str] = '13.0'\n")
    (site / "lib" / "libtorch_cpu.so").write_bytes(elves.code_library({"_ZN2at3addEv": AVX512}))
    (site / "lib" / "libtorch_cuda.so").write_bytes(elves.gpu_library(elves.container(elves.entry(120))))
    (folder / "result" / "bin").mkdir()
    (folder / "result" / "bin" / "python3").symlink_to(sys.executable)
    return folder / "result"
