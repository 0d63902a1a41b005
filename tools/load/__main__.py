"""`python -m tools.load [JOBS [BUILDERS]]`: the figures, and exit 1 if something was lost or repeated."""

from __future__ import annotations

import signal
import sys
import tempfile
from pathlib import Path

from tools.load.farm import run
from tools.load.reckon import Load


def main() -> int:
    """1,000 derivations on 16 builders, unless told otherwise."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # builders are ended all the same
    jobs, builders, *_ = [*map(int, sys.argv[1:]), *(1000, 16)[len(sys.argv) - 1 :]]
    with tempfile.TemporaryDirectory(prefix="torchsmith-load-", ignore_cleanup_errors=True) as folder:
        result = run(Path(folder), Load(jobs, builders), say=lambda words: print(words, flush=True))
    print(*result.lines(), sep="\n")
    return 1 if result.faults else 0


if __name__ == "__main__":
    sys.exit(main())
