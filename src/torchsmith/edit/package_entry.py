"""What a package of nixpkgs needs, asked of Nix and read off its derivation; and the entry of packages.toml
that says so."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from torchsmith.catalog import Catalog, Package, Pin, builtin_catalog
from torchsmith.catalog.package import CPU, GpuForm, GpuList, SourceRepository
from torchsmith.catalog.ranges import version_key
from torchsmith.core.files import write_atomic
from torchsmith.core.problem import Where
from torchsmith.core.text import some_of
from torchsmith.core.toml_edit import Inline, table_text
from torchsmith.matrix import Cell
from torchsmith.nix.evaluate import TREE_HINT, EvalResult, Evaluate, EvaluationRequest
from torchsmith.nix.fetch import fetch_tree, nixpkgs_address, tree_for
from torchsmith.nix.graph import Graph, graph_of
from torchsmith.nix.probe import PackageAnswer, probe_package
from torchsmith.nix.tool import Nix
from torchsmith.recipe.values import RecipeOptions
from torchsmith.recipe.write import MARK, RecipeWriter, check_nix
from torchsmith.workspace.load import Workspace

GPU_NAME = re.compile(r"ARCH|CAPABILIT|COMPUTE|GENCODE|GPU_TARGET")
FORMS: tuple[tuple[GpuForm, re.Pattern[str]], ...] = (
    ("9.0", re.compile(r"\d{1,2}\.\d[af]?(\+PTX)?([;, ]+\d{1,2}\.\d[af]?(\+PTX)?)*")),
    ("90-real", re.compile(r"\d{2,3}[af]?-real([;, ]+\d{2,3}[af]?(-real|-virtual)?)*")),
    ("90", re.compile(r"\d{2,3}[af]?([;, ]+\d{2,3}[af]?)*")),
)
TORCH_LIST = "TORCH_CUDA_ARCH_LIST"  # torch's extension builder reads it, and recipes set it from their torch
CMAKE_LIST = "CMAKE_CUDA_ARCHITECTURES"  # a plain number there brings PTX too


@dataclass(frozen=True, slots=True)
class PackageProbe:
    """A package as one cell's nixpkgs has it, or Nix's own error."""

    cell: Cell
    error: str = ""
    alike: tuple[str, ...] | None = None  # attributes there with the same beginning, if it has no such one
    version: str = ""
    uses: tuple[str, ...] = ()  # packages of the matrix
    modules: tuple[str, ...] = ()
    gpu_lists: tuple[GpuList, ...] = ()


def cells_to_probe(workspace: Workspace) -> list[Cell]:
    """A torch cell for every line, CUDA and system of a workspace; only pinned recipes import a nixpkgs."""
    catalog = workspace.catalog
    cells: dict[tuple[object, ...], Cell] = {}
    for cell in workspace.matrix.cells:
        variant = cell.variant
        build = catalog.lines[cell.line].build_for(variant.toolkit)
        if build is not None and build.style == "pinned" and not variant.flavor:
            key = cell.line, variant.cuda, catalog.isas[variant.isa].platform
            cells.setdefault(key, Cell(variant.of(catalog.torch), cell.line))
    return list(cells.values())


def probe(
    workspace: Workspace, name: str, evaluate: Evaluate, nix: Nix, trees: Mapping[str, Path]
) -> list[PackageProbe]:
    """What each nixpkgs has of a package; then, by the derivation of every cell to probe, what is below it
    and how its GPU is passed. A failure of one costs no other."""
    catalog = workspace.catalog
    package = catalog.packages[name]
    cells = cells_to_probe(workspace)
    if catalog.template_of(name):
        return _derived(cells, package, catalog, evaluate, nix)
    pins = {pin.name: pin for pin in (pin_of(catalog, cell) for cell in cells)}
    answers = {}
    for pin in pins.values():
        url = nixpkgs_address(pin.rev)
        tree = tree_for(trees, url) or fetch_tree(nix, url, pin.sha256, TREE_HINT)
        answers[pin.name] = probe_package(nix, tree, catalog, package)
    probes = {cell: _stated(cell, package, catalog, answers[pin_of(catalog, cell).name]) for cell in cells}
    evaluable = [cell for cell, stated in probes.items() if not stated.error]
    for derived in _derived(evaluable, package, catalog, evaluate, nix):
        release = probes[derived.cell].version
        probes[derived.cell] = derived if derived.error else replace(derived, version=release)
    return list(probes.values())


def _stated(cell: Cell, package: Package, catalog: Catalog, answer: PackageAnswer) -> PackageProbe:
    """What the tree that a cell imports says of a package."""
    platform = catalog.isas[cell.variant.isa].platform
    release = answer.versions[package.name]
    if release is None:
        error = f"it has no python3Packages.{package.attr}"
        return PackageProbe(cell, error, tuple(answer.alike[package.name]))
    lacks = package.name in answer.missing[platform]
    return PackageProbe(cell, f"{package.attr} is not available on {platform}" * lacks, version=release)


def pin_of(catalog: Catalog, cell: Cell) -> Pin:
    """The nixpkgs that a cell imports."""
    build = catalog.lines[cell.line].build_for(cell.variant.toolkit)
    assert build is not None, "a cell to probe is one that its line builds"
    return catalog.pins[build.pin]


def _derived(
    cells: Sequence[Cell], package: Package, catalog: Catalog, evaluate: Evaluate, nix: Nix
) -> list[PackageProbe]:
    """What the derivations of a package say."""
    writer = RecipeWriter(catalog, RecipeOptions())
    with tempfile.TemporaryDirectory(prefix="torchsmith-package-") as place:
        requests, places = [], {}
        for cell in cells:
            file = Path(place).resolve() / f"{cell.name}.nix"
            text, places[str(file)] = writer.probe(cell, package)
            check_nix(text, places[str(file)])
            write_atomic(file, text)
            system = catalog.isas[cell.variant.isa].platform
            requests.append(EvaluationRequest(cell.name, file, system))
        results = evaluate(requests)
        graph = graph_of(nix, results)
    return [
        _probe(cell, _in_template(result, places), graph, catalog)
        for cell, result in zip(cells, results, strict=True)
    ]


def _in_template(result: EvalResult, places: Mapping[str, Mapping[int, Where]]) -> EvalResult:
    """A result whose error, if a template of ours is to blame, names its file and line."""
    where = result.cause.where if result.cause else None
    template_line = places.get(str(result.path), {}).get(where.line) if where else None
    if result.cause is None or template_line is None:
        return result
    return replace(result, cause=replace(result.cause, message=f"{template_line}: {result.cause.message}"))


def _probe(cell: Cell, result: EvalResult, graph: Graph, catalog: Catalog) -> PackageProbe:
    if result.evaluated is None:
        return PackageProbe(cell, result.cause.message if result.cause else "Nix said nothing")
    env = graph.derivations[result.evaluated.drv_path].env
    marks = {graph.derivations[below].env.get(MARK, "") for below in graph.below[result.name]}
    uses = tuple(name for name in catalog.packages if name in marks)
    return PackageProbe(
        cell,
        version=env.get("version", ""),
        uses=uses,
        modules=tuple(_modules(env.get("pythonImportsCheck", "").split())),
        gpu_lists=tuple(gpu_lists(env, with_torch=catalog.torch.name in uses)),
    )


def gpu_lists(env: Mapping[str, str], *, with_torch: bool) -> Iterator[GpuList]:
    """The variables and CMake flags that hold a list of GPU architectures, as this package spells it."""
    for name, value in sorted(env.items()):
        form = _form(name, value)
        if form and not (with_torch and name == TORCH_LIST):
            yield GpuList(by="variable", name=name, form=form)
    for flag in env.get("cmakeFlags", "").split():
        match = re.fullmatch(r"-D(\w+)(?::\w+)?=(.+)", flag)
        form = _form(match[1], match[2]) if match else None
        if match and form:
            yield GpuList(by="cmake", name=match[1], form="90-real" if match[1] == CMAKE_LIST else form)


def _form(name: str, value: str) -> GpuForm | None:
    if not GPU_NAME.search(name.upper()):
        return None
    return next((form for form, pattern in FORMS if pattern.fullmatch(value)), None)


def _modules(names: Iterable[str]) -> dict[str, None]:
    """The folders below site-packages that a package's own check imports, each once."""
    tops = (name.partition(".")[0] for name in names)
    return {top: None for top in tops if re.fullmatch(r"[A-Za-z_]\w*", top)}


class PackageRow(msgspec.Struct, frozen=True):
    """A package that is known: `own` if the workspace's catalog has it, and its cells in the matrix."""

    name: str
    title: str
    attr: str
    needs: list[str]
    releases: Mapping[str, str]  # by line
    own: bool
    cells: int


def package_row(package: Package, workspace: Workspace) -> PackageRow:
    """What a workspace knows of a package."""
    catalog = workspace.catalog
    releases = {}
    for line in sorted(catalog.lines.values(), key=lambda line: version_key(line.torch), reverse=True):
        build = next((build for build in (*line.cuda.values(), line.cpu) if build and build.pin), None)
        release = catalog.release_of(package, line, build) if build and line.builds(package) else ""
        if release := line.torch if package.is_torch else release:
            releases[line.name] = release
    cells = sum(cell.variant.package == package for cell in workspace.matrix.cells)
    own = package.name not in builtin_catalog().packages
    return PackageRow(package.name, package.title, package.attr, list(package.needs), releases, own, cells)


@dataclass(frozen=True, slots=True)
class NewPackage:
    """What a person says of a package; the rest is asked of Nix."""

    name: str
    attr: str
    title: str = ""
    upstream: SourceRepository | None = None
    version: str = ""  # empty: the one that each nixpkgs has
    gpu_list: tuple[GpuList, ...] = ()


def entry_text(workspace: Workspace, new: NewPackage, probes: Sequence[PackageProbe]) -> str:
    """A table of TOML, its limits after it; without answers one that can be asked about."""
    catalog = workspace.catalog
    good = [probe for probe in probes if not probe.error]
    uses = {name for probe in good for name in probe.uses}
    needs = [name for name in catalog.packages if name in uses]
    all_lines = list(dict.fromkeys(cell.line for cell in cells_to_probe(workspace)))
    lines = list(dict.fromkeys(probe.cell.line for probe in good))
    if not probes:  # before Nix was asked
        needs, lines = [catalog.torch.name], all_lines
    entry: dict[str, Any] = {"title": new.title or new.name, "attr": new.attr}
    if new.upstream:
        entry["upstream"] = Inline(owner=new.upstream.owner, repo=new.upstream.repo, tag=new.upstream.tag)
    if needs:
        entry["needs"] = needs
    if _needs_cuda(probes):  # without it Nix refuses
        entry["needs_cuda"] = True
    if lines != all_lines:
        entry["lines"] = lines
    lists = new.gpu_list or tuple(dict.fromkeys(gpu_list for probe in good for gpu_list in probe.gpu_lists))
    if lists:
        tables = [Inline(by=gpu_list.by, name=gpu_list.name, form=gpu_list.form) for gpu_list in lists]
        entry["gpu_list"] = tables[0] if len(tables) == 1 else tables
    entry["modules"] = [*dict.fromkeys(name for probe in good for name in probe.modules)]
    if new.version:
        entry["versions"] = Inline(dict.fromkeys(lines, new.version))
    pins = ", ".join(sorted({pin_of(catalog, probe.cell).name for probe in good}))
    cells = some_of(list(dict.fromkeys(probe.cell.variant.cell for probe in good)), 3)
    entry["source"] = f"Nix, asked at nixpkgs {pins} for {cells}"
    entry["unproved"] = "evaluated there, never compiled"
    if limits := _limits(workspace, probes, lines):
        entry["limits"] = limits
    return table_text({new.name: entry})


def _needs_cuda(probes: Sequence[PackageProbe]) -> bool:
    """Whether Nix refuses it wherever there is no CUDA, and not everywhere."""
    without = [probe for probe in probes if probe.cell.variant.cuda is None]
    return bool(without) and all(probe.error for probe in without)


def _limits(workspace: Workspace, probes: Sequence[PackageProbe], lines: Sequence[str]) -> dict[str, Any]:
    """What Nix refuses of the lines that have it, each with Nix's own error."""
    limits = {}
    for probe in probes:
        cuda = probe.cell.variant.cuda
        if not probe.error or probe.cell.line not in lines or (cuda is None and _needs_cuda(probes)):
            continue
        platform = workspace.catalog.isas[probe.cell.variant.isa].platform
        limits[f"{probe.cell.line}-{cuda or CPU}-{platform.removesuffix('-linux')}"] = {
            "lines": [probe.cell.line],
            "cuda": f"=={cuda}" if cuda else CPU,
            "platforms": [platform],
            "reason": f"Nix: {probe.error}",
        }
    return limits
