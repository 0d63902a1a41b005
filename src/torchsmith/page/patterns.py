"""Patterns of Python as patterns of JavaScript, which differ in what a line, a dot and a space are."""

from __future__ import annotations

# What `\s` is in Python; JavaScript's lacks the separators and has the byte order mark.
SPACE = r"\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"


def js_pattern(pattern: str, *, multiline: bool = True) -> str:
    """The same pattern for `new RegExp(..., "u")`; lines end with \\n alone, as in Python."""
    out: list[str] = []
    at, inside = 0, False
    while at < len(pattern):
        sign = pattern[at]
        if sign == "\\":
            out.append(_escaped(pattern[at + 1], inside))
            at += 2
            continue
        if inside:
            inside = sign != "]"
            out.append(sign)
        elif sign == "[":
            inside = True
            out.append(sign)
        elif sign == ".":
            out.append(r"[^\n]")
        elif sign == "^":
            out.append(r"(?<![^\n])" if multiline else r"(?<![^])")
        elif sign == "$":
            out.append(r"(?![^\n])" if multiline else r"(?=\n?(?![^]))")
        else:
            out.append(sign)
        at += 1
    return "".join(out)


def _escaped(letter: str, inside: bool) -> str:
    if letter == "s":
        return SPACE if inside else f"[{SPACE}]"
    if letter == "S":
        return f"[^{SPACE}]"
    return f"\\{letter}" if letter in "dDwWbBnrt.*+?^$|()[]{}\\/-" else letter
