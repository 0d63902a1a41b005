"""GPUs and drivers out of text: every form of nvidia-smi's output, and the driver's files under /proc."""

from __future__ import annotations

import csv
import html
import re
from collections.abc import Callable, Iterator
from functools import partial

from msgspec.structs import replace

from torchsmith.catalog.axes import DriverVersion
from torchsmith.host.facts import Fact, GpuFacts, HostFacts, Note, driver_said, merge, said, sm_said

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
    r"nvidia-smi['’]?:? (command )?not found|command not found: nvidia-smi|[Uu]nknown command:? nvidia-smi"
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


def _column(label: str) -> str:
    return rf"^\s*{label}\s*:[ \t]*(.*)$"


def _tag(name: str) -> str:
    return rf"<{name}>([^<]*)</{name}>"


LIST = r"^\s*(GPU models and configuration\s*:\s*)?GPU ?\d+(, ?\d+)*: "
SHAPES = (  # of nvidia-smi's output, the first that fits; else it is a table of commas
    ("none", r"No devices were found"),
    ("xml", r"<nvidia_smi_log"),
    ("query", r"NVSMI LOG|^\s*Product Name\s+:"),
    ("list", LIST),
    ("table", r"NVIDIA-SMI"),
)
PATTERNS = {
    "query gpu": r"^GPU [0-9A-Fa-f]{4,8}:",
    "query place": r"[^\n]*",
    "query attached": _column("Attached GPUs"),
    "query driver": _column("Driver Version"),
    "query name": _column("Product Name"),
    "query generation": _column("Product Architecture"),
    "query memory": r"^\s*FB Memory Usage\s*\n\s*Total\s+:\s*(\d+) MiB",
    "query mig": r"^\s*MIG Mode\s*\n\s*Current\s+:\s*(\S+)",
    "xml gpu": r"<gpu\b",
    "xml place": r"[^>]*",
    "xml attached": _tag("attached_gpus"),
    "xml driver": _tag("driver_version"),
    "xml name": _tag("product_name"),
    "xml generation": _tag("product_architecture"),
    "xml memory": r"<fb_memory_usage>\s*<total>(\d+) MiB",
    "xml mig": _tag("current_mig"),
    "file name": _column("Model"),
    "file place": _column("Bus Location"),
    "address": r"([0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\b",
    "unit": r"\s*\[.*\]$",
    "list mig": r"\s+MIG ",
    "table driver": r"(?:Driver|KMD) Version:\s*(\S+)",
    "table gpu": r"^\s*\|\s+\d+\s{1,4}(?!\d|N/A)(\S.*?)\s+(?:On|Off|N/A|WDDM|TCC|MCDM)\s*(?:\||$)(.*)$",
    "driver file": r"^NVRM version:.*?\s(\d{2,4}\.\d+(?:\.\d+)?)\s",
}
LISTED = re.compile(
    r"(?:.*\bGPU models and configuration\s*:)?\s*GPU ?(\d+(?:, ?\d+)*): (.+?)(?: \(UUID.*)?$"
)
CAPABLE = re.compile(r"\s*GPU (\d+(?:, ?\d+)*) Compute Capability: (\d{1,2}\.\d)")
VERSION = r"(?:NVIDIA System Management Interface -+\s?v|^\s*DRIVER version\s*:\s*)(\d{3}[\d.]*)"


def read_nvidia_smi(text: str, source: str = "nvidia-smi") -> HostFacts:
    """Any output of nvidia-smi: -q, -q -x, --format=csv, -L, or its table; several are put together."""
    failures = [Note(source, meaning) for words, meaning in FAILURES if words in text][:1]
    shapes = [name for name, pattern in SHAPES if re.search(pattern, text, re.MULTILINE)]
    if failures and shapes == ["table"]:
        shapes = ["table"] if re.search(PATTERNS["table driver"], text) else []
    elif not failures and re.search(ABSENT_TOOL, text) and not shapes:
        note = Note(source, "is not installed there: taken as a machine without an NVIDIA GPU")
        return HostFacts(gpus=Fact((), source), notes=(note,))
    elif not failures or CSV_HEADER.search(text):
        shapes += ["csv"] if not shapes or CSV_HEADER.search(text) else []
    parts = [_READERS[shape](text, source) for shape in shapes]
    version = re.search(VERSION, text, re.MULTILINE | re.IGNORECASE)
    if version and not any(part.driver for part in parts):
        parts.append(HostFacts(driver=driver_said(version[1], source, [])))
    return merge([*parts, HostFacts(notes=tuple(failures))])


def read_described(form: str, text: str, source: str) -> HostFacts:
    """`nvidia-smi -q`, plain or XML: a header, then a section for each GPU; a cut one as far as it goes."""
    head, *sections = re.split(PATTERNS[f"{form} gpu"], text, flags=re.MULTILINE)
    notes: list[Note] = []
    gpus = tuple(_described_gpu(form, section, source, notes) for section in sections)
    attached = _value(f"{form} attached", head)
    if attached.isdigit() and int(attached) != len(gpus):
        notes.append(Note(source, f"announces {attached} GPUs and describes {len(gpus)}: the rest is cut"))
    return HostFacts(
        driver=driver_said(_value(f"{form} driver", head), source, notes),
        gpus=Fact(gpus, source) if gpus or attached == "0" else None,
        notes=tuple(notes),
    )


def _described_gpu(form: str, section: str, source: str, notes: list[Note]) -> GpuFacts:
    address = _address(re.match(PATTERNS[f"{form} place"], section)[0])  # type: ignore[index]
    # MIG instances have a section of the same name inside; the whole GPU is the largest.
    memory = re.findall(PATTERNS[f"{form} memory"], section, re.MULTILINE)
    name, mig = _value(f"{form} name", section), _value(f"{form} mig", section)
    if not name:
        notes.append(Note(source, f"gives no name for the GPU at {address or 'an unknown address'}"))
    return GpuFacts(
        name=said(name, source),
        generation=said(_value(f"{form} generation", section), source),
        memory_mib=Fact(max(map(int, memory)), source) if memory else None,
        mig=Fact(mig == "Enabled", source) if mig else None,
        address=address,
    )


def _value(pattern: str, text: str) -> str:
    found = re.search(PATTERNS[pattern], text, re.MULTILINE)
    value = html.unescape(found[1]).strip() if found else ""
    return "" if _ABSENT.match(value) else value


def _address(text: str) -> str:
    """A PCI address without its domain, which the tools print in different lengths."""
    found = re.search(PATTERNS["address"], text)
    return found[1].lower() if found else ""


CSV_HEADER = re.compile(
    r"^(?=[^\n]*,)[^\n]*(?<![\w.=\"])(?:compute_cap|driver_version|gpu_name|(?:^|, ?)name)"
    r"(?: \[.*\])?\s*(?:,[^\n]*)?$",
    re.MULTILINE,
)


def read_csv(text: str, source: str = "nvidia-smi --format=csv") -> HostFacts:
    """`nvidia-smi --query-gpu=... --format=csv`; without its header, cells are known by their form."""
    rows = [[cell.strip() for cell in row] for row in csv.reader(text.splitlines()) if any(row)]
    notes: list[Note] = []
    at = next((place for place, row in enumerate(rows) if len(row) > 1 and _header(row)), None)
    header = _header(rows[at]) if at is not None else _header(rows[0]) if rows else []
    if header:
        rows = rows[(at or 0) + 1 :]
    gpus, drivers = [], []
    for row in rows:
        if header and len(row) != len(header):
            if len(row) > 1:
                notes.append(Note(source, f"a row is cut and was not used: {', '.join(row)[:60]}"))
                continue
            break  # what a person wrote below it
        cells = dict(zip(header, row, strict=True)) if header else dict(_by_form(row))
        if not header and len(cells) < 2 and len(rows) > 1:
            continue
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
    command = any("=" in cell or "--" in cell for cell in row)
    return names if set(COLUMNS) & set(names) and not command else []


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
    """`nvidia-smi -L`, and the same lines of other tools: a GPU or several, and its MIG instances."""
    gpus: dict[str, GpuFacts] = {}
    last = ""
    for line in text.splitlines():
        if found := LISTED.match(line):
            for last in re.split(r", ?", found[1]):
                gpus.setdefault(last, GpuFacts(name=said(found[2].strip(), source)))
        elif found := CAPABLE.match(line):
            for number in re.split(r", ?", found[1]):
                if number in gpus:
                    gpus[number] = replace(gpus[number], sm=sm_said(found[2], source, []))
        elif last and re.match(PATTERNS["list mig"], line):
            gpus[last] = replace(gpus[last], mig=Fact(True, source))
    return HostFacts(gpus=said(tuple(gpus.values()), source))


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
    if gpus and re.search(r"\b(TCC/WDDM|WDDM|MCDM)\b", text):
        notes.append(Note(source, "is that of Windows, where builds run in WSL2"))
    if driver and not gpus and not re.search(r"^\s*GPU \d+: ", text, re.MULTILINE):
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
    return GpuFacts(
        name=said(_value("file name", text), source), address=_address(_value("file place", text))
    )


_READERS: dict[str, Callable[[str, str], HostFacts]] = {
    "none": lambda text, source: HostFacts(gpus=Fact((), source)),
    "xml": partial(read_described, "xml"),
    "query": partial(read_described, "query"),
    "list": read_list,
    "table": read_table,
    "csv": read_csv,
}
