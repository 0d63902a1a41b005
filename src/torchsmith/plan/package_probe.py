"""What a package of nixpkgs needs, asked of Nix and read off its derivation."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from torchsmith.catalog import Catalog
from torchsmith.catalog.package import GpuForm, GpuList
from torchsmith.edge.files import write_atomic
from torchsmith.edge.problem import Where
from torchsmith.matrix import Cell
from torchsmith.nix.derivation import Derivation, name_of
from torchsmith.nix.evaluate import EvalResult, Evaluate, EvaluationRequest
from torchsmith.nix.graph import Graph, closure
from torchsmith.recipe.values import RecipeOptions
from torchsmith.recipe.write import MARK, NO_ATTRIBUTE, RecipeWriter, check_nix
from torchsmith.workspace.load import Workspace

GPU_NAME = re.compile(r"ARCH|CAPABILIT|COMPUTE|GENCODE|GPU_TARGET")
FORMS: tuple[tuple[GpuForm, re.Pattern[str]], ...] = (
    ("9.0", re.compile(r"\d{1,2}\.\d[af]?(\+PTX)?([;, ]+\d{1,2}\.\d[af]?(\+PTX)?)*")),
    ("90-real", re.compile(r"\d{2,3}[af]?-real([;, ]+\d{2,3}[af]?(-real|-virtual)?)*")),
    ("90", re.compile(r"\d{2,3}[af]?([;, ]+\d{2,3}[af]?)*")),
)
TORCH_LIST = "TORCH_CUDA_ARCH_LIST"  # torch's extension builder reads it, and recipes set it from their torch
CMAKE_LIST = "CMAKE_CUDA_ARCHITECTURES"  # a plain number there brings PTX too
Read = Callable[[Sequence[EvalResult]], Graph]


@dataclass(frozen=True, slots=True)
class PackageProbe:
    """A package as one cell's nixpkgs has it, or Nix's own error."""

    cell: Cell
    error: str = ""
    version: str = ""
    uses: tuple[str, ...] = ()  # packages of the matrix
    modules: tuple[str, ...] = ()
    gpu_lists: tuple[GpuList, ...] = ()
    nvcc: bool = False  # it calls the CUDA compiler itself

    @property
    def missing(self) -> bool:
        """Whether that nixpkgs has no such attribute."""
        return NO_ATTRIBUTE in self.error


def cells_to_ask(workspace: Workspace) -> list[Cell]:
    """A torch cell for every line, CUDA and system of a workspace; only pinned recipes import a nixpkgs."""
    catalog = workspace.catalog
    found: dict[tuple[object, ...], Cell] = {}
    for cell in workspace.matrix.cells:
        variant = cell.variant
        build = catalog.lines[cell.line].build_for(variant.cuda)
        if build is not None and build.style == "pinned" and not variant.flavor:
            key = cell.line, variant.cuda, catalog.isas[variant.isa].platform
            found.setdefault(key, Cell(variant.of(catalog.torch), cell.line))
    return list(found.values())


def probe(workspace: Workspace, name: str, evaluate: Evaluate, read: Read) -> list[PackageProbe]:
    """Ask Nix about a package, once for every cell to ask; a failure of one costs no other."""
    catalog = workspace.catalog
    package = catalog.packages[name]
    writer = RecipeWriter(catalog, RecipeOptions())
    cells = cells_to_ask(workspace)
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
        graph = read(results)
    return [
        _probe(cell, _in_template(result, places), graph, catalog)
        for cell, result in zip(cells, results, strict=True)
    ]


def _in_template(result: EvalResult, places: Mapping[str, Mapping[int, Where]]) -> EvalResult:
    """A result whose error, where a template of ours is to blame, names its file and line."""
    where = result.cause.where if result.cause else None
    found = places.get(str(result.path), {}).get(where.line) if where else None
    if result.cause is None or found is None:
        return result
    return replace(result, cause=replace(result.cause, message=f"{found}: {result.cause.message}"))


def pin_of(workspace: Workspace, one: PackageProbe) -> str:
    """The nixpkgs that a cell imports."""
    build = workspace.catalog.lines[one.cell.line].build_for(one.cell.variant.cuda)
    return build.pin if build else ""


def _probe(cell: Cell, result: EvalResult, graph: Graph, catalog: Catalog) -> PackageProbe:
    if result.evaluated is None:
        return PackageProbe(cell, result.cause.message if result.cause else "Nix said nothing")
    path = result.evaluated.drv_path
    own, told = graph.derivations[path], variables(graph.derivations[path])
    below = (graph.derivations[one] for one in closure(graph.derivations, path))
    marks = {one.env.get(MARK, "") for one in below}
    uses = tuple(name for name in catalog.packages if name in marks)
    return PackageProbe(
        cell,
        version=told.get("version", ""),
        uses=uses,
        modules=tuple(_modules(told.get("pythonImportsCheck", "").split())),
        gpu_lists=tuple(gpu_lists(told, with_torch=catalog.torch.name in uses)),
        nvcc=any("nvcc" in name_of(one) for one in own.inputs),
    )


def variables(derivation: Derivation) -> dict[str, str]:
    """What the builder of a derivation is told, in the environment or in its structured attributes."""
    env = dict(derivation.env)
    structured = msgspec.json.decode(env.get("__json", "{}"))
    for name, value in {**structured, **structured.get("env", {})}.items():
        env[name] = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    return env


def gpu_lists(told: Mapping[str, str], *, with_torch: bool) -> Iterator[GpuList]:
    """The variables and CMake flags that hold a list of GPU architectures, as this package spells it."""
    for name, value in sorted(told.items()):
        form = _form(name, value)
        if form and not (with_torch and name == TORCH_LIST):
            yield GpuList(by="variable", name=name, form=form)
    for flag in told.get("cmakeFlags", "").split():
        found = re.fullmatch(r"-D(\w+)(?::\w+)?=(.+)", flag)
        form = _form(found[1], found[2]) if found else None
        if found and form:
            yield GpuList(by="cmake", name=found[1], form="90-real" if found[1] == CMAKE_LIST else form)


def _form(name: str, value: str) -> GpuForm | None:
    if not GPU_NAME.search(name.upper()):
        return None
    return next((form for form, pattern in FORMS if pattern.fullmatch(value)), None)


def _modules(names: Iterable[str]) -> dict[str, None]:
    """The folders below site-packages that a package's own check imports, each once."""
    tops = (name.partition(".")[0] for name in names)
    return {top: None for top in tops if re.fullmatch(r"[A-Za-z_]\w*", top)}
