"""`torchsmith eval`: what recipes become."""

from __future__ import annotations

from torchsmith.api.derivations import failures_of
from torchsmith.api.evaluating import EvaluateReport, EvaluateRequest, evaluate
from torchsmith.cli.console import answer, exit_if, next_build, paint, tell, write
from torchsmith.cli.options import JsonOption
from torchsmith.core.text import counted
from torchsmith.verbs.evaluation import print_failed
from torchsmith.verbs.graph import print_other_gpus
from torchsmith.verbs.progress import Terminal

EXAMPLE = "torchsmith init b && torchsmith apply -w b && torchsmith eval -w b sm120 --nixpkgs sample"


def run(
    *,
    request: EvaluateRequest,
    json: JsonOption = False,
) -> None:
    """Evaluate recipes to derivations, with the pinned nixpkgs or a tree of your own.

    A failing recipe does not stop the others; its error is cut to the cause, with file and line. Evaluation
    reads only nixpkgs and files that git tracks, downloads only pinned tarballs, and builds nothing. The exit
    code is 1 when a recipe fails, 3 when only downloads failed. With [bold]--other-gpus[/bold] the
    derivations are added to the store, and the exit code is also 1 when MAGMA, NCCL or another dependency is
    compiled for more GPUs than the recipe's own.
    """
    report = evaluate(request, Terminal())
    answer(report, _print_results, as_json=json)
    exit_if(report.exit)
    next_build(*request.recipes, workspace=request.workspace, nixpkgs=request.nix.nixpkgs)


def _print_results(report: EvaluateReport) -> None:
    """Name, derivation, time and where the answer came from; failures with their cause."""
    good = [(result, result.evaluated.drv_path) for result in report.recipes if result.evaluated]
    width = max((len(result.name) for result, _ in good), default=0)
    for result, path in good:
        time = "cached" if result.cached else f"{result.seconds:.2f} s"
        write(f"{result.name:{width}}  {paint(f'{time:>8}  ', 'dim')}{path}")
    print_failed(failures_of(report.recipes))
    builds = len({path for _, path in good})
    counts = [f"{len(good)} of {len(report.recipes)} recipes evaluate to {counted(builds, 'derivation')}"]
    if cached := sum(result.cached for result, _ in good):
        counts.append(f"{cached} cached")
    if failed := len(report.recipes) - len(good):
        counts.append(f"{failed} failed")
    tell(", ".join(counts))
    if report.proved:
        tell(f"proved to evaluate: {counted(report.proved, 'cell')} that only this workspace claimed")
    if report.below:
        print_other_gpus(report.below)
