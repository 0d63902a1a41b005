"""`torchsmith package`: the packages of a workspace, and those of its own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec

from torchsmith.catalog.package import GpuList, SourceRepository
from torchsmith.cli.console import answer, table, write
from torchsmith.cli.nix_options import (
    NixOptions,
    NixpkgsOption,
    evaluation,
    read_trees,
    require_own_tree,
)
from torchsmith.cli.options import JsonOption, WorkspaceOption
from torchsmith.cli.reporter import SILENT, Reporter, Terminal
from torchsmith.cli.request import Argument, Option, Request
from torchsmith.core.problem import Incomplete, Invalid
from torchsmith.core.text import counted, grouped, some_of
from torchsmith.edit import package as packages
from torchsmith.edit.facts import EditReport
from torchsmith.edit.package_entry import NewPackage, PackageProbe, PackageRow, package_row
from torchsmith.verbs.line import EditRequest, print_edit, print_next, written
from torchsmith.workspace.load import open_workspace

EXAMPLE = "torchsmith init builds && torchsmith package list -w builds"


def run() -> None:
    """Show, add and remove packages.

    [bold]package list[/bold] shows the known packages and which ones this workspace builds. [bold]package
    add[/bold] adds one of torchsmith's or of nixpkgs; [bold]package remove[/bold] removes it. Recipes follow
    by [bold]plan[/bold] and [bold]apply[/bold].
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
class PackageAddRequest(EditRequest):
    """A package of nixpkgs to build, and how Nix is asked about it."""

    name: PackageName
    attr: Annotated[str | None, Option("Its attribute in nixpkgs' Python packages; by default its name.")] = (
        None
    )
    title: Annotated[str | None, Option("Its name for people.")] = None
    source: Annotated[
        str | None, Option("Where releases that nixpkgs lacks come from.", metavar="github:NAME/REPO")
    ] = None
    tag: Annotated[str | None, Option("How releases are tagged; by default v{version}.")] = None
    version: Annotated[str | None, Option("The release to build; by default the one in nixpkgs.")] = None
    gpu_list: Annotated[
        Sequence[str],
        Option(
            "How the GPU target is passed to its build, such as variable:FLASH_ATTN_CUDA_ARCHS:90.",
            metavar="BY:NAME[:FORM]",
        ),
    ] = ()
    nixpkgs: NixpkgsOption = ()


def _read_source(text: str | None, tag: str | None) -> SourceRepository | None:
    """A repository on GitHub as a person gives it, such as github:pytorch/ao."""
    if not text:
        if tag:
            raise Incomplete("--tag is for --source, which is missing", hint="--source github:pytorch/ao")
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
    """Add a built-in package to torchsmith.toml; of another, ask Nix for every line, CUDA and system, and
    write its entry."""
    new = NewPackage(
        name=request.name,
        attr=request.attr or request.name,
        title=request.title or "",
        upstream=_read_source(request.source, request.tag),
        version=request.version or "",
        gpu_list=_read_gpu_list(request.gpu_list),
    )
    opened = open_workspace(request.workspace, recover=not request.dry_run)
    probes: Sequence[PackageProbe] = ()
    if packages.is_known(opened, new):
        edit = packages.propose_known(opened, new.name)
    else:
        require_own_tree(request.nixpkgs, "the nixpkgs of a line", dry_run=request.dry_run)
        options = NixOptions(request.nixpkgs, memory=4.0, cache=False)
        nix, ask = evaluation(options, workspace=opened, instantiate=True, reporter=reporter)
        edit, probes = packages.propose(opened, new, ask, nix, read_trees(request.nixpkgs))
    report = written(edit, new.name, "package add", reporter, request)
    package = edit.after.catalog.packages[new.name]
    answers = grouped(
        (
            f"Nix refuses: {probe.error}" if probe.error else f"release {probe.version}",
            probe.cell.variant.cell,
        )
        for probe in probes
    )
    return msgspec.structs.replace(
        report,
        needs=package.needs,
        gpu_lists=[f"{way.by} {way.name} ({way.form})" for way in package.gpu_lists],
        nixpkgs=answers,
        cells=packages.cells_of(edit.after, new.name),
        left_out=packages.left_out_of(edit.after, new.name),
    )


@dataclass(frozen=True, kw_only=True)
class PackageRemoveRequest(EditRequest):
    """A package to remove from the workspace."""

    name: PackageName


def remove_package(request: PackageRemoveRequest, reporter: Reporter = SILENT) -> EditReport:
    """Remove a package from torchsmith.toml, and its entry if it is the workspace's own."""
    opened = open_workspace(request.workspace, recover=not request.dry_run)
    edit = packages.propose_removal(opened, request.name)
    name = request.name
    return written(edit, name, "package remove", reporter, request)


def add(*, request: PackageAddRequest, json: JsonOption = False) -> None:
    """Add a package to the workspace: to torchsmith.toml, and with an entry in catalog/packages.toml if it is
    not built in.

    Nix is asked which release each nixpkgs of the workspace has and on which systems, and for every line,
    CUDA release and system whether torch or other packages of the matrix are among its inputs and how the GPU
    target is passed. Builds that Nix refuses are left out, with Nix's error as the reason.
    """
    answer(report := add_package(request, Terminal()), _print_added, as_json=json)
    print_next(report, request.workspace)


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
    """Remove a package from the workspace: from torchsmith.toml, and its entry if the workspace added it."""
    answer(report := remove_package(request, Terminal()), print_edit, as_json=json)
    print_next(report, request.workspace)


COMMANDS = {
    "list": (show, "torchsmith package list"),
    "add": (add, "torchsmith package add torchmetrics --attr torchmetrics"),
    "remove": (remove, "torchsmith package remove torchmetrics"),
}
