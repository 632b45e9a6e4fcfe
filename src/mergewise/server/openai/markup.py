"""Escaping of images in untrusted Markdown. A client must not load them, because their address could send data to others.

`![` becomes `!\\[`, and elements such as `<img` become `&lt;img`. Markdown shows both unchanged. Code is escaped too, where the
escape is visible, because a client may find code at other places than we do.

A client that shows plain text needs no escapes. The setting `markup` of its profile turns them off.
"""

from __future__ import annotations

import re

# elements that a browser loads or runs by itself
_ELEMENTS = (
    "audio|base|body|embed|form|frame|iframe|image|img|input|link|meta|object|picture|script|source|style|svg|table|"
    "track|video"
)
_LOADS = re.compile(rf"!(?=\[)|<(?=(?:{_ELEMENTS}))", re.IGNORECASE)
_LONGEST = max(map(len, _ELEMENTS.split("|")))
# the end of a piece that more text may turn into an image or such an element
_UNDECIDED = re.compile(rf"(?:!|<[a-z]{{0,{_LONGEST - 1}}})\Z", re.IGNORECASE)
# the escape follows the "!", so that a backslash before the "!" cannot undo it
_ESCAPES = {"!": "!\\", "<": "&lt;"}
_SPECIAL = re.compile(r"([\\`*_\[\]<>!|~#&])")


def without_images(text: str, is_markdown: bool = True) -> str:
    """Escape every image of a text, unless the client shows plain text."""
    return _LOADS.sub(lambda sign: _ESCAPES[sign[0]], text) if is_markdown else text


def position_without_images(text: str, position: int, is_markdown: bool = True) -> int:
    """Convert a position in the text to the position in `without_images(text, is_markdown)`."""
    signs = (sign for sign in _LOADS.finditer(text if is_markdown else "") if sign.start() < position)
    return position + sum(len(_ESCAPES[sign[0]]) - 1 for sign in signs)


def literal(text: str, is_markdown: bool = True) -> str:
    """Escape a text so that Markdown shows it literally, on one line."""
    line = " ".join(text.split())
    return _SPECIAL.sub(r"\\\1", line) if is_markdown else line


class ImageEscaper:
    """`without_images` for a text in pieces. The results of `feed` and `rest` together equal that of the whole text."""

    def __init__(self, is_markdown: bool = True) -> None:
        self._held, self._is_markdown = "", is_markdown

    def feed(self, piece: str) -> str:
        """Add a piece, and return the text that is final by now."""
        text = self._held + piece
        undecided = _UNDECIDED.search(text)
        certain = len(text) if undecided is None else undecided.start()
        self._held = text[certain:]
        return without_images(text[:certain], self._is_markdown)

    def rest(self) -> str:
        """Return the text that was held back."""
        text, self._held = self._held, ""
        return without_images(text, self._is_markdown)
