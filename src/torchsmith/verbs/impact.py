"""`torchsmith impact`: what a change does, by derivation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar

import msgspec

from torchsmith.cli.console import answer, exit_if, next_build, write, write_stderr
from torchsmith.cli.nix_options import NixOptions, evaluation
from torchsmith.cli.options import JsonOption, ProfileOption, WorkspaceOption
from torchsmith.cli.reporter import SILENT, Reporter, Terminal
from torchsmith.cli.request import Argument, Request
from torchsmith.core.problem import Exit
from torchsmith.core.text import counted
from torchsmith.edit import impact as changes
from torchsmith.edit.impact import Effect
from torchsmith.host.cost import cost_of
from torchsmith.matrix import Variant
from torchsmith.nix.evaluate import exit_of
from torchsmith.workspace.load import open_workspace

EXAMPLE = "torchsmith init b && torchsmith apply -w b --commit && torchsmith impact -w b --nixpkgs sample"
CORES = 16  # that the hours are for


@dataclass(frozen=True, kw_only=True)
class ImpactRequest(Request):
    """A workspace, and the revision of it to compare with."""

    revision: Annotated[
        str, Argument("The git revision to compare with; by default HEAD.", metavar="[REV]")
    ] = "HEAD"
    workspace: WorkspaceOption = None
    profile: ProfileOption = None
    nix: NixOptions = field(default_factory=NixOptions)


class ImpactReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a change does to each recipe."""

    FORMAT: ClassVar = 3
    summary: str
    effects: Sequence[Effect]
    hours: float  # for the recipes that change, on CORES, without their dependencies

    @property
    def exit(self) -> Exit:
        causes = [(effect.kind, effect.cause) for effect in self.effects if effect.cause]
        return exit_of([cause for kind, cause in causes if kind in ("broken", "unknown")])


def impact(request: ImpactRequest = ImpactRequest(), reporter: Reporter = SILENT) -> ImpactReport:
    """Which recipes a change of torchsmith.toml or of the catalog turns into other builds."""
    opened = open_workspace(request.workspace, request.profile)
    _, ask = evaluation(request.nix, workspace=opened, reporter=reporter)
    effects = changes.impact(opened, opened.root or Path.cwd(), request.revision, ask)
    known = {effect.before for effect in effects}
    costly = [effect for effect in effects if effect.kind in ("changed", "new", "fixed")]
    changed = [effect.name for effect in costly if effect.after not in known]
    variants = (Variant.try_parse(name.rpartition("/")[2], opened.catalog) for name in changed)
    hours = cost_of([*filter(None, variants)], opened.catalog, CORES).hours
    return ImpactReport(summary=changes.summary(effects), effects=effects, hours=round(hours, 1))


def run(*, request: ImpactRequest, json: JsonOption = False) -> None:
    """Show which recipes change when torchsmith.toml or the catalog changes.

    The recipes as [bold]apply[/bold] would leave them are evaluated beside those of a git revision: a recipe
    whose derivation is the same need not be built again. Without a torchsmith.toml the files on disk are
    compared. The exit code is 1 when a recipe no longer
    evaluates, 3 when what one needs could not be downloaded: such recipes are unknown, not broken.
    """
    report = impact(request, Terminal())
    answer(report, _print_effects, as_json=json)
    exit_if(report.exit)
    if any(effect.kind in ("changed", "new", "fixed") for effect in report.effects):
        next_build(workspace=request.workspace, nixpkgs=request.nix.nixpkgs)


def _print_effects(report: ImpactReport) -> None:
    for effect in report.effects:
        if effect.kind not in ("identical", "still broken"):
            outcome = effect.cause.message if effect.cause else effect.after or effect.before
            write(f"{effect.kind:12} {effect.name}  {outcome}")
    hours = counted(round(report.hours), "hour")
    about = f"; about {hours} on {CORES} cores by the estimates" if report.hours >= 1 else ""
    write_stderr(report.summary + about)
