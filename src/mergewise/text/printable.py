"""Texts that may hold anything, made fit to be looked at: what would steer a terminal or turn the order of letters is shown.

A document, a name of a file or a model's answer may hold an escape sequence, by which a terminal is made to hide a line, to
name its window anew or to answer as if somebody had typed. Every such character is replaced by one that is seen.
"""

from __future__ import annotations

import re

REPLACEMENT = "\ufffd"

_STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
"""Control characters but the tab and the end of a line, what turns the direction of text, halves of pairs, and no characters."""


def printable(text: str) -> str:
    """The text with every character that steers replaced by its picture, or by the sign for what has none."""
    return _STEERS.sub(_picture, text.replace("\r\n", "\n").replace("\r", "\n"))


def on_one_line(text: str) -> str:
    """The same for what stands in a line: a name, a message."""
    return " ".join(printable(text).split("\n"))


def _picture(steering: re.Match[str]) -> str:
    code = ord(steering[0])
    return chr(0x2400 + code) if code < 32 else "\u2421" if code == 0x7F else REPLACEMENT
