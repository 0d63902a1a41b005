"""Facts of a workspace: moving a line, adding a line or a package, taking a package out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, ClassVar

import msgspec

from torchsmith.catalog import Catalog
from torchsmith.cli.fields import Argument, Option
from torchsmith.cli.nix_options import (
    MemoryOption,
    NixOptions,
    NixpkgsOption,
    TimeoutOption,
    evaluation,
    read_trees,
)
from torchsmith.cli.options import (
    DryRunOption,
    PairOptions,
    TarballHashOption,
    WaitOption,
    WorkspaceOption,
    WriteOptions,
)
from torchsmith.cli.reporter import SILENT, Reporter
from torchsmith.cli.samples import or_sample
from torchsmith.core.problem import Incomplete, MissingRequirement
from torchsmith.core.text import grouped
from torchsmith.edit import line as lines
from torchsmith.edit import package as packages
from torchsmith.edit import pin as pins
from torchsmith.edit.impact import Effect
from torchsmith.edit.line import LineRow
from torchsmith.edit.package_entry import NewPackage, PackageRow, package_row
from torchsmith.edit.proposal import Proposal
from torchsmith.matrix.cells import newest_line
from torchsmith.workspace.change import Change
from torchsmith.workspace.journal import held
from torchsmith.workspace.load import open_workspace

NEW_LINE = "torchsmith line add 2.13 --torch 2.13.0 --from 2.10"


class ChangedFile(msgspec.Struct, frozen=True):
    """A recipe, or a file beside it, and what is done to it."""

    kind: str
    path: str
    why: str


class EditReport(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of a workspace that change, and what follows from them."""

    FORMAT: ClassVar[int] = 2
    name: str  # of the line or package
    written: bool
    files: Mapping[str, str | None]  # the new text of each file of facts; null where it is deleted
    recipes: list[ChangedFile]
    blocked: list[ChangedFile]  # of others, which stay as they are
    releases: Mapping[str, str] = {}  # that a new line has of each package
    to_learn: Sequence[str] = ()  # unknown hashes
    effects: Sequence[Effect] | None = None  # what evaluation says, where Nix was asked
    needs: Sequence[str] = ()  # the packages of the matrix that a package is built on
    gpu_lists: Sequence[str] = ()  # how a package's build is told its GPU
    nixpkgs: Mapping[str, list[str]] = {}  # what each nixpkgs has of a package, and the cells asked
    cells: Sequence[str] = ()  # of a package, in the matrix
    left_out: Mapping[str, str] = {}  # of a package, each cell with the reason


class LinesReport(msgspec.Struct, frozen=True):
    """Every torch release that is known in a workspace."""

    lines: list[LineRow]


class PackagesReport(msgspec.Struct, frozen=True):
    """Every package that is known in a workspace."""

    packages: list[PackageRow]


def _report(name: str, proposal: Proposal, reporter: Reporter, *, dry_run: bool) -> EditReport:
    reporter.note(proposal.recovered)
    return EditReport(
        name=name,
        written=not dry_run and bool(proposal.edits or proposal.recipes),
        files={edit.path: edit.after for edit in proposal.edits},
        recipes=_rows(proposal.recipes),
        blocked=_rows(proposal.blocked),
        to_learn=proposal.to_learn,
    )


def _rows(changes: Sequence[Change]) -> list[ChangedFile]:
    return [ChangedFile(kind=change.kind, path=change.path, why=change.why) for change in changes]


@dataclass(frozen=True, kw_only=True)
class PinRequest:
    """Where a line moves: another nixpkgs, another torch release, or both."""

    line: Annotated[str, Argument("The line to move, such as 2.10.", metavar="LINE")]
    workspace: WorkspaceOption = None
    rev: Annotated[str, Option("The nixpkgs revision: 40 digits, or a pin's name.")] = ""
    sha256: TarballHashOption = ""
    learn: Annotated[bool, Option("Download the tarball and write down its hash.")] = False
    tarball: Annotated[str, Option("With --learn: the address of a mirror.")] = ""
    torch: Annotated[str, Option("The torch release, such as 2.10.1.")] = ""
    pairs: PairOptions = field(default_factory=PairOptions)
    evaluate: Annotated[bool, Option("--eval", "Evaluate before and after with Nix.")] = False
    nixpkgs: NixpkgsOption = ()
    writing: WriteOptions = field(default_factory=WriteOptions)


def pin(request: PinRequest, reporter: Reporter = SILENT) -> EditReport:
    """Move every recipe of a line, or none; raises Refused where one of them is somebody else's."""
    workspace, writing = request.workspace, request.writing
    opened = open_workspace(workspace, recover=not writing.dry_run)
    if not writing.dry_run:
        with held(opened.home, writing.wait):
            pass  # a folder that may not be written is named before anything is downloaded or asked
    move = pins.Move(request.line, request.rev, request.sha256, request.torch, request.pairs.releases())
    if request.learn:
        move = pins.learnt(workspace, move, request.tarball)
    elif request.rev:
        trees = read_trees(request.nixpkgs)
        move = _asked(move, trees.get(request.rev) or trees.get("default"), opened.catalog, reporter)
    ask = None
    if request.evaluate:
        _, ask = evaluation(NixOptions(request.nixpkgs), workspace=opened, reporter=reporter)
    if writing.dry_run:
        proposal = pins.propose(workspace, move, adopt=writing.adopt)
    else:
        proposal = pins.carry_out(workspace, move, adopt=writing.adopt, wait_seconds=writing.wait)
    report = _report(request.line, proposal, reporter, dry_run=writing.dry_run)
    return msgspec.structs.replace(
        report,
        blocked=_rows([change for change in proposal.blocked if change.recipe]),
        effects=pins.evaluated(proposal, ask) if ask else None,
    )


def _asked(move: pins.Move, tree: Path | None, catalog: Catalog, reporter: Reporter) -> pins.Move:
    """The move with what a tree of its revision has; without Nix or a tree that stays unknown."""
    try:
        move = pins.probed(move, tree, catalog)
    except MissingRequirement as problem:
        reporter.note(problem.message)
    pin, _ = pins.pin_at(move, catalog)
    if move.probed:
        cudas, pythons = (", ".join(map(str, versions)) for versions in (pin.cudas, pin.pythons))
        reporter.note(f"{pin.source}: torch {pin.torch}, CUDA {cudas}, Python {pythons}")
    elif not pin.probed:
        reporter.note(f"what nixpkgs {pin.name} has is not known: --nixpkgs TREE asks a tree of it")
    return move


@dataclass(frozen=True, kw_only=True)
class LineAddRequest:
    """A torch release of the workspace's own, and the line that it is built like."""

    name: Annotated[str, Argument("What to call it, such as 2.13.", metavar="NAME")]
    workspace: WorkspaceOption = None
    torch: Annotated[str, Option("The torch release, such as 2.13.0.")] = ""
    like: Annotated[str, Option("--from", "The line to take nixpkgs and fixes from.", metavar="LINE")] = ""
    pairs: PairOptions = field(default_factory=PairOptions)
    rev: Annotated[str, Option("Another nixpkgs: 40 digits, or a pin's name.")] = ""
    sha256: TarballHashOption = ""
    nixpkgs: Annotated[Path | None, Option("A nixpkgs tree of --rev, to read its releases from.")] = None
    matrix: Annotated[bool, Option("Add the cells of profile real to torchsmith.toml, in this line.")] = False
    dry_run: DryRunOption = False
    wait: WaitOption = 0.0


def add_line(request: LineAddRequest, reporter: Reporter = SILENT) -> EditReport:
    """Write a line into the workspace's own catalog; a tree of its nixpkgs is asked for what it has. Raises
    Incomplete where neither a tree nor the request tells its torch."""
    catalog = open_workspace(request.workspace).catalog
    lines.check_new(request.name, catalog)
    torch, like, releases = request.torch, request.like, request.pairs.releases()
    move = pins.Move(request.name, request.rev, request.sha256)
    if request.rev:
        tree = or_sample(request.nixpkgs, "nixpkgs") if request.nixpkgs else None
        move = _asked(move, tree, catalog, reporter)
        pin, _ = pins.pin_at(move, catalog)
        known, newest = catalog.lines.get(request.name), newest_line(catalog, None)
        torch = torch or pin.torch or (known.torch if known else "")
        like = like or (newest.name if newest else "")
        if torch == pin.torch and like:
            companions = catalog.lines[like].versions
            releases = {name: pin.versions[name] for name in companions if name in pin.versions} | releases
    if not torch or not like:
        hint = f"torchsmith line add {request.name} --rev REV --nixpkgs TREE asks a nixpkgs that has it"
        hint += f"; --torch VERSION --from {like or 'LINE'} builds it from its own source"
        raise Incomplete(
            "a new line needs a nixpkgs, or its torch release and a line to build it like", hint=hint
        )
    move = replace(move, line=like, torch=torch, versions=releases)
    if request.dry_run:
        proposal = lines.propose_line(request.workspace, request.name, move, matrix=request.matrix)
    else:
        proposal = lines.add_line(
            request.workspace, request.name, move, matrix=request.matrix, wait_seconds=request.wait
        )
    line = proposal.after.catalog.lines[request.name]
    if unknown := [name for name in catalog.lines[like].versions if not line.version_of(name)]:
        named = " and ".join(unknown)
        reporter.note(f"no release of {named} is known for torch {torch}: --pair NAME=VERSION states it")
    report = _report(request.name, proposal, reporter, dry_run=request.dry_run)
    versions = {name: line.version_of(name) for name in (catalog.torch.name, *catalog.lines[like].versions)}
    return msgspec.structs.replace(report, releases={name: text for name, text in versions.items() if text})


@dataclass(frozen=True, kw_only=True)
class KnownRequest:
    """A workspace, whose catalog is listed."""

    workspace: WorkspaceOption = None


def list_lines(request: KnownRequest) -> LinesReport:
    """The torch releases that a workspace knows."""
    return LinesReport(lines.line_rows(open_workspace(request.workspace)))


def list_packages(request: KnownRequest) -> PackagesReport:
    """The packages that a workspace knows."""
    opened = open_workspace(request.workspace)
    return PackagesReport([package_row(package, opened) for package in opened.catalog.packages.values()])


PackageName = Annotated[str, Argument("The package; its recipes begin so.", metavar="NAME")]


@dataclass(frozen=True, kw_only=True)
class PackageAddRequest:
    """A package of nixpkgs that the workspace is to build, and how Nix is asked about it."""

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
    memory: MemoryOption = 4.0
    timeout: TimeoutOption = 300.0
    writing: WriteOptions = field(default_factory=WriteOptions)


def add_package(request: PackageAddRequest, reporter: Reporter = SILENT) -> EditReport:
    """Ask Nix about a package for every line, CUDA and system, and write its entry and its recipes."""
    new = NewPackage(
        name=request.name,
        attr=request.attr or request.name,
        title=request.title,
        upstream=packages.read_source(request.source, request.tag),
        version=request.version,
        gpu_list=packages.read_gpu_list(request.gpu_list),
    )
    opened = open_workspace(request.workspace)
    packages.check_name(opened, new)  # before Nix is looked for
    options = NixOptions(request.nixpkgs, memory=request.memory, timeout=request.timeout, cache=False)
    nix, ask = evaluation(options, workspace=opened, instantiate=True, reporter=reporter)
    trees = read_trees(request.nixpkgs)
    proposal = packages.propose(request.workspace, new, ask, nix, trees, adopt=request.writing.adopt)
    report = _carry_out(request.name, request.workspace, request.writing, proposal, reporter)
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
class PackageRemoveRequest:
    """A package to take out of the workspace."""

    name: PackageName
    workspace: WorkspaceOption = None
    writing: WriteOptions = field(default_factory=WriteOptions)


def remove_package(request: PackageRemoveRequest, reporter: Reporter = SILENT) -> EditReport:
    """Take out a package's recipes, and its entry where it is the workspace's own."""
    proposal = packages.propose_removal(request.workspace, request.name, adopt=request.writing.adopt)
    return _carry_out(request.name, request.workspace, request.writing, proposal, reporter)


def _carry_out(
    name: str, workspace: Path | None, writing: WriteOptions, proposal: Proposal, reporter: Reporter
) -> EditReport:
    if not writing.dry_run:
        proposal = packages.write(workspace, proposal, wait_seconds=writing.wait)
    return _report(name, proposal, reporter, dry_run=writing.dry_run)
