"""Recipes as text: a variant and its line in, one .nix file out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torchsmith.catalog import Catalog, CudaPackage, CudaVersion, Pin
from torchsmith.catalog.facts import Style
from torchsmith.edge.nixtext import string
from torchsmith.matrix import Cell, Flavor, Variant
from torchsmith.recipe.header import with_header
from torchsmith.recipe.template import Value, render, template
from torchsmith.recipe.values import CellFacts, RecipeOptions, cell_values, cuda_package_values, shared_values


def about(cell: Cell) -> str:
    """What the header of a recipe says of it."""
    return f"variant={cell.name} line={cell.line}"


def family(variant: Variant, style: Style) -> str:
    """The template of a variant's recipes."""
    if style == "nightly":
        wrapper = variant.flavor is Flavor.NIGHTLY_WRAPPER
        kind = "wrapper" if wrapper else "companion" if variant.package.companion else "torch"
        return f"nightly-{kind}.nix"
    if style == "catalog":
        return "catalog-gpu.nix" if variant.cuda else "catalog-cpu.nix"
    if variant.package.companion:
        return "companion.nix"
    return "torch-gpu.nix" if variant.cuda else "torch-cpu.nix"


def _style(cell: Cell, catalog: Catalog) -> Style:
    return CellFacts(cell, catalog).build.style


def takes_inputs(cell: Cell, catalog: Catalog) -> bool:
    """Whether a recipe is called with packages, as Flox does, instead of importing its own pin."""
    return _style(cell, catalog) != "pinned" and cell.variant.flavor is not Flavor.NIGHTLY_WRAPPER


def recipe(cell: Cell, catalog: Catalog, options: RecipeOptions) -> str:
    """A recipe that is complete in itself."""
    values = cell_values(cell, catalog, options)
    parts = template(family(cell.variant, _style(cell, catalog)))
    return with_header(render(parts, values), about(cell), ".nix")


def cuda_package(package: CudaPackage, cuda: CudaVersion, pin: Pin, catalog: Catalog) -> str:
    """A recipe of build-cudatoolkit."""
    values = cuda_package_values(package, cuda, pin, catalog)
    body = render(template("cuda-package.nix"), values)
    return with_header(body, f"package={package.name}-{cuda.slug} cuda={cuda}", ".nix")


@dataclass(frozen=True, slots=True)
class Group:
    """Cells that one shared file serves: alike in everything but GPU and instruction set."""

    name: str
    cells: tuple[Cell, ...]


def groups(cells: Sequence[Cell], catalog: Catalog) -> list[Group]:
    """Cells by the file that they share; only pinned recipes share one."""
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        if _style(cell, catalog) != "pinned":
            continue
        found.setdefault(_group_name(cell, catalog), []).append(cell)
    return [Group(name, tuple(members)) for name, members in found.items()]


def _group_name(cell: Cell, catalog: Catalog) -> str:
    facts = CellFacts(cell, catalog)
    variant = cell.variant
    target = f"cuda{variant.cuda.slug}" if variant.cuda else "cpu"
    marks = ["jetson"] if facts.jetson else []
    if facts.isa.torch_off:
        marks.append(facts.isa.name)
    return "-".join([variant.package.value, variant.python.slug, target, *marks])


def shared(group: Group, catalog: Catalog, options: RecipeOptions) -> str:
    """The file that the wrappers of a group call."""
    values: dict[str, Value] = shared_values(group.cells, catalog, options)
    body = render(template(family(group.cells[0].variant, "pinned")), values)
    return with_header(body, f"shared={group.name} line={group.cells[0].line}", ".nix")


def wrapper(cell: Cell, group: Group) -> str:
    """A recipe in three lines around its group's file."""
    sm = f"sm = {string(str(cell.variant.sm.number))}; " if cell.variant.sm else ""
    body = (
        f"{{ ... }}@given: import ../../nix/{group.name}.nix (given // {{\n"
        f"  {sm}isa = {string(cell.variant.isa)};\n"
        "})\n"
    )
    return with_header(body, about(cell), ".nix")


def default_nix(pinned: Sequence[str], called: Sequence[Cell] = (), catalog: Catalog | None = None) -> str:
    """Every recipe of a repo as an attribute, for `nix-build -A NAME`; `called` take inputs from a set."""
    on_x86 = [c.name for c in called if catalog and catalog.isas[c.variant.isa].platform == "x86_64-linux"]
    values: dict[str, Value] = {
        "pinned": tuple(pinned),
        "called": bool(called),
        "calledOnX86": on_x86,
        "calledOnArm": [cell.name for cell in called if cell.name not in on_x86],
    }
    return with_header(render(template("default.nix"), values), "file=default.nix", ".nix")
