"""CPUs out of text: /proc/cpuinfo and lscpu, complete, cut or wrapped, in any language."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from torchsmith.catalog import builtin_catalog
from torchsmith.host.facts import HostFacts, Note, fact_of
from torchsmith.host.tokens import table

# What only a list of CPU features holds; the label before it is translated, these words are not.
MARKS = (frozenset({"fpu", "sse2", "cmov", "mmx"}), frozenset({"asimd", "fp", "evtstrm", "crc32"}))
# Labels that number a CPU: the first three must be there, or both of ARM's.
ID, PART = ("vendor id", "cpu family", "model", "stepping"), ("cpu implementer", "cpu part")
# Every x86_64 CPU has the first, and one of the last fifteen years some of the others.
EVERY_X86 = frozenset({"fpu", "cx8", "cmov", "mmx", "sse", "sse2"})
EARLY_X86 = frozenset({"pni", "ssse3", "cx16"})
NO_NAMES = ("ARMv8", "AArch64")  # in place of a model's name


def system_of_machine(machine: str) -> str:
    """A Linux machine's system as Nix writes it, from the word that `uname -m` gives."""
    return f"{table()['uname'].get(machine.lower(), machine.lower())}-linux"


def read_cpuinfo(text: str, source: str = "/proc/cpuinfo") -> HostFacts:
    """The CPU of a /proc/cpuinfo."""
    none = Note(source, "names no CPU features (no flags or Features line)")
    return read_cpu(text, source) or HostFacts(notes=(none,))


def read_cpu(text: str, source: str) -> HostFacts | None:
    """The CPU of lscpu's or /proc/cpuinfo's lines; None if a text holds none. Of cores of two kinds only
    what all of them have counts."""
    rows = list(_json_rows(text) if text.lstrip().startswith("{") else _plain_rows(text))
    first: dict[str, str] = {}
    for label, value in rows:
        first.setdefault(label.lower().replace("_", " "), value)
    lists = [value for label, value in rows if _is_list(label, value)]
    stated = next((value for _, value in rows if value.lower() in table()["uname"]), "")
    id_ = _id(first, PART, 2).lower() or _id(first, ID, 3)
    arm = "cpu implementer" in first and not re.match(r"[1-7]\b", first.get("cpu architecture", "8"))
    if not (lists or stated or id_ or arm):
        return None
    notes: list[Note] = []
    features = _features(lists, text, source, notes)
    known = _system_of(" ".join(lists).lower().split(), cut=not features)
    known = known or ("aarch64-linux" if arm and not features else "")
    name = first.get("model name", "")
    return HostFacts(
        system=fact_of(system_of_machine(stated) if stated else known, source),
        cpu_name=fact_of("" if name.startswith(NO_NAMES) else name, source),
        cpu_id=fact_of(id_, source),
        features=fact_of(features, source),
        cores=fact_of(int(cores), source) if (cores := first.get("cpu(s)", "")).isdigit() else None,
        notes=tuple(notes),
    )


def _is_list(label: str, value: str) -> bool:
    values = set(value.lower().split())
    named = label.lower() in ("flags", "features") and re.fullmatch(r"[a-z0-9_ ]+", value) is not None
    return any(len(values & marks) >= (1 if named else 3) for marks in MARKS)


def _features(lists: list[str], text: str, source: str, notes: list[Note]) -> frozenset[str]:
    """What all cores have; empty if it is unknown, because no list is complete."""
    if not lists:
        notes.append(Note(source, "names no CPU features (the line that English lscpu calls Flags)"))
        return frozenset()
    sets = {listed: frozenset(listed.lower().split()) for listed in lists}
    whole = {own for listed, own in sets.items() if not _breaks_off(listed, own)}
    if lists.count(lists[-1]) == 1 and text.rstrip(" ").endswith(lists[-1].split()[-1]):
        whole.discard(sets[lists[-1]])  # the text ends there, perhaps within the list
    if len(whole) < len({*sets.values()}):
        what = "the last line is cut" if whole else "the list of features is cut"
        notes.append(Note(source, f"{what} and was not used"))
    if len(whole) > 1:
        notes.append(Note(source, "cores differ in their features: those that every core has are used"))
    return frozenset.intersection(*whole) if whole else frozenset()


def _breaks_off(text: str, features: Collection[str]) -> bool:
    """Whether a list ends in dots or in half a word, or lacks what every CPU of its kind has."""
    last = text.lower().split()[-1]
    needed = {feature for isa in builtin_catalog().isas.values() for feature in isa.needs}
    half = last not in needed and any(feature.startswith(last) for feature in needed)
    early = "sse2" in features and EARLY_X86.isdisjoint(features) and "avx" not in features
    some = early or ("asimd" not in features and not EVERY_X86.issubset(features))
    return half or last.endswith(("..", "…")) or some or ("asimd" in features and "crc32" not in features)


def _id(fields: dict[str, str], labels: tuple[str, ...], needed: int) -> str:
    """The numbers of a CPU; empty if one that is needed is missing."""
    if not all(label in fields for label in labels[:needed]) or not fields.get(labels[1], "")[:1].isdigit():
        return ""
    return "/".join(fields[label] for label in labels if label in fields)


def _system_of(features: Collection[str], *, cut: bool) -> str:
    machine = next((machine for mark, machine in table()["marks"].items() if mark in features), "")
    return f"{machine}-linux" if machine and not (cut and machine == "i686") else ""


def _plain_rows(text: str) -> Iterator[tuple[str, str]]:
    """Label and value of each line; a line of nothing but features continues the list before it."""
    label, value = "", ""
    for line in text.splitlines():
        # Full-width colons are in Chinese and Japanese output, a space before the colon in French.
        before, colon, after = line.replace("：", ":", 1).partition(":")
        if colon:
            yield label, value
            label, value = before.strip(), after.strip()
        elif (
            value and re.fullmatch(r"[\sa-z0-9_.…]+", line) and (_is_list(label, value) or line[:1].isspace())
        ):
            value += f" {line.strip()}"
    yield label, value


def _json_rows(text: str) -> list[tuple[str, str]]:
    """The rows of `lscpu -J`, which newer versions nest, complete or cut."""
    return re.findall(r'"field":\s*"([^"]*?):?",\s*"data":\s*"([^"]*)"', text)
