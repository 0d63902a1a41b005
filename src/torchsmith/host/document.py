"""A machine's facts out of our own JSON: what `torchsmith pick --facts --json` prints."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from torchsmith.catalog.axes import BadValue, DriverVersion, Sm
from torchsmith.core.problem import Invalid, TooLarge
from torchsmith.host.facts import FORMAT, MARK, HostFacts

_PARSED = (DriverVersion, Sm)


def read_document(text: str, source: str) -> HostFacts:
    """The facts of a JSON document of ours."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise Invalid(f"{source} is not complete JSON (line {error.lineno}): {error.msg.lower()}") from error
    except RecursionError:
        raise TooLarge(f"{source} is nested too deeply") from None
    return from_document(data, source)


def from_document(data: Any, source: str) -> HostFacts:
    """The facts of a decoded document of ours."""
    if not isinstance(data, dict) or MARK not in data:
        raise Invalid(f"{source} is not a machine as torchsmith pick --facts --json prints it")
    if data[MARK] != FORMAT:
        raise Invalid(f"{source} has format {data[MARK]}, this torchsmith reads {FORMAT}")
    try:
        return msgspec.convert(data, HostFacts, dec_hook=_decode)
    except (msgspec.ValidationError, BadValue) as error:
        raise Invalid(f"{source}: {str(error).replace('`', '')}") from error


def _decode(kind: type, value: object) -> object:
    if kind in _PARSED and isinstance(value, str):
        return kind.parse(value)
    raise BadValue(f"expected text, got {value!r}")
