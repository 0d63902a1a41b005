"""nvidia-smi's longer reports: -q, -q -x and --format=csv. Its table and its list are lines of lines.toml."""

from __future__ import annotations

import csv
import html
import re
from collections.abc import Iterator

from torchsmith.catalog.axes import DriverVersion
from torchsmith.host.facts import Fact, GpuFacts, HostFacts, Note, driver_fact, fact_of, merge, sm_fact
from torchsmith.host.scan import scan

_ABSENT = re.compile(r"\[?(n/a|not supported|unknown error|err!|not found|gpu is lost|)\]?", re.IGNORECASE)
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


PATTERNS = {
    "query": r"NVSMI LOG|^\s*Product Name\s+:",
    "query gpu": r"^GPU [0-9A-Fa-f]{4,8}:",
    "query place": r"[^\n]*",
    "query attached": _column("Attached GPUs"),
    "query driver": _column("Driver Version"),
    "query name": _column("Product Name"),
    "query generation": _column("Product Architecture"),
    "query memory": r"^\s*FB Memory Usage\s*\n\s*Total\s+:\s*(\d+) MiB",
    "query mig": r"^\s*MIG Mode\s*\n\s*Current\s+:\s*(\S+)",
    "xml": r"<nvidia_smi_log",
    "xml gpu": r"<gpu\b",
    "xml place": r"[^>]*",
    "xml attached": _tag("attached_gpus"),
    "xml driver": _tag("driver_version"),
    "xml name": _tag("product_name"),
    "xml generation": _tag("product_architecture"),
    "xml memory": r"<fb_memory_usage>\s*<total>(\d+) MiB",
    "xml mig": _tag("current_mig"),
}
CSV_HEADER = re.compile(
    r"^(?=[^\n]*,)[^\n]*(?<![\w.=\"])(?:compute_cap|driver_version|gpu_name|(?:^|, ?)name)"
    r"(?: \[.*\])?\s*(?:,[^\n]*)?$",
    re.MULTILINE,
)
CSV_ROW = re.compile(r"^(Tesla|NVIDIA|GRID|Quadro) [^:\n]*,", re.MULTILINE)


def read_nvidia_smi(text: str, source: str = "nvidia-smi") -> HostFacts:
    """Any output of nvidia-smi; several are put together."""
    return read_structured(text, source) or scan(text, source)


def read_structured(text: str, source: str) -> HostFacts | None:
    """Descriptions and tables of commas; None where the text holds none."""
    forms = [form for form in ("xml", "query") if re.search(PATTERNS[form], text, re.MULTILINE)]
    parts = [read_described(form, text, source) for form in forms]
    if not parts and (CSV_HEADER.search(text) or CSV_ROW.search(text)):
        parts = [read_csv(text, source)]
    return merge(parts) if parts else None


def read_described(form: str, text: str, source: str) -> HostFacts:
    """`nvidia-smi -q`, plain or XML: a header, then a section for each GPU; a cut one as far as it goes."""
    head, *sections = re.split(PATTERNS[f"{form} gpu"], text, flags=re.MULTILINE)
    notes: list[Note] = []
    gpus = tuple(_described_gpu(form, section, source, notes) for section in sections)
    attached = _value(f"{form} attached", head)
    if attached.isdigit() and int(attached) != len(gpus):
        notes.append(Note(source, f"announces {attached} GPUs and describes {len(gpus)}: the rest is cut"))
    return HostFacts(
        driver=driver_fact(_value(f"{form} driver", head), source, notes),
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
        name=fact_of(name, source),
        generation=fact_of(_value(f"{form} generation", section), source),
        memory_mib=Fact(max(map(int, memory)), source) if memory else None,
        mig=Fact(mig == "Enabled", source) if mig else None,
        address=address,
    )


def _value(pattern: str, text: str) -> str:
    match = re.search(PATTERNS[pattern], text, re.MULTILINE)
    value = html.unescape(match[1]).strip() if match else ""
    return "" if _ABSENT.fullmatch(value) else value


def _address(text: str) -> str:
    """A PCI address without its domain, which the tools print in different lengths."""
    match = re.search(r"([0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\b", text)
    return match[1].lower() if match else ""


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
    names = [re.sub(r"\s*\[.*\]$", "", cell) for cell in row]
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
    columns = {}
    for label, value in cells.items():
        if _ABSENT.fullmatch(value):
            notes.append(Note(source, f"gives no {label}"))
        else:
            columns[label] = value
    name, capability = columns.get("name") or columns.get("gpu_name"), columns.get("compute_cap", "")
    memory = re.match(r"(\d+)", columns.get("memory.total", ""))
    mig = columns.get("mig.mode.current")
    gpu = GpuFacts(
        name=fact_of(name, source),
        sm=sm_fact(capability, source, notes),
        memory_mib=Fact(int(memory[1]), source) if memory else None,
        mig=Fact(mig == "Enabled", source) if mig else None,
        address=_address(columns.get("pci.bus_id") or columns.get("gpu_bus_id") or ""),
    )
    return gpu, driver_fact(columns.get("driver_version", ""), source, notes)
