"""The values that facts and variants are made of; each one parses and prints itself."""

from __future__ import annotations

import re
from typing import Literal, Self, TypeVar, dataclass_transform

from torchsmith.edge.value import frozen

Platform = Literal["x86_64-linux", "aarch64-linux"]
Form = Literal["", "a", "f"]
# How values are written; the page reads them in a browser by the same patterns (page/rules.py).
CAPABILITY = r"(\d{1,2})\.(\d)"
ARCHITECTURE = r"(?:sm_?|compute_)?(\d{2,3})"
DRIVER = r"\d{1,4}(?:\.\d{1,4}){0,3}"


class BadValue(ValueError):
    """A word that is no value of its axis."""


T = TypeVar("T")


@dataclass_transform(frozen_default=True, order_default=True)
def value(cls: type[T]) -> type[T]:
    """A frozen, ordered dataclass that decoders take for text (it parses itself), not for a table."""
    made = frozen(order=True, slots=False)(cls)
    delattr(made, "__dataclass_fields__")
    return made


def _match(pattern: str, text: str, expected: str) -> re.Match[str]:
    found = re.fullmatch(pattern, text)
    if found is None:
        raise BadValue(f"{text!r} is not {expected}")
    return found


@value
class CudaVersion:
    """A CUDA toolkit release, such as 13.0."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"

    @property
    def slug(self) -> str:
        """As it stands in package names: 13_0."""
        return f"{self.major}_{self.minor}"

    @classmethod
    def parse(cls, text: str) -> Self:
        found = _match(r"(?:cuda)?(\d{1,3})[._](\d{1,3})", text, "a CUDA version such as 13.0")
        return cls(int(found[1]), int(found[2]))


@value
class PythonVersion:
    """A Python release, such as 3.13."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"

    @property
    def slug(self) -> str:
        """As it stands in package names and nixpkgs attributes: python313."""
        return f"python{self.major}{self.minor}"

    @classmethod
    def parse(cls, text: str) -> Self:
        found = _match(r"(?:python|py)?(\d)\.?(\d{1,2})", text, "a Python version such as 3.13")
        return cls(int(found[1]), int(found[2]))


@value
class Sm:
    """A GPU architecture by its number: 120 for compute capability 12.0."""

    number: int

    def __str__(self) -> str:
        return f"sm{self.number}"

    @property
    def major(self) -> int:
        return self.number // 10

    @property
    def minor(self) -> int:
        return self.number % 10

    @property
    def capability(self) -> str:
        """The dotted form that `gpuTargets` and TORCH_CUDA_ARCH_LIST take."""
        return f"{self.major}.{self.minor}"

    @classmethod
    def of_capability(cls, major: int, minor: int) -> Self:
        return cls(major * 10 + minor)

    @classmethod
    def parse(cls, text: str) -> Self:
        dotted = re.fullmatch(CAPABILITY, text)
        if dotted:
            return cls.of_capability(int(dotted[1]), int(dotted[2]))
        found = _match(ARCHITECTURE, text, "a GPU architecture such as sm120")
        return cls(int(found[1]))


@value
class GpuTarget:
    """What a compiler is asked for: an SM in its plain, `a` (exact) or `f` (family) form."""

    sm: Sm
    form: Form = ""

    def __str__(self) -> str:
        return f"{self.sm.number}{self.form}"

    @classmethod
    def parse(cls, text: str) -> Self:
        form: Form = "a" if text.endswith("a") else "f" if text.endswith("f") else ""
        return cls(Sm.parse(text.removesuffix(form)), form)


@value
class DriverVersion:
    """An NVIDIA driver release, such as 580 or 525.60.13; missing parts count as zero."""

    parts: tuple[int, ...]

    def __str__(self) -> str:
        # NVIDIA writes the third part with two digits where the second has two: 580.65.06, but 540.4.0.
        width = 2 if len(self.parts) > 2 and self.parts[1] > 9 else 1
        return ".".join(f"{part:0{width if place == 2 else 1}d}" for place, part in enumerate(self.parts))

    @classmethod
    def parse(cls, text: str) -> Self:
        _match(DRIVER, text, "a driver version such as 580.65.06")
        return cls(tuple(int(part) for part in text.split(".")))
