"""Version ranges such as `>=2.10,<2.12`, as fixes state them."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from functools import lru_cache

from torchsmith.catalog.axes import BadValue

_COMPARE = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt, "==": operator.eq}


@lru_cache(1024)
def version_key(version: str) -> tuple[int, ...]:
    """Numbers of a version, trailing zeros dropped, so that 2.10 equals 2.10.0."""
    parts = [int(part) for part in re.findall(r"\d+", version)]
    while parts and parts[-1] == 0:
        parts.pop()
    return tuple(parts)


def latest_of(versions: Mapping[str, str], wanted: str) -> str:
    """The name of the latest version of the same series that is not after another; empty if there is none."""
    own = version_key(wanted)
    keys = [(version_key(text), name) for name, text in versions.items()]
    return max(((key, name) for key, name in keys if key[:1] == own[:1] and key <= own), default=(own, ""))[1]


@lru_cache(1024)  # a matrix asks the same few questions of every cell
def in_range(version: str, range_: str) -> bool:
    """Whether a version satisfies every bound of a range; an empty range includes all."""
    for bound in filter(None, (part.strip() for part in range_.split(","))):
        match = re.fullmatch(r"(>=|<=|==|>|<)\s*(\d+(?:\.\d+)*)", bound)
        if match is None:
            raise BadValue(f"{bound!r} is not a version bound such as >=2.10")
        if not _COMPARE[match[1]](version_key(version), version_key(match[2])):
            return False
    return True


def is_release(version: str, wanted: str) -> bool:
    """Whether a version is a release, or one of those that it begins: 2.12.1 is of 2.12, and 2.1 is not."""
    return f"{version}.".startswith(f"{wanted}.")
