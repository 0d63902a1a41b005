"""The command line as a whole: which verbs there are, and how every failure looks to a person."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, MutableMapping
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from torchsmith.edge.problem import Exit, Problem

# The order of a first visit: describe, look, prove.
VERBS = (
    "init",
    "list",
    "show",
    "explain",
    "host",
    "pick",
    "cover",
    "generate",
    "audit",
    "plan",
    "apply",
    "align",
    "package",
    "pin",
    "eval",
    "graph",
    "page",
    "diff-drv",
    "impact",
    "build",
    "status",
    "history",
    "log",
    "diagnose",
    "fix-hashes",
    "farm",
    "ci",
    "verify",
    "test",
    "publish",
    "facts",
    "schema",
)


class Verbs(MutableMapping[str, Any]):
    """Commands by name; a verb's module is imported when its command is first asked for."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in VERBS:
            raise KeyError(name)
        if name not in self._made:
            self._made[name] = _command(name)
        return self._made[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(VERBS)

    def __len__(self) -> int:
        return len(VERBS)


def _command(name: str) -> Any:
    """The command of a verb: its module's `app` where it has verbs of its own, else its `run`."""
    module = importlib.import_module(f"torchsmith.cli.verbs.{name.replace('-', '_')}")
    app = getattr(module, "app", None)
    if app is None:
        app = typer.Typer(add_completion=False, rich_markup_mode="rich")
        app.command(name, epilog=f"Example: [bold]{module.EXAMPLE}[/bold]")(module.run)
    command = typer.main.get_command(app)
    command.name = name
    return command


class LazyGroup(TyperGroup):
    """typer's group with lazily loaded verbs."""

    def __init__(self, **attrs: Any) -> None:
        super().__init__(**attrs)
        self.commands = Verbs()


app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="PyTorch builds made for exactly your GPU and CPU: one file, generated, proved, picked.",
)


def _version(wanted: bool) -> None:
    if wanted:
        from torchsmith import __version__

        print(f"torchsmith {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """PyTorch builds made for exactly your GPU and CPU: described in one file, generated, proved, picked."""


def run() -> None:
    """Run the command line; a traceback is only for a bug of ours."""
    try:
        try:
            app(prog_name="torchsmith")
        finally:
            sys.stdout.flush()
    except Problem as problem:
        from torchsmith.cli.console import print_problem, print_problem_json

        print_problem(problem)
        if "--json" in sys.argv:
            print_problem_json(problem)
        sys.exit(int(problem.exit))
    except BrokenPipeError:
        _drop_output()  # the reader has seen enough
        sys.exit(0)
    except OSError as error:
        _drop_output()
        print(f"error: {error.strerror or error}", file=sys.stderr)
        sys.exit(int(Exit.LACKING))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)


def _drop_output() -> None:
    """Keep the interpreter from trying again, and complaining, at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
