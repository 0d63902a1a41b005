"""`torchsmith` and `python -m torchsmith`."""

import contextlib
import os
import sys

# These end with their answer: tidying up what is left would cost a sixth of their time.
SHORT = ("--help", "-h", "list", "show", "pick")


def main() -> None:
    """Run the command line; the version is printed before anything else is loaded."""
    for name in ("stdout", "stderr"):  # closed by whoever called, as by >&-
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    if sys.argv[1:] == ["--version"]:
        from torchsmith import __version__

        with contextlib.suppress(OSError):  # is reported below
            print(f"torchsmith {__version__}", flush=True)
            return
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
        code = end.code
    if not sys.argv[1:2] or sys.argv[1] not in SHORT:
        sys.exit(code)  # type: ignore[arg-type]
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else code is not None)


if __name__ == "__main__":
    entry()
