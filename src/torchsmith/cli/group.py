"""Verbs that have verbs of their own."""

from __future__ import annotations

import inspect
from collections.abc import Callable


class Group:
    """A verb whose first word is a verb of its own, such as `line list`."""

    def __init__(self, example: str) -> None:
        self.about = ""
        self.example = example
        self.run: Callable[..., None] | None = None  # called if no verb of the group is named
        self.commands: dict[str, tuple[Callable[..., None], str]] = {}

    def describe(self, run: Callable[..., None]) -> Callable[..., None]:
        """The docstring of the function under it says what the group is for."""
        self.about = run.__doc__ or ""
        return run

    @property
    def firsts(self) -> dict[str, str]:
        """The first paragraph of each verb's description."""
        texts = {name: inspect.cleandoc(run.__doc__ or "") for name, (run, _) in self.commands.items()}
        return {name: " ".join(text.split("\n\n")[0].split()) for name, text in texts.items()}

    def default(self, run: Callable[..., None]) -> Callable[..., None]:
        """Call the function under it if no verb of the group is named."""
        self.run = run
        return self.describe(run)

    def command(self, name: str, example: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
        """Add the function under it as a verb."""

        def add(run: Callable[..., None]) -> Callable[..., None]:
            self.commands[name] = (run, example)
            return run

        return add
