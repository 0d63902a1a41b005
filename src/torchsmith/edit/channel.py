"""The nixpkgs that a line is built from: the newest of a channel, or a revision, and what it has."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from torchsmith.catalog import Line, Pin
from torchsmith.catalog.ranges import is_release
from torchsmith.core.problem import Incomplete, Invalid, MissingRequirement, NotFound
from torchsmith.edit.pin import Move, find_pin, pin_at, probed, propose
from torchsmith.matrix.cells import find_line, newest_line
from torchsmith.nix.channel import GIT_REMOTE, REVISION, download, head_of
from torchsmith.nix.fetch import ARCHIVE
from torchsmith.nix.tool import find_nix
from torchsmith.workspace.load import Workspace


class ChannelHead(msgspec.Struct, frozen=True):
    """The newest revision of a channel of nixpkgs, and what it has."""

    channel: str
    rev: str
    pin: str = ""  # the catalog's name for it; empty: it is not in the catalog
    torch: str = ""  # empty: it was not downloaded, or Nix is not installed
    cudas: list[str] = []


def minor(version: str) -> str:
    """2.14 of 2.14.1: the name that lines have."""
    return ".".join(version.split(".")[:2])


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel of nixpkgs, as a workspace reaches it."""

    workspace: Workspace
    name: str
    note: Callable[[str], None]  # for what is not part of the answer
    status: Callable[[str], AbstractContextManager[object]]  # shows what is being done
    dry_run: bool = False  # download only what the catalog does not know

    def head(self) -> ChannelHead:
        """The newest revision. What it has is read from a download, which Nix keeps, if the catalog does not
        know it. Raises MissingRequirement if the server does not answer."""
        rev = self._newest_revision()
        known = pin = find_pin(rev, self.workspace.catalog)
        if pin is None or not pin.probed:
            move, tree = self._downloaded(Move("", rev))
            pin, _ = pin_at(self._probed(move, tree), self.workspace.catalog)
        return ChannelHead(self.name, rev, known.name if known else "", pin.torch, [*map(str, pin.cudas)])

    def for_new_line(self, name: str, move: Move, tree: Path | None) -> Move:
        """The move of a new line, with what its nixpkgs has and the line that it is built like; `tree`: its
        files, instead of a download. Raises NotFound if the channel has another torch."""
        catalog = self.workspace.catalog
        if move.rev or tree or not (move.torch and move.line):
            if not (move.rev or move.torch or name[:1].isdigit()):
                hint = "such as 2.13; a line of another name needs --torch or --rev"
                raise Invalid(f"{name!r} is not a torch release", hint=hint)
            stated, move = move, self._filled(move, tree)
            pin, _ = pin_at(move, catalog)
            if not stated.torch and name[:1].isdigit():
                self._check_release(name, pin.torch, stated.rev)
            known, newest = catalog.lines.get(name), newest_line(catalog, None)
            torch = move.torch or pin.torch or (known.torch if known else "")
            move = replace(move, torch=torch, line=move.line or (newest.name if newest else ""))
            if torch == pin.torch and move.line:
                move = _with_companions(move, pin, catalog.lines[move.line])
        if not move.torch or not move.line:
            hint = f"torchsmith line add {name} --rev REV --nixpkgs TREE reads a nixpkgs that has it"
            hint += f"; --torch VERSION --from {move.line or 'LINE'} builds it from its own source"
            what = "a new line needs a nixpkgs, or its torch release and a line to build it like"
            raise Incomplete(what, hint=hint)
        return move

    def for_update(self, move: Move, tree: Path | None) -> Move:
        """The move of a line, with what its nixpkgs has: its torch and companions, if that is of the line's
        release. Raises NotFound if the channel has another: building the line there is a choice for --rev."""
        if move.torch and not move.rev:
            return move
        catalog, line = self.workspace.catalog, find_line(self.workspace.catalog, move.line)
        records = False
        if move.rev:
            pin, _ = pin_at(move, catalog)
            if pin.probed:
                propose(self.workspace, _at_pin(move, pin, line))  # what cannot be is said before a download
            at_it = pin.name in {build.pin for build in line.every_build.values()}
            records = at_it and not (move.torch or move.sha256)
        filled = self._filled(move, tree, records=records)
        pin, _ = pin_at(filled, catalog)
        if not (move.rev or move.torch or line.flavor):
            self._check_release(minor(line.torch), pin.torch)
        return _at_pin(filled, pin, line)

    def _check_release(self, name: str, torch: str, rev: str = "") -> None:
        """Raise NotFound if the channel, or the revision, has another release than a line is of."""
        if torch and not is_release(torch, name):
            hint = f"torchsmith line add {minor(torch)} adds that one; --rev names an older or newer nixpkgs"
            hint = "--torch VERSION builds another release from its own source" if rev else hint
            where = f"nixpkgs {rev[:7]}" if rev else self.name
            raise NotFound(f"{where} has torch {torch}, not {name}", hint=hint)

    def _filled(self, move: Move, tree: Path | None, *, records: bool = False) -> Move:
        """The move with the revision of its nixpkgs and what that has, from a tree or a download; without Nix
        or a tree it stays unknown. Raises MissingRequirement if nothing but its hash is asked for, which
        `records` says, and it cannot be downloaded."""
        if tree is None:
            move, tree = self._downloaded(move, records=records)
        elif not move.rev:
            raise Incomplete("--nixpkgs needs --rev", hint="--rev says which revision the tree is of")
        move = self._probed(move, tree)
        pin, _ = pin_at(move, self.workspace.catalog)
        if not pin.probed:
            self.note(f"what nixpkgs {pin.name} has is not known: --nixpkgs TREE reads a tree of it")
        return move

    def _probed(self, move: Move, tree: Path | None) -> Move:
        try:
            return probed(move, tree, self.workspace.catalog)
        except MissingRequirement as problem:
            self.note(problem.message)
            return move

    def _downloaded(self, move: Move, *, records: bool = False) -> tuple[Move, Path | None]:
        """The move with the revision and hash of its nixpkgs, and the files: of the move's own revision, or
        of the newest one. A stated revision that cannot be downloaded stays unknown."""
        known = find_pin(move.rev, self.workspace.catalog)
        if known is not None and known.probed:
            if known.sha256 or move.sha256:
                return move, None
            if self.dry_run:
                self.note(f"nixpkgs {known.name} is not downloaded in a dry run: this goes by the catalog")
                return move, None
        rev = known.rev if known else move.rev
        if rev and not REVISION.fullmatch(rev):
            return move, None
        try:
            rev = rev or self._newest_revision()
            same = find_pin(rev, self.workspace.catalog)
            recorded = move.sha256 or (same.sha256 if same else "")
            archive = self.workspace.settings.sources.archive or ARCHIVE
            with self.status(f"downloading nixpkgs {rev[:7]}"):
                tree = download(find_nix(), rev, archive=archive, sha256=recorded)
        except MissingRequirement as problem:
            if not move.rev:
                raise
            if records:
                message = f"the hash of nixpkgs {rev[:7]} could not be recorded: {problem.message}"
                hint = "--sha256 HASH states it; [sources] of torchsmith.toml names a mirror"
                raise problem.replace(message=message, hint=hint) from problem
            goes_by = "; this goes by the catalog" if known and known.probed else ""
            self.note(f"nixpkgs {rev[:7]} was not downloaded: {problem.message}{goes_by}")
            return move, None
        if not recorded:
            first = "this first download is trusted, its hash is recorded"
            self.note(f"nixpkgs {rev[:7]} was downloaded; {first}")
        return replace(move, rev=rev, sha256=tree.sha256), tree.path

    def _newest_revision(self) -> str:
        return head_of(self.name, self.workspace.settings.sources.nixpkgs or GIT_REMOTE)


def _with_companions(move: Move, pin: Pin, line: Line) -> Move:
    """The move with the releases of a line's companions that a nixpkgs has, unless it states others."""
    there = {name: pin.versions[name] for name in line.versions if name in pin.versions}
    return replace(move, versions=there | dict(move.versions))


def _at_pin(move: Move, pin: Pin, line: Line) -> Move:
    """The move with a nixpkgs' own torch and companions, if these are of the line's release and the move
    states no torch."""
    if move.torch or not pin.torch or line.flavor:
        return move
    if pin.torch == line.torch or minor(pin.torch) != minor(line.torch):
        return move
    return _with_companions(replace(move, torch=pin.torch), pin, line)
