"""Markdown that others wrote, for clients that render it: an image must not load, since its address could carry data away.

`![` becomes `!\\[`, and `<img` and the like become `&lt;img`: Markdown shows both as they were. This holds in code as well, where
the escape is seen, since a client may see code elsewhere than we would.
"""

from __future__ import annotations

import re

# what a browser loads or runs without being asked
_ELEMENTS = (
    "audio|base|body|embed|form|frame|iframe|image|img|input|link|meta|object|picture|script|source|style|svg|table|"
    "track|video"
)
_LOADS = re.compile(rf"!(?=\[)|<(?=(?:{_ELEMENTS}))", re.IGNORECASE)
_LONGEST = max(map(len, _ELEMENTS.split("|")))
# the end of a piece that what follows may make into one of these
_UNDECIDED = re.compile(rf"(?:!|<[a-z]{{0,{_LONGEST - 1}}})\Z", re.IGNORECASE)
# the escape stands behind the "!", so that no backslash before it can undo it
_ESCAPES = {"!": "!\\", "<": "&lt;"}
_SPECIAL = re.compile(r"([\\`*_\[\]<>!|~#&])")


def without_images(text: str) -> str:
    """The text with every image escaped."""
    return _LOADS.sub(lambda sign: _ESCAPES[sign[0]], text)


def position_without_images(text: str, position: int) -> int:
    """Where a position of the text stands in `without_images(text)`."""
    signs = (sign for sign in _LOADS.finditer(text) if sign.start() < position)
    return position + sum(len(_ESCAPES[sign[0]]) - 1 for sign in signs)


def literal(text: str) -> str:
    """The text on one line, as Markdown shows it literally."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


class ImageEscaper:
    """`without_images` for a text in pieces: joined, what `feed` and `rest` give is what the whole text would give."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        """What is certain by now."""
        text = self._held + piece
        undecided = _UNDECIDED.search(text)
        certain = len(text) if undecided is None else undecided.start()
        self._held = text[certain:]
        return without_images(text[:certain])

    def rest(self) -> str:
        """What was held back."""
        text, self._held = self._held, ""
        return without_images(text)
