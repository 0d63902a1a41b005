"""What every fact carries."""

from __future__ import annotations

import msgspec


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every entry names its `source`; `unproved` says what nobody could check, and is empty otherwise."""

    source: str
    unproved: str = ""
