"""Write TOML, and change values in a TOML file: comments, order and spelling of everything else stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torchsmith.core.problem import Invalid

MAX_WIDTH = 100  # columns of a list; a longer one has a line for each of its values


class Inline(dict[str, Any]):
    """A table in one line: {owner = "pytorch", repo = "audio"}."""


def table_text(table: Mapping[str, Any]) -> str:
    """A table as TOML, plain values before the tables in it."""
    import tomlkit

    return tomlkit.dumps(_item(table))


def _item(value: Any) -> Any:
    import tomlkit

    if isinstance(value, Inline):
        table = tomlkit.inline_table()
        table.update(value)
        return table
    if isinstance(value, Mapping):
        return {key: _item(item) for key, item in value.items()}
    if not isinstance(value, list | tuple):
        return value
    items = [_item(item) for item in value]
    if any(type(item) is dict for item in items):
        return items
    array = tomlkit.array()
    array.extend(items)
    return array.multiline(len(array.as_string()) > MAX_WIDTH)


def set_string(text: str, path: Sequence[str], value: str) -> str:
    """The text with the string at `path` set, in a new table if need be."""
    import tomlkit

    document = table = tomlkit.parse(text)
    for at, key in enumerate(path[:-1], 1):
        table = table.setdefault(key, tomlkit.table())
        if not isinstance(table, dict):
            name = ".".join(path[:at])
            raise Invalid(
                f"cannot add {path[-1]} to {name}: it is not a table",
                hint=f"write it as [{name}], with a line for each key",
                path=tuple(path[:at]),
            )
    table[path[-1]] = value
    return tomlkit.dumps(document)


def set_list(text: str, key: str, values: Sequence[str]) -> str:
    """The text with a list of strings at its top; elements that stay keep their comments and spelling."""
    import tomlkit
    from tomlkit.items import AoT

    document = tomlkit.parse(text)
    array = document.get(key)
    if isinstance(array, list):
        for value in [value for value in array if value not in values]:
            array.remove(value)
        array.extend(value for value in values if value not in array)
        return tomlkit.dumps(document)
    # tomlkit would put a new key below the comment of the first table.
    plain = [name for name, value in document.items() if not isinstance(value, dict | AoT)]
    if plain:
        document._insert_after(plain[-1], key, tomlkit.item(list(values)))
    else:
        document[key] = list(values)
    return tomlkit.dumps(document)


def merged(text: str, table: Mapping[str, Any]) -> str:
    """The text with the values of a table, and of the tables in it."""
    import tomlkit

    document = tomlkit.parse(text)
    _merge(document, table)
    return tomlkit.dumps(document)


def _merge(into: Any, table: Mapping[str, Any]) -> None:
    for key, value in table.items():
        if isinstance(value, Mapping) and isinstance(into.get(key), Mapping):
            _merge(into[key], value)
        elif into.get(key) != value:
            into[key] = value


def drop(text: str, *path: str) -> str:
    """The text without the value or table at `path`, and without a table that is empty then."""
    import tomlkit

    document = tomlkit.parse(text)
    tables: list[Any] = [document]
    for key in path[:-1]:
        if key not in tables[-1]:
            return text
        tables.append(tables[-1][key])
    tables[-1].pop(path[-1], None)
    if len(tables) > 1 and not tables[-1]:
        tables[-2].pop(path[-2])
    return tomlkit.dumps(document)
