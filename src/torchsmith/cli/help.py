"""What `--help` prints for a verb: usage, description, arguments, options, an example."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence

from torchsmith.cli.console import DEFAULT_WIDTH, paint, width, wrapped, write
from torchsmith.cli.parser import Command, Parameter

MAX_NAME_COLUMNS = 28  # of names before a description
MAX_WIDTH = 100


def reflowed(text: str | None) -> str:
    """Return the paragraphs of a text, each in one line."""
    return "\n\n".join(" ".join(part.split()) for part in inspect.cleandoc(text or "").split("\n\n"))


def print_command_help(command: Command) -> None:
    """Print the help of a verb."""
    if command.is_group:
        _head((command.called, "VERB", "..."), command.run.__doc__)
        _section("Verbs", list(command.firsts.items()))
        _tail(command.example)
        return
    parameters = command.parameters()
    arguments = [parameter for parameter in parameters if parameter.param.kind == "Argument"]
    options = [parameter for parameter in parameters if parameter.param.kind == "Option"]
    _head((command.called, "[OPTIONS]", *(argument.metavar for argument in arguments)), command.run.__doc__)
    if arguments:
        _section("Arguments", [(argument.metavar, described(argument)) for argument in arguments])
    _section(
        "Options",
        [
            *((option_names(option), described(option)) for option in options),
            ("--help, -h", "Print this and stop."),
        ],
    )
    _tail(command.example)


def _head(usage: Iterable[str], about: str | None) -> None:
    _text(paint("Usage: ", "bold") + " ".join(usage))
    _text("")
    for paragraph in reflowed(about).split("\n\n"):
        _text(_painted(paragraph))
        _text("")


def _tail(example: str) -> None:
    _text(paint("Example: ", "bold") + example)


def _text(line: str) -> None:
    for part in wrapped(line, _room()):
        write(part, wrap=False)


def _room() -> int:
    return min(width() or DEFAULT_WIDTH, MAX_WIDTH)


def _painted(text: str) -> str:
    """Return help with [bold] words painted."""
    first, *marked = text.split("[bold]")
    parts = [part.partition("[/bold]") for part in marked]
    return first + "".join(paint(bold, "bold") + rest for bold, _, rest in parts)


def option_names(parameter: Parameter) -> str:
    long = [name for name in parameter.switches if name.startswith("--")]
    short = [name for name in parameter.switches if not name.startswith("--")]
    return ", ".join([*long, *short]) + ("" if parameter.is_flag else f" {parameter.metavar}")


def described(parameter: Parameter) -> str:
    """Return the help of a parameter, with its values, bounds and default."""
    more = []
    if isinstance(parameter.kind, tuple):
        more.append(f"one of {', '.join(parameter.kind)}")
    if parameter.kind in (int, float):
        more.append(parameter.param.bounds)
    without = (None, "", False, (), inspect.Parameter.empty)
    if parameter.default not in without and parameter.param.kind == "Option":
        more.append(f"default: {_default(parameter)}")
    if parameter.required and parameter.param.kind == "Option":
        more.append("required")
    if parameter.many and parameter.param.kind == "Option":
        more.append("repeatable")
    if parameter.param.envvar:
        more.append(f"else ${parameter.param.envvar}")
    return parameter.param.help + (f" [{'; '.join(more)}]" if more else "")


def _default(parameter: Parameter) -> str:
    if parameter.is_flag:
        return next(iter(parameter.switches)).lstrip("-")
    return f"{parameter.default:g}" if isinstance(parameter.default, float) else str(parameter.default)


def _section(title: str, rows: Sequence[tuple[str, str]]) -> None:
    """Print names and descriptions below a title; a long name has a line of its own."""
    column = min(max(len(name) for name, _ in rows), MAX_NAME_COLUMNS)
    _text(paint(f"{title}:", "bold"))
    for name, about in rows:
        first, *rest = wrapped(about, _room() - column - 4)
        if len(name) > column:
            _text(paint(f"  {name}", "cyan"))
            name = ""
        write(f"  {paint(f'{name:<{column}}', 'cyan')}  {first}", wrap=False)
        for line in rest:
            write(f"{'':{column + 4}}{line}", wrap=False)
    _text("")
