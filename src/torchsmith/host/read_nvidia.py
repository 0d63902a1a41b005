"""GPUs and drivers out of text: every form of nvidia-smi's output, and the driver's files under /proc."""

from __future__ import annotations

import csv
import html
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from torchsmith.catalog.axes import DriverVersion
from torchsmith.host.facts import Fact, GpuFacts, HostFacts, Note, driver_said, said, sm_said

FAILURES = (
    (
        "couldn't communicate with the NVIDIA driver",
        "could not reach the driver: it is not loaded, or not in this container",
    ),
    ("Driver/library version mismatch", "driver and library are of different versions: restart the machine"),
    ("Failed to initialize NVML", "could not start NVML"),
    ("Unable to determine the device handle", "a GPU does not answer: restart the machine"),
    ("nvidia-smi: Permission denied", "may not be run there"),
)
# How shells say that there is no such program: bash, dash and zsh, fish, cmd.
ABSENT_TOOL = (
    r"nvidia-smi['’]?: (command )?not found|command not found: nvidia-smi|[Uu]nknown command:? nvidia-smi"
    r"|'nvidia-smi' is not recognized"
)
ABSENT = r"^\[?(n/a|not supported|unknown error|err!|not found|gpu is lost|)\]?$"
_ABSENT = re.compile(ABSENT, re.IGNORECASE)
CUT_TABLE = "its table is cut before the GPUs: they are unknown"
COLUMNS = ("name", "gpu_name", "compute_cap", "driver_version", "uuid")  # by one of which a header is known
NO_NAMES = ("GPU-", "MIG-", "[")  # how cells begin that are no name
# Cells of a table without a header, by their form; the first that fits.
BY_FORM = (
    ("compute_cap", r"\d{1,2}\.\d"),
    ("driver_version", r"\d{3}\.\d+(\.\d+)?"),
    ("memory.total", r"\d+ MiB"),
    ("pci.bus_id", r"[0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:.*"),
)
# The page reads reports in a browser by the same patterns (page/rules.py).
PATTERNS = {
    "query": r"^\s*Product Name\s+:",
    "list": r"^GPU \d+: ",
    "query gpu": r"^GPU [0-9A-Fa-f]{4,8}:",
    "attached": r"^Attached GPUs\s+:\s*(\d+)",
    "query memory": r"^\s*FB Memory Usage\s*\n\s*Total\s+:\s*(\d+) MiB",
    "query mig": r"^\s*MIG Mode\s*\n\s*Current\s+:\s*(\S+)",
    "xml gpu": r"<gpu\b",
    "xml memory": r"<fb_memory_usage>\s*<total>(\d+) MiB",
    "address": r"([0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\b",
    "unit": r"\s*\[.*\]$",
    "list gpu": r"GPU \d+: (.+?)(?: \(UUID.*)?$",
    "list mig": r"\s+MIG ",
    "table driver": r"Driver Version:\s*(\S+)",
    "table gpu": r"^\|\s+\d+\s{1,4}(\S.*?)\s+(?:On|Off|N/A)\s*\|(.*)$",
    "driver file": r"^NVRM version:.*?\s(\d{2,4}\.\d+(?:\.\d+)?)\s",
}


def read_nvidia_smi(text: str, source: str = "nvidia-smi") -> HostFacts:
    """Any output of nvidia-smi: -q, -q -x, --format=csv, -L, or its table."""
    for words, meaning in FAILURES:
        if words in text:
            return HostFacts(notes=(Note(source, meaning),))
    if re.search(ABSENT_TOOL, text):
        note = Note(source, "is not installed there: taken as a machine without an NVIDIA GPU")
        return HostFacts(gpus=Fact((), source), notes=(note,))
    if "No devices were found" in text:
        return HostFacts(gpus=Fact((), source))
    if "<nvidia_smi_log" in text:
        return read_xml(text, source)
    if "NVSMI LOG" in text or re.search(PATTERNS["query"], text, re.MULTILINE):
        return read_query(text, source)
    if re.search(PATTERNS["list"], text, re.MULTILINE):
        return read_list(text, source)
    if "NVIDIA-SMI" in text:
        return read_table(text, source)
    return read_csv(text, source)


def read_query(text: str, source: str = "nvidia-smi -q") -> HostFacts:
    """`nvidia-smi -q`: a header, then a section for each GPU."""
    head, *sections = re.split(PATTERNS["query gpu"], text, flags=re.MULTILINE)
    return _described(
        sections, _query_gpu, _after("Attached GPUs", head), _after("Driver Version", head), source
    )


def _described(
    sections: list[str],
    read: Callable[[str, str, list[Note]], GpuFacts],
    attached: str,
    driver: str,
    source: str,
) -> HostFacts:
    """A machine out of its GPUs' sections and what the header announces."""
    notes: list[Note] = []
    gpus = tuple(read(section, source, notes) for section in sections)
    if attached.isdigit() and int(attached) != len(gpus):
        notes.append(Note(source, f"announces {attached} GPUs and describes {len(gpus)}: the rest is cut"))
    return HostFacts(
        driver=driver_said(driver, source, notes),
        gpus=Fact(gpus, source) if gpus or attached == "0" else None,
        notes=tuple(notes),
    )


def _query_gpu(section: str, source: str, notes: list[Note]) -> GpuFacts:
    address = section.split("\n", 1)[0].strip()
    # MIG instances have a section of the same name inside; the whole GPU is the largest.
    memory = re.findall(PATTERNS["query memory"], section, re.MULTILINE)
    mig = re.search(PATTERNS["query mig"], section, re.MULTILINE)
    name, generation = _after("Product Name", section), _after("Product Architecture", section)
    if not name:
        notes.append(Note(source, f"gives no name for the GPU at {address or 'an unknown address'}"))
    return GpuFacts(
        name=said(name, source),
        generation=said(generation, source),
        memory_mib=Fact(max(map(int, memory)), source) if memory else None,
        mig=Fact(mig[1] == "Enabled", source) if mig and not _ABSENT.match(mig[1]) else None,
        address=_address(address),
    )


def read_xml(text: str, source: str = "nvidia-smi -q -x") -> HostFacts:
    """`nvidia-smi -q -x`, read by its tags so that a cut one is read as far as it goes."""
    head, *sections = re.split(PATTERNS["xml gpu"], text)
    return _described(sections, _xml_gpu, _tag("attached_gpus", head), _tag("driver_version", head), source)


def _xml_gpu(section: str, source: str, notes: list[Note]) -> GpuFacts:
    name, generation = _tag("product_name", section), _tag("product_architecture", section)
    memory = re.findall(PATTERNS["xml memory"], section)
    mig = _tag("current_mig", section)
    if not name:
        notes.append(Note(source, "gives no name for a GPU"))
    return GpuFacts(
        name=said(name, source),
        generation=said(generation, source),
        memory_mib=Fact(max(map(int, memory)), source) if memory else None,
        mig=Fact(mig == "Enabled", source) if mig else None,
        address=_address(section.partition(">")[0]),
    )


def _tag(name: str, text: str) -> str:
    found = re.search(rf"<{name}>([^<]*)</{name}>", text)
    value = html.unescape(found[1]).strip() if found else ""
    return "" if _ABSENT.match(value) else value


def _after(label: str, text: str) -> str:
    found = re.search(rf"^\s*{label}\s+:[ \t]*(.*)$", text, re.MULTILINE)
    value = found[1].strip() if found else ""
    return "" if _ABSENT.match(value) else value


def _address(text: str) -> str:
    """A PCI address without its domain, which the tools print in different lengths."""
    found = re.search(PATTERNS["address"], text)
    return found[1].lower() if found else ""


def read_csv(text: str, source: str = "nvidia-smi --format=csv") -> HostFacts:
    """`nvidia-smi --query-gpu=... --format=csv`; without its header, cells are known by their form."""
    rows = [[cell.strip() for cell in row] for row in csv.reader(text.splitlines()) if any(row)]
    notes: list[Note] = []
    header = _header(rows[0]) if rows else []
    if header:
        rows = rows[1:]
    gpus, drivers = [], []
    for row in rows:
        if header and len(row) != len(header):
            notes.append(Note(source, f"a row is cut and was not used: {', '.join(row)[:60]}"))
            continue
        cells = dict(zip(header, row, strict=True)) if header else dict(_by_form(row))
        gpu, driver = _csv_gpu(cells, source, notes)
        drivers.append(driver)
        if gpu != GpuFacts():
            gpus.append(gpu)
    known = [driver for driver in drivers if driver]
    if not gpus and not known:
        notes.append(Note(source, "holds no GPU that could be read"))
        return HostFacts(notes=tuple(notes))
    return HostFacts(
        driver=min(known, key=lambda fact: fact.value) if known else None,
        gpus=Fact(tuple(gpus), source) if gpus else None,
        notes=tuple(notes),
    )


def _header(row: list[str]) -> list[str]:
    """The columns' names without units, or nothing where the first row is data."""
    names = [re.sub(PATTERNS["unit"], "", cell) for cell in row]
    return names if set(COLUMNS) & set(names) else []


def _by_form(row: list[str]) -> Iterator[tuple[str, str]]:
    for cell in row:
        label = next((label for label, pattern in BY_FORM if re.fullmatch(pattern, cell)), None)
        if label is not None:
            yield label, cell
        elif re.search(r"[A-Za-z]", cell) and not cell.startswith(NO_NAMES):
            yield "name", cell


def _csv_gpu(
    cells: dict[str, str], source: str, notes: list[Note]
) -> tuple[GpuFacts, Fact[DriverVersion] | None]:
    given = {}
    for label, value in cells.items():
        if _ABSENT.match(value):
            notes.append(Note(source, f"gives no {label}"))
        else:
            given[label] = value
    name, capability = given.get("name") or given.get("gpu_name"), given.get("compute_cap", "")
    memory = re.match(r"(\d+)", given.get("memory.total", ""))
    mig = given.get("mig.mode.current")
    gpu = GpuFacts(
        name=said(name, source),
        sm=sm_said(capability, source, notes),
        memory_mib=Fact(int(memory[1]), source) if memory else None,
        mig=Fact(mig == "Enabled", source) if mig else None,
        address=_address(given.get("pci.bus_id") or given.get("gpu_bus_id") or ""),
    )
    return gpu, driver_said(given.get("driver_version", ""), source, notes)


def read_list(text: str, source: str = "nvidia-smi -L") -> HostFacts:
    """`nvidia-smi -L`: a line for each GPU, and one below it for each of its MIG instances."""
    gpus: list[GpuFacts] = []
    for line in text.splitlines():
        found = re.match(PATTERNS["list gpu"], line)
        if found:
            gpus.append(GpuFacts(name=Fact(found[1], source)))
        elif gpus and re.match(PATTERNS["list mig"], line):
            gpus[-1] = replace(gpus[-1], mig=Fact(True, source))
    return HostFacts(gpus=Fact(tuple(gpus), source))


def read_table(text: str, source: str = "nvidia-smi") -> HostFacts:
    """nvidia-smi's table. Long names are cut there; its words are used only as far as they are whole."""
    notes: list[Note] = []
    driver = re.search(PATTERNS["table driver"], text)
    gpus = []
    for row in re.finditer(PATTERNS["table gpu"], text, re.MULTILINE):
        name = row[1].strip()
        if name.endswith("..."):
            notes.append(Note(source, f"cuts the name {name!r}: nvidia-smi -q has it whole"))
        gpus.append(GpuFacts(name=Fact(name, source), address=_address(row[2])))
    if driver and not gpus:
        notes.append(Note(source, CUT_TABLE))
    return HostFacts(
        driver=driver_said(driver[1], source, notes) if driver else None,
        gpus=Fact(tuple(gpus), source) if gpus else None,
        notes=tuple(notes),
    )


def read_driver_file(text: str, source: str = "/proc/driver/nvidia/version") -> HostFacts:
    """The kernel module's own version file."""
    notes: list[Note] = []
    found = re.search(PATTERNS["driver file"], text + "\n", re.MULTILINE)
    if found is None:
        return HostFacts(notes=(Note(source, "names no driver version"),))
    return HostFacts(driver=driver_said(found[1], source, notes), notes=tuple(notes))


def read_driver_gpu(text: str, source: str = "/proc/driver/nvidia/gpus") -> GpuFacts:
    """One GPU's information file, which the kernel module keeps."""
    name = _after("Model", text.replace("Model:", "Model :"))
    return GpuFacts(
        name=said(name, source),
        address=_address(_after("Bus Location", text.replace("Bus Location:", "Bus Location :"))),
    )
