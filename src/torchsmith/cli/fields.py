"""How a field of a request is asked for: its help, its names on a command line, its bounds.

The command line is made from these, and so is the documentation: `Annotated[Path | None, Option("A file.")]`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

Complete = Callable[[], Sequence[str]]  # the values that a word may become


class Param:
    """An option or argument as it was declared."""

    __slots__ = ("complete", "envvar", "help", "kind", "max", "metavar", "min", "names")

    def __init__(
        self,
        kind: Literal["Option", "Argument"],
        texts: tuple[str, ...],
        *,
        metavar: str = "",
        min: float | None = None,
        max: float | None = None,
        envvar: str = "",
        autocompletion: Complete | None = None,
    ) -> None:
        self.kind = kind
        self.names = tuple(word for word in texts if word.startswith("-"))
        self.help = " ".join(texts[len(self.names) :])
        self.metavar = metavar
        self.min = min
        self.max = max
        self.envvar = envvar
        self.complete = autocompletion


def Option(*texts: str, **more: Any) -> Any:
    """Names (`--jobs`, `-j`; `--git/--no-git`) and the help; without names it has that of its field."""
    return Param("Option", texts, **more)


def Argument(help: str, **more: Any) -> Any:
    """A word without a name, or several."""
    return Param("Argument", (help,), **more)
