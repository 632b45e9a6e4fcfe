"""Characters that become visible, and invisible characters that scripts need."""

from __future__ import annotations

import json
import sys
import unicodedata

import pytest

from mergewise.text.printable import REPLACEMENT, escaped_json, on_one_line, printable

EVERY = [chr(code) for code in range(sys.maxunicode + 1)]
# Formats that are kept: the soft hyphen, the zero-width space, the joiners. Then signs that are visible, and joiners of
# hieroglyphs and shorthand.
KEPT_FORMATS = {
    *"\u00ad\u200b\u200c\u200d",
    *"\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd",
    *map(chr, range(0x13430, 0x13440)),
    *map(chr, range(0x1BCA0, 0x1BCA4)),
}
NAMED = {"Cc", "Cf", "Cs", "Zl", "Zp"}
TAGS = "".join(chr(0xE0000 + ord(letter)) for letter in "gbeng") + "\U000e007f"


def test_only_formats_that_scripts_need_are_kept() -> None:
    replaced = {before for before, after in zip(EVERY, printable("".join(EVERY)), strict=True) if before != after}
    named = {character for character in EVERY if unicodedata.category(character) in NAMED}
    formats = {character for character in named if unicodedata.category(character) == "Cf"}
    assert formats - replaced == formats & KEPT_FORMATS
    assert named - formats - replaced == {"\t", "\n"}
    others = {character for character in replaced - named if unicodedata.category(character) != "Cn"}
    assert others == set("\u115f\u1160\u17b4\u17b5\u3164\uffa0"), "no letter, mark or sign goes but invisible ones"


@pytest.mark.parametrize(
    "text",
    [
        "می\u200cخواهم",
        "क्\u200dष",
        "👨\u200d👩\u200d👧 ❤\ufe0f 1\ufe0f\u20e3",
        "Donau\u00addampf",
        "ภาษา\u200bไทย",
        "葛\U000e0100城",
        f"🏴{TAGS}",
        "a\tb\nç 漢字 שלום e\u0301 \u2800\u2801",
    ],
)
def test_characters_that_scripts_need_are_kept(text: str) -> None:
    assert printable(text) == text


def test_steering_and_hidden_characters_become_visible() -> None:
    assert printable("\x1b[2J\x00\x7f\x85") == "␛[2J␀␡" + REPLACEMENT
    for hidden in ("\u200e", "\u200f", "\u061c", "\u2028", "\u3164", "\ufff9", "\ufeff", "\ud800", "\U0001ffff"):
        assert printable(f"a{hidden}b") == f"a{REPLACEMENT}b"
    assert printable(f"x{TAGS}") == "x" + REPLACEMENT * len(TAGS), "tags without a flag spell a hidden text"
    assert printable("🏴" + TAGS[1:]) == "🏴" + REPLACEMENT * (len(TAGS) - 1)
    assert printable("a\r\nb\rc") == "a\nb\nc" and on_one_line("a\nb\r\nc") == "a b c"


def test_escaped_json_has_the_same_value() -> None:
    value = {"a": " ".join(EVERY[:0x3000]) + "\u3164 \uffa0 \ud800 \ufffe \U000e0041 \n\t🏴" + TAGS}
    written = escaped_json(json.dumps(value, ensure_ascii=False, indent=2))
    assert json.loads(written) == value
    assert printable(written) == written
