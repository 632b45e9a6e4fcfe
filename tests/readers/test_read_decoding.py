"""Encodings and first bytes, on handmade bytes."""

from __future__ import annotations

import codecs
from contextlib import suppress

import pytest

from mergewise.errors import ReadError
from mergewise.readers.decoding import decode, looks_like, mismatch

TEXT = "Zażółć gęślą jaźń — naïve café, 東京."


@pytest.mark.parametrize(
    "data",
    [
        TEXT.encode(),
        codecs.BOM_UTF8 + TEXT.encode(),
        codecs.BOM_UTF16_LE + TEXT.encode("utf-16-le"),
        codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"),
        codecs.BOM_UTF32_LE + TEXT.encode("utf-32-le"),
        codecs.BOM_UTF32_BE + TEXT.encode("utf-32-be"),
        # recognised by their zeros, without a mark
        TEXT.encode("utf-16-le"),
        TEXT.encode("utf-16-be"),
    ],
)
def test_unicode_with_and_without_byte_order_mark(data: bytes) -> None:
    assert decode(data) == TEXT


def test_declared_encoding_is_used_if_plausible() -> None:
    polish = "Zażółć gęślą jaźń"
    assert decode(polish.encode("iso-8859-2"), "ISO-8859-2") == polish
    assert decode("“café”".encode("cp1252"), "iso-8859-1") == "“café”"
    assert decode(TEXT.encode(), "no-such-encoding") == TEXT
    assert decode(TEXT.encode(), "utf-16") == TEXT


def test_utf8_with_a_broken_character_stays_utf8() -> None:
    assert decode("é è ê ".encode() * 3 + b"\xff end") == "é è ê " * 3 + "\ufffd end"


def test_line_ends_and_nuls_are_normalised() -> None:
    assert decode(b"a\r\nb\rc\x00d" + b" " * 2000) == "a\nb\nc\ufffdd" + " " * 2000
    assert decode(b"line\n" * 1_000 + b"\x00 end").endswith("line\n\ufffd end")


@pytest.mark.parametrize(("data", "reason"), [(b"\x89PNG\r\n\x1a\nabc", "a PNG image"), (bytes(range(32)), "binary")])
def test_binary_files_are_refused(data: bytes, reason: str) -> None:
    with pytest.raises(ReadError, match=reason):
        decode(data)


def test_mismatch_names_the_kind_of_file() -> None:
    assert mismatch("a PDF", b"GIF89a") == "not a PDF, looks like a GIF image"
    assert mismatch("a PDF", b"hello") == "not a PDF, looks like text"
    assert mismatch("a PDF", b"\x00\xff\xfe") == "not a PDF"
    assert looks_like(b"hello") == ""


def test_zeros_alone_are_not_utf16() -> None:
    assert decode(bytes(1000)) == ""
    for binary in (b"\x01\x00" * 500, b"\x00a" * 99 + b"b\x00", bytes(1000) + "text".encode("utf-16-le")):
        with pytest.raises(ReadError, match="binary file"):
            decode(binary)


def test_trailing_nuls_of_a_log_are_dropped() -> None:
    assert decode(b"Owls eat mice.\n" + bytes(100_000)) == "Owls eat mice.\n"
    with pytest.raises(ReadError, match="binary file"):
        decode(b"Owls eat mice.\n" * 6_000 + bytes(100_000) + b"Owls eat mice.\n")


@pytest.mark.parametrize("name", ["utf-7", "UTF7", "punycode", "idna", "unicode_escape", "raw-unicode-escape", "hex"])
def test_unusual_declared_encodings_are_ignored(name: str) -> None:
    """Python needs a minute to decode a quarter of a megabyte of Punycode."""
    text = "+ADw-script+AD4- \\u0041 owls-1a " + "z" * 250_000
    assert decode(text.encode(), name) == text


HEBREW = "הספרייה נפתחת בשעה תשע בבוקר"


@pytest.mark.parametrize("before", [0, 1, 40])
@pytest.mark.parametrize("line", [HEBREW, "Setting: ערך חדש", "שָׁלוֹם עוֹלָם"])
def test_hebrew_between_english_lines(before: int, line: str) -> None:
    text = "The library opens at nine in the morning.\n" * before + line
    assert decode(text.encode("cp1255")) == text


@pytest.mark.parametrize(
    "text", ["библиотека открывается в девять часов", "η βιβλιοθήκη ανοίγει στις εννέα", "à été là né"]
)
def test_other_languages_are_not_taken_for_hebrew(text: str) -> None:
    for encoding in ("cp1251", "cp1253", "cp1252"):
        with suppress(UnicodeEncodeError):
            assert not any("א" <= letter <= "ת" for letter in decode(text.encode(encoding)))


def test_lines_in_another_encoding() -> None:
    lines = ["Die Bücherei öffnet früh.", "Plain.", "Die Straße über den Fluß war gesperrt – täglich.", "Schön."]
    encoded = [line.encode("cp1252" if "Fluß" in line else "utf-8") for line in lines]
    assert decode(b"\n".join(encoded)).split("\n") == lines
