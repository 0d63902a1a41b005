"""Why a build failed, and the hashes that sources really have."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from torchsmith.building.by_name import log_named
from torchsmith.building.start import workspace_record
from torchsmith.cli.fields import Argument, Option
from torchsmith.cli.nix_options import NixpkgsOption, Recipes, read_trees
from torchsmith.cli.options import WorkspaceOption
from torchsmith.cli.reporter import SILENT, Reporter
from torchsmith.cli.samples import or_sample
from torchsmith.core.files import read_text
from torchsmith.core.problem import Empty, Exit
from torchsmith.nix.tool import find_nix
from torchsmith.repair import diagnose as failures
from torchsmith.repair.diagnose import Diagnosis
from torchsmith.repair.fix_hashes import HashFixer
from torchsmith.workspace.load import open_workspace

STANDARD_INPUT = Path("-")


@dataclass(frozen=True, kw_only=True)
class DiagnoseRequest:
    """The log of a build that failed."""

    log: Annotated[
        Path,
        Argument("A build's log, a job's name, - for standard input, or the word sample.", metavar="LOG"),
    ]
    workspace: WorkspaceOption = None


def diagnose(request: DiagnoseRequest) -> Diagnosis:
    """The known error in a log, or what its last lines suggest; raises Empty for a log without a line."""
    opened = open_workspace(request.workspace)
    if request.log == STANDARD_INPUT:
        text, place = sys.stdin.read(), "standard input"
    else:
        log = log_named(or_sample(request.log, "build.log"), opened)
        text, place = read_text(log, lenient=True), str(request.log)
    if not text.strip():
        raise Empty(f"{place} is empty")
    return failures.diagnose(text, opened.catalog.errors.values())


@dataclass(frozen=True, kw_only=True)
class FixHashesRequest:
    """The recipes whose sources are fetched."""

    recipes: Recipes = ()
    workspace: WorkspaceOption = None
    nixpkgs: NixpkgsOption = ()
    dry_run: Annotated[bool, Option("Write nothing; show the changes.")] = False
    accept: Annotated[bool, Option("Also replace a hash that was right before.")] = False


class CorrectionRow(msgspec.Struct, frozen=True):
    """A hash that a file states and the one that its source has."""

    file: Path
    where: str
    before: str
    got: str = msgspec.field(name="after")
    source: str
    recipes: tuple[str, ...]
    suspicion: str


class HashReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was corrected, what was not, and the sources that are as stated."""

    written: list[CorrectionRow]
    suspicious: list[CorrectionRow]  # a right hash stood there before: the source changed
    unplaced: list[str]  # mismatches that no file of the workspace states
    unchecked: list[str]  # recipes or downloads that failed otherwise
    unseen: list[str]  # sources whose hash no known place states
    proved: dict[str, str]
    diff: str = ""
    exit: Exit = Exit.OK


def fix_hashes(request: FixHashesRequest, reporter: Reporter = SILENT) -> HashReport:
    """Fetch sources and write the hashes that they have; those that may be tampering only with `accept`."""
    with workspace_record(request.workspace) as (opened, record):
        trees = read_trees(request.nixpkgs)
        fixer = HashFixer(find_nix(), opened, request.recipes, trees, record.proved())
        with reporter.status("fetching sources"):
            mended = fixer.run(accept=request.accept, write=not request.dry_run)
        reporter.note(mended.recovered)
        if not request.dry_run:
            record.note_proved(mended.proved)
    report = msgspec.convert(mended, HashReport, from_attributes=True, dec_hook=lambda _, value: value)
    return msgspec.structs.replace(report, diff="".join(change.diff(context=1) for change in mended.changes))
