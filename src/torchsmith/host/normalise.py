"""A pasted report as its tool printed it: without quote marks, numbers, timestamps and markup, as UTF-8."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator

COLOURS = r"\x1b\[[0-9;?]*[A-Za-z]"  # of a terminal, which `script` and CI logs keep
_TAGS = (
    r"</?(?:pre|code|details|summary|span|div|p|td|th|tr|table|tbody|thead|b|i|em|strong|a|font|h\d|ul|ol|li|sup|kbd|br)"
    r"\b[^<>\n]*>"
)
_QUOTE = re.compile(r"\s*(?:>\s?)+(?=\S|$)")
_STAMPS = re.compile(
    r"\s*(?:"
    r"\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|\s?[+-]\d\d:?\d\d)?\]?\s*[|:-]?"
    r"|\[\d\d:\d\d:\d\d(?:[.,]\d+)?\]|\d\d:\d\d:\d\d(?:[.,]\d+)?(?=\s)"
    r"|\w{3} [ \d]?\d \d\d:\d\d:\d\d \S+ [\w./-]+(?:\[\d+\])?:"  # syslog
    r"|\[\s*\d+\.\d{3,6}\](?:\[\s*T\d+\])?"  # dmesg
    r")\s?"
)
_NUMBER = re.compile(r"\s{0,6}(\d{1,5})(?:\s?[|:│]\s?|\t|\.\s|\)\s|\s{1,3})(?!\d\d\.\d)")
_BULLET = re.compile(r"^(\s*)[-*•]\s+(?=[\w*\[(])")
_FORM = r"(?m)^#{2,6} +([^\n:]{2,60}?) *\n\s*\n(?=[\w`])"  # a heading of a tracker's form, and what is below
_PAIR = re.compile(r"[{\s]*'([^']+)':\s*'(.*)'[,}]*\s*$")
_SEPARATOR = re.compile(r"\s*\|?\s*:?-{2,}:?\s*(\|\s*:?-{2,}:?\s*)+\|?\s*$")


def decode(data: bytes) -> str:
    """Bytes as text: UTF-8, or UTF-16 as PowerShell writes it. What is neither is replaced."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", errors="replace")
    sample = data[:4000]
    if len(sample) > 3 and sample.count(0) > len(sample) / 4:
        return data.decode("utf-16-le" if sample[1:2] == b"\0" else "utf-16-be", errors="replace")
    return data.decode("utf-8-sig", errors="replace")


def normalise(text: str) -> str:
    """The text with everything taken off that people, sites and logs put around what a tool printed."""
    text = re.sub(COLOURS, "", text.replace("\r\n", "\n").replace("\r", "\n"))
    text = text.removeprefix("\ufeff").replace("\xa0", " ").replace("\u200b", "")
    if "<nvidia_smi_log" not in text:
        text = _without_markup(text)
    text = re.sub(_FORM, r"\1: ", text)
    ended = text.endswith("\n")
    lines = [_without_prefix(line) for line in text.split("\n")]
    lines = _without_signs(_without_numbers(lines))
    lines = list(_without_tables(map(_without_dress, lines)))
    return "\n".join(lines) if not ended else "\n".join(lines).rstrip("\n") + "\n"


def _without_markup(text: str) -> str:
    if re.search(r"</(td|th)>\s*<(td|th)", text):
        text = re.sub(r"</t[dh]>\s*<t[dh][^<>]*>", ": ", text)
    if re.search(_TAGS, text, re.IGNORECASE):
        text = re.sub(r"<br\s*/?>|</(p|div|tr|li|summary|h\d)>", "\n", text, flags=re.IGNORECASE)
        text = re.sub(_TAGS, "", text, flags=re.IGNORECASE)
    return html.unescape(text) if re.search(r"&(lt|gt|amp|quot|nbsp|#\d+);", text) else text


def _without_prefix(line: str) -> str:
    """A line without quote marks and timestamps, in any order."""
    for _ in range(4):
        rest = line
        for pattern in (_QUOTE, _STAMPS):
            if match := pattern.match(rest):
                rest = rest[match.end() :]
        if rest == line:
            break
        line = rest
    return line


def _without_numbers(lines: list[str]) -> list[str]:
    """Without line numbers: those that three lines one after the other count."""
    numbers = [(int(match[1]) if (match := _NUMBER.match(line)) else None) for line in lines]
    counted: set[int] = set()
    for at in range(len(lines) - 2):
        first, second, third = numbers[at : at + 3]
        if first is not None and second == first + 1 and third == first + 2:
            counted |= {at, at + 1, at + 2}
    return [_NUMBER.sub("", line, count=1) if at in counted else line for at, line in enumerate(lines)]


def _without_signs(lines: list[str]) -> list[str]:
    """Without the signs of a diff, where most lines have one."""
    filled = [line for line in lines if line.strip() and not line.startswith("```")]
    signed = [line for line in filled if re.match(r"[+-](?![+-]{2})", line)]
    if len(filled) < 3 or len(signed) < 0.8 * len(filled):
        return lines
    return [line[1:] if line[:1] in "+-" and not re.match(r"[+-]{3}", line) else line for line in lines]


def _without_dress(line: str) -> str:
    """Without Markdown's fences, bullets, bold and code, and as key: value where it is a Python pair."""
    if re.match(r"\s*(```|~~~)", line):
        line = re.sub(r"^\s*(`{3,}|~{3,})(\w*\s*$)?|`{3,}\s*$", "", line)
    line = line.replace("**", "").replace("`", "")
    line = _BULLET.sub(r"\1", line)
    match = _PAIR.match(line)
    return f"{match[1]}: {match[2]}" if match else line


def _without_tables(lines: Iterable[str]) -> Iterator[str]:
    """A Markdown table as key: value, or its cells with commas; nvidia-smi's own table has + in its rules."""
    rows = list(lines)
    inside = False
    for at, line in enumerate(rows):
        ruled = bool(_SEPARATOR.match(line)) and "+" not in line
        begins = at + 1 < len(rows) and bool(_SEPARATOR.match(rows[at + 1])) and "+" not in rows[at + 1]
        inside = (inside or begins) and "|" in line
        if ruled and inside:
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not inside or len(cells) < 2:
            yield line
        elif len(cells) == 2:
            yield f"{cells[0]}: {cells[1]}"
        else:
            yield ", ".join(cells)
