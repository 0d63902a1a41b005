"""A machine's facts as our own JSON, both ways: what `torchsmith host --json` prints."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from torchsmith.catalog.axes import BadValue, DriverVersion, Sm
from torchsmith.core.problem import Invalid, TooLarge
from torchsmith.host.facts import HostFacts

MARK = "torchsmith-host"
FORMAT = 1
_PARSED = (DriverVersion, Sm)


def to_document(facts: HostFacts) -> dict[str, Any]:
    """The facts as JSON data; what no source spoke of is left out."""
    return {MARK: FORMAT, **_without_none(msgspec.to_builtins(facts, enc_hook=str, order="deterministic"))}


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_without_none(item) for item in value]
    return value


def read_document(text: str, source: str) -> HostFacts:
    """The facts of a JSON document of ours."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise Invalid(f"{source} is not whole JSON (line {error.lineno}): {error.msg.lower()}") from error
    except RecursionError:
        raise TooLarge(f"{source} is nested too deeply") from None
    return from_document(data, source)


def from_document(data: Any, source: str) -> HostFacts:
    """The facts of a decoded document of ours."""
    if not isinstance(data, dict) or MARK not in data:
        raise Invalid(f"{source} is not a machine as torchsmith host --json prints it")
    if data[MARK] != FORMAT:
        raise Invalid(f"{source} has format {data[MARK]}, this torchsmith reads {FORMAT}")
    try:
        rest = {key: value for key, value in data.items() if key != MARK}
        return msgspec.convert(rest, HostFacts, dec_hook=_decode)
    except (msgspec.ValidationError, BadValue) as error:
        raise Invalid(f"{source}: {str(error).replace('`', '')}") from error


def _decode(kind: type, value: object) -> object:
    if kind in _PARSED and isinstance(value, str):
        return kind.parse(value)
    raise BadValue(f"expected text, got {value!r}")
