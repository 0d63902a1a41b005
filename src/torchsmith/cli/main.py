"""A command line from its words to its exit code, and how every failure looks to a person or a program."""

from __future__ import annotations

import os
import signal
import sys
import warnings

from torchsmith.cli.console import print_problem, print_problem_json, warn
from torchsmith.cli.panels import REMOVED, VERBS, print_overview
from torchsmith.core.problem import Exit, MissingRequirement, Problem

INTERRUPTED = 130  # what shells say of Ctrl-C


def run() -> None:
    """Run the command line; a traceback is only for a bug of ours."""
    arguments = sys.argv[1:]
    if os.environ.get("COLUMNS") == "0":  # what some CI sets: nobody knows
        del os.environ["COLUMNS"]
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was begun is tidied up, as by Ctrl-C
    warnings.showwarning = lambda message, *_, **__: warn(f"warning: {message}")
    try:
        try:
            _run(arguments)
        finally:
            sys.stdout.flush()
    except Problem as problem:
        fail(problem)
    except BrokenPipeError:
        _drop_output()  # the reader has seen enough
        sys.exit(0)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        fail(MissingRequirement(f"{place}{error.strerror or error}"))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)


def _run(arguments: list[str]) -> None:
    if shell := os.environ.get("_TORCHSMITH_COMPLETE"):
        from torchsmith.cli.completion import complete

        complete(shell, arguments)
        return
    if not arguments or arguments[0] in ("--help", "-h"):
        print_overview()
        return
    if arguments[0].endswith("-completion"):
        from torchsmith.cli.completion import completion

        completion(arguments)
        return
    from torchsmith.cli.parser import Command, call, find_command, parse

    command, name, left = find_command(arguments, VERBS, REMOVED)
    given = parse(command, left) if isinstance(command, Command) else None
    if isinstance(command, Command) and given is not None:
        call(command.run, given)
        return
    from torchsmith.cli.help import print_command_help, print_group_help

    if isinstance(command, Command):
        print_command_help(command)
    else:
        print_group_help(name[0], command)
        sys.exit(0 if left else int(Exit.BAD_REQUEST))


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
