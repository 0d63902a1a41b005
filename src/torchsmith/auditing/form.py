"""The form of a recipe: its text with its own GPU, CPU and Python blanked, so that recipes for many cells are
checked once.

Rules hold a recipe against the facts of its cell. If two recipes differ in nothing but each naming its
own GPU, instruction set, flags and Python rightly, and all else that rules look at is equal, they get the
same result. What still names some GPU, CPU or Python after that is right in one cell and wrong in the
next, so that such a recipe is checked on its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple

from torchsmith.auditing.claims import OF_A_CELL, vocabulary
from torchsmith.auditing.suppress import MARK
from torchsmith.catalog import Catalog, Gpu
from torchsmith.matrix import Accepted, assess, try_read
from torchsmith.recipe.header import LINE
from torchsmith.recipe.values import cpu_requirement

JudgementKey = tuple[object, ...]
HEADER_CELL = re.compile(r"variant=\S+")
MAX_REMEMBERED = 4096  # results at a time


class NamedCell(NamedTuple):
    """The cell that a name names: what else a result depends on, how recipes spell it, its flags."""

    key: JudgementKey
    spellings: tuple[str, ...]
    flags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NormalizedText:
    """A text with its own cell blanked, and all else that its result depends on."""

    text: str
    key: JudgementKey
    flags_line: int = field(default=0, compare=False)  # the first line of the list of flags
    flags_lines: int = field(default=0, compare=False)  # how many lines it has, which differs between cells


@dataclass(frozen=True)
class Normalizer:
    """Makes forms with the words of one catalog."""

    catalog: Catalog

    def of(self, name: str, text: str, line: str | None) -> NormalizedText | None:
        """Return the form of a recipe; None if it must be checked on its own."""
        if "./" in text or MARK in text:  # other files, and what a person says of this one
            return None
        cell = self._cell(name)
        if cell is None:
            return None
        first, _, rest = text.partition("\n")
        header = LINE.search(first)
        body = rest if header else text
        for spelling in cell.spellings:  # the words that name its own cell
            body = body.replace(spelling, "\0")
        before, flags, inner = body.partition("cpuFlags = [")
        inner, _, after = inner.partition("]")
        if flags and tuple(re.findall(r'"([^"\n]*)"', inner)) == cell.flags and "#" not in inner:
            body = f"{before}\0{after}"
        else:
            inner = ""
        if self._names_a_cell(body):
            return None
        about = HEADER_CELL.sub("", header[2]) if header else None
        top = before.count("\n") + (2 if header else 1)
        return NormalizedText(body, (*cell.key, line, about), top, inner.count("\n"))

    @cached_property
    def _names_a_cell(self) -> Callable[[str], bool]:
        """Whether a text names a GPU, CPU or Python though its own are blanked."""

        def names(blanked: str) -> bool:
            claims = vocabulary(self.catalog).pattern.finditer(blanked)
            return bool(self._cells.search(blanked)) or any(claim.lastgroup in OF_A_CELL for claim in claims)

        return lru_cache(MAX_REMEMBERED)(names)

    @cached_property
    def _cells(self) -> re.Pattern[str]:
        """How code names GPUs, instruction sets, compiler flags and Pythons."""
        numbers = {word for sm in self.catalog.gpus for word in (sm.capability, str(sm.number))}
        gpus = (
            rf"(?<![\w.])(?:sm_?|compute_?)?(?:{'|'.join(map(re.escape, numbers))})[af]?(?:\+PTX)?(?![\w.])"
        )
        isas = "|".join(map(re.escape, self.catalog.isas))
        letters = "".join(sorted({re.escape(isa[:1]) for isa in self.catalog.isas}))
        # None is within a word: this and the first letter rule out most places.
        python = r"[Pp]ython:? ?3[._]?\d"
        return re.compile(
            rf"(?<!\w)(?=[-\dscPp{letters}])(?:{gpus}|\b(?:{isas})\b|(?<![\w-])-m[a-z]|{python})"
        )

    @cached_property
    def _cell(self) -> Callable[[str], NamedCell | None]:
        return lru_cache(MAX_REMEMBERED)(self._read)

    def _read(self, name: str) -> NamedCell | None:
        reading = try_read(name, self.catalog)
        if reading is None:
            return None
        variant = reading.variant
        isa = self.catalog.isas.get(variant.isa)
        gpu = self.catalog.gpus.get(variant.sm) if variant.sm else None
        toolkit = self.catalog.cuda.get(variant.cuda) if variant.cuda else None
        python = self.catalog.pythons.get(variant.python)
        decision = assess(variant, self.catalog)
        if isa is None or python is None or (variant.sm and not (gpu and toolkit)):
            return None
        if not isinstance(decision, Accepted) or not decision.usable:
            return None
        if not reading.canonical or variant.flavor:
            return None
        # As generated recipes name the instruction set, Python, the GPU and the driver that it needs.
        spellings: tuple[str, ...] = (variant.cell, cpu_requirement(isa), isa.title, python.attr)
        spellings += (f"Python {variant.python}", f"Python: {variant.python}")
        if gpu and toolkit:
            driver = f"version {max(gpu.min_driver, toolkit.min_driver)} or newer"
            quoted = f'"{gpu.sm.capability}"', f'"{gpu.sm.number}"'
            title = self.catalog.title_on(gpu, isa.platform)
            spellings += (*quoted, f"SM{gpu.sm.number}", driver, title, gpu.generation)
        same = (variant.stem, variant.python, variant.target, isa.platform)  # lines require only this
        if same not in self._of_lines:
            lines = self.catalog.lines
            accept = (name for name in lines if isinstance(assess(variant, self.catalog, name), Accepted))
            self._of_lines[same] = (decision.line.name, decision.warnings, *accept)
        defaults = (pin.name for pin in self.catalog.pins.values() if pin.default_python == variant.python)
        key = (variant.stem, variant.cuda, isa.platform, isa.torch_off, tuple(defaults))
        return NamedCell((*key, self._of_lines[same], *self._of_gpu(gpu)), spellings, isa.flags)

    @cached_property
    def _of_lines(self) -> dict[tuple[object, ...], JudgementKey]:
        """The newest line of cells and its warnings, and all lines that accept them."""
        return {}

    def _of_gpu(self, gpu: Gpu | None) -> JudgementKey:
        """What rules ask of a GPU besides its name, and which pins refuse it."""
        if gpu is None:
            return ()
        oldest = [pin.min_sm for pin in self.catalog.pins.values() if pin.min_sm]
        refused = tuple(gpu.sm < sm for sm in oldest)
        return gpu.platforms, gpu.tegra, gpu.cpus, gpu.never_called, refused
