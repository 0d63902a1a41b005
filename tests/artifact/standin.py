"""A build that takes a moment instead of hours: real headers, and a torch that computes in plain Python."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.artifact import elves

TORCH = '''
import math

class Tensor:
    """Nested lists with the few operations that are asked of a build."""

    def __init__(self, values): self.values = values
    def to(self, device): return self
    cpu = lambda self: self
    def tolist(self): return self.values
    def __matmul__(self, other):
        columns = list(zip(*other.values))
        return Tensor([[sum(map(float.__mul__, row, column)) for column in columns] for row in self.values])

def tensor(values, dtype=None): return Tensor(values)

class functional:
    def conv2d(images, kernels, padding):
        size = range(len(images.values[0][0]))
        def at(image, kernel, y, x):
            return sum(image[c][y + i - 1][x + j - 1] * kernel[c][i][j] for c in range(len(image))
                       for i in range(3) for j in range(3) if y + i - 1 in size and x + j - 1 in size)
        return Tensor([[[[at(image, kernel, y, x) for x in size] for y in size] for kernel in kernels.values]
                       for image in images.values])
    def softmax(rows, dim):
        powers = [[math.exp(value) for value in row] for row in rows.values]
        return Tensor([[power / sum(row) for power in row] for row in powers])
    def layer_norm(rows, shape):
        made = []
        for row in rows.values:
            mean = sum(row) / len(row)
            spread = math.sqrt(sum((value - mean) ** 2 for value in row) / len(row) + 1e-5)
            made.append([(value - mean) / spread for value in row])
        return Tensor(made)

class nn: functional = functional

class linalg:
    def inv(matrix):
        size = range(len(matrix.values))
        rows = [row + [float(i == j) for j in size] for i, row in enumerate(matrix.values)]
        for i in size:
            rows[i] = [value / rows[i][i] for value in rows[i]]
            for j in size:
                if j != i:
                    rows[j] = [a - rows[j][i] * b for a, b in zip(rows[j], rows[i])]
        return Tensor([row[len(size):] for row in rows])
    def eigvalsh(matrix):
        rows, size = [list(row) for row in matrix.values], len(matrix.values)
        while max(abs(rows[i][j]) for i in range(size) for j in range(i)) > 1e-9:
            for i in range(size):
                for j in range(i):
                    angle = 0.5 * math.atan2(2 * rows[i][j], rows[j][j] - rows[i][i])
                    c, s = math.cos(angle), math.sin(angle)
                    for row in rows: row[i], row[j] = c * row[i] - s * row[j], s * row[i] + c * row[j]
                    one, two = rows[i], rows[j]
                    rows[i] = [c * a - s * b for a, b in zip(one, two)]
                    rows[j] = [s * a + c * b for a, b in zip(one, two)]
        return Tensor(sorted(rows[i][i] for i in range(size)))

class Agreeable:
    """Whatever is asked of it, it is itself."""

    def __getattr__(self, name): return self
    def __call__(self, *args, **options): return self

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
