"""The command line as typer knows it: verbs that are imported when they are called."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from torchsmith.cli.console import print_problem_json
from torchsmith.cli.panels import VERBS, print_overview
from torchsmith.cli.params import for_typer, reflowed
from torchsmith.edge.problem import Usage


@cache
def _command(name: str) -> Any:
    """The command of a verb: its module's `app` where it has verbs of its own, else its `run`."""
    module = importlib.import_module(f"torchsmith.cli.verbs.{name.replace('-', '_')}")
    app = getattr(module, "app", None)
    if app is None:
        app = typer.Typer(add_completion=False, rich_markup_mode="rich")
        app.command(name, epilog=f"Example: [bold]{module.EXAMPLE}[/bold]")(for_typer(module.run))
    else:
        for command in app.registered_commands:
            command.callback = for_typer(command.callback)
    made = typer.main.get_command(app)
    made.name = name
    return made


class LazyGroup(TyperGroup):
    """typer's group with lazily loaded verbs, and the overview of them that is kept ready."""

    def __init__(self, **attrs: Any) -> None:
        super().__init__(**attrs)
        names: Any = dict.fromkeys(VERBS)
        self.commands = names

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A verb's module is imported when its command is first asked for."""
        return _command(cmd_name) if cmd_name in VERBS else None

    def format_help(self, ctx: Any, formatter: Any) -> None:
        print_overview()


app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
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


def call_typer(words: list[str]) -> int:
    """Let typer read the words and call the verb; returns the exit code."""
    from typer._click.exceptions import ClickException
    from typer.rich_utils import rich_format_error

    if len(words) > 1 and words[0].endswith("-completion"):  # typer would not look at what follows
        raise Usage(f"{words[0]} takes nothing else", hint="it is for the shell that you are in")
    try:
        code = app(words, prog_name="torchsmith", standalone_mode=False)
    except ClickException as error:
        rich_format_error(error)
        if "--json" in words:
            print_problem_json(Usage(reflowed(error.format_message())))
        return error.exit_code
    return code if isinstance(code, int) else 0
