"""`torchsmith package`: the packages of a workspace, and those of its own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import msgspec

from torchsmith.catalog.package import GpuList, SourceRepository
from torchsmith.cli.console import answer, exit_if, next_step, table, write
from torchsmith.cli.nix_options import (
    NixOptions,
    NixpkgsOption,
    evaluation,
    read_trees,
)
from torchsmith.cli.options import JsonOption, WorkspaceOption, WriteOptions
from torchsmith.cli.reporter import SILENT, Reporter, Terminal
from torchsmith.cli.request import Argument, Option, Request
from torchsmith.core.problem import Incomplete, Invalid
from torchsmith.core.text import counted, grouped, some_of
from torchsmith.edit import package as packages
from torchsmith.edit.package_entry import NewPackage, PackageRow, package_row
from torchsmith.edit.proposal import EditReport, Proposal
from torchsmith.verbs.line import print_edit, written
from torchsmith.workspace.load import open_workspace

EXAMPLE = "torchsmith init builds && torchsmith package list -w builds"


def run() -> None:
    """Show, add and remove packages.

    [bold]package list[/bold] shows the known packages and which ones this workspace builds. [bold]package
    add[/bold] adds a package of nixpkgs with its recipes; [bold]package remove[/bold] removes it. The exit
    code is 1 when Nix refuses every build, or when files that torchsmith does not manage should change.
    """


@dataclass(frozen=True, kw_only=True)
class PackagesRequest(Request):
    """A workspace, whose packages are listed."""

    workspace: WorkspaceOption = None


class PackagesReport(msgspec.Struct, frozen=True):
    """Every package that a workspace knows."""

    packages: list[PackageRow]


def list_packages(request: PackagesRequest = PackagesRequest()) -> PackagesReport:
    """The packages that a workspace knows."""
    opened = open_workspace(request.workspace)
    return PackagesReport([package_row(package, opened) for package in opened.catalog.packages.values()])


def show(*, request: PackagesRequest, json: JsonOption = False) -> None:
    """List the known packages with releases, dependencies, and their builds in this workspace."""
    answer(list_packages(request), _print_packages, as_json=json)


def _print_packages(report: PackagesReport) -> None:
    names = ("package", "release", "needs")
    rows = []
    for row in report.packages:
        releases = " ".join(dict.fromkeys(row.releases.values())) or "nixpkgs' own"
        whose = "this workspace's" if row.own else "built in"
        rows.append([row.name, releases, " ".join(row.needs), str(row.cells or "-"), whose])
    table((*names, "builds", "whose"), rows, right=("builds",), broken=(*names, "whose"))


PackageName = Annotated[str, Argument("The package; its recipes begin so.", metavar="NAME")]


@dataclass(frozen=True, kw_only=True)
class PackageAddRequest(Request):
    """A package of nixpkgs to build, and how Nix is asked about it."""

    name: PackageName
    workspace: WorkspaceOption = None
    attr: Annotated[str, Option("Its attribute in nixpkgs' Python packages; by default its name.")] = ""
    title: Annotated[str, Option("Its name for people.")] = ""
    source: Annotated[
        str, Option("Where releases that nixpkgs lacks come from.", metavar="github:NAME/REPO")
    ] = ""
    tag: Annotated[str, Option("How releases are tagged; by default v{version}.")] = ""
    version: Annotated[str, Option("The release to build; by default the one in nixpkgs.")] = ""
    gpu_list: Annotated[
        Sequence[str],
        Option(
            "How the GPU target is passed to its build, such as variable:FLASH_ATTN_CUDA_ARCHS:90.",
            metavar="BY:NAME[:FORM]",
        ),
    ] = ()
    nixpkgs: NixpkgsOption = ()
    writing: WriteOptions = field(default_factory=WriteOptions)


def _read_source(text: str, tag: str) -> SourceRepository | None:
    """A repository on GitHub as a person gives it, such as github:pytorch/ao."""
    if not text:
        if tag:
            hint = "--source github:pytorch/ao"
            raise Incomplete("--tag says how releases of --source are called", hint=hint)
        return None
    match = re.fullmatch(r"(?:github:|https://github\.com/)([A-Za-z0-9][\w.-]*)/([A-Za-z0-9][\w.-]*)/?", text)
    if match is None:
        raise Invalid(f"--source {text!r} is not a repository on GitHub", hint="such as github:pytorch/ao")
    tag = tag or "v{version}"
    if not re.fullmatch(r"[0-9A-Za-z._/-]*\{version\}[0-9A-Za-z._-]*", tag):
        raise Invalid(f"--tag {tag!r} is not a tag of a release", hint="such as 'v{version}'")
    return SourceRepository(owner=match[1], repo=match[2].removesuffix(".git"), tag=tag)


def _read_gpu_list(specs: Sequence[str]) -> tuple[GpuList, ...]:
    """BY:NAME or BY:NAME:FORM as a person gives it."""
    lists = []
    for spec in specs:
        by, _, rest = spec.partition(":")
        name, _, form = rest.partition(":")
        form = form or "9.0"
        known = by in ("variable", "cmake", "argument") and form in ("9.0", "90", "90-real")
        if not known or not re.fullmatch(r"[A-Za-z_]\w*", name):
            hint = "variable:NAME, cmake:NAME or argument:NAME, then :9.0, :90 or :90-real as it spells sm90"
            raise Invalid(f"--gpu-list {spec!r} does not say how the GPU target is passed", hint=hint)
        lists.append(GpuList(by=by, name=name, form=form))  # type: ignore[arg-type]
    return tuple(lists)


def add_package(request: PackageAddRequest, reporter: Reporter = SILENT) -> EditReport:
    """Ask Nix about a package for every line, CUDA and system, and write its entry and its recipes."""
    new = NewPackage(
        name=request.name,
        attr=request.attr or request.name,
        title=request.title,
        upstream=_read_source(request.source, request.tag),
        version=request.version,
        gpu_list=_read_gpu_list(request.gpu_list),
    )
    opened = open_workspace(request.workspace)
    packages.check_name(opened, new)  # before Nix is looked for
    options = NixOptions(request.nixpkgs, memory=4.0, cache=False)
    nix, ask = evaluation(options, workspace=opened, instantiate=True, reporter=reporter)
    trees = read_trees(request.nixpkgs)
    proposal = packages.propose(request.workspace, new, ask, nix, trees, adopt=request.writing.adopt)
    proposal = _written(proposal, request.workspace, request.writing, reporter)
    report = proposal.report(request.name, written=not request.writing.dry_run)
    package = proposal.after.catalog.packages[request.name]
    answers = grouped(
        (
            f"Nix refuses: {probe.error}" if probe.error else f"release {probe.version}",
            probe.cell.variant.cell,
        )
        for probe in proposal.probes
    )
    return msgspec.structs.replace(
        report,
        needs=package.needs,
        gpu_lists=[f"{way.by} {way.name} ({way.form})" for way in package.gpu_lists],
        nixpkgs=answers,
        cells=proposal.cells_of(request.name),
        left_out=proposal.left_out_of(request.name),
    )


@dataclass(frozen=True, kw_only=True)
class PackageRemoveRequest(Request):
    """A package to remove from the workspace."""

    name: PackageName
    workspace: WorkspaceOption = None
    writing: WriteOptions = field(default_factory=WriteOptions)


def remove_package(request: PackageRemoveRequest, reporter: Reporter = SILENT) -> EditReport:
    """Remove a package's recipes, and its entry if it is the workspace's own."""
    proposal = packages.propose_removal(request.workspace, request.name, adopt=request.writing.adopt)
    proposal = _written(proposal, request.workspace, request.writing, reporter)
    return proposal.report(request.name, written=not request.writing.dry_run)


def _written(
    proposal: Proposal, workspace: Path | None, options: WriteOptions, reporter: Reporter
) -> Proposal:
    """The proposal, written unless the options say --dry-run."""
    return written(lambda: packages.unchanged(proposal), workspace, "package", options, reporter, add=True)


def add(*, request: PackageAddRequest, json: JsonOption = False) -> None:
    """Add a package of nixpkgs to the workspace: its entry in catalog/packages.toml, and its recipes.

    Nix is asked which release each nixpkgs of the workspace has and on which systems, and for every line,
    CUDA release and system whether torch or other packages of the matrix are among its inputs and how the GPU
    target is passed. Builds that Nix refuses are left out, with Nix's error as the reason.
    """
    report = add_package(request, Terminal())
    answer(report, _print_added, as_json=json)
    if report.cells or report.left_out:
        verb = ("eval", f"package:{report.name}") if report.cells else ("list", "--left-out")
        next_step(*verb, workspace=request.workspace)
    exit_if(report.blocked)


def _print_added(report: EditReport) -> None:
    """What Nix says of the package, what is written, and the builds that it has."""
    for answered, cells in report.nixpkgs.items():
        more = f" and {counted(len(cells) - 1, 'more build')}" if len(cells) > 1 else ""
        write(f"{report.name}, asked for {cells[0]}{more}: {answered}")
    write(f"needs {', '.join(report.needs) or 'nothing of the matrix'}")
    write(f"gets its GPU target by {', '.join(report.gpu_lists) or 'its torch'}")
    print_edit(report)
    for reason, names in grouped((why, cell) for cell, why in report.left_out.items()).items():
        write(f"left out: {some_of(names)}: {reason}")
    write(f"{counted(len(report.cells), 'build')} with it")
    if not report.cells and not report.left_out:
        write(f"torchsmith.toml names its builds one by one: add those of {report.name} to include")


def remove(*, request: PackageRemoveRequest, json: JsonOption = False) -> None:
    """Remove a package from the workspace: its recipes, and its entry if the workspace added it."""
    report = remove_package(request, Terminal())
    answer(report, print_edit, as_json=json)
    exit_if(report.blocked)


COMMANDS = {
    "list": (show, "torchsmith package list"),
    "add": (add, "torchsmith package add torchmetrics --attr torchmetrics"),
    "remove": (remove, "torchsmith package remove torchmetrics"),
}
