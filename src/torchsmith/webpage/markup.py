"""HTML and SVG as values: text is escaped when it enters, so that no input becomes markup."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Bytes that no HTML or XML document may hold, and marks that turn the reading direction of what follows.
FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u202a-\u202e\u2066-\u2069\ufffe\uffff\ud800-\udfff]")
SPECIAL = re.compile(f"[&<>\"']|{FORBIDDEN.pattern}")
VOID = frozenset({"br", "hr", "img", "input", "link", "meta", "wbr"})


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


Child = str | Markup | None | Iterable["Child"]
AttributeValue = str | int | float | bool | None


def escape(text: str) -> Markup:
    """Text as content or as the value of an attribute in double quotes."""
    if isinstance(text, Markup):
        return text
    if not SPECIAL.search(text):
        return Markup(text)
    text = FORBIDDEN.sub("\ufffd", text)
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return Markup(text.replace('"', "&quot;").replace("'", "&#39;"))


def tag(name: str, /, *children: Child, **attributes: AttributeValue) -> Markup:
    """An element; `class_` is class, `aria_label` is aria-label, None and False leave an attribute out."""
    parts = [f"<{name}"]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        label = key.rstrip("_").replace("_", "-")
        if isinstance(value, float):
            value = f"{value:.2f}".rstrip("0").rstrip(".")
        parts.append(f" {label}" if value is True else f' {label}="{escape(str(value))}"')
    if name in VOID:
        return Markup("".join(parts) + ">")
    return Markup("".join(parts) + ">" + join(children) + f"</{name}>")


def join(children: Child) -> Markup:
    """Return the children in order; plain text is escaped."""
    if children is None:
        return Markup("")
    if isinstance(children, str):
        return escape(children)
    return Markup("".join([escape(child) if isinstance(child, str) else join(child) for child in children]))
