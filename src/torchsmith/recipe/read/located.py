"""What can be read from a recipe, each value with its place in the text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from torchsmith.catalog.axes import BadValue, GpuTarget
from torchsmith.recipe.read.syntax import Span

T = TypeVar("T")


@dataclass(slots=True, unsafe_hash=True)  # frozen ones take three times as long to make
class Unknown:
    """A value that only an evaluation could give; its text."""

    text: str


Value = str | int | float | bool | None | list["Value"] | dict[str, "Value"] | Unknown


@dataclass(frozen=True, slots=True)
class Located(Generic[T]):
    """A value and the place of its text; a string's span leaves out the quotes, ready to be replaced."""

    value: T
    span: Span


def as_text(located: Located[Value] | None) -> Located[str] | None:
    """The same, if it is a string."""
    return Located(located.value, located.span) if located and isinstance(located.value, str) else None


@dataclass(frozen=True, slots=True)
class RecipePin:
    """A tarball that the recipe takes its packages from."""

    url: Located[str]
    rev: Located[str] | None  # the 40 digits in the address
    sha256: Located[str] | None
    span: Span


OverrideKind = Literal["override", "overrideAttrs", "overridePythonAttrs", "overrideScope"]


@dataclass(frozen=True, slots=True)
class Overlay:
    """One overlay, in the order of the list, and what it changes: `magma`, or `python3Packages.torch`."""

    packages: tuple[str, ...]
    span: Span
    understood: bool = True  # False for one that another file or a function makes


@dataclass(frozen=True, slots=True)
class NixpkgsImport:
    """An import of a package set with its arguments; `complete` if all of them could be read."""

    arguments: frozenset[str]  # their names
    system: Located[str] | None
    config: Mapping[str, Located[Value]]
    overlays: tuple[Overlay, ...]
    span: Span
    complete: bool = True


@dataclass(frozen=True, slots=True)
class FetchedSource:
    """A download: the fetcher, its arguments, and the hash with its place."""

    fetcher: str
    owner: str  # the attribute that it is fetched for: python3Packages.torch
    fields: Mapping[str, Located[Value]]
    hash: Located[str] | None
    span: Span


GpuSpelling = Literal["gpuTargets", "cudaCapabilities", "variable", "arch-list", "cmake-list"]


def gpu_target(word: str) -> GpuTarget | None:
    """A target as a recipe writes it, with or without PTX; None for what is none of NVIDIA's."""
    try:
        return GpuTarget.parse(word.removesuffix("+PTX"))
    except BadValue:
        return None


@dataclass(frozen=True, slots=True)
class GpuMention:
    """A place that names GPU targets, and how it spells them."""

    spelling: GpuSpelling
    name: str  # of the attribute or variable
    values: tuple[str, ...]
    span: Span
    origin: Span  # of the value, which may be that of a variable


@dataclass(frozen=True, slots=True)
class FlagList:
    """A list of compiler flags: its name if it has one, and each flag with its place."""

    name: str
    flags: tuple[Located[str], ...]
    span: Span

    @property
    def values(self) -> tuple[str, ...]:
        return tuple(flag.value for flag in self.flags)


@dataclass(frozen=True, slots=True)
class Override:
    """A call of override, overrideAttrs or overridePythonAttrs: on what, and what it sets."""

    kind: OverrideKind
    of: str
    arguments: Mapping[str, Located[Value]]
    span: Span
    old: str = ""  # what its function calls the attributes from before


@dataclass(frozen=True, slots=True)
class Export:
    """A variable that a phase sets; what it held before is part of the value."""

    variable: str
    value: str
    span: Span
    last: bool = True  # the phase does not set it again


@dataclass(frozen=True, slots=True)
class Bound:
    """A binding: the attributes it is in, its value and the place of the value."""

    owner: str  # outermost first: customPytorch.meta
    value: Value
    span: Span


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A recipe that only calls another file: which one, and what it passes."""

    path: str
    arguments: Mapping[str, Located[Value]]
    span: Span
