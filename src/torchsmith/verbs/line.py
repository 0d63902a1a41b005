"""`torchsmith line`: the torch releases that can be built, and those of a workspace's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar

import msgspec

from torchsmith.cli.console import answer, command, exit_if, next_step, table, write, write_stderr
from torchsmith.cli.nix_options import NixpkgsOption, read_trees
from torchsmith.cli.options import (
    DryRunOption,
    JsonOption,
    WaitOption,
    WorkspaceOption,
    WriteOptions,
)
from torchsmith.cli.reporter import SILENT, Reporter, Terminal
from torchsmith.cli.request import Argument, Option, Request
from torchsmith.cli.samples import or_sample
from torchsmith.core.problem import Invalid, Refused
from torchsmith.core.text import counted, grouped, listed, some_of
from torchsmith.edit import line as lines
from torchsmith.edit import pin as pins
from torchsmith.edit.channel import Channel, ChannelHead, minor
from torchsmith.edit.line import LineRow
from torchsmith.edit.proposal import EditReport, FactMove, Proposal, write_proposal
from torchsmith.host.commands import Environment, detect_environment
from torchsmith.nix import channel as channels
from torchsmith.workspace.journal import held
from torchsmith.workspace.load import Workspace, open_workspace

EXAMPLE = "torchsmith init builds && torchsmith line list -w builds"
ChannelOption = Annotated[
    str, Option("The channel of nixpkgs to ask for its newest revision.", metavar="CHANNEL")
]
NEW_LINE = "torchsmith line add 2.13 --torch 2.13.0 --from 2.10"
PAIR = ("torchvision", "torchaudio")
MAX_SHOWN = 5


def run() -> None:
    """Show, add, update and remove torch releases.

    [bold]line list[/bold] shows each release with its companions and what is proved of it. [bold]line
    add[/bold] adds one of your own; [bold]line update[/bold] moves a line to another nixpkgs or release;
    [bold]line remove[/bold] removes what this workspace added or changed. The exit code is 1 when a recipe
    that would change is not managed by torchsmith.
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


def _channel(opened: Workspace, name: str, reporter: Reporter) -> Channel:
    return Channel(opened, name, reporter.note, reporter.status)


def show(*, request: LinesRequest, json: JsonOption = False) -> None:
    """List the known torch releases with companions, nixpkgs, and what is not proved."""
    answer(list_lines(request, Terminal()), _print_lines, as_json=json)


def _print_head(head: ChannelHead, report: LinesReport) -> None:
    state = f", which is {head.pin} here" if head.pin else ""
    has = f": torch {head.torch}, CUDA {', '.join(head.cudas)}" if head.torch else ""
    write(f"{head.channel} is at {head.rev[:7]}{state}{has}")
    name = minor(head.torch)
    if name and not head.pin:
        buildable = any(row.name == name and not row.lacks for row in report.lines)
        next_step("line", "update" if buildable else "add", name)


def _print_lines(report: LinesReport) -> None:
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
        _print_head(report.head, report)


@dataclass(frozen=True, kw_only=True)
class MoveRequest(Request):
    """What a line is to be built from: a nixpkgs, a torch release, or both."""

    workspace: WorkspaceOption = None
    channel: ChannelOption = channels.CHANNEL
    rev: Annotated[str, Option("A nixpkgs revision instead: 40 digits, or a pin's name.")] = ""
    sha256: Annotated[str, Option("The hash of its tarball, if known.")] = ""
    torch: Annotated[str, Option("The torch release, such as 2.13.0.")] = ""
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
        return pins.Move(line, self.rev, self.sha256, self.torch, pairs)


@dataclass(frozen=True, kw_only=True)
class LineAddRequest(MoveRequest):
    """A torch release of the workspace's own, and the line that it is built like."""

    name: Annotated[str, Argument("What to call it, such as 2.13.", metavar="NAME")]
    like: Annotated[str, Option("--from", "The line to take nixpkgs and fixes from.", metavar="LINE")] = ""
    nixpkgs: Annotated[Path | None, Option("A nixpkgs tree of --rev, instead of a download.")] = None
    matrix: Annotated[bool, Option("Add the builds of profile real to torchsmith.toml.")] = False
    dry_run: DryRunOption = False
    wait: WaitOption = 0.0


def add_line(request: LineAddRequest, reporter: Reporter = SILENT) -> EditReport:
    """Write a line into the workspace's own catalog, with what its nixpkgs has: a tree on disk, or a revision
    that is downloaded, by default the newest of a channel. Raises NotFound if that has another torch."""
    opened = open_workspace(request.workspace)
    catalog = opened.catalog
    lines.check_new(request.name, catalog)
    tree = or_sample(request.nixpkgs, "nixpkgs") if request.nixpkgs else None
    channel = _channel(opened, request.channel, reporter)
    move = channel.for_new_line(request.name, request.move(request.like), tree)
    changed: list[FactMove] = []

    def propose() -> Proposal:
        proposal = lines.propose_line(request.workspace, request.name, move, matrix=request.matrix)
        changed[:] = pins.moves(request.name, None, proposal.after.catalog)
        _announce(request.name, changed, _new_cells(proposal), reporter)
        return proposal

    options = WriteOptions(dry_run=request.dry_run, wait=request.wait)
    proposal = written(propose, request.workspace, "line add", options, reporter)
    line = proposal.after.catalog.lines[request.name]
    if unknown := [name for name in catalog.lines[move.line].versions if not line.version_of(name)]:
        named = listed(unknown)
        reporter.note(f"no release of {named} is known for torch {move.torch}: --pair NAME=VERSION states it")
    report = proposal.report(request.name, written=not request.dry_run)
    return msgspec.structs.replace(report, moves=changed, derivations=_new_cells(proposal))


def require_own(proposal: Proposal) -> Proposal:
    """The proposal. Raises Refused if a recipe of it is not managed by torchsmith: it would stay as it is."""
    if names := [Path(change.path).name for change in proposal.blocked if change.recipe]:
        raise Refused(
            f"recipes that torchsmith does not manage would not be updated: {some_of(names, 3)}",
            hint="--adopt takes them over; nothing was written",
        )
    return proposal


def _new_cells(proposal: Proposal) -> int:
    before, after = (lines.present_cells(one) for one in (proposal.workspace, proposal.after))
    return len(after) - len(before)


def _announce(line: str, changed: Sequence[FactMove], derivations: int, reporter: Reporter) -> None:
    """Say what a line becomes, before anything is written."""
    for fact in changed:
        before = f"{fact.before} -> " if fact.before else ""
        reporter.note(f"line {line}: {fact.what} {before}{fact.after or 'none'}")
    if derivations:
        change = "changes" if derivations == 1 else "change"
        reporter.note(f"line {line}: {counted(derivations, 'derivation')} {change}")


def written(
    make: Callable[[], Proposal],
    workspace: Path | None,
    verb: str,
    options: WriteOptions,
    reporter: Reporter,
    *,
    add: bool = False,
) -> Proposal:
    """A proposal that is written, unless the options say --dry-run."""
    if options.dry_run:
        return make()
    home = open_workspace(workspace, recover=True).home
    proposal = write_proposal(make, home, verb, wait_seconds=options.wait, add=add)
    reporter.note(proposal.recovered)
    return proposal


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
    if not report.written or json:
        return
    if not request.matrix:
        write(
            f'line = "{request.name}" in a [[matrix]] of torchsmith.toml adds its builds, with prefix = true'
            " if another line has the same build; then:"
        )
    tree = [f"{request.rev}={request.nixpkgs}"] if request.nixpkgs else []
    next_step("apply", workspace=request.workspace)
    if report.to_learn:
        next_step("fix-hashes", workspace=request.workspace, why="finds the hashes before a build")
    else:
        next_step("eval", workspace=request.workspace, nixpkgs=tree, why="proves it")


@dataclass(frozen=True, kw_only=True)
class LineUpdateRequest(MoveRequest):
    """Where a line moves."""

    line: Annotated[str, Argument("The line to update, such as 2.10.", metavar="LINE")]
    nixpkgs: NixpkgsOption = ()
    writing: WriteOptions = field(default_factory=WriteOptions)


def update_line(request: LineUpdateRequest, reporter: Reporter = SILENT) -> EditReport:
    """Update every recipe of a line, or none. Raises Refused if torchsmith does not manage one of them."""
    workspace, writing = request.workspace, request.writing
    opened = open_workspace(workspace, recover=not writing.dry_run)
    pins.used_line(opened, request.line)  # before a download
    if not writing.dry_run:
        with held(opened.home, writing.wait):
            pass  # a folder that cannot be written is an error before Nix is asked
    move = request.move(request.line)
    trees = read_trees(request.nixpkgs)
    tree = trees.get(request.rev) or trees.get("default")
    move = _channel(opened, request.channel, reporter).for_update(move, tree)
    changed: list[FactMove] = []

    def propose() -> Proposal:
        proposal = pins.propose(workspace, move, adopt=writing.adopt)
        changed[:] = pins.moves(request.line, opened.catalog, proposal.after.catalog)
        _announce(request.line, changed, len(proposal.recipes), reporter)
        return proposal if writing.dry_run else require_own(proposal)

    proposal = written(propose, workspace, "line update", writing, reporter)
    return msgspec.structs.replace(
        proposal.report(request.line, written=not writing.dry_run),
        blocked=[change for change in proposal.blocked if change.recipe],
        moves=changed,
        derivations=len(proposal.recipes),
    )


UPDATE = "torchsmith init builds && torchsmith line update 2.10 -w builds --rev 0182a36 --dry-run"


def update(*, request: LineUpdateRequest, json: JsonOption = False) -> None:
    """Move a line to the newest nixpkgs of a channel, or to another revision or torch release.

    All of a line's recipes are updated, or none; [bold]line list --online[/bold] says what is newest. The
    nixpkgs is downloaded once, and its hash is recorded; with --torch alone the nixpkgs stays. The update is
    written into the catalog of the workspace, with the companion releases and hashes that are known; unknown
    hashes stay empty and are listed, for [bold]fix-hashes[/bold]; [bold]impact[/bold] shows which derivations
    changed. [bold]--nixpkgs[/bold] reads a tree of --rev instead of a download. The exit code is 1 when a
    recipe of the line is not managed by torchsmith: nothing is written then.
    """
    report = update_line(request, Terminal())
    answer(report, _print_refused if report.blocked else print_edit, as_json=json)
    if request.writing.dry_run:
        exit_if(report.blocked)
        return
    verb = "fix-hashes" if report.to_learn else "eval"
    next_step(verb, workspace=request.workspace, nixpkgs=request.nixpkgs)


@dataclass(frozen=True, kw_only=True)
class LineRemoveRequest(Request):
    """A line whose entry in the workspace's catalog is removed."""

    line: Annotated[str, Argument("The line, such as 2.13.", metavar="LINE")]
    workspace: WorkspaceOption = None
    writing: WriteOptions = field(default_factory=WriteOptions)


def remove_line(request: LineRemoveRequest, reporter: Reporter = SILENT) -> EditReport:
    """Remove what a workspace added or changed of a line. Raises Conflict if cells still need it, Refused if
    torchsmith does not manage a recipe that would change."""
    writing = request.writing

    def propose() -> Proposal:
        proposal = lines.propose_removal(request.workspace, request.line, adopt=writing.adopt)
        return proposal if writing.dry_run else require_own(proposal)

    proposal = written(propose, request.workspace, "line remove", writing, reporter)
    return proposal.report(request.line, written=not writing.dry_run)


def remove(*, request: LineRemoveRequest, json: JsonOption = False) -> None:
    """Remove a line of the workspace's own, or the workspace's changes of a built-in line.

    The cells of a line of your own must be removed from torchsmith.toml first. Recipes of a built-in line are
    written again as torchsmith's catalog has them.
    """
    report = remove_line(request, Terminal())
    answer(report, _print_refused if report.blocked else print_edit, as_json=json)
    exit_if(report.blocked)


def print_edit(report: EditReport) -> None:
    """Files of facts, recipes, and unknown hashes."""
    for file in report.files:
        done, would = ("deleted", "would delete") if file.kind == "delete" else ("wrote", "would write")
        write(f"{done if report.written else would} {file.path}")
    # A package's own recipes come before those of its companions.
    recipes = sorted(report.recipes, key=lambda recipe: f"/{report.name}-" not in recipe.path)
    for recipe in recipes[:MAX_SHOWN]:
        write(f"  {recipe.kind}  {recipe.path}")
    if len(recipes) > MAX_SHOWN:
        write(f"  … and {counted(len(recipes) - MAX_SHOWN, 'more recipe')}")
    _print_blocked(report)
    if report.to_learn:
        write(f"unknown hashes: {', '.join(report.to_learn)}")
    for pin in report.unhashed:
        records = command("line", "update", report.name, "--rev", pin)
        write(
            f"no hash of nixpkgs {pin}, so downloads are not checked; to record it: {records}, or its"
            " --sha256 HASH, as nix-hash --type sha256 --base32 TREE prints it of an unpacked archive"
        )
    if not recipes and not report.files:
        write_stderr("nothing to write: already up to date")
    counts = Counter("deleted" if recipe.kind == "delete" else "written" for recipe in recipes)
    for done, count in counts.items():
        write_stderr(f"{counted(count, 'recipe')} {done if report.written else f'would be {done}'}")


def _print_refused(report: EditReport) -> None:
    """The recipes that prevent a change that is made completely or not at all."""
    _print_blocked(report)
    blocked, total = len(report.blocked), len(report.blocked) + len(report.recipes)
    why = f"{blocked} of {counted(total, 'recipe')} are blocked; --adopt takes them over"
    write_stderr(f"nothing would be written: {why}")


def _print_blocked(report: EditReport) -> None:
    for why, paths in grouped((file.why, file.path) for file in report.blocked).items():
        write(f"  blocked  {some_of(paths)}: {why}", "yellow")


COMMANDS = {
    "list": (show, "torchsmith line list"),
    "add": (add, NEW_LINE),
    "update": (update, UPDATE),
    "remove": (remove, f"{NEW_LINE} && torchsmith line remove 2.13"),
}
