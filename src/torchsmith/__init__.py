"""torchsmith: from one file that says which PyTorch builds you ship to builds that are proved.

The names in `__all__` are public; the rest may change. Importing torchsmith starts nothing and reads nothing:
a name is loaded when it is first used. public.json has their modules, and __init__.pyi is for type checkers.
"""

from types import FunctionType

__version__ = "0.3.0.dev0"


def _modules() -> dict[str, str]:
    """The module of each public name."""
    import json
    from pathlib import Path

    names: dict[str, str] = json.loads(Path(__file__).with_name("public.json").read_bytes())
    return names


def __getattr__(name: str) -> object:
    """Load a public name."""
    modules = _modules()
    if name == "__all__":
        return sorted(modules)
    if name not in modules:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(modules[name]), name)
    if "request" in getattr(value, "__annotations__", {}):
        value = _checked(value)
    globals()[name] = value
    return value


def _checked(function: FunctionType) -> object:
    """A function that refuses what is not its request with a TypeError that names the request."""
    from functools import wraps

    kind = function.__globals__[function.__annotations__["request"]]

    @wraps(function)
    def checked(*args: object, **named: object) -> object:
        given = {"request": args[0]} if args else named
        if "request" in given and not isinstance(given["request"], kind):
            got = type(given["request"]).__name__
            raise TypeError(f"{function.__name__}() takes a torchsmith.{kind.__name__}, not {got}")
        return function(*args, **named)

    return checked


def __dir__() -> list[str]:
    return sorted(_modules())
