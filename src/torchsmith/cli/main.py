"""Run a command line, and report every failure to people and programs."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import warnings
from itertools import pairwise
from types import FrameType

from torchsmith import __version__
from torchsmith.cli.console import exit_if, print_problem, print_problem_json, warn, write_out
from torchsmith.cli.panels import REMOVED, VERBS, print_overview
from torchsmith.core.problem import Exit, MissingRequirement, Problem

INTERRUPTED = 130  # as shells do after Ctrl-C
RETRY_SECONDS = 0.01  # until an interrupt is raised that came during an import


def run() -> None:
    """Run the command line; only a bug ends in a traceback."""
    arguments = sys.argv[1:]
    if os.environ.get("COLUMNS") == "0":  # some CI services set it: unknown
        del os.environ["COLUMNS"]
    handle_interrupts()
    warnings.showwarning = lambda message, *_, **__: warn(f"warning: {message}")
    try:
        try:
            _run(arguments)
        finally:
            write_out("", flush=True)
    except Problem as problem:
        fail(problem)
    except BrokenPipeError:
        _drop_output()  # the reader has closed the pipe
        sys.exit(0)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        fail(MissingRequirement(f"{place}{error.strerror or error}"))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)


def handle_interrupts() -> None:
    """End and clean up after SIGTERM as after Ctrl-C."""
    numbers = [signal.SIGTERM, signal.SIGALRM]
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        numbers.append(signal.SIGINT)
    for number in numbers:
        signal.signal(number, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt; during an import later, since Python can lose it there and keep a lock."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            signal.setitimer(signal.ITIMER_REAL, RETRY_SECONDS)
            return
        frame = frame.f_back
    raise KeyboardInterrupt


def _run(arguments: list[str]) -> None:
    if shell := os.environ.get("_TORCHSMITH_COMPLETE"):
        from torchsmith.cli.completion import complete

        complete(shell, arguments)
        return
    if arguments[:1] in (["--version"], ["-V"]):
        write_out(f"torchsmith {__version__}\n")
        return
    if not arguments or arguments[0] in ("--help", "-h", "help"):
        verb = [word for word in arguments[1:] if not word.startswith("-")]
        if not verb:
            print_overview(everything=arguments[1:2] == ["--all"])
            exit_if(not arguments and Exit.BAD_REQUEST)
            return
        arguments = [*verb, "--help"]
    if arguments[0].endswith("-completion"):
        from torchsmith.cli.completion import completion

        completion(arguments)
        return
    from torchsmith.cli.parser import call, find_command, parse

    command, left = find_command(arguments, VERBS, REMOVED)
    given = None if command.is_group else parse(command, left)
    if given is not None:
        call(command.run, given)
        return
    from torchsmith.cli.help import print_command_help

    print_command_help(command)
    exit_if(command.is_group and not left and Exit.BAD_REQUEST)


def fail(problem: Problem) -> None:
    """Print a problem, with --json as JSON too, and exit."""
    with contextlib.suppress(OSError):  # stderr itself fails
        print_problem(problem)
    try:
        if _wants_json(sys.argv):
            print_problem_json(problem)
        sys.stdout.flush()
    except OSError:  # stdout itself fails
        _drop_output()
    sys.exit(int(problem.exit))


def _wants_json(words: list[str]) -> bool:
    """Whether a command line, which may be wrong, asks for JSON: --json, or audit's --format json."""
    named = any(pair in (("--format", "json"), ("-f", "json")) for pair in pairwise(words))
    return named or "--json" in words or "--format=json" in words


def _drop_output() -> None:
    """Keep the interpreter from writing to stdout again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
