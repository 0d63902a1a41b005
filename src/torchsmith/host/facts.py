"""What is known of a machine: every fact with its source, and what could not be used and why."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import reduce
from typing import ClassVar, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from torchsmith.catalog.axes import BadValue, DriverVersion, PythonVersion, Sm
from torchsmith.catalog.names import holds, name_words
from torchsmith.core.text import listed, some_of

T = TypeVar("T")
KIND = "machine"  # by which JSON of a machine is known among other reports
TIME_LIMIT = 10.0  # seconds to wait for a tool


class Fact(msgspec.Struct, Generic[T], frozen=True, omit_defaults=True):
    """A value and the tool, file or option that it is from."""

    value: T
    source: str
    prose: bool = False  # no tool's line says so, but a sentence: the answer states it as a condition


class Note(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a source has that was not used, or what it lacks, and why."""

    source: str
    text: str
    code: str = ""  # gpu: of one that was seen and not understood; conflict: of facts that cannot all be true

    def __str__(self) -> str:
        return f"{self.source}: {self.text}"


def fact_of(value: T | None, source: str) -> Fact[T] | None:
    """A fact if a source has a value; an empty text or set is none."""
    return Fact(value, source) if value else None


def driver_fact(text: str, source: str, notes: list[Note]) -> Fact[DriverVersion] | None:
    """A driver's version out of a word; a word that cannot be one, such as a CUDA release, is noted."""
    if re.fullmatch(r"(9|1\d)\.\d+(\.\d+)?", text):
        notes.append(
            Note(source, f"gives {text} as the driver, which is a CUDA release: the driver is unknown")
        )
        return None
    return _parsed(DriverVersion.parse, text, "driver version", source, notes)


def sm_fact(text: str, source: str, notes: list[Note]) -> Fact[Sm] | None:
    """A GPU's architecture out of a compute capability; a word that cannot be one is noted."""
    return _parsed(Sm.parse, text, "compute capability", source, notes)


def _parsed(
    parse: Callable[[str], T], text: str, what: str, source: str, notes: list[Note]
) -> Fact[T] | None:
    try:
        return Fact(parse(text), source) if text else None
    except BadValue:
        notes.append(Note(source, f"{text!r} is not a {what}"))
        return None


class GpuFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """One GPU, as far as the sources know it."""

    name: Fact[str] | None = None
    sm: Fact[Sm] | None = None
    chip: Fact[str] | None = None  # as lspci names it: GA102
    either: Fact[tuple[str, ...]] | None = None  # names of which a text does not say which it is

    @property
    def label(self) -> str:
        """What to call it in a sentence."""
        if self.name:
            return self.name.value
        if self.sm:
            return str(self.sm.value)
        return listed(self.either.value, "or") if self.either else "a GPU without a name"


class HostFacts(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="kind", tag=KIND):
    """A machine as far as it is known. None, and a field that JSON lacks: no source has it; `gpus` may be an
    empty tuple."""

    FORMAT: ClassVar = 2
    HAS_SETS: ClassVar = True
    system: Fact[str] | None = None  # as Nix writes it: x86_64-linux
    cpu_name: Fact[str] | None = None
    cpu_id: Fact[str] | None = None  # vendor/family/model/stepping, or implementer/part
    microarchitecture: Fact[str] | None = None  # a name in cpus.toml
    features: Fact[frozenset[str]] | None = None  # as /proc/cpuinfo spells them
    cores: Fact[int] | None = None  # that the system shows, as lscpu counts its CPUs
    driver: Fact[DriverVersion] | None = None
    gpus: Fact[tuple[GpuFacts, ...]] | None = None  # NVIDIA's
    non_nvidia_gpus: Fact[tuple[str, ...]] | None = None  # other makers' accelerators, as far as usable
    targets: Fact[dict[str, str]] | None = None  # what the catalog calls their architectures, by name
    glibc: Fact[str] | None = None
    macos: Fact[str] | None = None  # its release
    release: Fact[str] | None = None  # of its system, as systems.toml calls it
    python: Fact[PythonVersion] | None = None  # of the active environment
    windows: Fact[bool] | None = None  # the driver is that of Windows, as in WSL
    instance: Fact[str] | None = None  # a kind of machine, such as a cloud's type
    l4t: Fact[str] | None = None  # the release of Linux for Tegra: 36.3, 36 if no more is known
    notes: tuple[Note, ...] = msgspec.field(default_factory=lambda: ())  # JSON has them though there are none

    def noting(self, source: str, text: str, code: str = "") -> HostFacts:
        """The same with one more note."""
        note = Note(source, text, code)
        return self if note in self.notes else replace(self, notes=(*self.notes, note))


_FIRST_WINS = (
    *("system", "cpu_name", "cpu_id", "microarchitecture", "non_nvidia_gpus", "glibc", "macos"),
    *("windows", "instance", "l4t", "cores", "python", "release"),
)
_COMPARED = ("system", "cpu_id")  # two values of these mean two machines


def merge(parts: Iterable[HostFacts]) -> HostFacts:
    """One machine from the facts of several sources, the most trusted first. If they contradict each other,
    the facts that ask less of it are used: the older driver, the features that all sources name."""
    return reduce(_join, parts, HostFacts())


def _join(known: HostFacts, more: HostFacts) -> HostFacts:
    notes = [*known.notes, *(note for note in more.notes if note not in known.notes)]
    changes: dict[str, object] = {}
    for field in _FIRST_WINS:
        old, new = getattr(known, field), getattr(more, field)
        if old is None:
            changes[field] = new
        elif new is not None and field in _COMPARED and new.value != old.value:
            text = f"says {new.value}, but {old.source} says {old.value}, which is used"
            notes.append(Note(new.source, text))
    changes["driver"] = _older_driver(known.driver, more.driver, notes)
    changes["features"] = _common_features(known.features, more.features, notes)
    changes["gpus"] = _join_gpus(known.gpus, more.gpus, notes)
    return replace(known, **changes, notes=tuple(notes))


def _older_driver(
    old: Fact[DriverVersion] | None, new: Fact[DriverVersion] | None, notes: list[Note]
) -> Fact[DriverVersion] | None:
    if old is None or new is None:
        return old or new
    shorter = min(len(old.value.parts), len(new.value.parts))
    if old.value.parts[:shorter] == new.value.parts[:shorter]:
        return old
    used, unused = (old, new) if old.value < new.value else (new, old)
    text = f"says driver {unused.value}, but {used.source} says {used.value}: the older one is used"
    notes.append(Note(unused.source, text))
    return used


def _common_features(
    old: Fact[frozenset[str]] | None, new: Fact[frozenset[str]] | None, notes: list[Note]
) -> Fact[frozenset[str]] | None:
    """The features that both lists name."""
    if old is None or new is None or old.value == new.value:
        return old or new
    differing = sorted(old.value ^ new.value)
    text = (
        f"differs from {old.source} in CPU features ({some_of(differing, 6)}): those that both name are used"
    )
    notes.append(Note(new.source, text))
    return Fact(old.value & new.value, f"{old.source}, {new.source}")


def _join_gpus(
    old: Fact[tuple[GpuFacts, ...]] | None, new: Fact[tuple[GpuFacts, ...]] | None, notes: list[Note]
) -> Fact[tuple[GpuFacts, ...]] | None:
    """All GPUs that either source shows; one that both show has what either knows of it."""
    if old is None or new is None or not old.value or not new.value:
        if old and new and new.value:
            notes.append(Note(old.source, f"shows no GPU, but {new.source} shows {len(new.value)}"))
        return new if old is None or (new and new.value) else old
    longer, shorter = (new, old) if len(new.value) > len(old.value) else (old, new)
    remaining = list(shorter.value)
    joined = []
    for gpu in longer.value:
        same = next((other for other in remaining if _may_be_one(gpu, other)), None)
        if same is not None:
            remaining.remove(same)
        joined.append(_fill(gpu, same, notes) if same else gpu)
    if remaining:
        names = ", ".join(dict.fromkeys(gpu.label for gpu in remaining))
        text = f"shows {names}, which {longer.source} does not show: all of them are used"
        notes.append(Note(shorter.source, text))
    return Fact((*joined, *remaining), longer.source)


def _may_be_one(gpu: GpuFacts, other: GpuFacts) -> bool:
    return gpu.name is None or other.name is None or same_name(gpu.name.value, other.name.value)


def same_name(name: str, other: str) -> bool:
    """Whether all words of one name are in the other; a name that ends in dots may end within a word."""
    shorter, longer = sorted((name.lower(), other.lower()), key=lambda text: len(text.rstrip(". ")))
    cut = shorter.endswith("..") and shorter.rstrip(". ") in longer
    return cut or holds(name_words(longer), name_words(shorter))


def _fill(gpu: GpuFacts, other: GpuFacts, notes: list[Note]) -> GpuFacts:
    if gpu.sm and other.sm and gpu.sm.value != other.sm.value:
        used = f"{gpu.sm.source} says {gpu.sm.value}, which is used"
        text = f"says {other.sm.value} for {gpu.label}, but {used}"
        notes.append(Note(other.sm.source, text))
    if gpu.name and other.name and gpu.name.value.endswith("..") and not other.name.value.endswith(".."):
        gpu = replace(gpu, name=other.name)
    return GpuFacts(*(getattr(gpu, name) or getattr(other, name) for name in GpuFacts.__struct_fields__))
