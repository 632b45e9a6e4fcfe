"""Escaping of images in untrusted Markdown. A client must not load them, because their address could send data to others.

`![` becomes `!\\[`, and elements such as `<img` become `&lt;img`. Markdown shows both unchanged. Code is escaped too, where the
escape is visible, because a client may find code at other places than we do.

A client that shows plain text needs no escapes. The setting `markup` of its profile turns them off.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

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


def without_images(text: str) -> str:
    """Escape every image of a text."""
    return _LOADS.sub(lambda sign: _ESCAPES[sign[0]], text)


def position_without_images(text: str, position: int) -> int:
    """Convert a position in the text to the position in `without_images(text)`."""
    signs = (sign for sign in _LOADS.finditer(text) if sign.start() < position)
    return position + sum(len(_ESCAPES[sign[0]]) - 1 for sign in signs)


def literal(text: str) -> str:
    """Escape a text so that Markdown shows it literally, on one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


class ImageEscaper:
    """`without_images` for a text in pieces. The results of `feed` and `rest` together equal that of the whole text."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        """Add a piece, and return the text that is final by now."""
        text = self._held + piece
        undecided = _UNDECIDED.search(text)
        certain = len(text) if undecided is None else undecided.start()
        self._held = text[certain:]
        return without_images(text[:certain])

    def rest(self) -> str:
        """Return the text that was held back."""
        text, self._held = self._held, ""
        return without_images(text)


class NoEscaper(ImageEscaper):
    """The `ImageEscaper` of a client that shows plain text: nothing is escaped or held back."""

    def feed(self, piece: str) -> str:
        return piece


@dataclass(frozen=True, slots=True)
class Markup:
    """The escapes of a client's texts: those of Markdown, or none."""

    is_markdown: bool = True

    def shown(self, text: str) -> str:
        return without_images(text) if self.is_markdown else text

    def position(self, text: str, position: int) -> int:
        """Convert a position in the text to the position in `shown(text)`."""
        return position_without_images(text, position) if self.is_markdown else position

    def literal(self, text: str) -> str:
        """Return the text on one line, without a meaning in the client's markup."""
        return literal(text) if self.is_markdown else " ".join(text.split())

    def escaper(self) -> ImageEscaper:
        return ImageEscaper() if self.is_markdown else NoEscaper()


MARKDOWN = Markup()
