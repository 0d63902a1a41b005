"""A verb's options and arguments, declared without loading a parser: typer is told of them when needed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeGuard, get_args, get_type_hints

import msgspec

if TYPE_CHECKING:
    import typer


class Param:
    """An option or argument as it was declared."""

    __slots__ = ("kind", "more", "names")

    def __init__(self, kind: str, words: tuple[str, ...], more: dict[str, Any]) -> None:
        self.kind = kind
        self.names = tuple(word for word in words if word.startswith("-"))
        about = words[len(self.names) :]
        self.more = more | {"help": about[0]} if about else more


def Option(*words: str, **more: Any) -> Any:
    """As typer.Option, of names and the help; without a name it has that of its parameter."""
    return Param("Option", words, more)


def Argument(help: str, **more: Any) -> Any:
    """As typer.Argument."""
    return Param("Argument", (help,), more)


def group(about: str, example: str) -> typer.Typer:
    """A verb that has verbs of its own."""
    import typer

    return typer.Typer(
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="rich",
        help=about,
        epilog=f"Example: [bold]{example}[/bold]",
    )


def params_of(run: Callable[..., Any]) -> dict[str, tuple[inspect.Parameter, Any, Any]]:
    """Each parameter, its type, and how it was declared; for a group of options, a Struct, those in it."""
    found: dict[str, tuple[inspect.Parameter, Any, Any]] = {}
    hints = get_type_hints(run, include_extras=True)
    for name, parameter in inspect.signature(run).parameters.items():
        if _is_group(hints[name]):
            found |= params_of(hints[name])
        else:
            kind, param = get_args(hints[name])[:2] or (hints[name], None)
            if isinstance(param, Param) and param.kind == "Option" and not param.names:
                param = Param("Option", (f"--{name.rstrip('_').replace('_', '-')}",), param.more)
            found[name] = (parameter, kind, param)
    return found


def _is_group(kind: Any) -> TypeGuard[type[msgspec.Struct]]:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def call(run: Callable[..., None], given: dict[str, Any]) -> None:
    """Call a verb with what was given by name; options of a group make up the group."""
    for name, kind in get_type_hints(run).items():
        if _is_group(kind):
            own = params_of(kind).keys() & given.keys()
            given[name] = kind(**{option: given.pop(option) for option in own})
    run(**given)


def for_typer(run: Callable[..., None]) -> Callable[..., None]:
    """The same function, declared in typer's words and its help reflowed."""
    import typer

    def called(**words: Any) -> None:
        call(run, words)

    parameters, annotations = [], {}
    for name, (parameter, kind, param) in params_of(run).items():
        if isinstance(param, Param):
            make = getattr(typer, param.kind)
            param = make(*param.names, **param.more)
        annotations[name] = Annotated[kind, param]
        parameters.append(parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=annotations[name]))
    called.__annotations__ = {**annotations, "return": None}
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__doc__ = reflowed(run.__doc__)
    called.__name__ = run.__name__
    return called


def reflowed(text: str | None) -> str:
    """Paragraphs, each a line: the terminal's width breaks them, not the source's."""
    return "\n\n".join(" ".join(part.split()) for part in inspect.cleandoc(text or "").split("\n\n"))
