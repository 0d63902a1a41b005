"""Names of packages, both ways: the ones we write, and every older spelling we can still read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from torchsmith.catalog.axes import CudaVersion, PythonVersion, Sm
from torchsmith.catalog.facts import Line
from torchsmith.edge.problem import Problem, nearest
from torchsmith.matrix.variant import CpuOnly, Cuda, Flavor, Package, Target, Variant

EXAMPLE = "pytorch-python313-cuda13_0-sm120-avx512"


class BadName(Problem):
    """A word that is no name of a package: what was wrong, and at which character (from 1)."""

    def __init__(self, name: str, column: int, what: str) -> None:
        super().__init__(
            f"{name!r} is not a variant: {what}, at character {column}", hint=f"a name looks like {EXAMPLE}"
        )
        self.name = name
        self.column = column
        self.what = what


@dataclass(frozen=True, slots=True)
class Reading:
    """What a name says: the variant, and how the spelling differs from ours."""

    variant: Variant
    prefix: str = ""  # torch's pname prefix where the name has one: pytorch210
    old: tuple[str, ...] = ()  # in words, each way in which the spelling is an old one

    @property
    def canonical(self) -> bool:
        return not self.old and not self.prefix


def package_name(path: Path) -> str:
    """The name that Flox gives a file: its own, or its folder's for a default.nix."""
    return path.parent.name if path.name == "default.nix" else path.stem


def pname(variant: Variant, line: Line) -> str:
    """The pname of a recipe: torch's carries its release, a companion's is the file's name."""
    return variant.name if variant.package.companion else f"{line.prefix}-{variant.cell}"


class _Words:
    """The dash-separated words of a name, with their places."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.words = name.split("-")
        self.at = 0

    @property
    def column(self) -> int:
        return sum(len(word) + 1 for word in self.words[: self.at]) + 1

    def take(self, what: str) -> str:
        if self.at >= len(self.words) or not self.words[self.at]:
            raise BadName(self.name, min(self.column, len(self.name) + 1), f"{what} is missing")
        self.at += 1
        return self.words[self.at - 1]

    def bad(self, what: str) -> BadName:
        self.at -= 1
        return BadName(self.name, self.column, what)

    def rest(self) -> str:
        return "-".join(self.words[self.at :])


def read_name(name: str) -> Reading:
    """Read a package name, ours or an older spelling of it."""
    if len(name) > 200:
        raise BadName(name[:40] + "…", 200, "it is longer than any name")
    words = _Words(name.removesuffix(".nix"))
    package, prefix = _package(words)
    python = _python(words)
    target = _target(words)
    old: list[str] = []
    isa = _isa(words, old)
    flavor = _suffix(words, old)
    return Reading(Variant(package, python, target, isa, flavor), prefix, tuple(old))


def _package(words: _Words) -> tuple[Package, str]:
    word = words.take("the package")
    if word in list(Package):
        return Package(word), ""
    if re.fullmatch(r"pytorch\d{2,4}", word):
        return Package.PYTORCH, word
    best = nearest(word, list(Package))
    raise words.bad(f"unknown package {word!r}" + (f" (did you mean {best}?)" if best else ""))


def _python(words: _Words) -> PythonVersion:
    word = words.take("the Python version")
    if not re.fullmatch(r"python3\d{1,2}", word):
        raise words.bad(f"expected a Python such as python313, not {word!r}")
    return PythonVersion.parse(word)


def _target(words: _Words) -> Target:
    word = words.take("cpu or the CUDA version")
    if word == "cpu":
        return CpuOnly()
    if not re.fullmatch(r"cuda\d{1,2}_\d{1,2}", word):
        raise words.bad(f"expected cpu or a CUDA such as cuda13_0, not {word!r}")
    cuda = CudaVersion.parse(word)
    word = words.take("the GPU architecture")
    if not re.fullmatch(r"sm[1-9]\d{1,2}", word):
        raise words.bad(f"expected a GPU architecture such as sm120, not {word!r}")
    return Cuda(cuda, Sm.parse(word))


def _isa(words: _Words, old: list[str]) -> str:
    word = words.take("the CPU instruction set")
    if "." in word:
        old.append(f"{word} has a dot, which Flox cannot reach: write {word.replace('.', '_')}")
        word = word.replace(".", "_")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", word):
        raise words.bad(f"expected an instruction set such as avx512, not {word!r}")
    return word


def _suffix(words: _Words, old: list[str]) -> Flavor:
    if words.at == len(words.words):
        return Flavor.RELEASE
    rest = words.rest()
    if rest == "magma":
        old.append("every GPU variant has MAGMA: leave -magma out")
        return Flavor.RELEASE
    if rest and rest in list(Flavor):
        return Flavor(rest)
    raise BadName(words.name, words.column, f"unknown ending {rest!r}")
