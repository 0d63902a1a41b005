"""A verb's options and arguments, declared without loading a parser: typer is told of them when needed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

if TYPE_CHECKING:
    import typer


class Param:
    """An option or argument as it was declared."""

    __slots__ = ("kind", "more", "names")

    def __init__(self, kind: str, names: tuple[str, ...], more: dict[str, Any]) -> None:
        self.kind = kind
        self.names = names
        self.more = more


def Option(*names: str, **more: Any) -> Any:
    """As typer.Option."""
    return Param("Option", names, more)


def Argument(**more: Any) -> Any:
    """As typer.Argument."""
    return Param("Argument", (), more)


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


def params_of(run: Callable[..., None]) -> dict[str, tuple[Any, Any]]:
    """The type of each parameter, and how it was declared."""
    hints = get_type_hints(run, include_extras=True)
    hints.pop("return", None)
    return {name: get_args(hint)[:2] if get_args(hint) else (hint, None) for name, hint in hints.items()}


def for_typer(run: Callable[..., None]) -> Callable[..., None]:
    """The same function, declared in typer's words and its help reflowed."""
    import typer

    def called(*args: Any, **words: Any) -> None:
        run(*args, **words)

    parameters, annotations = [], {}
    declared = params_of(run)
    for name, parameter in inspect.signature(run).parameters.items():
        kind, param = declared[name]
        if isinstance(param, Param):
            make = getattr(typer, param.kind)
            param = make(*param.names, **param.more)
        annotations[name] = Annotated[kind, param]
        parameters.append(parameter.replace(annotation=annotations[name]))
    called.__annotations__ = {**annotations, "return": None}
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__doc__ = reflowed(run.__doc__)
    called.__name__ = run.__name__
    return called


def reflowed(text: str | None) -> str:
    """Paragraphs, each a line: the terminal's width breaks them, not the source's."""
    return "\n\n".join(" ".join(part.split()) for part in inspect.cleandoc(text or "").split("\n\n"))
