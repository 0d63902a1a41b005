"""A toy in the place of torch, for the word `sample`: it computes a little, in plain Python."""

import math
from operator import mul


class Agreeable:
    """Whatever is asked of it, it is itself; as a number it is zero."""

    def __getattr__(self, name):
        return self

    def __call__(self, *args, **options):
        return self

    def __float__(self):
        return 0.0

    def __iter__(self):
        return iter(())

    def __str__(self):
        return "SAMPLE"

    def __lt__(self, other):
        return False

    def __add__(self, other):
        return self

    __mul__ = __sub__ = __truediv__ = __floordiv__ = __mod__ = __getitem__ = __add__
    __gt__ = __lt__


agreeable = Agreeable()


class Lenient(type):
    """A class that has whatever is asked of it."""

    def __getattr__(cls, name):
        return agreeable


class Tensor:
    """Nested lists with the few operations that are asked of a build."""

    def __init__(self, values):
        self.values = values

    def to(self, device):
        return self

    def cpu(self):
        return self

    def tolist(self):
        return self.values

    def __matmul__(self, other):
        columns = list(zip(*other.values, strict=True))
        return Tensor([[sum(map(mul, row, column)) for column in columns] for row in self.values])


def tensor(values, dtype=None):
    return Tensor(values)


def of_tensors(function):
    """The function for tensors; anything else stays as agreeable as it is."""
    return lambda first, *others, **options: (
        function(first, *others, **options) if isinstance(first, Tensor) else agreeable
    )


class functional(metaclass=Lenient):
    @of_tensors
    def conv2d(images, kernels, padding):
        size = range(len(images.values[0][0]))

        def at(image, kernel, y, x):
            return sum(
                image[c][y + i - 1][x + j - 1] * kernel[c][i][j]
                for c in range(len(image))
                for i in range(3)
                for j in range(3)
                if y + i - 1 in size and x + j - 1 in size
            )

        return Tensor(
            [
                [[[at(image, kernel, y, x) for x in size] for y in size] for kernel in kernels.values]
                for image in images.values
            ]
        )

    @of_tensors
    def softmax(rows, dim):
        powers = [[math.exp(value) for value in row] for row in rows.values]
        return Tensor([[power / sum(row) for power in row] for row in powers])

    @of_tensors
    def layer_norm(rows, shape):
        made = []
        for row in rows.values:
            mean = sum(row) / len(row)
            spread = math.sqrt(sum((value - mean) ** 2 for value in row) / len(row) + 1e-5)
            made.append([(value - mean) / spread for value in row])
        return Tensor(made)


class nn(metaclass=Lenient):
    functional = functional


class linalg(metaclass=Lenient):
    @of_tensors
    def inv(matrix):
        size = range(len(matrix.values))
        rows = [row + [float(i == j) for j in size] for i, row in enumerate(matrix.values)]
        for i in size:
            rows[i] = [value / rows[i][i] for value in rows[i]]
            for j in size:
                if j != i:
                    rows[j] = [a - rows[j][i] * b for a, b in zip(rows[j], rows[i], strict=True)]
        return Tensor([row[len(size) :] for row in rows])

    @of_tensors
    def eigvalsh(matrix):
        """Jacobi's rotations, until nothing is left beside the diagonal."""
        rows, size = [list(row) for row in matrix.values], len(matrix.values)
        while max(abs(rows[i][j]) for i in range(size) for j in range(i)) > 1e-9:
            for i in range(size):
                for j in range(i):
                    angle = 0.5 * math.atan2(2 * rows[i][j], rows[j][j] - rows[i][i])
                    c, s = math.cos(angle), math.sin(angle)
                    for row in rows:
                        row[i], row[j] = c * row[i] - s * row[j], s * row[i] + c * row[j]
                    one, two = rows[i], rows[j]
                    rows[i] = [c * a - s * b for a, b in zip(one, two, strict=True)]
                    rows[j] = [s * a + c * b for a, b in zip(one, two, strict=True)]
        return Tensor(sorted(rows[i][i] for i in range(size)))


class version:
    cuda = None


__version__ = "2.10.0"


def __getattr__(name):
    return agreeable
