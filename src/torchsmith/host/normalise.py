"""A pasted report without what people, sites and logs put around it: quote marks, numbers, times, markup."""

from __future__ import annotations

import html
import re

_TAGS = (
    r"(?i)</?(?:pre|code|details|summary|span|div|p|td|th|tr|table|tbody|thead|b|i|em|strong|a|font|h\d|ul|ol|li"
    r"|sup|kbd|br)\b[^<>\n]*>"
)
_PREFIX = re.compile(
    r"^(?:\s*(?:>\s?)+(?=\S|$)|\s*(?:"
    r"\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|\s?[+-]\d\d:?\d\d)?\]?\s*[|:-]?"
    r"|\[\d\d:\d\d:\d\d(?:[.,]\d+)?\]|\d\d:\d\d:\d\d(?:[.,]\d+)?(?=\s)"
    r"|\w{3} [ \d]?\d \d\d:\d\d:\d\d \S+ [\w./-]+(?:\[\d+\])?:"  # syslog
    r"|\[\s*\d+\.\d{3,6}\](?:\[\s*T\d+\])?"  # dmesg
    r")\s?)+"
)
_NUMBER = re.compile(r"\s{0,6}(\d{1,5})(?:\s?[|:│]\s?|\t|\.\s|\)\s|\s{1,3})(?!\d\d\.\d)")
_FORM = r"(?m)^#{2,6} +([^\n:]{2,60}?) *\n\s*\n(?=[\w`])"  # a heading of a tracker's form, and what is below


def decode(data: bytes) -> str:
    """Bytes as text: UTF-8, or UTF-16 as PowerShell writes it. What is neither is replaced."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", errors="replace")
    sample = data[:4000]
    if len(sample) > 3 and sample.count(0) > len(sample) / 4:
        return data.decode("utf-16-le" if sample[1:2] == b"\0" else "utf-16-be", errors="replace")
    return data.decode("utf-8-sig", errors="replace")


def normalise(text: str) -> str:
    """The text as its tools printed it, line by line."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text.replace("\r\n", "\n").replace("\r", "\n"))
    text = text.removeprefix("\ufeff").replace("\xa0", " ").replace("\u200b", "")
    text = re.sub(r"<(\w+_\w+)>([^<>\n]*)</\1>", r"\1: \2", text)  # of nvidia-smi -q -x
    text = re.sub(r"</t[dh]>\s*<t[dh][^<>]*>", ": ", text)
    text = re.sub(r"(?i)<br\s*/?>|</(p|div|tr|li|summary|h\d)>", "\n", text)
    text = html.unescape(re.sub(_TAGS, "", text))
    text = re.sub(_FORM, r"\1: ", text)
    text = re.sub(r"(?m)```+\w*\s*$|~~~+|`|\*\*", "", text)
    text = re.sub(r"(?m)^(\s*)[-*•]\s+(?=[\w*\[(])", r"\1", text)
    lines = _without_numbers([_PREFIX.sub("", line, count=1) for line in text.split("\n")])
    signed = sum(bool(re.match(r"[+-](?![+-]{2})", line)) for line in lines)
    if signed > 2 and signed >= 0.8 * sum(bool(line.strip()) for line in lines):  # a diff
        lines = [re.sub(r"^[+-](?![+-]{2})", "", line) for line in lines]
    return "\n".join(lines)


def _without_numbers(lines: list[str]) -> list[str]:
    """Without line numbers: those that three lines one after the other count."""
    numbers = [(int(match[1]) if (match := _NUMBER.match(line)) else -9) for line in lines]
    counted = {
        at + step
        for at in range(len(lines) - 2)
        if numbers[at] >= 0 and numbers[at : at + 3] == [numbers[at] + step for step in range(3)]
        for step in range(3)
    }
    return [_NUMBER.sub("", line, count=1) if at in counted else line for at, line in enumerate(lines)]
