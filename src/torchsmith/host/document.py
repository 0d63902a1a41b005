"""A machine's facts out of our own JSON: what `torchsmith pick --facts --json` prints."""

from __future__ import annotations

from typing import Any

import msgspec

from torchsmith.catalog.axes import BadValue
from torchsmith.catalog.load import decode
from torchsmith.core.problem import Invalid
from torchsmith.host.facts import FORMAT, MARK, HostFacts


def from_document(data: Any, source: str) -> HostFacts:
    """The facts of a decoded document of ours."""
    if not isinstance(data, dict) or MARK not in data:
        raise Invalid(f"{source} is not a machine as torchsmith pick --facts --json prints it")
    if data[MARK] != FORMAT:
        raise Invalid(f"{source} has format {data[MARK]}, this torchsmith reads {FORMAT}")
    try:
        return msgspec.convert(data, HostFacts, dec_hook=decode)
    except (msgspec.ValidationError, BadValue) as error:
        raise Invalid(f"{source}: {str(error).replace('`', '')}") from error
