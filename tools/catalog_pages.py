"""The pages about the catalog: an index, and a page for each kind of fact with its sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from torchsmith.catalog import Catalog, Pin
from torchsmith.catalog.ranges import version_key
from torchsmith.workspace.readmes import table

OWN_FACTS = Path(__file__).with_name("own_facts.md")
INTRODUCTION = """# The catalog

The facts that torchsmith rests on live in `src/torchsmith/catalog/data/*.toml`, each with its source.
`make facts` in a checkout of torchsmith proves those that a tool can check.
"""


def catalog_pages(catalog: Catalog) -> dict[str, str]:
    """The index with how to add facts, and a page for each kind."""
    parts = {
        "GPUs": _gpus(catalog),
        "Backends": _backends(catalog),
        "CPU instruction sets": _isas(catalog),
        "CUDA toolkits": _cudas(catalog),
        "Release lines": _lines(catalog),
        "nixpkgs pins": _pins(catalog),
        "Fixes": _fixes(catalog),
    }
    pages = {title: title.lower().replace(" ", "-") for title in parts}
    links = "\n".join(f"- [{title}]({page}.md)" for title, page in pages.items())
    index = f"{INTRODUCTION}\n{links}\n- [Known build errors](../errors.md)\n\n{OWN_FACTS.read_text()}"
    return {
        "docs/catalog/index.md": index,
        **{f"docs/catalog/{pages[title]}.md": f"# {title}\n\n{text}\n" for title, text in parts.items()},
    }


def _gpus(catalog: Catalog) -> str:
    rows = [
        [
            gpu.name,
            gpu.sm.capability,
            ", ".join(gpu.parts),
            ", ".join(platform.removesuffix("-linux") for platform in gpu.platforms),
            f"{gpu.min_driver} to {gpu.last_driver}" if gpu.last_driver else f"{gpu.min_driver}",
            _cuda_range(gpu.name, catalog),
        ]
        for gpu in catalog.gpus.values()
    ]
    head = ["GPU", "capability", "products", "CPUs", "drivers from", "CUDA"]
    return table(head, rows) + _not_proved((gpu.name, gpu.unproved) for gpu in catalog.gpus.values())


def _backends(catalog: Catalog) -> str:
    sections = []
    for name, backend in catalog.backends.items():
        builds = [
            f"{release} with torch {line.torch} at nixpkgs {build.pin}".strip()
            for line in catalog.lines.values()
            for release, build in line.backends.get(name, {}).items()
        ]
        rows = [
            ["in names", f"`{backend.target}`" + (f", such as `{backend.example}`" if backend.arch else "")],
            ["systems", ", ".join(backend.systems)],
            ["builds", "; ".join(builds)],
            ["packages", ", ".join(backend.packages) if backend.packages else "all"],
            *([f"not {package}", why] for package, why in backend.refused.items()),
            ["a machine needs", backend.driver],
            ["groups of the user", ", ".join(backend.groups)],
            ["compiled for other architectures too", ", ".join(backend.wide)],
            ["files and sections with its code", " ".join(f"`{place}`" for place in backend.code)],
            ["not proved", backend.unproved],
        ]
        sections.append(f"## {backend.title}\n{table(['', ''], [row for row in rows if row[1]])}\n")
    return "\n".join(sections)


def _isas(catalog: Catalog) -> str:
    sections = []
    for isa in catalog.isas.values():
        rows = [
            ["compiler flags", f"`{' '.join(isa.flags)}`" if isa.flags else "none"],
            ["a CPU must have", ", ".join(sorted(isa.needs)) or "nothing else"],
            ["first CPUs", ", ".join(isa.first_cpus)],
            ["switched off in torch", ", ".join(isa.torch_off) or "nothing"],
        ]
        sections.append(f"## {isa.name}\n{table(['', ''], rows)}\n")
    return "\n".join(sections)


def _cudas(catalog: Catalog) -> str:
    rows = [
        [
            toolkit.version,
            " ".join(map(str, toolkit.targets)),
            toolkit.min_driver,
            toolkit.native_driver or "not known",
            f"`{toolkit.attr}`",
        ]
        for toolkit in catalog.cuda.values()
    ]
    head = ["CUDA", "targets", "driver from", "driver it came with", "nixpkgs"]
    return "`a` targets run on exactly that GPU, `f` targets within its family.\n\n" + table(head, rows)


def _lines(catalog: Catalog) -> str:
    sections = []
    for line in catalog.lines.values():
        builds = [
            *([("CPU", line.cpu)] if line.cpu else []),
            *sorted(line.cuda.items(), key=lambda item: version_key(item[0])),
        ]
        rows = [[cuda, build.pin, ", ".join(build.fixes)] for cuda, build in builds]
        pairs = f"torchvision {line.version_of('torchvision')}, torchaudio {line.version_of('torchaudio')}"
        cells = table(["CUDA", "nixpkgs pin", "fixes"], rows)
        text = f"## {line.name}\ntorch {line.torch}, {pairs}.\n\n{cells}\n"
        sections.append(text + _not_proved((str(cuda), build.unproved) for cuda, build in builds))
    return "\n".join(sections)


def _pins(catalog: Catalog) -> str:
    sections = []
    for pin in catalog.pins.values():
        rows = [
            ["revision", f"`{pin.rev}`"],
            ["torch", pin.torch],
            ["CUDA", ", ".join(map(str, pin.cudas))],
            ["Python", ", ".join(map(str, pin.pythons))],
            ["cannot build", "; ".join(_limits(pin)) or "nothing known"],
            ["not proved", pin.unproved or "nothing"],
        ]
        sections.append(f"## {pin.name}\n{table(['', ''], rows)}\n")
    return "\n".join(sections)


def _fixes(catalog: Catalog) -> str:
    sections = [
        f"## {fix.name}\n{fix.title}\n\n{fix.why}\n\nSource: {fix.source}\n" for fix in catalog.fixes.values()
    ]
    return "\n".join(sections)


def _not_proved(reasons: Iterable[tuple[str, str]]) -> str:
    lines = [f"- {name}: {reason}" for name, reason in reasons if reason]
    return "\n\nNot proved:\n\n" + "\n".join(lines) + "\n" if lines else "\n"


def _limits(pin: Pin) -> Iterator[str]:
    """What a pin cannot build, and why."""
    if pin.min_sm:
        yield f"GPUs before {pin.min_sm}: cuDNN is too new"
    for limit in pin.limits.values():
        cells = " ".join(
            filter(None, [", ".join(map(str, limit.sms)), limit.cuda and f"on CUDA {limit.cuda}"])
        )
        yield f"{cells}: {limit.reason}"


def _cuda_range(name: str, catalog: Catalog) -> str:
    having = [str(v) for v, toolkit in catalog.cuda.items() if name in {str(t.sm) for t in toolkit.targets}]
    return f"{having[0]} - {having[-1]}" if having else "none"
