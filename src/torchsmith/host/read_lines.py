"""Lines that tools print about a machine, by the table lines.toml: a form that people paste is an entry."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from torchsmith.catalog.axes import DriverVersion
from torchsmith.catalog.gpu_names import OR
from torchsmith.core.toml import read_cached
from torchsmith.host.facts import Fact, GpuFacts, HostFacts, Note, driver_fact, fact_of, merge, sm_fact
from torchsmith.host.read_cpu import system_of_machine
from torchsmith.host.traces import traces

TABLE = Path(__file__).with_name("lines.toml")
SENTENCE = "a sentence"  # what a person wrote, and no tool
MACHINE_TYPE = "a machine type"  # which a sentence names
AMD = "an AMD GPU"  # of which nothing else is known
_NOTHING = re.compile(
    r"(?i)\W*(no cuda|could not collect|n/a|none|null|false|unknown|not found|not applicable)?\W*"
)


class LineRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line of a tool, and what is read in it."""

    tool: str
    pattern: re.Pattern[str]
    sets: dict[str, str] = {}
    note: str = ""
    fallback: bool = False


@cache
def line_rules() -> tuple[LineRule, ...]:
    """The table."""

    def decode(kind: type, value: Any) -> Any:
        return re.compile(value, re.MULTILINE)

    return tuple(msgspec.convert(read_cached(TABLE)["lines"], list[LineRule], dec_hook=decode))


def read_lines(text: str, name: str, tools: frozenset[str] | None = None) -> HostFacts | None:
    """What all lines say, or those of some tools; None where there is none of them."""
    facts: HostFacts | None = None
    for fallback in (False, True):
        by_tool: dict[str, _Tool] = {}
        for rule in line_rules():
            if rule.fallback is fallback and (tools is None or rule.tool in tools):
                for match in rule.pattern.finditer(text):
                    by_tool.setdefault(rule.tool, _Tool(f"{name} ({rule.tool})" if name else rule.tool)).add(
                        match, rule
                    )
        parts = [tool.facts() for tool in by_tool.values()]
        if fallback and facts is not None:
            parts = [_only_new(part, facts) for part in parts]
        if by_tool:
            facts = merge([*([facts] if facts else []), *parts])
    return facts


def _only_new(part: HostFacts, known: HostFacts) -> HostFacts:
    """A guess without what is known better."""
    gpus = known.gpus is not None and (
        not known.gpus.value or any(gpu.name or gpu.sm for gpu in known.gpus.value)
    )
    part = replace(part, driver=None) if known.driver else part
    return replace(part, gpus=None, others=None, instance=None) if gpus or known.others else part


class _Tool:
    """What the lines of one tool say: of each fact the first."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.values: dict[str, str] = {}
        self.drivers: dict[str, None] = {}
        self.gpus: dict[str, dict[str, str]] = {}
        self.others: dict[str, str] = {}  # AMD's, by target or name
        self.notes: dict[Note, None] = {}

    def add(self, match: re.Match[str], rule: LineRule) -> None:
        """A line's words."""
        fields = rule.sets | {key: value.strip() for key, value in match.groupdict().items() if value}
        fields = {
            key.removesuffix("_file"): value for key, value in fields.items() if not _NOTHING.fullmatch(value)
        }
        if rule.note:
            self.notes[Note(self.source, rule.note)] = None
        gpu = {
            key: fields.pop(key) for key in ("gpu", "cap", "sm", "chip", "address", "mig") if key in fields
        }
        numbers = re.split(r", ?", fields.pop("n", ""))
        name = gpu.get("gpu", "").replace("_", " ")
        if traces()["other_gpu"].search(name) and "NVIDIA" not in name:
            fields["amd"] = name
        elif gpu:
            for number in numbers:
                self._gpu(number or f"#{name}#{gpu.get('address', '')}", gpu)
        if "amd" in fields or "gfx" in fields:
            label, target = fields.pop("amd", ""), fields.pop("gfx", "")
            self.others.setdefault(
                target or label, f"{label} ({target})" if label and target else label or target
            )
        if "driver" in fields:
            self.drivers[fields.pop("driver")] = None
        for key, value in fields.items():
            known = self.values.setdefault(key, value)
            if key in ("instance", "system") and value not in known.split(OR):
                self.values[key] = known + OR + value

    def _gpu(self, number: str, fields: dict[str, str]) -> None:
        if number.startswith("#"):  # a list without numbers: the same name with more to it is the same GPU
            same = (key for key, gpu in self.gpus.items() if key[0] == "#" and _same_gpu(gpu, fields))
            number = next(same, number)
        known = self.gpus.setdefault(number, {})
        if "gpu" in known and not _same_name(known["gpu"], fields.get("gpu", known["gpu"])):
            # Of another machine, or of two lists.
            known = self.gpus.setdefault(f"{number}#{fields['gpu']}", {})
        for key, value in fields.items():
            known.setdefault(key, value)

    def facts(self) -> HostFacts:
        """Everything as facts."""
        source, values, notes = self.source, self.values, list(self.notes)
        gpus = tuple(self._facts_of_gpus(notes))
        named = {label for label in self.others.values() if label != AMD}
        machine, instance, system = (values.get(key, "") for key in ("machine", "instance", "system"))
        if OR in system and "-linux" in system:
            notes.append(Note(source, f"names {system}: the system is unknown"))
            machine, system = "", ""
        if OR in instance and not gpus:
            notes.append(Note(source, f"shows an NVIDIA GPU of {instance}, not which", gpu=True))
            gpus, instance = (GpuFacts(),), ""
        memory = int(values.get("gib", 0)) * 1024 or int(values.get("bytes", 0)) // 2**20
        driver = self._driver(notes)
        return HostFacts(
            system=fact_of(
                system.partition(OR)[0] or (system_of_machine(machine) if machine else ""), source
            ),
            cpu_name=fact_of(values.get("cpu"), source),
            driver=driver,
            gpus=Fact(gpus, source) if gpus or "no_gpu" in values else None,
            others=fact_of(
                tuple(label for label in self.others.values() if label != AMD or not named), source
            ),
            os=fact_of(values.get("os"), source),
            glibc=fact_of(values.get("glibc"), source),
            memory_mib=fact_of(memory, source),
            windows=Fact(True, source)
            if "windows" in values or _in_wsl(driver, values.get("smi", ""))
            else None,
            instance=fact_of(instance, source),
            l4t=fact_of(values.get("l4t"), source),
            notes=tuple(notes),
        )

    def _driver(self, notes: list[Note]) -> Fact[DriverVersion] | None:
        """The driver; of several the oldest, and none where people's sentences name several."""
        drivers = [driver for text in self.drivers if (driver := driver_fact(text, self.source, notes))]
        if len(drivers) > 1:
            names = ", ".join(str(driver.value) for driver in drivers)
            by_person = self.source.endswith(f"({SENTENCE})")
            used = "the driver is unknown" if by_person else "the oldest is used"
            notes.append(Note(self.source, f"names the drivers {names}: {used}"))
            drivers = [] if by_person else drivers
        return min(drivers, key=lambda driver: driver.value, default=None)

    def _facts_of_gpus(self, notes: list[Note]) -> Iterator[GpuFacts]:
        for fields in self.gpus.values():
            name = re.sub(r"\s+", " ", fields.get("gpu", ""))
            counted = re.fullmatch(r"(\d{1,2}) ?x (.+)", name)
            if name.endswith("..."):
                notes.append(Note(self.source, f"cuts the name {name!r}: nvidia-smi -q has it whole"))
            gpu = GpuFacts(
                name=fact_of(counted[2] if counted else name, self.source),
                sm=sm_fact(fields.get("cap") or fields.get("sm") or "", self.source, notes),
                chip=fact_of(fields.get("chip"), self.source),
                mig=Fact(True, self.source) if "mig" in fields else None,
                address=fields.get("address", "").lower(),
            )
            yield from (gpu,) * (int(counted[1]) if counted else 1)


def _same_gpu(gpu: dict[str, str], other: dict[str, str]) -> bool:
    same = gpu.get("address", "") == other.get("address", "")
    return same and _same_name(gpu.get("gpu", ""), other.get("gpu", ""))


def _same_name(name: str, other: str) -> bool:
    short, long = sorted((name.rstrip(". ").lower(), other.rstrip(". ").lower()), key=len)
    return short in long


def _in_wsl(driver: Fact[DriverVersion] | None, smi: str) -> bool:
    """Whether nvidia-smi is Linux' and the driver Windows': newer, and numbered in two parts (560.94)."""
    parts = tuple(map(int, re.findall(r"\d+", smi)))
    return driver is not None and bool(parts) and len(driver.value.parts) == 2 and driver.value.parts > parts


def read_tool(tool: str, text: str) -> HostFacts:
    """What the lines of one tool say, here."""
    return read_lines(text, "", frozenset({tool})) or HostFacts()
