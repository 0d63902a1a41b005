"""The face of torchsmith: one file a verb, each loaded only when it is called."""

from torchsmith.cli.app import run

__all__ = ["run"]
