"""`torchsmith schema`: the JSON Schema of torchsmith.toml."""

from __future__ import annotations

from torchsmith.cli.console import print_json

EXAMPLE = "torchsmith schema > torchsmith.schema.json"


def run() -> None:
    """Print the JSON Schema of torchsmith.toml, for editors that check and complete it."""
    from torchsmith.catalog import builtin_catalog
    from torchsmith.workspace.settings import schema

    print_json(schema(builtin_catalog()), format=None)
