"""A toy in the place of torch, for examples that run a build: it computes a little, in plain Python."""

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
        weights = [
            [weight for plane in kernel for row in plane for weight in row] for kernel in kernels.values
        ]

        def around(image, y, x):
            """The three rows of three of each plane, with zeros beyond its border."""
            return [
                plane[i][j] if i in size and j in size else 0.0
                for plane in image
                for i in (y - 1, y, y + 1)
                for j in (x - 1, x, x + 1)
            ]

        planes = [[[around(image, y, x) for x in size] for y in size] for image in images.values]
        return Tensor(
            [
                [[[sum(map(mul, near, weight)) for near in row] for row in plane] for weight in weights]
                for plane in planes
            ]
        )

    @of_tensors
    def softmax(rows, dim):
        powers = [[math.exp(value) for value in row] for row in rows.values]
        sums = map(sum, powers)
        return Tensor([[power / whole for power in row] for row, whole in zip(powers, sums, strict=True)])

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
        """Householder's reflections leave three diagonals, whose pivots count eigenvalues below a number."""
        rows, diagonal, squares = matrix.values, [], [0.0]
        while rows:
            diagonal.append(rows[0][0])
            mirror, rows = rows[0][1:], [row[1:] for row in rows[1:]]
            squares.append(sum(map(mul, mirror, mirror)))
            if any(mirror[1:]):
                mirror[0] += math.copysign(math.sqrt(squares[-1]), mirror[0])
                half = sum(map(mul, mirror, mirror)) / 2
                image = [sum(map(mul, row, mirror)) / half for row in rows]
                share = sum(map(mul, mirror, image)) / half / 2
                image = [a - share * b for a, b in zip(image, mirror, strict=True)]
                rows = [
                    [value - a * d - b * c for value, c, d in zip(row, mirror, image, strict=True)]
                    for row, a, b in zip(rows, mirror, image, strict=True)
                ]

        def below(number):
            count, pivot = 0, 1.0
            for value, square in zip(diagonal, squares, strict=False):
                pivot = value - number - square / (pivot or 1e-300)
                count += pivot < 0
            return count

        widest = max(map(abs, diagonal)) + 2 * math.sqrt(max(squares))
        found = []
        for index in range(len(diagonal)):
            low, high = -widest, widest
            while low < (middle := (low + high) / 2) < high and high - low > 1e-15 * widest:
                low, high = (middle, high) if below(middle) <= index else (low, middle)
            found.append(middle)
        return Tensor(found)


class version:
    cuda = None


__version__ = "2.10.0"


def __getattr__(name):
    return agreeable
