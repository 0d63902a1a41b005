"""The pages beside the recipes: README, build matrix, alignment, build notes. Every count is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import get_args

from torchsmith.catalog import Catalog, Line, Package
from torchsmith.catalog.axes import Platform
from torchsmith.catalog.package import CPU
from torchsmith.catalog.ranges import version_key
from torchsmith.core.driver import DRIVER_DIR, driver_link_command
from torchsmith.core.text import counted, grouped, listed
from torchsmith.matrix import Cell, Matrix
from torchsmith.matrix.cells import gpu_of, gpu_title, toolkit_title
from torchsmith.recipe.header import with_header
from torchsmith.recipe.template import TemplateValues, render, template
from torchsmith.workspace.settings import Settings


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    lines += [f"| {' | '.join(map(str, row))} |" for row in rows]
    return "\n".join(lines)


def _page(name: str, values: TemplateValues, source: str = "") -> str:
    """A page from its template, which has its name if no other is given."""
    return with_header(render(template(source or name), values), f"file={name}", ".md")


def _counts(cells: Sequence[Cell], catalog: Catalog) -> str:
    """`36 GPU variants for x86_64, 4 for aarch64, 4 for the CPU alone`."""
    gpu = [cell for cell in cells if cell.variant.toolkit]
    systems = Counter(catalog.isas[cell.variant.isa].platform for cell in gpu)
    parts = [
        f"{counted(systems[system], 'GPU build')} for {system.removesuffix('-linux')}"
        for system in get_args(Platform)
        if systems[system]
    ]
    parts += [f"{len(cells) - len(gpu)} for the CPU alone"] if len(cells) > len(gpu) else []
    return ", ".join(parts)


def _versions(cells: Sequence[Cell], package: Package, catalog: Catalog) -> str:
    lines = sorted({cell.line for cell in cells}, key=version_key)
    return ", ".join(
        catalog.lines[line].version_of(package.name) or "from the Flox catalog" for line in lines
    )


def grid(cells: Sequence[Cell], catalog: Catalog, of: str = "") -> str:
    """GPUs and instruction sets for each Python and CUDA, every cell by its name's ending."""
    parts = []
    groups = grouped(((cell.variant.python, toolkit_title(cell.variant, catalog)), cell) for cell in cells)
    for python, toolkit in sorted(groups):
        here = groups[python, toolkit]
        isas = [isa for isa in catalog.isas if any(cell.variant.isa == isa for cell in here)]
        by_target = {(cell.variant.arch, cell.variant.isa): cell for cell in here}
        rows = []
        for arch, same_arch in grouped((cell.variant.arch, cell) for cell in here).items():
            title = max((gpu_title(cell.variant, catalog) for cell in same_arch), key=len)
            name = f"**{arch}** {title}" if arch else "no GPU"
            rows.append([name, *(_mark(by_target.get((arch, isa))) for isa in isas)])
        title = f"{of}Python {python}, {toolkit or 'CPU only'}"
        parts.append(f"### {title}\n\n{table(['GPU', *isas], rows)}\n")
    if reasons := sorted({str(warning) for cell in cells for warning in cell.warnings}):
        parts.append("(!) " + "; ".join(reasons) + "\n")
    return "\n".join(parts)


def _mark(cell: Cell | None) -> str:
    return "" if cell is None else "yes (!)" if cell.warnings else "yes"


def readme(by_package: Mapping[Package, Sequence[Cell]], catalog: Catalog) -> str:
    """What the repository has and how to build it."""
    cells = [cell for own in by_package.values() for cell in own]
    example = _example(cells, catalog)
    variant, isa = example.variant, catalog.isas[example.variant.isa]
    build = catalog.lines[example.line].build_for(variant.toolkit)
    kinds, decides = "one CPU instruction set", "the CPU decides"
    if any(cell.variant.arch for cell in cells):
        arch = "`sm`" if any(cell.variant.cuda for cell in cells) else "architecture"
        kinds, decides = f"one GPU architecture and {kinds}", f"the GPU decides the {arch}, the CPU"
    if all(cell.variant.implies_isa for cell in cells):
        kinds, decides = "one kind of machine", ""
    values: TemplateValues = {
        "folder": example.variant.package.folder,
        "builds": counted(len(cells), "build"),
        "packages": listed(
            f"{package.title} {_versions(own, package, catalog)}" for package, own in by_package.items()
        ),
        "counts": _counts(cells, catalog),
        "kinds": kinds,
        "decides": decides,
        "needs": _needs(cells, catalog),
        "example": example.name,
        "cell": variant.cell,
        # Recipes that Flox calls have no environment of their own.
        "environment": bool(build and build.style == "pinned" and not (variant.flavor or variant.release)),
        "linux": isa.platform.endswith("-linux"),
        "cuda": variant.cuda is not None,
        "driverDir": DRIVER_DIR,
        "linkDriver": driver_link_command("/usr/lib/x86_64-linux-gnu"),
        "grid": "\n".join(
            grid(own, catalog, f"{package.title}, " if len(by_package) > 1 else "")
            for package, own in by_package.items()
        ),
    }
    return _page("README.md", values)


def _example(cells: Sequence[Cell], catalog: Catalog) -> Cell:
    """A cell that many people can use: the newest GPU that is sold as many parts, what most CPUs run."""
    many = max(len(gpu.parts) for gpu in catalog.gpus.values()) / 2
    runs = Counter(name for cpu in catalog.cpus.values() for name in cpu.isas)
    cpus = Counter(cpu.platform for cpu in catalog.cpus.values())

    def rank(cell: Cell) -> tuple[object, ...]:
        variant, isa = cell.variant, catalog.isas[cell.variant.isa]
        gpu = catalog.gpus.get(variant.sm) if variant.sm else None
        sold = gpu is not None and len(gpu.parts) >= many
        common = runs[isa.name] > cpus[isa.platform] / 2
        plain = not (variant.flavor or variant.release or cell.warnings)
        newest = variant.sm.number if variant.sm and sold else 0
        return plain, sold, common, newest, isa.level if common else -isa.level

    return max(cells, key=rank)


def _needs(cells: Sequence[Cell], catalog: Catalog) -> str:
    """What the driver and the CPU must have."""
    cudas = sorted({cell.variant.cuda for cell in cells if cell.variant.cuda})
    named = {cell.variant.isa for cell in cells if not cell.variant.implies_isa}
    isas = [name for name in catalog.isas if name in named]
    rows = [
        [f"`cuda{cuda.slug}`", f"NVIDIA driver {catalog.cuda[cuda].min_driver} or newer"] for cuda in cudas
    ]
    others = {str(cell.variant.toolkit): cell.variant.backend for cell in cells if not cell.variant.cuda}
    rows += [
        [f"`{catalog.backends[name].word(release)}`", catalog.backends[name].driver]
        for release, name in others.items()
        if name != CPU
    ]
    # A driver that runs an older CUDA need not know a newer GPU.
    enough = min((catalog.cuda[cuda].min_driver for cuda in cudas), default=None)
    gpus = [catalog.gpus[sm] for sm in sorted({cell.variant.sm for cell in cells if cell.variant.sm})]
    rows += [
        [f"`{gpu.sm}`", f"NVIDIA driver {gpu.min_driver} or newer"]
        for gpu in gpus
        if enough is not None and gpu.min_driver > enough
    ]
    for isa in map(catalog.isas.__getitem__, isas):
        needs = f"{isa.title} (`{' '.join(sorted(isa.needs))}`), first in {', '.join(isa.first_cpus)}"
        rows.append([f"`{isa.name}`", needs])
    return table(["in the name", "needs"], rows)


def build_matrix(cells: Sequence[Cell], catalog: Catalog) -> str:
    """Every variant, a row each."""
    rows = []
    for cell in cells:
        variant, isa = cell.variant, catalog.isas[cell.variant.isa]
        gpu = gpu_of(variant, catalog)
        rows.append(
            [
                f"`{cell.name}`",
                catalog.lines[cell.line].version_of(variant.package.name) or "Flox catalog",
                f"{gpu.name}: {gpu_title(variant, catalog)}" if gpu else "none",
                variant.cuda or toolkit_title(variant, catalog),
                f"{isa.title}: {', '.join(isa.first_cpus)}",
                isa.platform,
                "; ".join(map(str, cell.warnings)),
            ]
        )
    head = ["variant", "version", "GPU", "CUDA", "CPU", "platform", "warning"]
    values: TemplateValues = {
        "title": listed(dict.fromkeys(cell.variant.package.title for cell in cells)),
        "variants": counted(len(cells), "variant"),
        "counts": _counts(cells, catalog),
        "table": table(head, rows),
    }
    return _page("BUILD_MATRIX.md", values)


def alignment(matrix: Matrix, catalog: Catalog) -> str:
    """Which cells the packages have in common."""
    packages = matrix.packages(catalog)
    present = {(cell.variant.package, cell.variant.stack) for cell in matrix.cells}
    order = dict.fromkeys(cell.variant.stack for cell in matrix.cells)
    rows = [
        [f"`{name}`", *("yes" if (package, name) in present else "**missing**" for package in packages)]
        for name in order
    ]
    complete = sum(all((package, name) in present for package in packages) for name in order)
    titles = [package.title for package in packages]
    aligned = _aligned(complete, len(order), titles)
    return _page("ALIGNMENT.md", {"aligned": aligned, "table": table(["build", *titles], rows)})


def _aligned(complete: int, cells: int, titles: Sequence[str]) -> str:
    names = ", ".join(titles)
    if len(titles) == 1:
        return f"All {cells} builds are of {names}, the only package."
    if complete == cells:
        return f"All {cells} builds exist in every package: {names}."
    return f"{complete} of {cells} builds exist in every package: {names}."


def build_notes(package: Package, cells: Sequence[Cell], catalog: Catalog) -> dict[str, str]:
    """What was needed to make the builds of each line and CUDA generation work."""

    def page_of(cell: Cell) -> str:
        version = catalog.lines[cell.line].version_of(package.name)
        short = ".".join(version.split(".")[:2]) or "flox"
        toolkit = cell.variant.toolkit
        major = str(toolkit or "").partition(".")[0]
        return f"docs/{package.name}-{short}-{cell.variant.backend}{major}-build-notes.md"

    pages = grouped((page_of(cell), cell) for cell in cells)
    return {name: _notes(name, package, group, catalog) for name, group in pages.items()}


def _notes(name: str, package: Package, cells: Sequence[Cell], catalog: Catalog) -> str:
    line = catalog.lines[cells[0].line]
    toolkits = list(dict.fromkeys(cell.variant.toolkit for cell in cells))
    builds = [build for toolkit in toolkits if (build := line.build_for(toolkit))]
    fixes = [fix for fix in catalog.fixes.values() if any(fix.name in build.fixes for build in builds)]
    mine = [fix for fix in fixes if fix.serves(package)]
    titles = sorted({title for cell in cells if (title := toolkit_title(cell.variant, catalog))})
    what = ", ".join([*titles[:1], *(title.split()[-1] for title in titles[1:])]) or "the CPU alone"
    version = line.version_of(package.name) or "of the Flox catalog"
    pins = sorted({catalog.pins[build.pin].rev for build in builds if build.pin})
    needed = table(["fix", "why"], [[fix.title, fix.why] for fix in mine])
    gpus = [gpu_title(cell.variant, catalog) or "none" for cell in cells]
    cpus = [catalog.isas[cell.variant.isa].title for cell in cells]
    variants = zip((f"`{cell.name}`" for cell in cells), gpus, cpus, strict=True)
    known = (error for error in catalog.errors.values() if titles or not error.gpu)
    errors = [[error.title, error.cause, error.fix] for error in known]
    values: TemplateValues = {
        "title": package.title,
        "version": version,
        "toolkits": what,
        "pairs": _pairs(line, catalog),
        "pins": ", ".join(f"`{pin}`" for pin in pins) or "from the Flox catalog",
        "needed": needed if mine else "Nothing: the pin builds it as it is.",
        "variants": table(["variant", "GPU", "CPU"], variants),
        "errors": table(["in the log", "cause", "fix"], errors),
    }
    return _page(name.removeprefix("docs/"), values, "build-notes.md")


def _pairs(line: Line, catalog: Catalog) -> str:
    if not line.torch:
        return "The torch release is the one that the Flox catalog has."
    versions = {
        package.title: line.version_of(package.name)
        for package in catalog.packages.values()
        if line.builds(package)
    }
    names = ", ".join(f"{title} {version}" for title, version in versions.items() if version)
    return f"{names} belong together."


def toolkit_readme(names: Sequence[str], settings: Settings, catalog: Catalog) -> str:
    """What build-cudatoolkit has and how to build it."""
    rows = [
        [f"`{package.name}-*`", package.title, package.about] for package in catalog.cuda_packages.values()
    ]
    values: TemplateValues = {
        "count": str(len(names)),
        "releases": ", ".join(map(str, settings.cudatoolkit)),
        "packages": table(["package", "what", "for"], rows),
        "names": names,
    }
    return _page("README.md", values, "toolkit-README.md")
