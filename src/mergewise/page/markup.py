"""HTML that is safe by default: every text that is not `Markup` is escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TypeAlias

from mergewise.text.printable import printable


class Markup(str):
    """Text that is already HTML."""

    __slots__ = ()


Child: TypeAlias = "str | Iterable[str] | None"


def text(value: str) -> Markup:
    """Convert a text to HTML: escape it, and remove characters that HTML does not allow."""
    if isinstance(value, Markup):
        return value
    return Markup(escape(printable(value)))


def join(children: Iterable[str], between: str = "") -> Markup:
    return Markup(text(between).join(map(text, children)))


def tag(name: str, /, *children: Child, **attributes: object) -> Markup:
    """Return an element. Attributes: `class_` is `class`, underscores become dashes, None and False are left out."""
    shown = ""
    for key, value in attributes.items():
        if value is not None and value is not False:
            attribute = key.rstrip("_").replace("_", "-")
            shown += f" {attribute}" if value is True else f' {attribute}="{text(str(value))}"'
    inside = join(text(child) if isinstance(child, str) else join(child or ()) for child in children)
    return Markup(f"<{name}{shown}>{inside}</{name}>")


def void(name: str, /, **attributes: object) -> Markup:
    """Return an element without an end tag."""
    return Markup(tag(name, **attributes).removesuffix(f"</{name}>"))


def shorten(value: str, length: int) -> str:
    """Put the text on one line. If it is longer than `length`, cut it at a word and add an ellipsis."""
    line = " ".join(value.split())
    if len(line) <= length:
        return line
    cut = line[: length - 1]
    word = cut.rfind(" ")
    return (cut[:word] if word > length * 2 // 3 else cut).rstrip() + "…"
