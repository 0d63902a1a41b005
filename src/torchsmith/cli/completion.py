"""Completion for bash, zsh and fish: scripts that ask torchsmith for the completions of a word.

A script calls `_TORCHSMITH_COMPLETE=SHELL torchsmith WORD...` with the words up to the cursor, the last of
them unfinished, and reads a candidate a line, with its description behind a tab if the shell shows one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from torchsmith.cli.console import write_stderr
from torchsmith.cli.panels import FULL_PAGE, VERBS
from torchsmith.cli.parser import ALONE, Command, Parameter, find_command
from torchsmith.core.files import read_text, write_atomic
from torchsmith.core.problem import NotKnown, Problem, Usage

PLACES = {
    "bash": ".local/share/bash-completion/completions/torchsmith",
    "zsh": ".zfunc/_torchsmith",
    "fish": ".config/fish/completions/torchsmith.fish",
}
HINTS = {
    "bash": "without the package bash-completion: put `source {file}` into ~/.bashrc",
    "zsh": "put `fpath+=~/.zfunc; autoload -Uz compinit; compinit` into ~/.zshrc",
}


def completion(arguments: Sequence[str]) -> None:
    """`--show-completion [SHELL]` and `--install-completion [SHELL]`. Raises NotKnown for other shells."""
    option, *shells = arguments
    shell = shells[0] if shells else Path(os.environ.get("SHELL", "")).name
    if len(shells) > 1:
        raise Usage(f"{option} takes the name of one shell")
    if shell not in PLACES:
        raise NotKnown(f"no completion for the shell {shell!r}", hint=f"{option} {' or '.join(PLACES)}")
    if option == "--show-completion":
        sys.stdout.write(script_of(shell))
        return
    file = Path.home() / PLACES[shell]
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(file, script_of(shell))
    write_stderr(f"{shell} completion is in {file}, from the next shell on")
    if shell in HINTS:
        write_stderr(HINTS[shell].format(file=file))


def script_of(shell: str) -> str:
    """What a shell reads to complete the words of torchsmith."""
    return read_text(Path(__file__).with_name(f"completion.{shell}"))


def complete(shell: str, arguments: Sequence[str]) -> None:
    """Print the completions of the last word."""
    words = _joined(arguments) or [""]
    words[-1] = words[-1].lstrip("'\"").replace("\\", "")  # shells hand over an unfinished word as typed
    for name, about in candidates(words):
        sys.stdout.write(f"{name}\t{about}\n" if about and shell != "bash" else f"{name}\n")


def _joined(arguments: Sequence[str]) -> list[str]:
    """Join what bash takes apart: --option, =, value."""
    joined: list[str] = []
    for word in arguments:
        if joined and (word == "=" or joined[-1].endswith("=")) and joined[-1].startswith("--"):
            joined[-1] += word
        else:
            joined.append(word)
    return joined


def candidates(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield completions of the last word, each with a description; none if it may be a file or is unknown."""
    *before, word = arguments
    if not before:
        yield from _starting(word, _verbs())
        return
    try:
        command, left = find_command(before, VERBS)
    except Problem:
        return
    if not left:
        yield from _starting(word, command.firsts.items())
    yield from _of_command(command, left, word)


def _of_command(command: Command, before: Sequence[str], word: str) -> Iterator[tuple[str, str]]:
    parameters = command.parameters()
    options = {
        name: parameter
        for parameter in parameters
        if parameter.param.kind == "Option"
        for name in parameter.switches
    }
    name, equals, start = word.partition("=")
    if equals and name in options:
        yield from ((f"{name}={value}", about) for value, about in _values(options[name], start))
        return
    waiting = options.get(before[-1]) if before else None
    if waiting and not waiting.is_flag:
        yield from _values(waiting, word)
    elif word.startswith("-"):
        about = {name: option.param.help for name, option in options.items()} | {
            "--help": "Print help and stop."
        }
        yield from _starting(word, about.items())
    else:
        for parameter in parameters:
            if parameter.param.kind == "Argument":
                yield from _values(parameter, word)
                return


def _values(parameter: Parameter, start: str) -> Iterator[tuple[str, str]]:
    if isinstance(parameter.kind, tuple):
        yield from _starting(start, ((value, "") for value in parameter.kind))
    elif parameter.param.complete:
        mark = "!" if start.startswith("!") else ""  # excludes
        try:
            values = parameter.param.complete()
        except Problem:  # a workspace that cannot be read
            return
        yield from _starting(start, ((f"{mark}{value}", "") for value in values))


def _starting(word: str, known: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    return ((name, about) for name, about in known if name.lower().startswith(word.lower()))


def _verbs() -> Iterator[tuple[str, str]]:
    """Yield each verb with its first line in the overview."""
    page = read_text(FULL_PAGE).splitlines()
    lines = [line.strip().partition(" ") for line in page if line.startswith("  ")]
    about = {verb: rest.strip() for verb, _, rest in lines}
    yield from ((verb, about.get(verb, "")) for verb in VERBS)
    yield from ((option, "") for option in ALONE)
