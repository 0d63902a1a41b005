"""`torchsmith` and `python -m torchsmith`."""

import gc
import os
import sys

# These end with their answer: nothing is left to be tidied up, which would cost a sixth of their time.
SHORT = ("--help", "-h", "list", "show", "pick")


def main() -> None:
    """Run the command line."""
    for name in ("stdout", "stderr"):  # closed by whoever called, as by >&-
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    # Loading makes thousands of objects that stay: looking for rubbish among them costs a tenth of the start.
    gc.set_threshold(50_000, 20, 20)
    try:
        from torchsmith.cli.main import run

        run()
    except KeyboardInterrupt:  # while modules are still being loaded
        sys.exit(130)


def entry() -> None:
    """The same as a process of its own."""
    code: object = 0
    try:
        main()
    except SystemExit as end:
        if sys.argv[1:2] and sys.argv[1] not in SHORT:
            raise
        code = end.code
    if not sys.argv[1:2] or sys.argv[1] not in SHORT:
        return
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)


if __name__ == "__main__":
    entry()
