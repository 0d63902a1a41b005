"""`torchsmith diff-drv A B`: why two recipes are not the same build."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from torchsmith.api.fields import Argument
from torchsmith.api.nix_options import NixOptions, open_recipes
from torchsmith.api.options import JsonOption, WorkspaceOption
from torchsmith.cli.console import print_json, tell, write
from torchsmith.cli.evaluation import evaluation
from torchsmith.core.problem import CannotBuild, Conflict
from torchsmith.nix.derivation import Difference, compare

EXAMPLE = (
    "torchsmith init b && torchsmith generate -w b && torchsmith diff-drv -w b --nixpkgs sample"
    " pytorch-python313-cpu-avx2 pytorch-python313-cpu-avx512"
)

One = Annotated[
    str, Argument("A recipe's name or path, rehearsal-of-NAME, or a derivation in the store (.drv).")
]


class DiffDocument(msgspec.Struct, frozen=True):
    """Two derivations and what differs between them."""

    a: str
    b: str
    differences: Sequence[Difference]


def run(
    a: One,
    b: One,
    workspace: WorkspaceOption = None,
    *,
    nix: NixOptions,
    json: JsonOption = False,
) -> None:
    """Say in words what differs between two derivations: the causes, not the hashes that follow from them."""
    from torchsmith.building.rehearsal import PREFIX, phases_of
    from torchsmith.nix.derivation import show_derivations
    from torchsmith.workspace.load import open_workspace

    opened = open_workspace(workspace)
    phases: dict[str, str] = {}
    tool, evaluate = evaluation(nix, workspace=opened, instantiate=True, phases=phases)
    paths: list[str] = []
    for word in (a, b):
        if word.endswith(".drv"):
            paths.append(word)
            continue
        _, chosen = open_recipes([word.removeprefix(PREFIX)], workspace)
        if len(chosen) != 1:
            raise Conflict(f"{word} is {len(chosen)} recipes", hint="name one recipe on each side")
        phases.clear()
        if word.startswith(PREFIX):
            phases |= phases_of(chosen, opened.catalog)
        result = evaluate(chosen)[0]
        if result.evaluated is None:
            cause = result.cause
            raise CannotBuild(
                cause.message if cause else "does not evaluate", where=cause.where if cause else None
            )
        paths.append(result.evaluated.drv_path)
    derivations = show_derivations(tool, sorted(set(paths)), recursive=True)
    found = compare(derivations[paths[0]], derivations[paths[1]], derivations)
    if json:
        print_json(DiffDocument(paths[0], paths[1], found))
    elif paths[0] == paths[1]:
        tell("the same derivation")
    else:
        for one in found:
            for line in str(one).split("\n"):
                write(line, whole=line.startswith(" "))  # lines of scripts stay as they are
