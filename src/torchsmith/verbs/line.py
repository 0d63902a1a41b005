"""`torchsmith line`: the torch releases that can be built, and those of a workspace's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, ClassVar

import msgspec

from torchsmith.cli.console import answer, next_step, table, warn, write, write_stderr
from torchsmith.cli.nix_options import NixpkgsOption, read_trees, require_own_tree
from torchsmith.cli.options import DryRunOption, JsonOption, WaitOption, WorkspaceOption
from torchsmith.cli.reporter import SILENT, Reporter, Terminal
from torchsmith.cli.request import Argument, Option, Request
from torchsmith.cli.samples import or_sample
from torchsmith.core.problem import Invalid
from torchsmith.core.text import listed
from torchsmith.edit import line as lines
from torchsmith.edit import pin as pins
from torchsmith.edit.channel import Channel, ChannelHead, minor
from torchsmith.edit.facts import EditReport, FactEdit
from torchsmith.edit.in_place import with_recipes
from torchsmith.edit.line import LineRow
from torchsmith.host.commands import Environment, detect_environment
from torchsmith.matrix.describe import state_of
from torchsmith.nix import channel as channels
from torchsmith.workspace.journal import held
from torchsmith.workspace.load import Workspace, open_workspace

EXAMPLE = "torchsmith init builds && torchsmith line list -w builds"
ChannelOption = Annotated[
    str, Option("The channel of nixpkgs to ask for its newest revision.", metavar="CHANNEL")
]
NEW_LINE = "torchsmith line add 2.13 --torch 2.13.0 --from 2.10"
PAIR = ("torchvision", "torchaudio")


def run() -> None:
    """Show, add, update and remove torch releases.

    [bold]line list[/bold] shows each release with its companions and what is proved of it. [bold]line
    add[/bold] adds one of your own; [bold]line update[/bold] moves a line to another nixpkgs or release;
    [bold]line remove[/bold] removes what this workspace added or changed. They write the workspace's catalog;
    recipes follow by [bold]plan[/bold] and [bold]apply[/bold].
    """


@dataclass(frozen=True, kw_only=True)
class LinesRequest(Request):
    """A workspace, whose catalog is listed."""

    workspace: WorkspaceOption = None
    online: Annotated[bool, Option("Ask which torch the newest nixpkgs of a channel has.")] = False
    channel: ChannelOption = channels.CHANNEL


class LinesReport(msgspec.Struct, frozen=True):
    """Every torch release that a workspace knows, and the head of a channel if that was asked for."""

    FORMAT: ClassVar = 2
    lines: list[LineRow]
    head: ChannelHead | None = None


def list_lines(request: LinesRequest = LinesRequest(), reporter: Reporter = SILENT) -> LinesReport:
    """The torch releases that a workspace knows. Raises MissingRequirement if --online gets no answer."""
    opened = open_workspace(request.workspace)
    head = _channel(opened, request.channel, reporter).head() if request.online else None
    here = detect_environment(opened.root, "")
    rows = [
        msgspec.structs.replace(row, next=_next(row, here)) if row.next else row
        for row in lines.line_rows(opened)
    ]
    return LinesReport(rows, head)


def _next(row: LineRow, here: Environment) -> str:
    """The next command of a line as it runs here."""
    if row.lacks and not row.pins:
        return here.add_line(row.name)
    return " && ".join(f"{step}{here.where}" for step in row.next.split(" && "))


def _channel(opened: Workspace, name: str, reporter: Reporter, *, dry_run: bool = False) -> Channel:
    return Channel(opened, name, reporter.note, reporter.status, dry_run)


def show(*, request: LinesRequest, json: JsonOption = False) -> None:
    """List the known torch releases with companions, nixpkgs, and what is not proved."""
    render = partial(_print_lines, workspace=request.workspace)
    answer(list_lines(request, Terminal()), render, as_json=json)


def _print_head(head: ChannelHead, report: LinesReport, workspace: Path | None) -> None:
    state = f", which is {head.pin} here" if head.pin else ""
    has = f": torch {head.torch}, CUDA {', '.join(head.cudas)}" if head.torch else ""
    write(f"{head.channel} is at {head.rev[:7]}{state}{has}")
    name = minor(head.torch)
    if name and not head.pin:
        buildable = any(row.name == name and not row.lacks for row in report.lines)
        next_step("line", "update" if buildable else "add", name, workspace=workspace)


def _print_lines(report: LinesReport, workspace: Path | None) -> None:
    rows = []
    for row in report.lines:
        pairs = [row.companions.get(name) or "-" for name in PAIR]
        span = " to ".join(dict.fromkeys((row.cudas[0], row.cudas[-1]))) if row.cudas else "-"
        name = f"{row.name}*" if row.own else row.name
        pins = " ".join(row.pins) or "-"
        rows.append([name, row.torch or "-", *pairs, pins, span, str(row.cells or "-")])
    table(("line", "torch", *PAIR, "nixpkgs", "CUDA", "builds"), rows, right=("builds",))
    if any(row.own for row in report.lines):
        write("* this workspace's own")
    for row in report.lines:
        if row.backends:
            write(f"{row.name} also has builds for {', '.join(row.backends)}")
    for row in report.lines:
        if row.lacks:
            write(f"{row.name} needs {listed(row.lacks)}: {row.next}")
    for row in report.lines:
        if row.remarks:
            step = f": {row.next}" if row.next and not row.lacks else ""
            write(f"{row.name} {'; '.join(row.remarks)}{step}")
    if report.head is not None:
        _print_head(report.head, report, workspace)


@dataclass(frozen=True, kw_only=True)
class EditRequest(Request):
    """A workspace whose facts change, and how they are written."""

    workspace: WorkspaceOption = None
    dry_run: DryRunOption = False
    wait: WaitOption = 0.0


@dataclass(frozen=True, kw_only=True)
class MoveRequest(EditRequest):
    """What a line is to be built from: a nixpkgs, a torch release, or both."""

    channel: ChannelOption = channels.CHANNEL
    rev: Annotated[str | None, Option("A nixpkgs revision instead: 40 digits, or a pin's name.")] = None
    sha256: Annotated[str | None, Option("The hash of its tarball, if known.")] = None
    torch: Annotated[str | None, Option("The torch release, such as 2.13.0.")] = None
    pair: Annotated[
        Sequence[str],
        Option(
            "The release of another package that goes with it, if the catalog has none: torchvision=0.28.0.",
            metavar="NAME=VERSION",
        ),
    ] = ()

    def move(self, line: str) -> pins.Move:
        """The move of a line to it."""
        pairs = dict(word.partition("=")[::2] for word in self.pair)
        for name, version in pairs.items():
            if not name or not version:
                raise Invalid(f"--pair {name} says no release", hint="such as --pair torchvision=0.25.0")
        return pins.Move(line, self.rev or "", self.sha256 or "", self.torch or "", pairs)


@dataclass(frozen=True, kw_only=True)
class LineAddRequest(MoveRequest):
    """A torch release of the workspace's own, and the line that it is built like."""

    name: Annotated[str, Argument("What to call it, such as 2.13.", metavar="NAME")]
    like: Annotated[
        str | None, Option("--from", "The line to take nixpkgs and fixes from.", metavar="LINE")
    ] = None
    nixpkgs: Annotated[Path | None, Option("A nixpkgs tree of --rev, instead of a download.")] = None
    matrix: Annotated[bool, Option("Add the builds of profile real to torchsmith.toml.")] = False


def add_line(request: LineAddRequest, reporter: Reporter = SILENT) -> EditReport:
    """Write a line into the workspace's own catalog, with what its nixpkgs has: a tree on disk, or a revision
    that is downloaded, by default the newest of a channel. Raises NotFound if that has another torch."""
    if request.rev:
        require_own_tree([str(request.nixpkgs)], f"nixpkgs {request.rev[:7]}", dry_run=request.dry_run)
    opened = open_workspace(request.workspace, recover=not request.dry_run)
    edit = new_line(opened, request, reporter)
    return _changed(edit, request.name, "line add", reporter, request)


def new_line(opened: Workspace, request: LineAddRequest, reporter: Reporter) -> FactEdit:
    """The facts that change if a workspace gets a line."""
    lines.check_new(request.name, opened.catalog)
    tree = or_sample(request.nixpkgs, "nixpkgs") if request.nixpkgs else None
    channel = _channel(opened, request.channel, reporter, dry_run=request.dry_run)
    move = channel.for_new_line(request.name, request.move(request.like or ""), tree)
    edit = lines.propose_line(opened, request.name, move, matrix=request.matrix)
    line = edit.after.catalog.lines[request.name]
    if unknown := [name for name in opened.catalog.lines[move.line].versions if not line.version_of(name)]:
        named = listed(unknown)
        reporter.note(f"no release of {named} is known for torch {move.torch}: --pair NAME=VERSION states it")
    return edit


def _changed(edit: FactEdit, name: str, verb: str, reporter: Reporter, request: EditRequest) -> EditReport:
    """The report of a line's edit, which is written unless it is a dry run."""
    report = written(edit, name, verb, reporter, request)
    before, after = edit.workspace.catalog, edit.after
    return msgspec.structs.replace(
        report,
        cells=[cell.name for cell in pins.present_cells(after) if cell.line == name],
        moves=pins.moves(name, before if lines.is_buildable(name, before) else None, after.catalog),
        lacks=state_of(line, after.catalog).lacks if (line := after.catalog.lines.get(name)) else (),
    )


def written(edit: FactEdit, name: str, verb: str, reporter: Reporter, request: EditRequest) -> EditReport:
    """The report of an edit, which is written unless it is a dry run."""
    report = EditReport(name=name, written=False, files=edit.files)
    if not edit.files or request.dry_run:
        return report
    writer = edit.write(verb, request.wait)
    reporter.note(writer.recovered)
    return msgspec.structs.replace(report, written=True, copies=writer.copies)


def add(*, request: LineAddRequest, json: JsonOption = False) -> None:
    """Add a torch release to the workspace: a line of its own in catalog/lines.toml.

    The newest nixpkgs of a channel, or the one that --rev names, is downloaded once; torch, companions, CUDA
    sets and Pythons are read from it, and its hash is recorded. With [bold]--torch[/bold] and
    [bold]--from[/bold] the release is built at the nixpkgs of another line, from its own source; unknown
    hashes stay empty, for [bold]fix-hashes[/bold]. Every cell has a warning until it is evaluated.
    [bold]--matrix[/bold] adds the cells of profile real in this line to torchsmith.toml.
    """
    report = add_line(request, Terminal())
    answer(report, print_edit, as_json=json)
    if report.written and not (report.cells or json):
        write(
            f'no build of it yet: add line = "{request.name}" to a [[matrix]] of torchsmith.toml, with prefix'
            " = true if another line has the same build"
        )
    print_next(report, request.workspace)


@dataclass(frozen=True, kw_only=True)
class LineUpdateRequest(MoveRequest):
    """Where a line moves."""

    line: Annotated[str, Argument("The line to update, such as 2.10.", metavar="LINE")]
    nixpkgs: NixpkgsOption = ()
    recipes: Annotated[
        bool, Option("Also set revision and hash in its recipes that torchsmith does not manage.")
    ] = False


def update_line(request: LineUpdateRequest, reporter: Reporter = SILENT) -> EditReport:
    """Move all builds of a line that a workspace has to another nixpkgs or torch release."""
    if request.rev:
        require_own_tree(request.nixpkgs, f"nixpkgs {request.rev[:7]}", dry_run=request.dry_run)
    opened = open_workspace(request.workspace, recover=not request.dry_run)
    pins.used_line(opened, request.line)  # before a download
    if not request.dry_run:
        with held(opened.home, request.wait):
            pass  # a folder that cannot be written is an error before Nix is asked
    trees = read_trees(request.nixpkgs)
    tree = trees.get(request.rev or "") or trees.get("default")
    channel = _channel(opened, request.channel, reporter, dry_run=request.dry_run)
    edit = pins.propose(opened, channel.for_update(request.move(request.line), tree))
    if request.recipes:
        edit = with_recipes(edit, request.line)
    return _changed(edit, request.line, "line update", reporter, request)


UPDATE = "torchsmith init builds && torchsmith line update 2.10 -w builds --rev 0182a36 --dry-run"


def update(*, request: LineUpdateRequest, json: JsonOption = False) -> None:
    """Move a line to the newest nixpkgs of a channel, or to another revision or torch release.

    The update is written into the catalog of the workspace; [bold]plan[/bold] shows which recipes it changes
    and [bold]apply[/bold] writes them. [bold]line list --online[/bold] says what is newest. The nixpkgs is
    downloaded once, and its hash is recorded; with --torch alone the nixpkgs stays. Companion releases and
    hashes that are known are filled in; unknown hashes stay empty and are listed, for
    [bold]fix-hashes[/bold]. [bold]--nixpkgs[/bold] reads a tree of --rev instead of a download.
    [bold]--recipes[/bold] writes the nixpkgs into hand-written recipes, in place.
    """
    answer(report := update_line(request, Terminal()), print_edit, as_json=json)
    print_next(report, request.workspace)


@dataclass(frozen=True, kw_only=True)
class LineRemoveRequest(EditRequest):
    """A line whose entry in the workspace's catalog is removed."""

    line: Annotated[str, Argument("The line, such as 2.13.", metavar="LINE")]


def remove_line(request: LineRemoveRequest, reporter: Reporter = SILENT) -> EditReport:
    """Remove what a workspace added or changed of a line. Raises Conflict if cells still need it."""
    opened = open_workspace(request.workspace, recover=not request.dry_run)
    edit = lines.propose_removal(opened, request.line)
    return _changed(edit, request.line, "line remove", reporter, request)


def remove(*, request: LineRemoveRequest, json: JsonOption = False) -> None:
    """Remove a line of the workspace's own, or the workspace's changes of a built-in line.

    What catalog/pins.toml says of a nixpkgs that no other line of the workspace uses goes too; git or .orig
    keeps the old text. The cells of a line of your own must be removed from torchsmith.toml first. Recipes
    follow by [bold]apply[/bold].
    """
    answer(report := remove_line(request, Terminal()), print_edit, as_json=json)
    print_next(report, request.workspace)


def print_edit(report: EditReport) -> None:
    """What changes in a line, the files of facts, and unknown hashes."""
    for fact in report.moves:
        at = f"{', '.join(fact.builds)}: " if fact.builds else ""
        before = f"{fact.before} -> " if fact.before else ""
        write(f"line {report.name}: {at}{fact.what} {before}{fact.after or 'none'}")
    for file in report.files:
        done, would = ("deleted", "would delete") if file.kind == "delete" else ("wrote", "would write")
        write(f"{done if report.written else would} {file.path}")
    for copy in report.copies:
        warn(f"kept the old text, which is not committed, as {copy}")
    if report.lacks:
        write(f"{report.name} needs {listed(report.lacks)}")
    if not report.files:
        write_stderr("nothing to write: already up to date")


def print_next(report: EditReport, workspace: Path | None) -> None:
    """The command that shows what follows from facts that were written."""
    if report.written:
        next_step("plan", workspace=workspace, why="the recipes that follow")


COMMANDS = {
    "list": (show, "torchsmith line list"),
    "add": (add, NEW_LINE),
    "update": (update, UPDATE),
    "remove": (remove, f"{NEW_LINE} && torchsmith line remove 2.13"),
}
