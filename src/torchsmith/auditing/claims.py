"""Claims: what prose says about GPUs, CPUs, CUDA and releases, word by word, held against the catalog."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain

from torchsmith.catalog import TORCH, Catalog
from torchsmith.catalog.axes import Sm
from torchsmith.core.text import grouped
from torchsmith.matrix.variant import CUDA
from torchsmith.recipe.read import Recipe, Span
from torchsmith.workspace.subject import Subject

# sm, capability, part, generation, arch (another maker's), backend (such as ROCm 6.4); isa, feature, cpu;
# cuda, release, python, package; name (of a recipe, read as one word)
ClaimKind = str
# A thing that is named only as a contrast is not a claim: after a negation or a comparison, however many
# commas later, and before words that send the reader to another build.
APART = re.compile(
    r"(?:\b(?:no|not|none|without|unlike|instead|never|older|newer|beyond|except|than|over|vs|versus|before"
    r"|until|since|nobody|lack(?:s|ing)?|drop(?:s|ped)?|disabl(?:e|es|ed|ing)|prevents?|avoids?"
    r"|exclud(?:e|es|ing)|added in|introduced in|only on|only with"
    r"|comes only|(?<!\bor )(?<!\band )other|builds? on|as \w+ as"
    r"|(?:use|choose|consider|prefer|pick|try)(?! this| it))\b|n't\b)"
    r"(?:(?!\bfor\b)[^.;:]){0,60}$"
    r"|\b(?:use|choose|consider|prefer|pick|try)(?! this| it)\b[^.;:]{1,60}, (?:or )?for $",
    re.IGNORECASE,
)
# What a part of it requires is not a claim about all of it.
NEEDED = re.compile(r"\b(?:requir(?:e|es|ing)|needs?)\b[^.;:,]{0,60}$", re.IGNORECASE)
LABEL = re.compile(r"\bname: *$", re.IGNORECASE)  # what follows is this package, not another one
DEMANDS = ("cuda", "python")
ELSEWHERE = re.compile(
    r"^[^.;:]{0,60}?\b(?:instead|variants|builds|recipes|packages|dispatch|incompatible|unsupported"
    r"|(?:does not|doesn't|won't|will not|cannot) (?:work|run))\b",
    re.IGNORECASE,
)
# Where one thought ends: a stop, an empty line, an item, a label, a dash.
END = re.compile(r"(?<=[.;!?])\s|\n\s*\n|\n\s*(?=[-*+•=|]|\d+[.)]\s|[A-Z][\w ]{0,20}:)|\s[—–]\s")
OF_THE_CPU = re.compile(r"^\W*CPU\b[^:|\n]{0,24}:", re.IGNORECASE)
OF_GPUS = ("sm", "capability", "generation", "part", "arch")
OF_A_CELL = (*OF_GPUS, "isa", "feature", "cpu")
CONTEXT_CHARACTERS = 120  # around a word, by which its sense is checked
MAX_BLOCK_LINES = 200  # of a comment that are read as one text
MAX_REMEMBERED = 2000  # texts whose claims are remembered
MIN_CPU_LETTERS = 3  # of the name of a CPU


@dataclass(frozen=True, slots=True)
class Claim:
    """One word that claims something: of which kind, which value, and where in its text."""

    kind: ClaimKind
    value: str
    word: str
    start: int
    thought: int = 0  # which sentence of its text


def _longest_first(alternatives: Iterable[str]) -> str:
    """Any of the words; a look at the first letter spares most places the rest."""
    known = sorted(set(alternatives), key=len, reverse=True)
    letters = "".join(sorted({re.escape(word[:1]) for word in known}))
    return f"(?=[{letters}])(?:{'|'.join(map(re.escape, known))})" if letters else "(?!)"


class Vocabulary:
    """The catalog's words: which GPU, instruction set or CPU each of them means."""

    def __init__(self, catalog: Catalog) -> None:
        gpus, isas = catalog.gpus.values(), catalog.isas.values()
        self.parts = _sets((part, [gpu.name]) for gpu in gpus for part in (*gpu.parts, *gpu.also_called))
        self.generations = _sets(
            (word, [gpu.name]) for gpu in gpus for word in (gpu.generation, gpu.generation.split()[0])
        )
        self.cpus = _sets(
            (word.strip(), [*cpu.isas, *(isa.name for isa in isas if isa.platform == cpu.system)])
            for cpu in catalog.cpus.values()
            for word in re.findall(r"[^,()]+", cpu.title)
            if len(word.strip()) >= MIN_CPU_LETTERS
        )
        self.isas = {word: isa.name for isa in isas for word in (isa.title, *isa.words)}
        self.features = {name: name for isa in isas for name in isa.needs}
        for feature in catalog.features.values():
            self.features |= dict.fromkeys((feature.name, *feature.words), feature.name)
        others = [
            backend for name, backend in catalog.backends.items() if name != CUDA and backend.release_of
        ]
        self.archs = "|".join(backend.arch for backend in others) or "(?!)"
        self.backends = _longest_first(backend.title for backend in others)
        self.packages = {
            word: package.name
            for package in catalog.packages.values()
            for word in (package.title, package.name, package.attr.rpartition(".")[2])
        }

    @cached_property
    def read(self) -> Callable[[str], tuple[Claim, ...]]:
        """What a piece of prose claims; recipes say the same again and again."""
        return lru_cache(MAX_REMEMBERED)(lambda text: tuple(_claims(text, self)))

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """One pattern for every kind of claim; the group that matched is the kind. Each begins a word."""
        return re.compile(
            rf"\b(?=\w)(?:(?P<name>\b(?:{_longest_first(self.packages.values())})\d*-python3\d+-[\w.-]*\w)"
            r"|\b(?:SM|sm|compute)[_ ]?(?P<sm>\d{2,3})\b"
            rf"|\b(?P<arch>{self.archs})\b"
            rf"|\b(?P<backend>{self.backends}[ :-]{{0,2}}\d+\.\d+)"
            r"|\b(?:[Cc]apabilit(?:y|ies)|GPU Target:) ?(?P<capability>\d{1,2}\.\d)\b"
            rf"|\b(?P<cpu>{_longest_first(self.cpus.keys() - self.parts.keys())})(?![\w])"
            rf"|\b(?P<part>{_longest_first(self.parts)})(?![\w-])"
            rf"|(?<!Grace )\b(?P<generation>{_longest_first(self.generations)})\b"
            rf"|\b(?P<isa>{_longest_first(self.isas)})(?!\w|[.-]\d)"
            rf"|(?<![\w/.-])(?P<feature>{_longest_first(self.features)})(?![\w/.-]*\w)"
            r"|\bCUDA(?: Toolkit)?[ :-]{0,2}(?P<cuda>\d{2}(?:\.\d+)?)(?!\.?\d)"
            rf"|\b(?P<package>{_longest_first(word for word in self.packages if word != TORCH)})"
            r"(?:[ ]v?(?P<release>\d+\.\d+(?:\.\d+)?)\b)?"
            r"|\bPython:? ?(?P<python>3\.\d+))"
        )


def _sets(pairs: Iterable[tuple[str, Iterable[str]]]) -> dict[str, frozenset[str]]:
    return {word: frozenset(chain(*named)) for word, named in grouped(pairs).items()}


@lru_cache(1)
def vocabulary(catalog: Catalog) -> Vocabulary:
    """The words of a catalog, read once."""
    return Vocabulary(catalog)


def _claims(text: str, known: Vocabulary) -> Iterator[Claim]:
    ends = [end.end() for end in END.finditer(text)]
    for match in known.pattern.finditer(text):
        kind = match.lastgroup or ""
        if kind == "package" and match["release"]:
            kind = "release"
        value, (start, end) = match[kind], match.span(kind)
        at = bisect_right(ends, match.start())
        first, last = ends[at - 1] if at else 0, ends[at] if at < len(ends) else len(text)
        before = text[max(first, start - CONTEXT_CHARACTERS) : start].replace("\n", " ")
        if kind == "name":
            if not LABEL.search(before):
                continue  # builds name each other
        elif _set_apart(before, text[end:last]):
            continue
        if kind not in DEMANDS and NEEDED.search(before):
            continue
        if kind in OF_GPUS and OF_THE_CPU.match(text[first : first + CONTEXT_CHARACTERS]):
            continue
        if kind == "feature":
            value = known.features[value]
        elif kind == "sm":
            value = str(Sm(int(value)))
        elif kind == "release":
            value = f"{known.packages[match['package']]} {match['release']}"
            start = match.start("package")
        elif kind == "package":
            value = known.packages[value]
        yield Claim(kind, value, text[start:end], start, at)


def _set_apart(before: str, after: str) -> bool:
    """Whether the words around a name say that it is not meant of this recipe; wrapped lines are one."""
    after = after[:CONTEXT_CHARACTERS].replace("\n", " ")
    return APART.search(before) is not None or ELSEWHERE.match(after) is not None


PlacedClaim = tuple[str, Claim, Span]  # comment, description or banner; what it claims; where
ECHO = re.compile(r"echo +[\"']([^\n]*)[\"'](?! *>)")


@lru_cache(maxsize=4)  # every rule about prose asks of the same recipe
def claims_of(subject: Subject) -> tuple[PlacedClaim, ...]:
    """Every claim in the prose of a recipe; comments of a file that others call are about all of them."""
    recipe, read = subject.body, vocabulary(subject.catalog).read
    placed: list[PlacedClaim] = []
    for text, spans in _comment_blocks(recipe) if recipe is subject.recipe else ():
        claims = read(text)
        placed += [("comment", claim, spans[text.count("\n", 0, claim.start)]) for claim in claims]
    for description in recipe.descriptions:
        claims = read(description.value)
        placed += [
            ("description", claim, _line_of(recipe, description.span, description.value, claim.start))
            for claim in claims
        ]
    for phase in recipe.phases:
        for line in ECHO.finditer(phase.value):
            banner = line[1].replace("(TORCH_CUDA_ARCH_LIST=$TORCH_CUDA_ARCH_LIST)", "")
            place = _line_of(recipe, phase.span, phase.value, line.start())
            placed += [("banner", claim, place) for claim in read(banner)]
    return tuple(placed)


def _comment_blocks(recipe: Recipe) -> Iterator[tuple[str, list[Span]]]:
    """Comments as one reads them: lines below each other are one text, with the place of each line."""
    lines: list[str] = []
    spans: list[Span] = []
    data = recipe.syntax.data
    for comment in recipe.comments:
        before = data[data.rfind(b"\n", 0, comment.span.start) + 1 : comment.span.start]
        if "torchsmith: format=" in comment.value or b'"-m' in before:
            continue  # text beside a flag is about the flag
        follows = bool(spans) and comment.span.line == spans[-1].line + 1 and not before.strip()
        if lines and (not follows or len(lines) > MAX_BLOCK_LINES):
            yield "\n".join(lines), spans
            lines, spans = [], []
        inner = comment.value.split("\n")
        lines += inner
        start = comment.span
        spans += [Span(start.start, start.end, start.line + n, start.column) for n in range(len(inner))]
    if lines:
        yield "\n".join(lines), spans


def _line_of(recipe: Recipe, span: Span, text: str, at: int) -> Span:
    """Return the line of a multi-line string that contains a character of its text."""
    if not recipe.syntax.data.startswith(b"''\n", span.start):
        return span
    line = span.line + 1 + text.count("\n", 0, at)
    return Span(span.start, span.end, line, 1)
