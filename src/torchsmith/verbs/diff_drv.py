"""`torchsmith diff-drv A B`: why two recipes are not the same build."""

from __future__ import annotations

from torchsmith.api.derivations import DiffReport, DiffRequest, diff_derivations
from torchsmith.cli.console import answer, tell, write
from torchsmith.cli.options import JsonOption
from torchsmith.verbs.progress import Terminal

EXAMPLE = (
    "torchsmith init b && torchsmith apply -w b && torchsmith diff-drv -w b --nixpkgs sample"
    " pytorch-python313-cpu-avx2 pytorch-python313-cpu-avx512"
)


def run(*, request: DiffRequest, json: JsonOption = False) -> None:
    """Explain what differs between two derivations: the causes, not the hashes that follow from them."""
    answer(diff_derivations(request, Terminal()), _print, as_json=json)


def _print(report: DiffReport) -> None:
    if report.a == report.b:
        tell("the same derivation")
        return
    for difference in report.differences:
        for line in str(difference).split("\n"):
            write(line, whole=line.startswith(" "))  # lines of scripts stay as they are
