"""`torchsmith build`: the selected cells, built with the fewest compilations."""

from __future__ import annotations

from typing import Annotated

from torchsmith.api.building import BuildRequest, build, plan_build
from torchsmith.cli.console import answer, exit_if, next_step
from torchsmith.cli.fields import Option
from torchsmith.cli.options import JsonOption
from torchsmith.verbs.build_view import BuildTerminal, print_end, print_plan
from torchsmith.verbs.progress import Terminal

EXAMPLE = (
    "torchsmith init b && torchsmith apply -w b"
    " && torchsmith build -w b sm120 avx2 --dry-run --nixpkgs sample"
)


def run(
    *,
    request: BuildRequest,
    dry_run: Annotated[bool, Option("Print the plan and stop.")] = False,
    json: JsonOption = False,
) -> None:
    """Build the selected cells, each derivation once, the longest chains first.

    What is in the store or in a binary cache is not built again. A killed run can be continued with
    [bold]--resume[/bold]. The exit code is 1 when something failed, 3 when memory, disk or builders do not
    suffice or only downloads failed.
    """
    if dry_run:
        plan = plan_build(request, Terminal())
        answer(plan, print_plan, as_json=json)
        if plan.problem is not None:
            raise plan.problem
        resume = ("--resume",) if request.resume else ()
        arguments = ("build", *resume, *request.recipes)
        next_step(*arguments, workspace=request.workspace, nixpkgs=request.nixpkgs)
        exit_if(plan.exit)
        return
    with BuildTerminal(as_json=json) as terminal:
        report = build(request, terminal)
    if not json:
        print_end(report, request)
    if report.state == "stopped":
        raise KeyboardInterrupt
    exit_if(report.exit)
