"""Fields that several requests share."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

from torchsmith.cli.request import Argument, Option
from torchsmith.core.problem import Problem


def complete_names() -> list[str]:
    """The names of the workspace's builds."""
    from torchsmith.workspace.load import open_workspace

    with contextlib.suppress(Problem):
        return [cell.name for cell in open_workspace(None).matrix.cells]
    return []


def complete_cells() -> list[str]:
    """The names of all builds that a new workspace can have."""
    from torchsmith.workspace.load import DEFAULT, open_workspace

    return [cell.name for cell in open_workspace(DEFAULT, "wide").matrix.cells]


def complete_profiles() -> list[str]:
    """Profiles of the workspace and built-in ones."""
    from torchsmith.workspace.load import default_profiles, open_workspace

    own: list[str] = []
    with contextlib.suppress(Problem):
        own = [*open_workspace(None).settings.profiles]
    return [*dict.fromkeys([*own, *default_profiles()])]


def complete_selectors() -> list[str]:
    """Values of every axis, names of builds, and products."""
    from torchsmith.catalog import builtin_catalog

    catalog = builtin_catalog()
    axes = [*map(str, catalog.gpus), *catalog.isas, "cpu", *catalog.packages]
    axes += [f"cuda{version.slug}" for version in catalog.cuda]
    axes += [*(name for line in catalog.lines.values() for name in line.backends), *catalog.gfx]
    return [*dict.fromkeys([*axes, *complete_names(), *complete_gpus()])]


def complete_gpus() -> list[str]:
    """GPUs by product and by architecture."""
    from torchsmith.catalog import builtin_catalog
    from torchsmith.catalog.suggest import gpu_products

    catalog = builtin_catalog()
    return [*map(str, catalog.gpus), *gpu_products(catalog)]


def complete_names_and_gpus() -> list[str]:
    """Names of the workspace's builds, and GPUs."""
    return complete_names() + complete_gpus()


def complete_from(table: str) -> Callable[[], list[str]]:
    """Names of the entries of one of the catalog's tables."""

    def names() -> list[str]:
        from torchsmith.catalog import builtin_catalog

        return [*getattr(builtin_catalog(), table)]

    return names


def complete_jobs() -> list[str]:
    """Jobs that have a log."""
    from torchsmith.building.by_name import workspace_record

    with workspace_record(None, read_only=True) as (_, record):
        return record.logged_names()


def complete_rules() -> list[str]:
    """Rules of the audit."""
    from torchsmith.auditing.rule import all_rules

    return [rule.id for rule in all_rules()]


WorkspaceOption = Annotated[
    Path | None,
    Option(
        "--workspace",
        "-w",
        "A torchsmith.toml or its folder; by default the nearest one in or above this folder.",
    ),
]
ProfileOption = Annotated[
    str | None,
    Option(
        "--profile",
        "-p",
        "Use this profile: real, seed, wide, or one of your own.",
        complete=complete_profiles,
    ),
]
ProfileChoice = Annotated[
    str, Option("--profile", "-p", "The matrix to start from.", complete=complete_profiles)
]
JsonOption = Annotated[bool, Option("Print JSON.")]
DryRunOption = Annotated[bool, Option("Write nothing; show what would change.")]
YesOption = Annotated[bool, Option("--yes", "-y", "Delete files without asking.")]
WaitOption = Annotated[float, Option("Wait this many seconds for another run to end.", min=0)]


Selectors = Annotated[
    Sequence[str],
    Argument(
        "Selectors, such as sm120, sm9*, cpu, avx512*, python:3.12, torch:2.12, package:torchvision, !sm110.",
        metavar="[SELECTOR]...",
        complete=complete_selectors,
    ),
]
Name = Annotated[
    str, Argument("A build or a GPU.", metavar="NAME", joined=True, complete=complete_names_and_gpus)
]
VariantOption = Annotated[
    str | None,
    Option("The build it should be; by default the one in the path's name.", complete=complete_names),
]
