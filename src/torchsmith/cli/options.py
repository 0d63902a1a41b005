"""Options that several verbs share, and what they lead to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from torchsmith.cli.params import Argument, Option

if TYPE_CHECKING:
    from torchsmith.catalog import Catalog
    from torchsmith.matrix import Variant


def complete_names(incomplete: str) -> list[str]:
    """Variant names of the workspace at hand, for the shell."""
    from torchsmith.edge.problem import Problem
    from torchsmith.workspace.load import open_workspace

    try:
        cells = open_workspace(None).matrix.cells
    except Problem:
        return []
    return [cell.name for cell in cells if cell.name.startswith(incomplete)]


WorkspaceOption = Annotated[
    Path | None,
    Option(
        "--workspace",
        "-w",
        help="A torchsmith.toml or its folder; else the nearest one above this folder, else the default.",
    ),
]
ProfileOption = Annotated[
    str | None,
    Option("--profile", "-p", help="Use this profile: plan, real, wide, or one of your own."),
]
JsonOption = Annotated[bool, Option("--json", help="Print JSON.")]
Selectors = Annotated[
    list[str] | None,
    Argument(
        metavar="[SELECTOR]...",
        help="Words that pick variants, such as sm120, sm9*, cpu, avx512*, package:torchvision, !sm110.",
    ),
]
Name = Annotated[str, Argument(metavar="NAME", help="A variant's name.", autocompletion=complete_names)]
VariantOption = Annotated[
    str | None,
    Option(
        "--variant",
        help="The variant it should be; else the one in the path's name.",
        autocompletion=complete_names,
    ),
]


def promised(name: str | None, path: Path, catalog: Catalog) -> Variant | None:
    """The variant that is asked for or that a path's name says; one of the catalog, or a Problem."""
    from torchsmith.artifact.verdict import variant_in
    from torchsmith.edge.problem import Problem, did_you_mean
    from torchsmith.matrix import Variant

    variant = Variant.parse(name, catalog) if name else variant_in(path, catalog)
    if variant is not None and variant.isa not in catalog.isas:
        raise Problem(f"unknown instruction set {variant.isa}", hint=did_you_mean(variant.isa, catalog.isas))
    if variant is not None and variant.sm is not None and variant.sm not in catalog.gpus:
        known = [str(sm) for sm in catalog.gpus]
        raise Problem(f"unknown GPU {variant.sm}", hint=did_you_mean(str(variant.sm), known))
    return variant


def adopting(given: bool, paths: list[Path] | None) -> bool:
    """Whether files of others are to be taken over; paths alone do not say so."""
    from torchsmith.edge.problem import Problem

    if paths and not given:
        raise Problem(f"{paths[0]}: paths say what --adopt takes over", hint="add --adopt, or name no path")
    return given
