"""`torchsmith fix-hashes`: the hashes that sources really have, written to the files that state them."""

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import dataclass
from typing import Annotated

from torchsmith.cli.console import answer, exit_if, next_build, warn, write_stderr
from torchsmith.cli.nix_options import NixpkgsOption, Recipes, read_trees, takes_sample
from torchsmith.cli.options import JsonOption, WorkspaceOption
from torchsmith.cli.reporter import SILENT, Reporter, Terminal
from torchsmith.cli.request import Option, Request
from torchsmith.core.problem import Invalid, Refused
from torchsmith.core.text import counted
from torchsmith.nix.tool import find_nix
from torchsmith.record import open_record
from torchsmith.repair.fix_hashes import HashFixer, HashFixes
from torchsmith.workspace.checkout import workspace_or_folder
from torchsmith.workspace.load import open_workspace

PREPARE = "torchsmith init b && torchsmith apply -w b"
EXAMPLE = f"{PREPARE} && torchsmith fix-hashes -w b sm120 --dry-run --nixpkgs sample"


@dataclass(frozen=True, kw_only=True)
class FixHashesRequest(Request):
    """The recipes whose sources are fetched."""

    recipes: Recipes = ()
    workspace: WorkspaceOption = None
    nixpkgs: NixpkgsOption = ()
    dry_run: Annotated[bool, Option("Write nothing; show the changes.")] = False
    accept: Annotated[bool, Option("Also replace a hash that was right before.")] = False


def fix_hashes(request: FixHashesRequest = FixHashesRequest(), reporter: Reporter = SILENT) -> HashFixes:
    """Fetch sources and write the hashes that they have; those that may be tampering only with `accept`."""
    sample = takes_sample(request.nixpkgs)
    if sample and not request.dry_run:
        raise Invalid(
            "the sources of the sample are stand-ins: their hashes are not written",
            hint="leave out --nixpkgs sample, or try it with torchsmith fix-hashes --dry-run",
        )
    here = (".",)
    opened = workspace_or_folder(request.recipes or here, request.workspace)
    recipes = request.recipes or (() if opened.root else here)
    with closing(open_record(opened.home)) as record:
        trees = read_trees(request.nixpkgs)
        fixer = HashFixer(find_nix(), opened, recipes, trees, record.proved())
        with reporter.status("fetching sources"):
            fixes = fixer.run(accept=request.accept, write=not request.dry_run)
        reporter.note(fixes.recovered)
        if sample:
            fixes.proved.clear()
        elif not request.dry_run:
            record.note_proved(fixes.proved)
    return fixes


def run(*, request: FixHashesRequest, json: JsonOption = False) -> None:
    """Fetch the sources of recipes and correct their hashes.

    All mismatches are found in one pass and corrected together: for generated recipes in torchsmith.toml or
    the catalog folder of the workspace, in your own files in place; these need no torchsmith.toml.
    Only sources are fetched; nothing is compiled. A placeholder that cannot be located, for example because
    a function passes it on, is named. The exit code is 1 when something remains for you to do, 3 when only
    downloads failed.
    """
    fixes = fix_hashes(request, Terminal())
    answer(fixes, lambda fixes: _print(fixes, written=not request.dry_run), as_json=json)
    if fixes.suspicious:
        raise Refused(
            f"{len(fixes.suspicious)} changed hashes may be tampering and were not written",
            hint="find out why the source changed; --accept writes them",
        )
    exit_if(fixes.exit)
    if open_workspace(request.workspace).root is not None:
        next_build(*request.recipes, workspace=request.workspace, nixpkgs=request.nixpkgs)


def _print(fixes: HashFixes, *, written: bool) -> None:
    sys.stdout.write(fixes.diff)
    for row in fixes.written:
        whose = row.recipes[0] if len(row.recipes) == 1 else f"{len(row.recipes)} recipes"
        write_stderr(f"{row.where}: {row.got} {'written' if written else 'would be written'}, for {whose}")
    for row in fixes.suspicious:
        warn(f"▲ {row.where}: {row.source} now has {row.got}; {row.suspicion}")
    for text in (*fixes.unplaced, *fixes.unchecked, *fixes.unfetched, *fixes.unseen):
        write_stderr(f"✗ {text}", "red")
    unseen = f", {len(fixes.unseen)} not checked" if fixes.unseen else ""
    hashes, sources = counted(len(fixes.written), "hash", "hashes"), counted(len(fixes.proved), "source")
    corrected = "corrected" if written else "would be corrected"
    write_stderr(f"{hashes} {corrected}, {sources} proved{unseen}")
