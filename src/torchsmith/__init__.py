"""torchsmith: from one file that says which PyTorch builds you ship to builds that are proved.

The names in `__all__` are public; the rest may change. Importing torchsmith starts nothing and reads nothing:
a name is loaded when it is first used. __init__.pyi, which type checkers read, is the table of names.
"""

from types import FunctionType

__version__ = "0.3.0.dev0"


def _modules() -> dict[str, str]:
    """The module of each public name."""
    import re
    from pathlib import Path

    stub = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    return {name: module for module, name in re.findall(r"^from (\S+) import (\w+)", stub, re.MULTILINE)}


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

    kind = function.__globals__[function.__annotations__["request"].removesuffix(" | None")]

    @wraps(function)
    def checked(*args: object, **named: object) -> object:
        given = args[0] if args else named.get("request")
        if given is not None and not isinstance(given, kind):
            got = type(given).__name__
            raise TypeError(f"{function.__name__}() takes a torchsmith.{kind.__name__}, not {got}")
        return function(*args, **named)

    return checked


def __dir__() -> list[str]:
    return sorted(_modules())
