"""`torchsmith pick`: which of the matrix's variants is for this machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from torchsmith.cli.host_options import (
    CpuOption,
    DriverOption,
    FeaturesOption,
    FromOption,
    GpuOption,
    IsaOption,
    LimitOption,
    PackagesOption,
    SystemOption,
    WorkloadOption,
)
from torchsmith.cli.options import JsonOption, ProfileOption, Selectors, WorkspaceOption
from torchsmith.cli.params import Option

if TYPE_CHECKING:
    from torchsmith.catalog import Catalog
    from torchsmith.host.pick import Pick
    from torchsmith.matrix import Variant
    from torchsmith.workspace.load import Workspace

EXAMPLE = "torchsmith pick --cpu zen4 --gpu 'RTX 4090' --driver 570.124.06"
PublisherOption = Annotated[
    str, Option("--org", help="The Flox organisation that publishes; else `org` of torchsmith.toml.")
]
ManifestOption = Annotated[
    bool, Option("--manifest", help="Print the manifest.toml of a Flox environment that installs it.")
]
CreateOption = Annotated[
    Path | None, Option("--create", metavar="FILE", help="Write what is missing as a torchsmith.toml.")
]


def run(
    selectors: Selectors = None,
    from_: FromOption = None,
    workload: WorkloadOption = "general",
    system: SystemOption = "",
    cpu: CpuOption = "",
    isa: IsaOption = "",
    features: FeaturesOption = "",
    gpu: GpuOption = None,
    driver: DriverOption = "",
    time_limit: LimitOption = 10.0,
    package: PackagesOption = None,
    org: PublisherOption = "",
    manifest: ManifestOption = False,
    explain: Annotated[bool, Option("--explain", help="Say of every candidate why not.")] = False,
    names: Annotated[bool, Option("--names", help="Print the chosen names alone.")] = False,
    create: CreateOption = None,
    workspace: WorkspaceOption = None,
    profile: ProfileOption = None,
    json: JsonOption = False,
) -> None:
    """Pick the variant that runs best on this machine, or on one that reports or options describe.

    The candidates are the workspace's variants, and without a workspace all that can be built. The exit code
    is 1 where no variant runs, or none uses a GPU that is there.
    """
    from torchsmith.cli.console import print_json
    from torchsmith.cli.host_view import print_notes
    from torchsmith.cli.pick_view import pick_json, print_explanations, print_pick
    from torchsmith.edge.problem import by_name
    from torchsmith.host.commands import stand_here
    from torchsmith.host.gather import gather
    from torchsmith.host.given import Given
    from torchsmith.host.pick import pick
    from torchsmith.workspace.load import open_workspace

    opened = open_workspace(workspace, profile, alone="wide")
    catalog = opened.catalog
    given = Given(system, cpu, isa, features, "; ".join(gpu or []), "", driver)
    facts = gather(from_ or [], given, catalog, limit=time_limit)
    whole = bool(opened.root or selectors or package)  # of a matrix of ours torch's part is enough
    cells = opened.select(selectors or []).cells if whole else opened.cells_of(catalog.torch)
    use = by_name("workload", workload, catalog.workloads)
    answer = pick(facts, cells, catalog, use, package or (), None if whole else opened.has)
    here = stand_here(opened.root, org or opened.settings.org)
    if manifest:
        _print_manifest(answer, catalog, here.org)
    elif names:
        sys.stdout.write("".join(f"{one.fit.variant.name}\n" for one in answer.choice.variants))
    elif json:
        print_json(pick_json(answer, catalog, here))
    else:
        print_pick(answer, catalog, here, _adds_to(opened))
        if explain:
            print_explanations(answer, catalog)
        print_notes(answer.facts)
    if create is not None:
        _create(create, answer, catalog)
    if not answer.served:
        raise SystemExit(1)


def _print_manifest(answer: Pick, catalog: Catalog, org: str) -> None:
    from torchsmith.cli.pick_view import manifest_of
    from torchsmith.edge.problem import Incomplete

    if not org:
        hint = 'give --org, or write org = "..." into torchsmith.toml'
        raise Incomplete("no Flox organisation is known, so nothing can be installed from one", hint=hint)
    for one in answer.choice.variants[:1]:
        sys.stdout.write(manifest_of(one, answer, catalog, org))


def _adds_to(opened: Workspace) -> Callable[[Variant], str]:
    """The file to which a cell can be added: not that of a workspace whose line does not build it."""
    from torchsmith.matrix import Accepted, assess

    def file(variant: Variant) -> str:
        accepted = isinstance(assess(variant, opened.catalog, opened.settings.line), Accepted)
        return opened.source.name if opened.root and accepted else ""

    return file


def _create(path: Path, answer: Pick, catalog: Catalog) -> None:
    from torchsmith.cli.paint import warn
    from torchsmith.host.matrix_file import write_matrix
    from torchsmith.workspace.load import read_as

    write_matrix(path, answer.missing_cells(catalog), "What torchsmith pick found missing.", read_as)
    warn(f"written: {path}")
    for text in dict.fromkeys(str(reason) for fit in answer.wanted for reason in fit.unproved):
        warn(f"not proved: {text}")
