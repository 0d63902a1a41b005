"""GPUs that a text shows and that no reader understood: a machine with a GPU is never taken for one without.

What counts is any trace of a GPU, in whatever form (traces.toml); the exceptions are what is listed. A form
that nobody thought of leads to "unknown", never to a build for the CPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec.structs import replace

from torchsmith.catalog.gpu_names import OR
from torchsmith.host.facts import Fact, GpuFacts, HostFacts
from torchsmith.host.read_lines import AMD, SENTENCE
from torchsmith.host.read_pci import GRAPHICS
from torchsmith.host.traces import MAKERS, traces, unserved_system

_NO_PRODUCT = re.compile(
    r"(?i)^(nvidia[ -])?(tesla|quadro|grid|jetson|titan|geforce|dgx)[ -]*$|driver|toolkit|experience"
)
SYSTEMS = ("x86_64-darwin", "aarch64-darwin", "any-darwin", "x86_64-freebsd", "x86_64-windows")


def account_for_system(text: str, facts: HostFacts, name: str) -> HostFacts:
    """The facts, with a system that no reader understood: a Mac or an ARM board is no x86 Linux.

    A reader may know the CPU alone and take Linux for granted: another system that the text shows counts.
    """
    known = facts.system.value if facts.system else ""
    if known and not known.endswith("-linux") and known != "any-darwin":
        return facts

    def shows(kind: str) -> bool:
        return traces()[kind].search(text) is not None

    systems = [] if shows("linux") else [system for system in SYSTEMS if shows(system)]
    if not known or (known == "aarch64-linux" and shows("aarch64-android")):
        systems = [unserved_system(text)] if unserved_system(text) else systems
    if not known and not systems and shows("arm") and not shows("x86"):
        systems = ["aarch64-linux"]
    return replace(facts, system=Fact(systems[0], f"{name}, {SENTENCE}")) if systems else facts


def account_for_gpus(text: str, facts: HostFacts, name: str) -> HostFacts:
    """The facts, with a GPU for a trace of one that no reader understood: its name, or that it is unknown."""
    if _understood(facts) or not traces()["any"].search(text):
        return facts
    lines = list(_lines_with_traces(text))
    amd_known = facts.others is not None and facts.others.value != (AMD,)
    products = [] if amd_known else _products(lines)
    if products:
        return _named(products, facts, name)
    lines_by_maker = _traces(lines, text, facts)
    amd, other = lines_by_maker.pop("amd", ""), lines_by_maker.pop("other", "")
    if (amd or other) and facts.others is None:
        match = traces()["other"].search(other)
        facts = replace(facts, others=Fact((AMD if amd else match[0] if match else other,), name))
        facts = facts.noting(
            name, f"shows {'an AMD' if amd else 'a'} GPU: {(amd or other)[:100]!r}", gpu=True
        )
        lines_by_maker.pop("cuda", "")
    if not lines_by_maker or (facts.gpus is not None and facts.gpus.value):
        return facts
    maker, line = next(iter(lines_by_maker.items()))
    shows = f"shows {'an NVIDIA' if maker == 'nvidia' else 'a'} GPU"
    cut = "its table is cut before the GPUs" if re.search(r"(Driver|KMD) Version:", text) else "not which"
    facts = replace(facts, gpus=Fact((GpuFacts(),), name))
    return facts.noting(name, f"{shows}, {cut}: {line[:100]!r}", gpu=True)


def _lines_with_traces(text: str) -> Iterator[str]:
    for line in text.splitlines():
        line = traces()["in_cpu"].sub("", line).strip()
        # Graphics that lspci lists are judged by its reader.
        judged = traces()["no_trace"].search(line) or re.search(GRAPHICS, line)
        if not judged and traces()["any"].search(line):
            yield line


def _traces(lines: list[str], text: str, facts: HostFacts) -> dict[str, str]:
    """The first line that shows hardware of each maker; one with a mere word where there is nothing else."""
    makers = [maker for maker in MAKERS if maker != "cuda" or facts.others is None]
    first_lines = ((maker, next(filter(traces()[maker].search, lines), "")) for maker in makers)
    lines_by_maker = {maker: line for maker, line in first_lines if line}
    looked_for = traces()["looked"].search(text) or (facts.gpus is not None and not facts.gpus.value)
    if lines_by_maker or looked_for or facts.others is not None:
        return lines_by_maker
    word, denial = traces()["word"], traces()["denial"]
    line = next((line for line in lines if word.search(line) and not denial.search(line)), "")
    return {"word": line} if line else {}


def _understood(facts: HostFacts) -> bool:
    """Whether a reader named the GPUs, or the machine is one that no GPU would change: a Mac."""
    named = facts.gpus is not None and any(gpu.name or gpu.sm or gpu.chip for gpu in facts.gpus.value)
    return named or (facts.system is not None and facts.system.value.endswith("-darwin"))


def _named(products: list[tuple[str, str]], facts: HostFacts, name: str) -> HostFacts:
    """GPUs by what a person calls them."""
    source = f"{name}, {SENTENCE}"
    gpu = GpuFacts(name=Fact(OR.join(dict.fromkeys(word for word, _ in products)), source))
    count = len(facts.gpus.value) if facts.gpus and facts.gpus.value else 1
    facts = replace(facts, gpus=Fact((gpu,) * count, source), others=None)
    text = f"no tool's line names the GPU: it is taken from {products[0][1][:100]!r}"
    return facts.noting(source, text, gpu=True)


def _products(lines: list[str]) -> list[tuple[str, str]]:
    """Products and the lines that name them; the kernel's own words before a person's."""
    products: list[tuple[str, str]] = []
    for line in sorted(lines, key=lambda line: not line.startswith("NVRM: The ")):
        for match in traces()["product"].finditer(line):
            product = match[0].strip(" -")
            product = product if "(" in product else product.rstrip(")")
            named = re.search(r"(?i)\d|Orin|Thor|Xavier|Spark|TITAN.|VII|Vega", product)
            if named and not _NO_PRODUCT.search(product):
                products.append((product, line))
        if products and products[0][1].startswith("NVRM: The "):
            return products[:1]
    return products
