"""A pasted report without what people, sites and logs put around it: quote marks, times, markup."""

from __future__ import annotations

import html
import re
from collections import Counter

LONG = 4_000  # lines of a text that is shortened
REPEATS = 64  # of lines that are alike: more GPUs than a machine has

_TAGS = (
    r"(?i)</?(?:pre|code|details|summary|span|div|p|td|th|tr|table|tbody|thead|b|i|em|strong|a|font|h\d|ul|ol|li"
    r"|sup|kbd|br)\b[^<>\n]*>"
)
_QUOTED = r"(?m)^[ \t]*(?:>[ \t]?|\d{4}-\d\d-\d\dT[\d:.]+Z\s)+"  # in a mail, or in the log of a build service


def plain_text(data: bytes) -> str:
    """Bytes as text: UTF-8, or UTF-16 as PowerShell writes it. What is neither is replaced."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", errors="replace")
    sample = data[:4000]
    if len(sample) > 3 and sample.count(0) > len(sample) / 4:
        return data.decode("utf-16-le" if sample[1:2] == b"\0" else "utf-16-be", errors="replace")
    return data.decode("utf-8-sig", errors="replace")


def without_repeats(text: str) -> str:
    """A long text without lines that many others are like: the same but for whole numbers, as those of a
    training's log. The first of them stay, more than a machine has GPUs."""
    lines = text.splitlines(keepends=True)
    if len(lines) < LONG:
        return text
    seen: Counter[str] = Counter()
    kept = []
    for line in lines:
        alike = re.sub(r"\b\d+\b", "0", line)
        seen[alike] += 1
        if seen[alike] <= REPEATS:
            kept.append(line)
    return "".join(kept)


def normalise(text: str) -> str:
    """The text as its tools printed it, line by line."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text.replace("\r\n", "\n").replace("\r", "\n"))
    text = text.removeprefix("\ufeff").replace("\xa0", " ").replace("\u200b", "")
    if "[Discrete]" in text:  # fastfetch marks GPUs: beside a card no build is for the graphics of the CPU
        text = re.sub(r"(?m)^.*\[Integrated\].*$", "", text)
    text = re.sub(r" *\[(Discrete|Integrated)\]", "", text)
    text = re.sub(r"<(\w+_\w+)>([^<>\n]*)</\1>", r"\1: \2", text)  # of nvidia-smi -q -x
    text = re.sub(r"(?i)<br\s*/?>|</(p|div|tr|li|summary|h\d)>", "\n", text)
    text = html.unescape(re.sub(_TAGS, "", text))
    text = re.sub(r"(?m)```+\w*\s*$|~~~+|`|\*\*", "", text)
    text = re.sub(_QUOTED, "", text)
    return re.sub(r"\n{3,}", "\n\n", re.sub(r"(?m)^[ \t]+$", "", text))
