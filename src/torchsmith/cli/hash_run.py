"""What `fix-hashes` does between its options and its answer."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from torchsmith.cli.console import err, print_json, say_recovered, tell, warn
from torchsmith.core.problem import Refused
from torchsmith.nix.tool import find_nix
from torchsmith.record import Record
from torchsmith.repair.fix_hashes import HashFixer, Mended
from torchsmith.workspace.load import Workspace


def mend(
    workspace: Workspace,
    record: Record,
    words: Sequence[str],
    trees: Mapping[str, Path],
    *,
    accept: bool,
    write: bool = True,
    as_json: bool = False,
) -> Mended:
    """Learn the hashes, write them, tell of it; a Problem where one needs a person."""
    fixer = HashFixer(find_nix(), workspace, words, trees, record.proved())
    with err().status("fetching sources"):
        mended = fixer.run(accept=accept, write=write)
    if write:
        record.note_proved(mended.proved)
    if as_json:
        print_json(mended, HashDocument)
    else:
        _print(mended, write=write)
    if mended.suspicious and not as_json:
        raise Refused(
            f"{len(mended.suspicious)} changed hashes may be tampering and were not written",
            hint="find out why the source changed; --accept writes them all the same",
        )
    return mended


def _print(mended: Mended, *, write: bool) -> None:
    say_recovered(mended.recovered)
    for change in mended.changes:
        sys.stdout.write(change.diff(context=1))
    for one in mended.written:
        whose = one.recipes[0] if len(one.recipes) == 1 else f"{len(one.recipes)} recipes"
        tell(f"{one.where}: {one.got} {'written' if write else 'would be written'}, for {whose}")
    for one in mended.suspicious:
        warn(f"▲ {one.where}: {one.source} now has {one.got}; {one.suspicion}")
    for words in (*mended.unplaced, *mended.unchecked, *mended.unseen):
        tell(f"✗ {words}", "red")
    unseen = f", {len(mended.unseen)} not seen" if mended.unseen else ""
    tell(f"{len(mended.written)} hashes corrected, {len(mended.proved)} sources proved{unseen}")


class CorrectionRow(msgspec.Struct, frozen=True):
    """A hash that a file states and the one that its source has."""

    file: Path
    where: str
    before: str
    got: str = msgspec.field(name="after")
    source: str
    recipes: tuple[str, ...]
    suspicion: str


class HashDocument(msgspec.Struct, frozen=True):
    """What was corrected, what was not, and the sources that are as stated."""

    written: list[CorrectionRow]
    suspicious: list[CorrectionRow]
    unplaced: list[str]
    unchecked: list[str]
    unseen: list[str]
    proved: dict[str, str]
