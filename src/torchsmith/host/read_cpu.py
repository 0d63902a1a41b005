"""CPUs out of text: /proc/cpuinfo and lscpu, whole or cut, in any language."""

from __future__ import annotations

import re
from collections.abc import Collection

from torchsmith.host.facts import Fact, HostFacts, Note, fact_of
from torchsmith.host.vocabulary import vocabulary

# What only a list of CPU features holds; the label before it is translated, these words are not.
X86_MARKS = frozenset({"fpu", "sse2", "cmov", "mmx"})
ARM_MARKS = frozenset({"asimd", "fp", "evtstrm", "crc32"})
MACHINES = {
    "x86_64": "x86_64-linux",
    "amd64": "x86_64-linux",
    "aarch64": "aarch64-linux",
    "arm64": "aarch64-linux",
    "i686": "i686-linux",
    "i386": "i686-linux",
    "armv7l": "armv7l-linux",
    "ppc64le": "powerpc64le-linux",
    "riscv64": "riscv64-linux",
    "s390x": "s390x-linux",
    "loongarch64": "loongarch64-linux",
}
MAKERS = r"\b(Intel|AMD|EPYC|Xeon|Ryzen|Neoverse|Cortex|Ampere|Apple|Kunpeng|Grace|Graviton)"
# The first that is among a CPU's features says its system.
SYSTEM_MARKS = {
    "lm": "x86_64-linux",
    "avx": "x86_64-linux",
    "sse2": "i686-linux",
    "asimd": "aarch64-linux",
    "neon": "armv7l-linux",
    "vfpv3": "armv7l-linux",
    "thumb": "armv7l-linux",
}
ARM_CORE = "aarch64-linux"  # the system of an ARM core that names no features and is no old one
# Labels of lscpu and /proc/cpuinfo that number a CPU: the first three must be there.
LSCPU_ID = ("vendor id", "cpu family", "model", "stepping")
CPUINFO_ID = ("vendor_id", "cpu family", "model", "stepping")
CPUINFO_PART = ("cpu implementer", "cpu part")
# Every x86_64 CPU of the last fifteen years has these.
EARLY_X86 = frozenset({"pni", "ssse3", "cx16"})
NO_NAMES = ("ARMv8", "AArch64")  # what stands as a model's name where there is none
CUT = "the list of features is cut: what stands after the cut is unknown"


def system_of_machine(machine: str) -> str:
    """A Linux machine's system as Nix writes it, from the word that `uname -m` gives."""
    return MACHINES.get(machine.lower(), f"{machine.lower()}-linux")


def read_cpuinfo(text: str, source: str = "/proc/cpuinfo") -> HostFacts:
    """The CPU of a /proc/cpuinfo. On a CPU with cores of two kinds only what all of them have counts."""
    notes: list[Note] = []
    blocks = map(_pairs, re.split(r"\n\s*\n", _drop_cut_line(text, source, notes)))
    cores = [core for core in blocks if "flags" in core or "features" in core]
    if not cores:
        arm = re.search(r"^CPU implementer\s*:", text, re.MULTILINE)
        old = re.search(r"^CPU architecture\s*:\s*[1-7]\b", text, re.MULTILINE)
        notes.append(Note(source, "names no CPU features (no flags or Features line)"))
        return HostFacts(system=fact_of(ARM_CORE if arm and not old else "", source), notes=tuple(notes))
    lists = [core.get("flags", core.get("features", "")) for core in cores]
    sets = {frozenset(listed.lower().split()) for listed in lists}
    features = frozenset.intersection(*sets)
    cut = any(note.text == CUT for note in notes) or breaks_off(lists[-1])
    if len(sets) > 1:
        notes.append(Note(source, "cores differ in their features: those that every core has are used"))
    name = cores[0].get("model name", "")
    ids = (_id(core, CPUINFO_PART).lower() or _id(core, CPUINFO_ID) for core in cores)
    return HostFacts(
        system=fact_of(_system_of(features), source),
        cpu_name=fact_of(name if not name.startswith(NO_NAMES) else "", source),
        cpu_id=fact_of(next(filter(None, ids), ""), source),
        features=Fact(features, source),
        cut_features=Fact(True, source) if cut else None,
        notes=tuple(notes),
    )


def breaks_off(text: str) -> bool:
    """Whether a list of features is cut: it ends in dots or half a word, or lacks what every CPU has."""
    features = text.lower().split()
    if not features or features[-1].endswith(("..", "…")):
        return bool(features)
    if "lm" in features and EARLY_X86.isdisjoint(features):
        return True
    last, known = features[-1], vocabulary().features
    return last not in known and any(feature.startswith(last) for feature in known)


def _id(fields: dict[str, str], labels: tuple[str, ...]) -> str:
    """The numbers of a CPU; empty where one of the first three is not there."""
    if not all(label in fields for label in labels[:3]):
        return ""
    return "/".join(fields[label] for label in labels if label in fields)


def _drop_cut_line(text: str, source: str, notes: list[Note]) -> str:
    """The text without a last line that has no end: what was cut may be half a word."""
    if not text or text.endswith("\n"):
        return text
    head, _, tail = text.rpartition("\n")
    if not re.match(r"(flags|Features)\s*:", tail):
        return text
    if re.search(r"^(flags|Features)\s*:", head, re.MULTILINE):
        notes.append(Note(source, "the last line is cut and was not used"))
        return head + "\n"
    notes.append(Note(source, CUT))
    return text.rpartition(" ")[0] + "\n"


def _pairs(block: str) -> dict[str, str]:
    parted = (line.partition(":") for line in block.splitlines())
    return {key.strip().lower(): value.strip() for key, colon, value in parted if colon}


def _system_of(features: Collection[str]) -> str:
    return next((system for mark, system in SYSTEM_MARKS.items() if mark in features), "")


def read_lscpu(text: str, source: str = "lscpu") -> HostFacts:
    """The CPU of an lscpu report, plain or JSON. Labels are translated, so values are known by their form."""
    rows = _json_rows(text) if text.lstrip().startswith("{") else _plain_rows(text)
    notes: list[Note] = []
    features, system, name, perhaps_name = "", "", "", ""
    ids: dict[str, str] = {}
    for label, value in rows:
        values = set(value.lower().split())
        if len(values & X86_MARKS) >= 3 or len(values & ARM_MARKS) >= 3:
            features = features or value
        elif value.lower() in MACHINES and not system:
            system = system_of_machine(value)
        elif label.lower() in LSCPU_ID:
            ids.setdefault(label.lower(), value)
        elif label.lower() == "model name":
            name = value
        elif re.search(MAKERS, value) and not label.startswith("BIOS"):
            perhaps_name = perhaps_name or value
    if not features:
        notes.append(Note(source, "holds no list of CPU features (the line that English lscpu calls Flags)"))
    cut = bool(features) and (breaks_off(features) or text.endswith(features.rstrip().split()[-1]))
    if cut:
        notes.append(Note(source, CUT))
        listed = features.rstrip().rstrip(".…").split()
        features = " ".join(listed[:-1] if listed[-1] not in vocabulary().features else listed)
    feature_set = frozenset(features.lower().split())
    return HostFacts(
        system=fact_of(system or _system_of(feature_set), source),
        cpu_name=fact_of(name or perhaps_name, source),
        cpu_id=fact_of(_id(ids, LSCPU_ID) if ids.get("cpu family", "").isdigit() else "", source),
        features=fact_of(feature_set, source),
        cut_features=Fact(True, source) if cut else None,
        notes=tuple(notes),
    )


def _plain_rows(text: str) -> list[tuple[str, str]]:
    """Label and value of each line; a line that is only indented text goes on the one before it."""
    rows: list[tuple[str, str]] = []
    for line in text.splitlines():
        # Full-width colons stand in Chinese and Japanese output, a space before the colon in French.
        label, colon, value = line.replace("：", ":", 1).partition(":")
        if colon:
            rows.append((label.strip(), value.strip()))
        elif rows and line.startswith("    ") and line.strip():
            rows[-1] = (rows[-1][0], f"{rows[-1][1]} {line.strip()}")
    return rows


def _json_rows(text: str) -> list[tuple[str, str]]:
    """The rows of `lscpu -J`, which newer versions nest."""
    import json  # only for a report that is JSON

    try:
        table = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        return re.findall(r'"field":\s*"([^"]*?):?",\s*"data":\s*"([^"]*)"', text)
    rows: list[tuple[str, str]] = []
    waiting = list(table.get("lscpu", [])) if isinstance(table, dict) else []
    while waiting:
        row = waiting.pop(0)
        if isinstance(row, dict):
            rows.append((str(row.get("field", "")).rstrip(":"), str(row.get("data") or "")))
            waiting = list(row.get("children", [])) + waiting
    return rows


COREINFO = {"SSE4.2": "sse4_2", "FMA": "fma", "FMA3": "fma", "AVX-512-F": "avx512f"}


def read_coreinfo(text: str, source: str = "Coreinfo") -> HostFacts:
    """Sysinternals' Coreinfo, ggml's system_info and the like: a feature, and whether the CPU has it.

    What they do not list is unknown, so no list of theirs is a whole one.
    """
    rows = re.findall(r"^([A-Z][\w.-]+)\s+(\*|-|present|unavailable)(?=\s|$)", text, re.MULTILINE)
    rows += re.findall(r"\b((?:AVX|SSE|FMA|F16C)\w*) = ([01])\b", text)
    features = {
        COREINFO.get(word, word.lower().replace("-", ""))
        for word, sign in rows
        if sign in ("*", "present", "1")
    }
    name = re.search(rf"^.*{MAKERS}.*$", text, re.MULTILINE)
    absent = {word.lower() for word, sign in rows if sign in ("-", "unavailable", "0")}
    return HostFacts(
        cpu_name=fact_of(name[0].strip() if name else "", source),
        features=fact_of(frozenset(features), source),
        cut_features=Fact(True, source) if "avx" not in absent else None,
        system=fact_of("x86_64-linux" if features & {"sse2", "avx", "aes"} else "", source),
    )
