"""Texts that may hold anything, made fit to look at: what would steer a terminal, turn the order of letters or hide is seen.

A document, a name of a file or a model's answer may hold an escape sequence, by which a terminal is made to hide a line, to
name its window anew or to answer as if somebody had typed. It may turn the order of what is read, or hold what nobody sees and
a machine reads all the same. One rule for everything that reaches a terminal; every such character becomes one that is seen:

- control characters, but the tab and the end of a line: the picture of the character, or `\ufffd` where there is none;
- what turns the direction of text, its marks among it (U+200E, U+200F, U+061C): one of them moves brackets, figures and stops
  of a line that others wrote;
- separators of lines and paragraphs, which forge a line where a terminal obeys them;
- tags (U+E0000 to U+E007F), in which a hidden text can be spelled; the three flags that are spelled with them stay;
- what is invisible and needed by no script: annotation, invisible operators, deprecated formats, fillers of Hangul, which make a
  name that looks empty, the mark of byte order within a text, and code points that are reserved for more of that kind;
- halves of surrogate pairs and what is no character.

Invisible, and kept, because scripts need it: joiner and non-joiner (Persian, Hindi, families of emoji), the space of no width
(Thai, Khmer), the soft hyphen, variation selectors (emoji, Han, Mongolian), the grapheme joiner (Hebrew), and joiners of
hieroglyphs and shorthand. The Arabic signs that count as formats are seen.
"""

from __future__ import annotations

import re

REPLACEMENT = "\ufffd"

_FLAGS = "\U0001f3f4(?:{})\U000e007f".format(
    "|".join("".join(chr(0xE0000 + ord(letter)) for letter in region) for region in ("gbeng", "gbsct", "gbwls"))
)
_STEERING = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"
    # direction
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
    # lines
    "\u2028\u2029"
    # invisible
    "\u115f\u1160\u17b4\u17b5\u180e\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb"
    "\U0001d173-\U0001d17a\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
    # no characters
    "\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff"
    + "".join(f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(0x10000, 0x110000, 0x10000))
)
_STEERS = re.compile(f"(?P<flag>{_FLAGS})|[{_STEERING}]")
_UNSAFE_IN_JSON = re.compile(f"[{_STEERING}]")


def printable(text: str) -> str:
    """The text with every character that steers or hides replaced by its picture, or by the sign for what has none."""
    if text.isascii() and text.isprintable():
        return text
    return _STEERS.sub(_picture, text.replace("\r\n", "\n").replace("\r", "\n"))


def on_one_line(text: str) -> str:
    """The same for what stands in a line: a name, a message."""
    return " ".join(printable(text).split("\n"))


def escaped_json(text: str) -> str:
    """JSON that says as escapes what `printable` replaces; it means the same."""
    return _UNSAFE_IN_JSON.sub(lambda steering: _escapes(steering[0]), text)


def _picture(steering: re.Match[str]) -> str:
    if steering["flag"]:
        return steering[0]
    code = ord(steering[0])
    return chr(0x2400 + code) if code < 32 else "\u2421" if code == 0x7F else REPLACEMENT


def _escapes(character: str) -> str:
    """The character as JSON's escapes: one, or two halves where it stands above U+FFFF."""
    halves = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{halves[at : at + 2].hex()}" for at in range(0, len(halves), 2))
