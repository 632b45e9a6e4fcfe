"""Safe display of untrusted text: characters that control a terminal, change the text direction or hide become visible.

A document, a file name or a model's answer may hold an escape sequence that makes a terminal hide a line, rename its window or
act as if somebody had typed. It may reverse the direction of text, or hold text that people cannot see and machines read. One
rule covers everything that reaches a terminal. Each of these characters is replaced by a visible one:

- control characters except the tab and the end of a line, by the picture of the character, or U+FFFD if it has none;
- characters that change the direction of text, and direction marks (U+200E, U+200F, U+061C): a single mark moves brackets,
  figures
  and stops of a line by another author;
- separators of lines and paragraphs, which forge a line in terminals that obey them;
- tags (U+E0000 to U+E007F), which can spell a hidden text, except in the three flags that use them;
- invisible characters that no script needs: annotation, invisible operators, deprecated formats, fillers of Hangul, which make
  an
  empty-looking name, the byte order mark within a text, and code points reserved for more of this kind;
- halves of surrogate pairs and code points that are not characters.

Invisible characters that scripts need are kept: joiner and non-joiner (Persian, Hindi, families of emoji), the zero-width space
(Thai, Khmer), the soft hyphen, variation selectors (emoji, Han, Mongolian), the grapheme joiner (Hebrew), and joiners of
hieroglyphs and shorthand. The Arabic signs that count as formats are visible.
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
    """Replace every unsafe character by its picture, or by U+FFFD."""
    if text.isascii() and text.isprintable():
        return text

    def picture(steering: re.Match[str]) -> str:
        if steering["flag"]:
            return steering[0]
        code = ord(steering[0])
        return chr(0x2400 + code) if code < 32 else "\u2421" if code == 0x7F else REPLACEMENT

    return _STEERS.sub(picture, text.replace("\r\n", "\n").replace("\r", "\n"))


def on_one_line(text: str) -> str:
    """Make a text printable and put it on one line, for names and messages."""
    return " ".join(printable(text).split("\n"))


def escaped_json(text: str) -> str:
    """Escape the characters that `printable` replaces in JSON. The value stays the same."""

    def escapes(unsafe: re.Match[str]) -> str:
        # One escape, or a surrogate pair above U+FFFF.
        halves = unsafe[0].encode("utf-16-be", "surrogatepass")
        return "".join(f"\\u{halves[at : at + 2].hex()}" for at in range(0, len(halves), 2))

    return _UNSAFE_IN_JSON.sub(escapes, text)
