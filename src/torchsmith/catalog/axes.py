"""The values that facts and variants are made of; each one parses and prints itself."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Literal, NoReturn, Self, dataclass_transform

Platform = Literal["x86_64-linux", "aarch64-linux", "aarch64-darwin"]
Form = Literal["", "a", "f"]
# How values are written.
CAPABILITY = r"(\d{1,2})\.(\d)"
ARCHITECTURE = r"(?:sm_?|compute_)?(\d{2,3})"
DRIVER = r"\d{1,4}(?:\.\d{1,4}){0,3}"


class BadValue(ValueError):
    """A word that is not a value of its axis."""


@dataclass_transform(frozen_default=True)
class Axis:
    """A frozen, ordered value. There is one object of each, so that equal ones are the same and cost nothing
    to compare. It is not a struct or a dataclass: decoders take it for text, not for a table."""

    _made: ClassVar[dict[tuple[Any, ...], Any]]
    _names: ClassVar[tuple[str, ...]] = ()
    _values: tuple[Any, ...]
    _hash: int

    def __init_subclass__(cls) -> None:
        cls._made = {}
        cls._names += tuple(cls.__annotations__)

    def __new__(cls, *values: Any) -> Self:
        values += tuple(getattr(cls, name) for name in cls._names[len(values) :])
        own: Self | None = cls._made.get(values)
        if own is None:
            own = object.__new__(cls)
            own.__dict__.update(zip(cls._names, values, strict=True), _values=values, _hash=hash(values))
            own = cls._made.setdefault(values, own)
        return own

    def __hash__(self) -> int:
        return self._hash

    def __lt__(self, other: Self) -> bool:
        return self._values < other._values if other.__class__ is self.__class__ else NotImplemented

    def __le__(self, other: Self) -> bool:
        return self._values <= other._values if other.__class__ is self.__class__ else NotImplemented

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"cannot change field {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return self.__class__, self._values

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in zip(self._names, self._values, strict=True))
        return f"{self.__class__.__qualname__}({fields})"


def _match(pattern: str, text: str, expected: str) -> re.Match[str]:
    match = re.fullmatch(pattern, text)
    if match is None:
        raise BadValue(f"{text!r} is not {expected}")
    return match


class MinorVersion(Axis):
    """A release of two numbers."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


class CudaVersion(MinorVersion):
    """A CUDA toolkit release, such as 13.0."""

    @property
    def slug(self) -> str:
        """As it is in package names: 13_0."""
        return f"{self.major}_{self.minor}"

    @classmethod
    def parse(cls, text: str) -> Self:
        match = _match(r"(?:cuda)?(\d{1,3})[._](\d{1,3})", text, "a CUDA version such as 13.0")
        return cls(int(match[1]), int(match[2]))


class BackendVersion(Axis):
    """A release of a backend that is not CUDA, such as ROCm 6.4; empty of one that has none."""

    backend: str
    number: str

    def __str__(self) -> str:
        return self.number


class PythonVersion(MinorVersion):
    """A Python release, such as 3.13."""

    @property
    def slug(self) -> str:
        """As it is in package names and nixpkgs attributes: python313."""
        return f"python{self.major}{self.minor}"

    @classmethod
    def parse(cls, text: str) -> Self:
        match = _match(r"(?:python|py)?(\d)\.?(\d{1,2})", text, "a Python version such as 3.13")
        return cls(int(match[1]), int(match[2]))


class Sm(Axis):
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
        match = _match(ARCHITECTURE, text, "a GPU architecture such as sm120")
        return cls(int(match[1]))


class CodeTarget(Axis):
    """What GPU code is compiled for."""

    @property
    def arch(self) -> str:
        """The architecture as names write it."""
        raise NotImplementedError


class GpuTarget(CodeTarget):
    """What a compiler is asked for: an SM in its plain, `a` (exact) or `f` (family) form."""

    sm: Sm
    form: Form = ""

    def __str__(self) -> str:
        return f"{self.sm.number}{self.form}"

    @property
    def arch(self) -> str:
        return str(self.sm)

    @classmethod
    def parse(cls, text: str) -> Self:
        form: Form = "a" if text.endswith("a") else "f" if text.endswith("f") else ""
        return cls(Sm.parse(text.removesuffix(form)), form)


class NamedTarget(CodeTarget):
    """A target with a name, and the modes that its code is limited to: gfx90a:xnack-, macos14.0."""

    name: str
    modes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ":".join((self.name, *self.modes))

    @property
    def arch(self) -> str:
        return self.name

    @classmethod
    def parse(cls, text: str) -> Self:
        name, *modes = text.split(":")
        return cls(name, tuple(modes))


OLDEST_DRIVER = 100  # of GPUs that CUDA knows


class DriverVersion(Axis):
    """An NVIDIA driver release, such as 580 or 525.60.13; missing parts count as zero."""

    parts: tuple[int, ...]
    written: str = ""  # if a part begins with zeros: 580.65.06

    def __str__(self) -> str:
        return self.written or ".".join(map(str, self.parts))

    @property
    def title(self) -> str:
        """What it is called: those of Jetsons are numbered as Linux for Tegra up to JetPack 5."""
        return f"L4T {self}" if self.parts[0] < OLDEST_DRIVER else f"driver {self}"

    @property
    def first(self) -> Self:
        """Of a branch its first release."""
        return self if len(self.parts) > 1 else type(self)((*self.parts, 0))

    @classmethod
    def parse(cls, text: str) -> Self:
        _match(DRIVER, text, "a driver version such as 580.65.06")
        plain = cls(tuple(int(part) for part in text.split(".")))
        return plain if str(plain) == text else cls(plain.parts, text)
