"""`torchsmith cover FLEET`: which variants to build for many machines."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from torchsmith.api.choosing import CoverRequest, cover_of
from torchsmith.api.fields import Option
from torchsmith.api.options import JsonOption, SvgOption
from torchsmith.cli.console import exit_if, next_step, print_json, warn
from torchsmith.cli.svg import check_svg

EXAMPLE = "torchsmith cover sample --curve 6"


def run(
    *,
    request: CoverRequest,
    curve: Annotated[int, Option("Show best plans up to this size.", min=0)] = 0,
    write: Annotated[Path | None, Option("Write the plan as a torchsmith.toml.", metavar="FILE")] = None,
    force: Annotated[bool, Option("Replace the file of --write.")] = False,
    svg: SvgOption = None,
    json: JsonOption = False,
) -> None:
    """Choose the fewest variants that serve every machine of a fleet, or the best few, proved optimal.

    The candidates are the workspace's variants, and without a workspace all that can be built. The exit code
    is 1 where a machine is not served or an entry of the inventory could not be read.
    """
    from torchsmith.cli import cover_view as view
    from torchsmith.host.matrix_file import check_free, write_matrix
    from torchsmith.workspace.load import read_as

    check_svg(svg)
    if write is not None:
        check_free(write, replace=force)
    cover = cover_of(request)
    plan = cover.best(request.best) if request.best else cover.fewest()
    plans = cover.curve(curve) if curve else ()
    if json:
        print_json(view.cover_json(cover, plan, plans))
    else:
        view.print_answer(cover, plan, plans, limited=request.best > 0)
    view.draw(cover, plan, plans, svg)
    if write is not None:
        chosen = cover.with_companions(plan.cells)
        write_matrix(
            write, chosen, f"Chosen by torchsmith cover for {request.fleet.name}.", read_as, replace=force
        )
    if not json and plan.cells:
        _say_next(write)
    exit_if(plan.unserved or cover.fleet.unread)


def _say_next(written: Path | None) -> None:

    if written is None:
        next_step("cover", *sys.argv[2:], "--write", "builds/torchsmith.toml", why="as a workspace")
        return
    warn(f"written: {written}")
    next_step("generate", workspace=written.parent if written.name == "torchsmith.toml" else written)
