"""What `fix-hashes` does between its options and its answer."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from rich.text import Text

from torchsmith.build.start import state_folder
from torchsmith.cli.console import err, print_json, say_recovered
from torchsmith.edge.problem import Exit, Problem
from torchsmith.nix.store import StoreOptions
from torchsmith.nix.tool import find_nix
from torchsmith.record import Record
from torchsmith.repair.fix_hashes import Correction, HashFixer, Mended
from torchsmith.workspace.checkout import choose
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
    root = state_folder(workspace).parent
    fixer = HashFixer(
        find_nix(),
        workspace,
        lambda: choose(words, workspace, root).recipes,
        trees,
        record.proved(),
        StoreOptions(builders=""),
    )
    with err().status("fetching sources"):
        mended = fixer.run(accept=accept, write=write)
    if write:
        record.note_proved(mended.proved)
    if as_json:
        print_json(_document(mended))
    else:
        _print(mended, write=write)
    if mended.suspicious and not as_json:
        raise Problem(
            f"{len(mended.suspicious)} changed hashes may be tampering and were not written",
            hint="find out why the source changed; --accept writes them all the same",
            exit=Exit.NOT_RIGHT,
        )
    return mended


def _print(mended: Mended, *, write: bool) -> None:
    console = err()
    say_recovered(mended.recovered)
    for change in mended.changes:
        sys.stdout.write(change.diff(context=1))
    for one in mended.written:
        verb = "written" if write else "would be written"
        console.print(Text(f"{one.holder.where}: {one.got} {verb}, for {_whose(one)}"), soft_wrap=True)
    for one in mended.suspicious:
        words = f"▲ {one.holder.where}: {one.source} now has {one.got}; {one.suspicion}"
        console.print(Text(words, style="yellow"), soft_wrap=True)
    for words in (*mended.unplaced, *mended.unchecked):
        console.print(Text(f"✗ {words}", style="red"), soft_wrap=True)
    console.print(f"{len(mended.written)} hashes corrected, {len(mended.proved)} sources proved")


def _whose(one: Correction) -> str:
    return one.recipes[0] if len(one.recipes) == 1 else f"{len(one.recipes)} recipes"


class CorrectionRow(msgspec.Struct, frozen=True):
    """A hash that a file states and the one that its source has."""

    file: Path
    where: str
    before: str
    after: str
    source: str
    recipes: tuple[str, ...]
    suspicion: str


class HashDocument(msgspec.Struct, frozen=True):
    """What was corrected, what was not, and the sources that are as stated."""

    written: list[CorrectionRow]
    suspicious: list[CorrectionRow]
    unplaced: list[str]
    unchecked: list[str]
    proved: dict[str, str]


def _document(mended: Mended) -> HashDocument:
    def rows(found: Sequence[Correction]) -> list[CorrectionRow]:
        return [
            CorrectionRow(
                one.holder.file,
                str(one.holder.where),
                one.holder.value,
                one.got,
                one.source,
                one.recipes,
                one.suspicion,
            )
            for one in found
        ]

    written, suspicious = rows(mended.written), rows(mended.suspicious)
    return HashDocument(written, suspicious, mended.unplaced, mended.unchecked, mended.proved)
