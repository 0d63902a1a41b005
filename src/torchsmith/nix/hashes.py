"""Hashes in the spellings of Nix (SRI, base-32, hexadecimal), and the mismatches that it reports."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass

DIGITS = "0123456789abcdfghijklmnpqrsvwxyz"  # Nix' base 32 leaves out e, o, t and u
SIZES = {"md5": 16, "sha1": 20, "sha256": 32, "sha512": 64}
FEWEST_LETTERS = 20  # of a damaged hash; a shorter text, such as TODO, is a placeholder
PLACEHOLDER = "sha256-" + base64.b64encode(bytes(SIZES["sha256"])).decode()
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
    mismatches = [
        Mismatch(to_sri(match["old"]), to_sri(match["new"]), derivation=match["drv"])
        for match in FIXED.finditer(plain)
    ]
    mismatches += [
        Mismatch(to_sri(match["old"]), to_sri(match["new"]), url=match["url"])
        for match in DOWNLOADED.finditer(plain)
    ]
    return list(dict.fromkeys(mismatches))


@dataclass(frozen=True, slots=True)
class Digest:
    """A hash as its algorithm and bytes."""

    algorithm: str
    raw: bytes

    @property
    def sri(self) -> str:
        return f"{self.algorithm}-{base64.b64encode(self.raw).decode()}"


def parse_hash(text: str) -> Digest | None:
    """A hash in any spelling; None for other text. After `sha256-` it is base 64, with or without the `=` at
    its end. Without a name its length decides the algorithm."""
    named = re.match(r"(md5|sha1|sha256|sha512)([-:])", text)
    bare = text[named.end() :] if named else text
    for algorithm in (named[1],) if named else ("sha256", "sha512", "sha1", "md5"):
        size, sri = SIZES[algorithm], named is not None and named[2] == "-"
        if not sri and re.fullmatch(rf"[{DIGITS}]{{{_base32_length(size)}}}", bare):
            return Digest(algorithm, _from_base32(bare, size))
        if not sri and re.fullmatch(rf"[0-9a-fA-F]{{{2 * size}}}", bare):
            return Digest(algorithm, bytes.fromhex(bare))
        try:
            raw = base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
        except binascii.Error:
            continue
        if len(raw) == size:
            return Digest(algorithm, raw)
    return None


def wrong_length(text: str) -> str:
    """How many characters a malformed hash has, and how many it should; empty if these are the same."""
    named = re.match(r"(md5|sha1|sha256|sha512)([-:])", text)
    bare = text[named.end() :].rstrip("=") if named else text
    size = SIZES[named[1]] if named else SIZES["sha256"]
    sri = named is not None and named[2] == "-"
    lengths = [-(-size * 8 // 6)] if sri else [_base32_length(size), 2 * size]
    expected = min(lengths, key=lambda length: abs(length - len(bare)))
    return f"{len(bare)} characters, {expected} expected" if len(bare) != expected else ""


def to_sri(text: str) -> str:
    """Any spelling as SRI; empty and malformed text as the placeholder that Nix takes it for."""
    digest = parse_hash(text)
    return digest.sri if digest else PLACEHOLDER


def is_placeholder(text: str) -> bool:
    """Whether a hash is a placeholder: empty, all zero, or a word. A damaged hash is not."""
    digest = parse_hash(text)
    return not any(digest.raw) if digest else len(text) < FEWEST_LETTERS


def _base32_length(size: int) -> int:
    return (size * 8 - 1) // 5 + 1


def _from_base32(text: str, size: int) -> bytes:
    number = 0
    for digit in text:
        number = number * 32 + DIGITS.index(digit)
    return (number & ((1 << size * 8) - 1)).to_bytes(size, "little")
