"""An error as `--json` prints it."""

from __future__ import annotations

import msgspec


class ErrorFields(msgspec.Struct, frozen=True):
    """What is wrong, where, and what to do."""

    code: str  # the kind of the error
    message: str
    hint: str
    where: str | None  # FILE:LINE:COLUMN
    exit: int  # the exit code


class ErrorReport(msgspec.Struct, frozen=True):
    """Why there is no answer."""

    error: ErrorFields
