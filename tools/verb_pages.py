"""The pages about verbs: what `torchsmith --help` prints, an index of the verbs, and a page for each."""

from __future__ import annotations

import importlib
import inspect
import textwrap
from collections.abc import Iterable
from types import ModuleType

from tools.json_pages import printed_by
from torchsmith.cli.help import described, option_names, reflowed
from torchsmith.cli.panels import COMMON, PANELS, VERBS
from torchsmith.cli.parser import Command, Parameter, find_command
from torchsmith.workspace.readmes import table

WIDTH = 80
EVERYWHERE = {  # options that the index explains once
    "--json": "print JSON ([documents](../json.md))",
    "--workspace": "a torchsmith.toml or its folder; by default the nearest one in or above this folder",
    "--profile": "use this profile: real, seed, wide, or one of your own",
}


def module_of(verb: str) -> ModuleType:
    """The module of a verb."""
    return importlib.import_module(f"torchsmith.verbs.{verb.replace('-', '_')}")


def about_of(verb: str) -> str:
    """What a verb is for, as its help says it, in Markdown."""
    return _markdown(module_of(verb).run.__doc__)


def _markdown(help_text: str | None) -> str:
    return inspect.cleandoc(help_text or "").replace("[bold]", "`").replace("[/bold]", "`")


def _first_sentence(verb: str) -> str:
    """What a verb is for, in one line without mark-up."""
    return " ".join(about_of(verb).split("\n\n")[0].split()).replace("`", "").rstrip(".")


HEAD = """Usage: torchsmith VERB [WORDS]... [OPTIONS]

torchsmith turns one file that says which PyTorch builds you ship into recipes,
builds and verifies them, and finds the build for a machine.
"""


def overview() -> str:
    """The common verbs, in at most 30 lines of at most 80 columns."""
    lines = [
        HEAD,
        *_listed(COMMON),
        "",
        "torchsmith VERB --help shows the options of a verb, and an example.",
        f"torchsmith --help --all shows the other {len(VERBS) - len(COMMON)} verbs.",
    ]
    return "\n".join(lines) + "\n"


def full_overview() -> str:
    """All verbs in their panels, at most 80 columns wide."""
    lines = [
        HEAD,
        "    torchsmith VERB --help     options of a verb, and an example",
        "    torchsmith --version       and --install-completion for your shell",
    ]
    for panel, (contrast, verbs) in PANELS.items():
        lines += ["", f"{panel}: {contrast}", *_listed(verbs)]
    return "\n".join(lines) + "\n"


def _listed(verbs: Iterable[str]) -> list[str]:
    """A verb and what it is for, each in a line or two."""
    start = max(map(len, VERBS)) + 4
    lines = []
    for verb in verbs:
        about = textwrap.wrap(_first_sentence(verb), WIDTH - start)
        lines.append(f"  {verb}".ljust(start) + about[0])
        lines += [" " * start + more for more in about[1:]]
    return lines


def verb_pages(documents: Iterable[str]) -> dict[str, str]:
    """An index of the verbs, and for each a page with its options, its example and its JSON."""
    names = list(documents)
    pages = {f"docs/verbs/{verb}.md": _verb_page(verb, names) for verb in VERBS}
    common = "; ".join(f"`{name}`: {about}" for name, about in EVERYWHERE.items())
    parts = [f"# Verbs\n\n`torchsmith VERB --help` prints a verb's page. Most verbs take {common}.\n"]
    for panel, (contrast, verbs) in PANELS.items():
        parts.append(f"## {panel}\n{contrast[0].upper()}{contrast[1:]}.\n")
        rows = [[f"[`{verb}`]({verb}.md)", _first_sentence(verb)] for verb in verbs]
        parts.append(table(["verb", "what it does"], rows) + "\n")
    return {"docs/verbs/index.md": "\n".join(parts), **pages}


def _verb_page(verb: str, documents: Iterable[str]) -> str:
    parts = [f"# torchsmith {verb}\n"]
    command = find_command([verb], VERBS)[0]
    parts.append(_markdown(reflowed(command.run.__doc__)) + "\n" if command.is_group else _command(command))
    for word, (run, example) in command.commands.items():
        parts.append(f"## {verb} {word}\n")
        parts.append(_command(Command(words=(verb, word), run=run, example=example)))
    printed = [name for name in documents if verb in (part.split()[0] for part in name.split(", "))]
    if printed:
        links = ", ".join(f"[`{printed_by(name)}`](../json.md#documents)" for name in printed)
        parts.append(f"Data for programs: {links}.\n")
    return "\n".join(parts)


def _cell(parameter: Parameter) -> str:
    """What a parameter is for, in a table's cell; a star is not emphasis there."""
    return described(parameter).replace("*", r"\*")


def _command(command: Command) -> str:
    """Use, text, example and all options of a command."""
    parameters = command.parameters()
    arguments = [parameter for parameter in parameters if parameter.param.kind == "Argument"]
    options = [parameter for parameter in parameters if parameter.param.kind == "Option"]
    about = _markdown(command.run.__doc__)
    usage = " ".join((command.called, "[OPTIONS]", *(argument.metavar for argument in arguments)))
    rows = [[f"`{argument.metavar}`", _cell(argument)] for argument in arguments]
    own = [option for option in options if not EVERYWHERE.keys() & option.switches.keys()]
    rows += [[f"`{option_names(option)}`", _cell(option)] for option in own]
    parts = [about, f"```text\n{usage}\n```", f"Example:\n\n```text\n{command.example}\n```"]
    if rows:
        parts.append(table(["option", "what it does"], rows))
    return "\n\n".join(parts) + "\n"
