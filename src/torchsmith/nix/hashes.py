"""Hashes in the spellings of Nix (SRI, base-32, hexadecimal), and the mismatches that it reports."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Literal

DIGITS = "0123456789abcdfghijklmnpqrsvwxyz"  # Nix' base 32 leaves out e, o, t and u
BYTES = 32
PLACEHOLDER = "sha256-" + base64.b64encode(bytes(BYTES)).decode()
Spelling = Literal["sri", "base32", "hex"]
# Nix 2.8 and 2.26 word it alike; newer ones put a likely URL between, a remote build its name before lines.
FIXED = re.compile(
    r"hash mismatch in fixed-output derivation '(?P<drv>[^']+)':\s*(?:likely URL: \S+\s+)?"
    r"specified:\s*(?P<old>\S+)\s+got:\s*(?P<new>\S+)"
)
DOWNLOADED = re.compile(
    r"hash mismatch in file downloaded from '(?P<url>[^']+)':?\s*"
    r"specified:\s*(?P<old>\S+)\s+got:\s*(?P<new>\S+)"
)
PREFIX = re.compile(r"^(?:[\w.+@:/-]+> )+", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A source whose hash is not the one stated, both as SRI: a derivation, or a download by address."""

    specified: str
    got: str
    derivation: str = ""
    url: str = ""


def read_mismatches(text: str) -> list[Mismatch]:
    """Every mismatch in what Nix wrote, each once."""
    plain = PREFIX.sub("", text)
    found = [
        Mismatch(to_sri(one["old"]), to_sri(one["new"]), derivation=one["drv"])
        for one in FIXED.finditer(plain)
    ]
    found += [
        Mismatch(to_sri(one["old"]), to_sri(one["new"]), url=one["url"]) for one in DOWNLOADED.finditer(plain)
    ]
    return list(dict.fromkeys(found))


def spelling(text: str) -> Spelling:
    """How a SHA-256 is written; text that is none counts as SRI, the spelling to write."""
    bare = text.removeprefix("sha256:")
    if re.fullmatch(rf"[{DIGITS}]{{52}}", bare):
        return "base32"
    return "hex" if re.fullmatch(r"[0-9a-fA-F]{64}", bare) else "sri"


def to_sri(text: str) -> str:
    """Any spelling as SRI; empty and malformed text as the placeholder that Nix takes it for."""
    bare = text.removeprefix("sha256:")
    match spelling(text):
        case "base32":
            return _sri(_from_base32(bare))
        case "hex":
            return _sri(bytes.fromhex(bare))
        case _:
            try:
                raw = base64.b64decode(bare.removeprefix("sha256-"), validate=True)
            except binascii.Error:
                return PLACEHOLDER
            return _sri(raw) if len(raw) == BYTES else PLACEHOLDER


def respell(sri: str, like: str) -> str:
    """An SRI hash in the spelling of another hash."""
    raw = base64.b64decode(sri.removeprefix("sha256-"))
    prefix = "sha256:" if like.startswith("sha256:") else ""
    match spelling(like):
        case "base32":
            return prefix + _to_base32(raw)
        case "hex":
            return prefix + raw.hex()
        case _:
            return sri


def is_placeholder(text: str) -> bool:
    """Whether a hash only asks to be told: empty, all zero, or no hash at all."""
    return to_sri(text) == PLACEHOLDER


def _sri(raw: bytes) -> str:
    return "sha256-" + base64.b64encode(raw).decode()


def _from_base32(text: str) -> bytes:
    number = 0
    for digit in text:
        number = number * 32 + DIGITS.index(digit)
    return (number & ((1 << BYTES * 8) - 1)).to_bytes(BYTES, "little")


def _to_base32(raw: bytes) -> str:
    number = int.from_bytes(raw, "little")
    return "".join(DIGITS[number >> 5 * place & 31] for place in reversed(range(52)))
