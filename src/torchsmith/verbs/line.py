"""`torchsmith line`: the torch releases that can be built, and those of a workspace's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import msgspec

from torchsmith.catalog import Catalog, Line, Pin
from torchsmith.catalog.ranges import is_release, version_key
from torchsmith.cli.console import answer, exit_if, next_step, table, tell, write
from torchsmith.cli.fields import Argument, Option
from torchsmith.cli.group import Group
from torchsmith.cli.nix_options import NixOptions, NixpkgsOption, evaluation, read_trees
from torchsmith.cli.options import (
    DryRunOption,
    JsonOption,
    PairOptions,
    TarballHashOption,
    WaitOption,
    WorkspaceOption,
    WriteOptions,
)
from torchsmith.cli.reporter import SILENT, Reporter
from torchsmith.cli.request import Request
from torchsmith.cli.samples import or_sample
from torchsmith.cli.terminal import Terminal
from torchsmith.core.problem import Failed, Incomplete, MissingRequirement, NotFound, Problem
from torchsmith.core.text import counted, grouped, some_of
from torchsmith.edit import line as lines
from torchsmith.edit import pin as pins
from torchsmith.edit import python_index
from torchsmith.edit.impact import Effect, summary
from torchsmith.edit.line import LineRow
from torchsmith.edit.proposal import EditReport, FactMove, Proposal, require_own, write_proposal
from torchsmith.edit.python_index import PublishedWheel
from torchsmith.matrix.cells import find_line, newest_line
from torchsmith.nix import channel as channels
from torchsmith.nix.tool import find_nix
from torchsmith.workspace.journal import held
from torchsmith.workspace.load import Workspace, open_workspace

EXAMPLE = "torchsmith init builds && torchsmith line list -w builds"
ChannelOption = Annotated[
    str, Option("The channel of nixpkgs to ask for its newest revision.", metavar="CHANNEL")
]
NEW_LINE = "torchsmith line add 2.13 --torch 2.13.0 --from 2.10"
PAIR = ("torchvision", "torchaudio")
MAX_SHOWN = 5
app = Group(EXAMPLE)


@app.describe
def run() -> None:
    """Show, add, update and remove torch releases.

    [bold]line list[/bold] shows each release with its companions and what is proved of it. [bold]line
    add[/bold] adds one of your own; [bold]line update[/bold] moves a line to another nixpkgs or release;
    [bold]line remove[/bold] removes what this workspace added or changed. The exit code is 1 when a recipe
    that would change is not managed by torchsmith.
    """


@dataclass(frozen=True, kw_only=True)
class KnownRequest(Request):
    """A workspace, whose catalog is listed."""

    workspace: WorkspaceOption = None
    online: Annotated[bool, Option("Ask the Python index and a channel of nixpkgs what is newest.")] = False
    channel: ChannelOption = channels.CHANNEL


class ChannelHead(msgspec.Struct, frozen=True):
    """The newest revision of a channel of nixpkgs, and what it has."""

    channel: str
    rev: str
    pin: str = ""  # the catalog's name for it; empty: it is not in the catalog
    torch: str = ""  # empty: it was not downloaded, or Nix is not installed
    cudas: list[str] = []


class Newest(msgspec.Struct, frozen=True):
    """The newest releases on the Python index, and the head of a channel; null: no answer."""

    index: list[PublishedWheel]
    head: ChannelHead | None


class LinesReport(msgspec.Struct, frozen=True):
    """Every torch release that a workspace knows, and what is newest if that was asked for."""

    lines: list[LineRow]
    newest: Newest | None = None


def list_lines(request: KnownRequest, reporter: Reporter = SILENT) -> LinesReport:
    """The torch releases that a workspace knows. Raises MissingRequirement or Failed if --online gets no
    answer."""
    opened = open_workspace(request.workspace)
    newest = _newest(opened, request.channel, reporter) if request.online else None
    return LinesReport(lines.line_rows(opened), newest)


def _newest(opened: Workspace, channel: str, reporter: Reporter) -> Newest:
    """What the servers answer. Raises MissingRequirement or Failed if neither does."""
    index, head = dict[str, PublishedWheel](), None
    unanswered: list[Problem] = []
    try:
        with reporter.status("asking the Python index"):
            index = python_index.newest(("torch", *PAIR), index=opened.settings.sources.python_index)
    except Failed as failure:
        unanswered.append(failure)
    try:
        head = _channel_head(opened, channel, reporter)
    except MissingRequirement as problem:
        unanswered.append(problem)
    if len(unanswered) > 1:
        raise unanswered[-1]
    for refused in unanswered:
        reporter.note(refused.message)
    return Newest(list(index.values()), head)


def _channel_head(opened: Workspace, channel: str, reporter: Reporter) -> ChannelHead:
    """The head of a channel. What it has is read from a download, which Nix keeps, if the catalog does not
    know it. Raises MissingRequirement if the server does not answer."""
    rev = channels.head_of(channel, opened.settings.sources.nixpkgs or channels.GIT_REMOTE)
    known = next((pin for pin in opened.catalog.pins.values() if pin.rev == rev), None)
    if known is None or not known.probed:
        try:
            move, tree = _downloaded(pins.Move("", rev), channel, opened, reporter)
            move = pins.probed(move, tree, opened.catalog)
        except MissingRequirement as problem:
            reporter.note(problem.message)
            return ChannelHead(channel, rev, known.name if known else "")
        known, _ = pins.pin_at(move, opened.catalog)
    here = next((pin.name for pin in opened.catalog.pins.values() if pin.rev == rev), "")
    return ChannelHead(channel, rev, here, known.torch, [*map(str, known.cudas)])


@app.command("list", "torchsmith line list")
def show(*, request: KnownRequest, json: JsonOption = False) -> None:
    """List the known torch releases with companions, nixpkgs, and what is not proved."""
    answer(list_lines(request, Terminal()), _print_lines, as_json=json)


def _print_newest(newest: Newest, report: LinesReport) -> None:
    for row in newest.index:
        wants = f" (asks for torch {row.torch})" if row.torch else ""
        write(f"newest on the Python index: {row.package} {row.version}{wants}")
    head = newest.head
    if head:
        _print_head(head)
    torch = (head.torch if head else "") or next((row.version for row in newest.index), "")
    name = _minor(torch)
    if not name or (head and head.pin):
        return
    buildable = any(row.name == name and not row.lacks for row in report.lines)
    next_step("line", "update" if buildable else "add", name, why="" if head else "if nixpkgs has it")


def _print_head(head: ChannelHead) -> None:
    state = f", which is {head.pin} here" if head.pin else ""
    has = f": torch {head.torch}, CUDA {', '.join(head.cudas)}" if head.torch else ""
    write(f"{head.channel} is at {head.rev[:7]}{state}{has}")


def _minor(version: str) -> str:
    """2.14 of 2.14.1: the name that lines have."""
    return ".".join(version.split(".")[:2])


def _print_lines(report: LinesReport) -> None:
    rows = []
    for row in report.lines:
        pairs = [row.companions.get(name) or "-" for name in PAIR]
        cudas = sorted(row.cudas, key=version_key)
        span = " to ".join(dict.fromkeys((cudas[0], cudas[-1]))) if cudas else "-"
        name = f"{row.name}*" if row.own else row.name
        pins = " ".join(row.pins) or "-"
        rows.append([name, row.torch or "-", *pairs, pins, span, str(row.cells or "-")])
    table(("line", "torch", *PAIR, "nixpkgs", "CUDA", "cells"), rows, right=("cells",))
    if any(row.own for row in report.lines):
        write("* this workspace's own")
    for row in report.lines:
        if row.backends:
            write(f"{row.name} also has builds for {', '.join(row.backends)}")
    for row in report.lines:
        if row.lacks:
            write(f"{row.name} lacks {'; '.join(row.lacks)}: {row.next}")
    for row in report.lines:
        if row.remarks:
            step = f": {row.next}" if row.next and not row.lacks else ""
            state = ", once it has that" if row.lacks else " can be built"
            write(f"{row.name}{state}: {'; '.join(row.remarks)}{step}")
    if report.newest is not None:
        _print_newest(report.newest, report)


@dataclass(frozen=True, kw_only=True)
class LineAddRequest(Request):
    """A torch release of the workspace's own, and the line that it is built like."""

    name: Annotated[str, Argument("What to call it, such as 2.13.", metavar="NAME")]
    workspace: WorkspaceOption = None
    torch: Annotated[str, Option("The torch release, such as 2.13.0.")] = ""
    like: Annotated[str, Option("--from", "The line to take nixpkgs and fixes from.", metavar="LINE")] = ""
    pairs: PairOptions = field(default_factory=PairOptions)
    channel: ChannelOption = channels.CHANNEL
    rev: Annotated[str, Option("A nixpkgs revision instead: 40 digits, or a pin's name.")] = ""
    sha256: TarballHashOption = ""
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
    torch, like, releases = request.torch, request.like, request.pairs.releases()
    move = pins.Move(request.name, request.rev, request.sha256)
    if request.nixpkgs and not request.rev:
        raise Incomplete("--nixpkgs needs --rev", hint="--rev says which revision the tree is of")
    if request.rev or not (torch and like):
        tree = or_sample(request.nixpkgs, "nixpkgs") if request.nixpkgs else None
        if tree is None:
            move, tree = _downloaded(move, request.channel, opened, reporter)
        move = _with_tree(move, tree, catalog, reporter)
        pin, _ = pins.pin_at(move, catalog)
        if not request.rev and not torch and request.name[:1].isdigit():
            _check_release(request.name, request.channel, pin.torch)
        known, newest = catalog.lines.get(request.name), newest_line(catalog, None)
        torch = torch or pin.torch or (known.torch if known else "")
        like = like or (newest.name if newest else "")
        if torch == pin.torch and like:
            releases = _companions_at(pin, catalog.lines[like]) | releases
    if not torch or not like:
        hint = f"torchsmith line add {request.name} --rev REV --nixpkgs TREE reads a nixpkgs that has it"
        hint += f"; --torch VERSION --from {like or 'LINE'} builds it from its own source"
        raise Incomplete(
            "a new line needs a nixpkgs, or its torch release and a line to build it like", hint=hint
        )
    move = replace(move, line=like, torch=torch, versions=releases)

    changed: list[FactMove] = []

    def propose() -> Proposal:
        proposal = lines.propose_line(request.workspace, request.name, move, matrix=request.matrix)
        changed[:] = pins.moves(request.name, None, proposal.after.catalog)
        _announce(request.name, changed, _new_cells(proposal), reporter)
        return proposal

    options = WriteOptions(dry_run=request.dry_run, wait=request.wait)
    proposal = written(propose, request.workspace, "line add", options, reporter)
    line = proposal.after.catalog.lines[request.name]
    if unknown := [name for name in catalog.lines[like].versions if not line.version_of(name)]:
        named = " and ".join(unknown)
        reporter.note(f"no release of {named} is known for torch {torch}: --pair NAME=VERSION states it")
    report = proposal.report(request.name, written=not request.dry_run)
    return msgspec.structs.replace(report, moves=changed, derivations=_new_cells(proposal))


def _new_cells(proposal: Proposal) -> int:
    before, after = (lines.present_cells(one) for one in (proposal.workspace, proposal.after))
    return len(after) - len(before)


def _companions_at(pin: Pin, line: Line) -> dict[str, str]:
    """The releases of a line's companions that a nixpkgs has."""
    return {name: pin.versions[name] for name in line.versions if name in pin.versions}


def _announce(line: str, changed: Sequence[FactMove], derivations: int, reporter: Reporter) -> None:
    """Say what a line becomes, before anything is written."""
    for fact in changed:
        before = f"{fact.before} -> " if fact.before else ""
        reporter.note(f"line {line}: {fact.what} {before}{fact.after or 'none'}")
    reporter.note(
        f"line {line}: {counted(derivations, 'derivation')} {'changes' if derivations == 1 else 'change'}"
    )


def _downloaded(
    move: pins.Move, channel: str, opened: Workspace, reporter: Reporter
) -> tuple[pins.Move, Path | None]:
    """The move with the revision and hash of its nixpkgs, and the files: of the move's own revision, or of
    the newest one of a channel. A stated revision that cannot be downloaded stays unknown."""
    sources, known = opened.settings.sources, opened.catalog.pins
    stated = next((pin for pin in known.values() if move.rev and move.rev in (pin.rev, pin.name)), None)
    if stated is not None and stated.sha256 and stated.probed:
        return move, None
    rev = stated.rev if stated else move.rev
    if rev and not channels.REVISION.fullmatch(rev):
        return move, None
    try:
        rev = rev or channels.head_of(channel, sources.nixpkgs or channels.GIT_REMOTE)
        same = next((pin for pin in known.values() if pin.rev == rev), None)
        recorded = move.sha256 or (same.sha256 if same else "")
        with reporter.progress() as progress:
            tree = channels.download(
                find_nix(),
                rev,
                archive=sources.archive or channels.ARCHIVE,
                sha256=recorded,
                progress=lambda done, total: progress(f"nixpkgs {rev[:7]}", done, total),
            )
    except MissingRequirement as problem:
        if not move.rev:
            raise
        reporter.note(problem.message)
        return move, None
    if not recorded:
        reporter.note(
            f"nixpkgs {rev[:7]} was downloaded; this first download is trusted, its hash is recorded"
        )
    return replace(move, rev=rev, sha256=tree.sha256), tree.path


def _check_release(name: str, channel: str, torch: str) -> None:
    """Raise NotFound if a channel has another release than a line is of."""
    if torch and not is_release(torch, name):
        hint = f"torchsmith line add {_minor(torch)} adds that one; --rev names an older or newer nixpkgs"
        raise NotFound(f"{channel} has torch {torch}, not {name}", hint=hint)


def _with_tree(move: pins.Move, tree: Path | None, catalog: Catalog, reporter: Reporter) -> pins.Move:
    """The move with what a tree of its revision has; without Nix or a tree it stays unknown."""
    try:
        move = pins.probed(move, tree, catalog)
    except MissingRequirement as problem:
        reporter.note(problem.message)
    pin, _ = pins.pin_at(move, catalog)
    if not pin.probed:
        reporter.note(f"what nixpkgs {pin.name} has is not known: --nixpkgs TREE reads a tree of it")
    return move


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


@app.command("add", NEW_LINE)
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
            f'line = "{request.name}" in a [[matrix]] of torchsmith.toml asks for it, with prefix = true'
            " if another line has the same build; then:"
        )
    tree = [f"{request.rev}={request.nixpkgs}"] if request.nixpkgs else []
    next_step("apply", workspace=request.workspace)
    next_step("eval", workspace=request.workspace, nixpkgs=tree, why="proves it")
    if report.to_learn:
        next_step("fix-hashes", workspace=request.workspace, why="finds the hashes before a build")


@dataclass(frozen=True, kw_only=True)
class LineUpdateRequest(Request):
    """Where a line moves: another nixpkgs, another torch release, or both."""

    line: Annotated[
        str, Argument("The line to update, such as 2.10; without it, what could move.", metavar="[LINE]")
    ] = ""
    workspace: WorkspaceOption = None
    channel: ChannelOption = channels.CHANNEL
    rev: Annotated[str, Option("A nixpkgs revision instead: 40 digits, or a pin's name.")] = ""
    sha256: TarballHashOption = ""
    torch: Annotated[str, Option("The torch release, such as 2.10.1.")] = ""
    pairs: PairOptions = field(default_factory=PairOptions)
    evaluate: Annotated[bool, Option("--eval", "Evaluate before and after with Nix.")] = False
    nixpkgs: NixpkgsOption = ()
    writing: WriteOptions = field(default_factory=WriteOptions)


def update_line(request: LineUpdateRequest, reporter: Reporter = SILENT) -> EditReport:
    """Update every recipe of a line, or none. Raises Refused if torchsmith does not manage one of them."""
    workspace, writing = request.workspace, request.writing
    opened = open_workspace(workspace, recover=not writing.dry_run)
    if not writing.dry_run:
        with held(opened.home, writing.wait):
            pass  # a folder that cannot be written is an error before Nix is asked
    move = pins.Move(request.line, request.rev, request.sha256, request.torch, request.pairs.releases())
    if request.rev or not request.torch:
        trees = read_trees(request.nixpkgs)
        tree = trees.get(request.rev) or trees.get("default")
        if tree is None:
            move, tree = _downloaded(move, request.channel, opened, reporter)
        elif not request.rev:
            raise Incomplete("--nixpkgs needs --rev", hint="--rev says which revision the tree is of")
        move = _with_tree(move, tree, opened.catalog, reporter)
        move = _follow_torch(move, request, find_line(opened.catalog, request.line), opened.catalog)
    evaluate = None
    if request.evaluate:
        _, evaluate = evaluation(NixOptions(request.nixpkgs), workspace=opened, reporter=reporter)
    changed: list[FactMove] = []
    effects: list[Effect] = []

    def propose() -> Proposal:
        proposal = pins.propose(workspace, move, adopt=writing.adopt)
        changed[:] = pins.moves(request.line, opened.catalog, proposal.after.catalog)
        _announce(request.line, changed, len(proposal.recipes), reporter)
        if evaluate:
            effects[:] = pins.evaluated(proposal, evaluate)
            reporter.note(f"by evaluation: {summary(effects)}")
        return proposal if writing.dry_run else require_own(proposal)

    proposal = written(propose, workspace, "line update", writing, reporter)
    return msgspec.structs.replace(
        proposal.report(request.line, written=not writing.dry_run),
        blocked=[change for change in proposal.blocked if change.recipe],
        effects=effects if evaluate else None,
        moves=changed,
        derivations=len(proposal.recipes),
    )


def _follow_torch(move: pins.Move, request: LineUpdateRequest, line: Line, catalog: Catalog) -> pins.Move:
    """The move with the torch of its nixpkgs and the companions there, if that is of the line's release.
    Raises NotFound if a channel has another release: building the line there is a choice for --rev."""
    pin, _ = pins.pin_at(move, catalog)
    if request.torch or not pin.torch or line.flavor:
        return move
    if not request.rev:
        _check_release(_minor(line.torch), request.channel, pin.torch)
    if pin.torch == line.torch or _minor(pin.torch) != _minor(line.torch):
        return move
    return replace(move, torch=pin.torch, versions=_companions_at(pin, line) | dict(move.versions))


class MovableLine(msgspec.Struct, frozen=True):
    """A line of the workspace that is not at the head of a channel, and the command to move it."""

    line: str
    torch: str
    pins: list[str]
    next: str


class MovableReport(msgspec.Struct, frozen=True):
    """The head of a channel, and the lines of a workspace that could move there."""

    head: ChannelHead
    lines: list[MovableLine]


def movable_lines(request: KnownRequest, reporter: Reporter = SILENT) -> MovableReport:
    """The lines that a channel has a newer nixpkgs for. Raises MissingRequirement if it does not answer."""
    opened = open_workspace(request.workspace)
    head = _channel_head(opened, request.channel, reporter)
    rows = []
    for row in lines.line_rows(opened):
        at = [opened.catalog.pins[name].rev for name in row.pins]
        if not row.cells or not at or all(rev == head.rev for rev in at):
            continue
        same = not head.torch or _minor(head.torch) == _minor(row.torch)
        step = f"line update {row.name}" if same else f"line add {_minor(head.torch)}"
        rows.append(MovableLine(row.name, row.torch, row.pins, f"torchsmith {step}"))
    return MovableReport(head, rows)


def _print_movable(report: MovableReport) -> None:
    _print_head(report.head)
    for row in report.lines:
        write(f"line {row.line} (torch {row.torch}) is at nixpkgs {', '.join(row.pins)}: {row.next}")
    if not report.lines:
        tell("nothing to move: every line of the workspace is at that revision")


UPDATE = "torchsmith init builds && torchsmith line update 2.10 -w builds --rev 0182a36 --dry-run"


@app.command("update", UPDATE)
def update(*, request: LineUpdateRequest, json: JsonOption = False) -> None:
    """Move a line to the newest nixpkgs of a channel, or to another revision or torch release.

    Without a line it shows which lines could move, and writes nothing. All of a line's recipes are updated,
    or none. The nixpkgs is downloaded once, and its hash is recorded; with --torch alone the nixpkgs stays.
    The update is written into the catalog of the workspace, with the companion releases and hashes that are
    known; unknown hashes stay empty and are listed, for [bold]fix-hashes[/bold]. [bold]--eval[/bold] shows
    which derivations change. [bold]--nixpkgs[/bold] reads a tree of --rev instead of a download. The exit
    code is 1 when a recipe of the line is not managed by torchsmith: nothing is written then.
    """
    if not request.line:
        known = KnownRequest(workspace=request.workspace, channel=request.channel)
        answer(movable_lines(known, Terminal()), _print_movable, as_json=json)
        return
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


@app.command("remove", f"{NEW_LINE} && torchsmith line remove 2.13")
def remove(*, request: LineRemoveRequest, json: JsonOption = False) -> None:
    """Remove a line of the workspace's own, or the workspace's changes of a built-in line.

    The cells of a line of your own must be removed from torchsmith.toml first. Recipes of a built-in line are
    written again as torchsmith's catalog has them.
    """
    report = remove_line(request, Terminal())
    answer(report, _print_refused if report.blocked else print_edit, as_json=json)
    exit_if(report.blocked)


def print_edit(report: EditReport) -> None:
    """Files of facts, recipes, unknown hashes, and what evaluation says."""
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
    if report.effects is not None:
        for effect in report.effects:
            if effect.kind in ("broken", "still broken"):
                write(f"  {effect.kind}  {effect.name}: {effect.after}")
    if not recipes and not report.files:
        tell("nothing to write: already up to date")
    counts = Counter("deleted" if recipe.kind == "delete" else "written" for recipe in recipes)
    for done, count in counts.items():
        tell(f"{counted(count, 'recipe')} {done if report.written else f'would be {done}'}")


def _print_refused(report: EditReport) -> None:
    """The recipes that prevent a change that is made completely or not at all."""
    _print_blocked(report)
    blocked, total = len(report.blocked), len(report.blocked) + len(report.recipes)
    why = f"{blocked} of {counted(total, 'recipe')} are blocked; --adopt takes them over"
    tell(f"nothing would be written: {why}")


def _print_blocked(report: EditReport) -> None:
    for why, paths in grouped((file.why, file.path) for file in report.blocked).items():
        write(f"  blocked  {some_of(paths)}: {why}", "yellow")
