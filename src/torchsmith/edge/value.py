"""Frozen dataclasses that cost a third of the usual to define: a short answer loads some fifty of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def frozen(*, order: bool = False, slots: bool = True) -> Callable[[type[T]], type[T]]:
    """As `dataclass(frozen=True, slots=slots, order=order)`, all methods compiled at once.

    Python does the same from 3.13 on. Every field is one of __init__, and there is no __post_init__.
    """

    def make(cls: type[T]) -> type[T]:
        own = {name for name, value in vars(cls).items() if value is not None}
        made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(cls)
        names: dict[str, Any] = {"_set": object.__setattr__, "_missing": dataclasses.MISSING}
        exec("\n".join(_methods(dataclasses.fields(made), order, names)), names)
        compiled = {name: names[name] for name in ("__init__", "__eq__", "__hash__", "__reduce__")}
        ordered = {name: names[name] for name in ("__lt__", "__le__") if order}  # > is < of the other
        shared = {"__setattr__": _refuse, "__delattr__": _refuse, "__repr__": _repr}
        for name, method in (compiled | ordered | shared).items():
            if name not in own:
                setattr(made, name, method)
        kept: type[T] = made
        return kept

    return make


def _methods(fields: tuple[Any, ...], order: bool, names: dict[str, Any]) -> Iterator[str]:
    """The source of the methods; defaults go into `names`."""
    yield f"def __init__({', '.join(['self', *_arguments(fields, names)])}):"
    for field in fields:
        made = (
            f"{field.name}_made() if {field.name} is _missing else " if f"{field.name}_made" in names else ""
        )
        yield f"  _set(self, {field.name!r}, {made}{field.name})"
    yield "  return"
    mine = f"({''.join(f'self.{field.name},' for field in fields)})"
    theirs = f"({''.join(f'other.{field.name},' for field in fields)})"
    yield f"def __hash__(self): return hash({mine})"
    yield f"def __reduce__(self): return self.__class__, {mine}"
    ordered = {"lt": "<", "le": "<="} if order else {}
    for name, sign in {"eq": "==", **ordered}.items():
        yield f"def __{name}__(self, other):"
        yield f"  return {mine} {sign} {theirs} if other.__class__ is self.__class__ else NotImplemented"


def _arguments(fields: tuple[Any, ...], names: dict[str, Any]) -> Iterator[str]:
    for field in fields:
        if field.default_factory is not dataclasses.MISSING:
            names[f"{field.name}_made"] = field.default_factory
            yield f"{field.name}=_missing"
        elif field.default is not dataclasses.MISSING:
            names[f"{field.name}_default"] = field.default
            yield f"{field.name}={field.name}_default"
        else:
            yield field.name


def _repr(self: Any) -> str:
    said = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
    return f"{self.__class__.__qualname__}({said})"


def _refuse(self: Any, name: str, *value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot change field {name!r}")
