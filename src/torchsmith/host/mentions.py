"""GPUs and drivers that a text mentions and no reader took: a machine with a GPU is never one without."""

from __future__ import annotations

import re

from msgspec.structs import replace

from torchsmith.host.facts import Fact, GpuFacts, HostFacts
from torchsmith.host.read_lines import AMD

# A product in a sentence: NVIDIA Tesla K80, RTX5080, TITAN X (Pascal), Jetson AGX Orin 64GB.
_PRODUCT = re.compile(
    r"""(?x)
    \b(?:
      (?:NVIDIA[ -]+)?(?:GeForce|Tesla|Quadro|GRID|TITAN|Titan)[ -]+
          (?:RTX[ -]?|GTX[ -]?|GT[ -]?|FX[ -]?)?[A-Z]{0,3}\d*\w*
          (?:[ ](?:Ti|SUPER|Super|Xp|RTX|Black|Laptop|\(?Pascal\)?|Ada))*\)?
    | (?:NVIDIA[ -]+)?(?:RTX|GTX)[ -]?(?:PRO[ ]|Pro[ ]|A)?\d{3,4}\w*
          (?:[ ](?:Ti|SUPER|Super|Ada|Blackwell|Laptop))*
    | (?:NVIDIA[ -]+)?(?:Jetson|DGX)[ -](?:AGX[ ]|Orin[ ]?|Spark)?
          (?:Orin|Xavier|Nano|Thor|AGX|NX|TX[12])?(?:[ ](?:NX|Nano|AGX|Orin))?
    | NVIDIA[ -]+[ABHLTVKPM]\d{1,3}\w?\b
    | (?:AMD[ ])?Radeon[ ](?:AI[ ])?(?:PRO|Pro)[ ][RWV]\d{4}
    | (?:AMD[ ])?(?:Radeon[ ])?RX[ -]?[5-9]\d00(?:[ ]?(?:XTX|XT|GRE))?
    | (?:AMD[ ])?(?:Instinct[ ])?MI\d{2,3}[AX]?\b
    | (?:[AHBLV]\d00|GH200|GB[23]00|GB10|L40S?|A10G|T4|A40|V100S?|H20)\b
          (?:[ -](?:PCI[eE]|SXM\d?|NVL|\d+[ ]?GB))*
    )"""
)
_SOFTWARE = re.compile(
    r"(?i)^(nvidia[ -])?(tesla|quadro|grid|jetson|titan|geforce|dgx)[ -]*$|driver|toolkit|experience"
)
# What shows an NVIDIA GPU without saying which.
_TRACES = (
    r"\blibcuda\.so\.\d{3}|\d gpus? \[|\bnvidia-(drm|modeset|nvlink|uvm)\b|^nvidia\s+\d{6,}"
    r"|\blibnvidia-[\w-]+\.so\.\d{3}|\bNVRM\b|/dev/nvidia\d|nvidia\.com/(gpu|cuda|mig)"
    r"|CUDA available\S*\s*:\s*True|CUDA-capable device|\bgpu:\w+|(?i:geforce|nvidia gpus?\b)"
    r"|couldn't communicate with the NVIDIA driver|Failed to initialize NVML|nvidia-smi: Permission denied"
    r"|Unable to determine the device handle|\bNVIDIA-SMI\b.*\d|NVIDIA System Management Interface"
)
SENTENCE = "a sentence"


def mentioned(text: str, facts: HostFacts, name: str) -> HostFacts:
    """The facts, with what else the text says of an NVIDIA GPU and its driver."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if facts.gpus is not None and any(gpu.name or gpu.sm for gpu in facts.gpus.value):
        return facts
    if facts.system is not None and facts.system.value.endswith("-darwin"):
        return facts
    if facts.others is not None and facts.others.value != (AMD,):
        return facts
    named = _products(lines)
    if named:
        words = list(dict.fromkeys(word for word, _ in named))
        line = named[0][1][:100]
        source = f"{name}, {SENTENCE}"
        gpu = GpuFacts(name=Fact(" or ".join(words), source))
        count = len(facts.gpus.value) if facts.gpus and facts.gpus.value else 1
        known = replace(facts, gpus=Fact((gpu,) * count, source))
        return known.noting(source, f"no tool's line names the GPU: it is taken from {line!r}")
    if facts.gpus is not None or facts.others is not None:
        return facts
    trace = next((line for line in lines if re.search(_TRACES, line)), "")
    if not trace:
        return facts
    known = replace(facts, gpus=Fact((GpuFacts(),), name))
    cut = "its table is cut before the GPUs" if re.search(r"(Driver|KMD) Version:", text) else "not which"
    return known.noting(name, f"shows an NVIDIA GPU, {cut}: {trace[:100]!r}")


def _products(lines: list[str]) -> list[tuple[str, str]]:
    """Products and the lines that name them; the kernel's own words before a person's."""
    found: list[tuple[str, str]] = []
    for line in sorted(lines, key=lambda line: not line.startswith("NVRM: The ")):
        for match in _PRODUCT.finditer(line):
            word = match[0].strip(" -")
            if re.search(r"\d|Orin|Thor|Xavier|Spark|TITAN", word) and not _SOFTWARE.search(word):
                found.append((word, line))
        if found and found[0][1].startswith("NVRM: The "):
            return found[:1]
    return found
