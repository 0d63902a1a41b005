"""`make facts`: the catalog checked against ptxas, gcc, archspec and LLVM; exit 1 if a fact is wrong.

Each toolkit's ptxas is downloaded from PyPI (some 35 MB) and cached, as is the zig compiler for its LLVM
(100 MB). Facts that no tool can check are counted at the end.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.proof.checks import OUTCOMES, check_catalog, not_looked_at
from tools.proof.readings import chosen_toolkits, read_tools
from torchsmith.core.problem import Problem
from torchsmith.core.text import counted
from torchsmith.workspace.load import open_workspace


def main(arguments: Sequence[str]) -> int:
    """Check the catalog, print each fact with its outcome, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.proof", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--cuda", action="append", help="check this CUDA release")
    parser.add_argument("--offline", action="store_true", help="download nothing; use the cache")
    parser.add_argument("-w", "--workspace", type=Path, help="a workspace, with its own catalog")
    options = parser.parse_args(arguments)
    try:
        catalog = open_workspace(options.workspace).catalog
        toolkits = chosen_toolkits(catalog, options.cuda)
    except Problem as problem:
        print(problem, file=sys.stderr)
        return int(problem.exit)
    readings = read_tools(
        toolkits, download=not options.offline, watch=lambda tool: print(f"asking {tool}", file=sys.stderr)
    )
    checks = check_catalog(catalog, readings)
    for check in checks:
        print(f"{check.outcome:12} {check.fact} ({check.tool}) {check.detail}".rstrip())
    counts = {name: sum(check.outcome == name for check in checks) for name in OUTCOMES}
    print(", ".join(f"{count} {name}" for name, count in counts.items()))
    kinds = not_looked_at(catalog)
    listed = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    print(f"not looked at: {counted(sum(kinds.values()), 'fact')} ({listed})")
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
