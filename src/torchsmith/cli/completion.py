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
from torchsmith.cli.parser import Command, Parameter, find_command
from torchsmith.core.files import read_text, write_atomic
from torchsmith.core.problem import NotKnown, Problem, Usage

VARIABLE = "_TORCHSMITH_COMPLETE"
BASH = """_torchsmith() {
    local IFS=$'\\n' word quote=${COMP_WORDS[COMP_CWORD]:0:1}
    COMPREPLY=()
    for word in $(_TORCHSMITH_COMPLETE=bash "$1" "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null); do
        [[ $quote == [\\'\\"] ]] || word=$(printf '%q' "$word")
        COMPREPLY+=("$word")
    done
}
complete -o default -F _torchsmith torchsmith
"""
ZSH = """#compdef torchsmith
_torchsmith() {
    local -a found names
    found=("${(@f)$(_TORCHSMITH_COMPLETE=zsh torchsmith "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "$found" ]]; then
        names=("${(@)found%%$'\\t'*}")
        compadd -d found -a names
    else
        _files
    fi
}
compdef _torchsmith torchsmith
"""
FISH = """function __torchsmith
    set -lx _TORCHSMITH_COMPLETE fish
    set -l found (torchsmith (commandline -opc)[2..] (commandline -ct) 2>/dev/null)
    if set -q found[1]
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c torchsmith -f -a '(__torchsmith)'
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}
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
    if shell not in SCRIPTS:
        raise NotKnown(f"no completion for the shell {shell!r}", hint=f"{option} {' or '.join(SCRIPTS)}")
    if option == "--show-completion":
        sys.stdout.write(SCRIPTS[shell])
        return
    file = Path.home() / PLACES[shell]
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(file, SCRIPTS[shell])
    write_stderr(f"{shell} completion is in {file}, from the next shell on")
    if shell in HINTS:
        write_stderr(HINTS[shell].format(file=file))


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
    yield from (
        (option, "") for option in ("--help", "--version", "--install-completion", "--show-completion")
    )
