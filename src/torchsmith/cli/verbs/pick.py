"""`torchsmith pick`: which of the matrix's variants is for this machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from torchsmith.api.choosing import PickRequest, first_manifest, pick, write_missing
from torchsmith.api.fields import Option
from torchsmith.api.options import JsonOption
from torchsmith.cli.console import exit_if, print_json, warn
from torchsmith.core.problem import Conflict
from torchsmith.host.commands import stand_here

EXAMPLE = "torchsmith pick --cpu zen4 --gpu 'RTX 4090' --driver 570.124.06"


def run(
    *,
    request: PickRequest,
    org: Annotated[str, Option("The Flox organisation that publishes; else `org` of torchsmith.toml.")] = "",
    manifest: Annotated[
        bool, Option("Print the manifest.toml of a Flox environment that installs it.")
    ] = False,
    explain: Annotated[bool, Option("Say of every candidate why not.")] = False,
    names: Annotated[bool, Option("Print the chosen names alone.")] = False,
    create: Annotated[
        Path | None, Option("Write what is missing as a torchsmith.toml.", metavar="FILE")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Pick the variant that runs best on this machine, or on one that reports or options describe.

    The candidates are the workspace's variants, and without a workspace all that can be built. The exit code
    is 1 where no variant runs, or none uses a GPU that is there.
    """
    from torchsmith.cli import pick_view as view

    if manifest + names + json > 1:
        raise Conflict("--manifest, --names and --json each print something else", hint="give one of them")
    if create is not None:
        from torchsmith.host.matrix_file import check_free

        check_free(create)
    opened = request.opened()
    catalog = opened.catalog
    answer = pick(request, opened)
    here = stand_here(opened.root, org or opened.settings.org)
    if manifest:
        sys.stdout.write(first_manifest(answer, catalog, here.org))
    elif names:
        sys.stdout.write("".join(f"{one.fit.variant.name}\n" for one in answer.choice.variants))
    elif json:
        print_json(view.pick_json(answer, catalog, here))
    else:
        view.print_answer(answer, catalog, here, opened.adds, explain=explain)
    if create is not None:
        write_missing(create, answer, catalog)
        warn(f"written: {create}")
    exit_if(not answer.served)
