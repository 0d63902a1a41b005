"""torchsmith: from one file that says which PyTorch builds you ship to builds that are proved.

The names in `__all__` are public; the rest may change. Importing torchsmith starts nothing and reads nothing:
a name is loaded when it is first used. public.py has the table of names, and __init__.pyi the same for type
checkers.
"""

__version__ = "0.2.0"


def __getattr__(name: str) -> object:
    """Load a public name."""
    from importlib import import_module

    from torchsmith.public import PLACES

    if name == "__all__":
        return sorted(PLACES)
    if name not in PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"torchsmith.{PLACES[name]}"), name)
    return value


def __dir__() -> list[str]:
    from torchsmith.public import PLACES

    return sorted(PLACES)
