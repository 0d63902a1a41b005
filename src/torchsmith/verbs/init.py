"""`torchsmith init`: a torchsmith.toml to start from."""

from __future__ import annotations

from torchsmith.api.starting import InitReport, InitRequest, init
from torchsmith.cli.console import answer, next_step, tell, warn, write
from torchsmith.cli.options import JsonOption
from torchsmith.core.text import counted, grouped, some_of

EXAMPLE = "torchsmith init builds --profile seed"


def run(*, request: InitRequest, json: JsonOption = False) -> None:
    """Write a torchsmith.toml, the file that says which builds you ship.

    It starts with the profile [bold]real[/bold], in which every cell has a machine that can use it.
    [bold]seed[/bold] is the whole seed plan, [bold]wide[/bold] every cell that hardware and toolkit allow.
    """
    report = init(request)
    answer(report, _print_report, as_json=json)
    next_step("plan" if request.existing else "apply", workspace=report.file.parent)


def _print_report(report: InitReport) -> None:
    """What was taken in, and what was not."""
    if report.left:
        write(f"left out: {counted(len(report.left), 'recipe')}")
    for why, names in grouped((recipe.why, recipe.name) for recipe in report.left).items():
        write(f"  {some_of(names)}: {why}")
    for title, rows in (("not stated, assumed", report.assumed), ("not kept", report.lost)):
        if rows:
            write(f"{title}: {len(rows)}")
        for row in rows:
            write(f"  {row}")
    if report.elsewhere:
        write("at another nixpkgs than their line; torchsmith apply --adopt moves them to it:")
    for block, count in report.elsewhere.items():
        write(f"  {count} of {block}")
    for block, pin in report.pins.items():
        warn(f"wrote catalog/lines.toml: {block} at nixpkgs {pin}, as all of its recipes are")
    kind = "file" if report.assumed or report.lost else "recipe"
    source = f" from {counted(report.recipes, kind)}" if report.recipes else ""
    warned = f", {report.warned} of them with a warning (torchsmith list)" if report.warned else ""
    warn(f"wrote {report.file}: {counted(report.variants, 'variant')}{source}{warned}")
    if report.newer:
        tell(f"newer torch releases, and what each lacks: torchsmith line list ({', '.join(report.newer)})")
