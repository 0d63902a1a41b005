"""Names of GPUs in a line of text."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from torchsmith.catalog import Catalog
from torchsmith.catalog.gpu_names import KnownGpu, product_of_name
from torchsmith.host.facts import Fact, GpuFacts, HostFacts
from torchsmith.host.tokens import gpu_name, words

AMD = "an AMD GPU"  # of which nothing else is known
MOST_WORDS = 16  # of a name
LONG = 4  # letters of a name that means little else; an L2 may be a cache
SERIES = re.compile(r"[2-5]0[5-9]0")  # numbers that mean little else than a GPU


class FoundName(msgspec.Struct, frozen=True):
    """A name in a line: where it begins and ends, and what the catalog knows it as; None: nothing."""

    begin: int
    end: int
    name: str
    product: KnownGpu | None


def find_gpus(line: str, catalog: Catalog, *, field: bool) -> list[FoundName]:
    """The names of GPUs in a line, the longest that the catalog knows; a brand with a number that it does not
    know has no product. Without a brand, short names (L2, T4) count only as an entry of a field, and bare
    numbers (4090) in a field or beside another name."""
    line = re.sub(r"\((?:R|TM|C)\)|[®™]", lambda mark: " " * len(mark[0]), line, flags=re.IGNORECASE)
    tokens = list(re.finditer(r"[A-Za-z0-9]+", line))
    found: list[FoundName] = []
    at = 0
    while at < len(tokens):
        length = _length(line, tokens[at : at + MOST_WORDS])
        named = _known(line, tokens[at : at + length], catalog) if length else None
        at += 1
        if named is not None:
            found.append(named)
            at += sum(1 for token in tokens[at:] if token.start() < named.end)
    certain = [named for named in found if _counts(line, named, field=field)]
    return [named for named in found if named in certain or (certain and _may_be_gpu(named))]


def _may_be_gpu(found: FoundName) -> bool:
    """Whether a name that does not count by itself counts beside another: 3090, but not 960 or 1080."""
    long = not found.name.isdigit() and len(found.name) >= LONG
    return found.product is not None and (long or bool(SERIES.fullmatch(found.name)))


def _length(line: str, tokens: list[re.Match[str]]) -> int:
    """How many words a name may have that begins here: brands, one model, and what may follow."""
    brand, model, suffix = (words(kind, "names") for kind in ("brand", "model", "suffix"))
    models = brands = 0
    for at, token in enumerate(tokens):
        gap = line[tokens[at - 1].end() : token.start()] if at else ""
        size = re.fullmatch(r"(?i)\d+g(i?b)?|gb", token[0])
        if not re.fullmatch(r"[ _(-]{0,3}|\) ?", gap):
            break
        if not size and brand.fullmatch(token[0]) and (not models or token[0].lower() == "rtx"):
            brands += 1
        elif not size and model.fullmatch(token[0]) and not models:
            models += 1
        elif not ((models or brands) and (size or suffix.fullmatch(token[0]))):
            break
    else:
        at = len(tokens)
    return at if models or at > 1 else 0


def _known(line: str, tokens: list[re.Match[str]], catalog: Catalog) -> FoundName | None:
    begin = tokens[0].start()
    for length in range(len(tokens), 0, -1):
        end = tokens[length - 1].end()
        name = line[begin:end]
        product = product_of_name(name.replace("(", " ").replace(")", " "), catalog)
        if product is not None:
            if any(token[0].lower() in ("ti", "super") for token in tokens[length:]):
                break  # another product, which the catalog does not know
            return FoundName(begin, end, name + (")" if "(" in name else ""), product)
    end = tokens[-1].end()
    return FoundName(begin, end, line[begin:end], None) if re.search(r"\d{3}", line[begin:end]) else None


def _counts(line: str, found: FoundName, *, field: bool) -> bool:
    """Whether a name is that of a GPU, and not a word or number that merely looks like one."""
    name = found.name
    if found.product is None:
        return words("unknown_gpu", "names").match(name) is not None
    if words("brand", "names").match(name):
        return True
    if len(name) < LONG:
        return field and re.search(r"(?:^|[,;+/&(\[]|\d ?[x×*])\s*$", line[: found.begin]) is not None
    return field or not name.isdigit()


def add_mentions(facts: HostFacts, text: str, spoken: str, catalog: Catalog) -> HostFacts:
    """The facts of a text's fields with the GPUs that it names outside of them; `spoken`: their source."""
    named = facts.gpus is not None and any(gpu.name or gpu.sm for gpu in facts.gpus.value)
    mac = facts.system is not None and facts.system.value.endswith("-darwin")
    known_others = facts.non_nvidia_gpus is not None and facts.non_nvidia_gpus.value != (AMD,)
    lines = [] if named or mac or known_others else list(_lines(text))
    if not lines:
        return facts
    if written := _written(lines, catalog):
        return _candidates(facts, written, spoken)
    return facts


def _lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        line = words("in_cpu").sub("", line).strip()
        known = words("no_sign").search(line) or words("graphics").search(line)
        if not known and gpu_name().search(line):
            yield line


def _written(lines: list[str], catalog: Catalog) -> list[tuple[FoundName, str]]:
    """The names in sentences that do not deny them, each once, and the lines that they are in."""
    found: dict[str, tuple[FoundName, str]] = {}
    for line in lines:
        field = words("capability").search(line) is not None and not words("supported").search(line)
        for named in find_gpus(line, catalog, field=field):
            found.setdefault(named.name, (named, line))
    for line in lines if found else ():  # beside a GPU of another line
        for named in find_gpus(line, catalog, field=True):
            if SERIES.fullmatch(named.name):
                found.setdefault(named.name, (named, line))
    denied = words("not_this_gpu")
    return [(named, line) for named, line in found.values() if not denied.search(line[: named.begin])]


def _candidates(facts: HostFacts, written: list[tuple[FoundName, str]], spoken: str) -> HostFacts:
    """One architecture is a condition; several are candidates, listed with the option that chooses."""
    by_product: dict[str, str] = {}  # the first name of each architecture, and all that are unknown
    for named, _ in written:
        product = named.product
        arch = product.name if product else named.name
        by_product.setdefault(arch, named.name)
    names = tuple(by_product.values())
    one = Fact(names[0], spoken, True) if len(names) == 1 else None
    gpu = GpuFacts(name=one, either=None if one else Fact(names, spoken))
    count = len(facts.gpus.value) if facts.gpus and facts.gpus.value else 1
    facts = replace(facts, gpus=Fact((gpu,) * count, spoken), non_nvidia_gpus=None)
    return facts.noting(spoken, f"names the GPU: {written[0][1][:100]!r}", "gpu")
