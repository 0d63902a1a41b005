"""A command line from its words to its exit code, and how every failure looks to a person or a program."""

from __future__ import annotations

import os
import signal
import sys

from torchsmith.cli.console import print_problem, print_problem_json
from torchsmith.edge.problem import Lacking, Problem

INTERRUPTED = 130  # what shells say of Ctrl-C
HELP: tuple[list[str], ...] = (["--help"], ["-h"], [])


def run() -> None:
    """Run the command line; a traceback is only for a bug of ours."""
    words = sys.argv[1:]
    if os.environ.get("COLUMNS") == "0":  # what some CI sets: nobody knows
        del os.environ["COLUMNS"]
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was begun is tidied up, as by Ctrl-C
    try:
        try:
            _run(words)
        finally:
            sys.stdout.flush()
    except Problem as problem:
        fail(problem)
    except BrokenPipeError:
        _drop_output()  # the reader has seen enough
        sys.exit(0)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        fail(Lacking(f"{place}{error.strerror or error}"))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)


def _run(words: list[str]) -> None:
    if words in HELP and "_TORCHSMITH_COMPLETE" not in os.environ:
        from torchsmith.cli.panels import print_overview

        print_overview()
        return
    from torchsmith.cli.params import call
    from torchsmith.cli.quick import quick_call

    if plain := quick_call(words):
        call(*plain)
        return
    from torchsmith.cli.app import call_typer

    code = call_typer(words)
    if code == INTERRUPTED:  # typer has caught it, and said nothing
        raise KeyboardInterrupt
    sys.exit(code)


def fail(problem: Problem) -> None:
    """Say what is wrong, to a program too where it asked for JSON, and exit."""
    print_problem(problem)
    try:
        if "--json" in sys.argv:
            print_problem_json(problem)
        sys.stdout.flush()
    except OSError:  # it is stdout itself that fails
        _drop_output()
    sys.exit(int(problem.exit))


def _drop_output() -> None:
    """Keep the interpreter from trying again, and complaining, at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
