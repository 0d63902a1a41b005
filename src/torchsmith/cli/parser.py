"""The command line parser: words in, the arguments of a verb's function out, as requests declare them."""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from torchsmith.cli.request import Param, Request
from torchsmith.core.problem import Usage, did_you_mean, nearest
from torchsmith.core.text import shell_word

HELP = ("--help", "-h")
ALONE = ("--help", "--version", "--install-completion", "--show-completion")  # options without a verb


@dataclass(frozen=True, slots=True)
class Parameter:
    """An option or argument of a verb."""

    name: str  # of the function's parameter, or of the field of a request
    param: Param
    kind: Any  # str, Path, int, float, bool, or the Literal's values
    many: bool  # it may be given again
    default: Any

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty

    @property
    def is_flag(self) -> bool:
        return self.kind is bool

    @property
    def switches(self) -> dict[str, bool]:
        """Every name of it, and for a flag the value of that name."""
        switches: dict[str, bool] = {}
        for names in self.param.names or (f"--{self.name.rstrip('_').replace('_', '-')}",):
            yes, _, no = names.partition("/")
            switches |= {yes: True} | ({no: False} if no else {})
        return switches

    @property
    def metavar(self) -> str:
        """The word for its value in help and messages."""
        if self.param.metavar:
            return self.param.metavar
        if self.param.kind == "Argument":
            return self.name.upper()
        return {str: "TEXT", Path: "PATH", int: "NUMBER", float: "NUMBER"}.get(self.kind, "WORD")

    def read(self, text: str, called: str) -> Any:
        """Return the value of a word. Raises Usage if it is not one."""
        if isinstance(self.kind, tuple):
            if text not in self.kind:
                raise Usage(f"{called}: {text!r} is not one of {', '.join(self.kind)}")
            return text
        try:
            value = text if self.kind is Path else self.kind(text)
        except ValueError:
            kind = "whole number" if self.kind is int else "number"
            raise Usage(f"{called}: {text!r} is not a {kind}") from None
        self.param.check(value, called.strip("[]."))
        return self.kind(value)


Commands = Mapping[str, tuple[Callable[..., None], str]]  # a function and an example, by name


@dataclass(frozen=True, slots=True)
class Command:
    """A verb: the words that call it, its function, and an example."""

    words: tuple[str, ...]
    run: Callable[..., None]
    example: str
    commands: Commands = field(default_factory=dict)  # verbs of its own, which may follow in its place

    @property
    def called(self) -> str:
        return " ".join(("torchsmith", *self.words))

    @property
    def is_group(self) -> bool:
        """Whether one of its own verbs must follow."""
        return bool(self.commands) and not inspect.signature(self.run).parameters

    @property
    def firsts(self) -> dict[str, str]:
        """The first paragraph of the description of each of its own verbs."""
        texts = {name: inspect.cleandoc(run.__doc__ or "") for name, (run, _) in self.commands.items()}
        return {name: " ".join(text.split("\n\n")[0].split()) for name, text in texts.items()}

    def parameters(self) -> list[Parameter]:
        return list(_parameters(self.run))


def find_command(
    arguments: Sequence[str], verbs: Sequence[str], removed: Mapping[str, str] | None = None
) -> tuple[Command, list[str]]:
    """Return the verb that arguments call, and the remaining words. Raises Usage for an unknown verb."""
    verb = arguments[0]
    if verb not in verbs:
        if verb.startswith("-"):
            raise _unknown_option(verb, ALONE, "torchsmith --help lists the verbs")
        if removed and verb in removed:
            raise Usage(f"there is no verb {verb!r}", hint=removed[verb])
        near = "--install-completion" if verb == "completion" else nearest(verb, verbs, 0.6)
        hint = f"did you mean {near}?" if near else "torchsmith --help lists them"
        raise Usage(f"there is no verb {verb!r}", hint=hint)
    module = importlib.import_module(f"torchsmith.verbs.{verb.replace('-', '_')}")
    command = Command((verb,), module.run, module.EXAMPLE, getattr(module, "COMMANDS", {}))
    name = arguments[1] if len(arguments) > 1 else ""
    if name in command.commands:
        return Command((verb, name), *command.commands[name]), list(arguments[2:])
    if command.is_group and name.startswith("-") and name not in HELP:
        raise _unknown_option(name, HELP, f"{command.called} --help lists its verbs")
    if command.is_group and name and name not in HELP:
        hint = did_you_mean(name, command.commands)
        raise Usage(f"{command.called} has no verb {name!r}", hint=hint)
    return command, list(arguments[1:])


def _parameters(run: Callable[..., Any]) -> Iterator[Parameter]:
    """Yield the options and arguments of a function, and the fields of a request among its parameters."""
    hints = get_type_hints(run, include_extras=True)
    for name, parameter in inspect.signature(run).parameters.items():
        hint = hints[name]
        if is_request(hint):
            yield from _parameters(hint)
            continue
        kind, param = get_args(hint)[:2]
        value, many = _kind(kind)
        yield Parameter(name, param, value, many, parameter.default)


def is_request(kind: Any) -> bool:
    """Whether a type is a group of options."""
    return isinstance(kind, type) and issubclass(kind, Request)


def _kind(hint: Any) -> tuple[Any, bool]:
    """`Path | None` is a Path, `tuple[str, ...]` several str."""
    if get_origin(hint) in (Union, UnionType):
        hint = next(kind for kind in get_args(hint) if kind is not NoneType)
    if get_origin(hint) in (tuple, Sequence):
        return _kind(get_args(hint)[0])[0], True
    return (get_args(hint) if get_origin(hint) is Literal else hint), False


def parse(command: Command, arguments: Sequence[str]) -> dict[str, Any] | None:
    """Return the value of each given parameter; None if help is wanted. Raises Usage for a mistake."""
    parameters = command.parameters()
    options = {
        name: (parameter, says)
        for parameter in parameters
        if parameter.param.kind == "Option"
        for name, says in parameter.switches.items()
    }
    values: dict[str, Any] = {}
    positionals: list[str] = []
    remaining = list(reversed(arguments))
    while remaining:
        word = remaining.pop()
        if word == "--":
            positionals += reversed(remaining)
            break
        if word in HELP:
            return None
        if not word.startswith("-") or word == "-":
            positionals.append(word)
        else:
            for name, value in _options_in(word, options, command):
                parameter, says = options[name]
                if parameter.is_flag:
                    if value is not None:
                        raise Usage(f"{name} takes no value")
                    values[parameter.name] = says
                    continue
                if value is None:
                    if not remaining or remaining[-1].partition("=")[0] in (*options, "--"):
                        raise Usage(f"{name} needs a value")
                    value = remaining.pop()
                read = parameter.read(value, name)
                values[parameter.name] = (*values.get(parameter.name, ()), read) if parameter.many else read
    _place(parameters, positionals, values, command)
    _from_environment(parameters, values)
    return values


def _options_in(word: str, options: dict[str, Any], command: Command) -> Iterator[tuple[str, str | None]]:
    """Yield the options in a word, each with the value that follows it in the word: -vw builds, -wbuilds."""
    name, equals, value = word.partition("=")
    if name in options:
        yield name, value if equals else None
        return
    letters = word[1:] if not word.startswith("--") else ""
    while letters:
        name, letters = f"-{letters[0]}", letters[1:]
        if name not in options:
            break
        flag = options[name][0].is_flag
        yield name, None if flag or not letters else letters.removeprefix("=")
        if not flag or not letters:
            return
    raise _unknown_option(word.partition("=")[0], (*options, *HELP), f"{command.called} --help lists them")


def _unknown_option(word: str, known: Sequence[str], otherwise: str) -> Usage:
    """An error that names the nearest long option."""
    near = nearest(word.lstrip("-"), [option[2:] for option in known if option.startswith("--")], 0.6)
    return Usage(f"unknown option {word}", hint=f"did you mean --{near}?" if near else otherwise)


def _place(
    parameters: Sequence[Parameter], positionals: list[str], arguments: dict[str, Any], command: Command
) -> None:
    """Assign positional words to the arguments in order."""
    for parameter in parameters:
        if parameter.param.kind != "Argument":
            continue
        if parameter.param.joined and positionals:
            positionals = [" ".join(positionals)]
        taken, positionals = (positionals, []) if parameter.many else (positionals[:1], positionals[1:])
        if taken:
            values = tuple(parameter.read(word, parameter.metavar) for word in taken)
            arguments[parameter.name] = values if parameter.many else values[0]
        elif parameter.required:
            raise Usage(f"{parameter.metavar} is missing", hint=f"for example: {command.example}")
    if positionals:
        word, has_workspace = positionals[0], any(one.name == "workspace" for one in parameters)
        hint = f"{command.called} --help lists what it takes"
        hint = f"-w {shell_word(word)} names a workspace" if has_workspace and Path(word).exists() else hint
        raise Usage(f"{word!r} is one argument too many", hint=hint)


def _from_environment(parameters: Sequence[Parameter], arguments: dict[str, Any]) -> None:
    for parameter in parameters:
        text = os.environ.get(parameter.param.envvar, "")
        if text and parameter.name not in arguments:
            texts = text.split() if parameter.many else [text]
            values = tuple(parameter.read(word, parameter.param.envvar) for word in texts)
            arguments[parameter.name] = values if parameter.many else values[0]


def call(run: Callable[..., None], arguments: dict[str, Any]) -> None:
    """Call a verb with the given arguments; fields of a request are put into the request."""
    run(**_grouped(run, dict(arguments)))


def _grouped(run: Callable[..., Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a function, with its requests."""
    made = {}
    for name, kind in get_type_hints(run).items():
        if name == "return":
            continue
        if is_request(kind):
            made[name] = kind(**_grouped(kind, arguments))
        elif name in arguments:
            made[name] = arguments.pop(name)
    return made
