"""`torchsmith impact`: what a change does, by derivation."""

from __future__ import annotations

from torchsmith.api.derivations import ImpactReport, ImpactRequest, impact
from torchsmith.cli.console import answer, exit_if, next_build, tell, write
from torchsmith.cli.options import JsonOption
from torchsmith.verbs.progress import Terminal

EXAMPLE = "torchsmith init b && torchsmith apply -w b --commit && torchsmith impact -w b --nixpkgs sample"


def run(*, request: ImpactRequest, json: JsonOption = False) -> None:
    """Show which recipes change when torchsmith.toml or the catalog changes.

    The recipes as they would be generated now are evaluated beside those of a git revision: a recipe whose
    derivation is the same need not be built again. The exit code is 1 when a recipe no longer evaluates.
    """
    report = impact(request, Terminal())
    answer(report, _print_effects, as_json=json)
    exit_if(report.exit)
    if any(effect.kind in ("changed", "new", "mended") for effect in report.effects):
        next_build(workspace=request.workspace, nixpkgs=request.nix.nixpkgs)


def _print_effects(report: ImpactReport) -> None:
    for effect in report.effects:
        if effect.kind != "identical":
            write(f"{effect.kind:12} {effect.name}  {effect.after or effect.before}")
    hours = f"; about {report.hours:.0f} hours on 16 cores by the estimates" if report.hours >= 1 else ""
    tell(report.summary + hours)
