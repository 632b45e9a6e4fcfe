"""Encodings and first bytes, on bytes made by hand."""

from __future__ import annotations

import codecs

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
    ],
)
def test_unicode_is_read_with_and_without_a_mark(data: bytes) -> None:
    assert decode(data) == TEXT


def test_a_declared_encoding_is_believed_where_it_can_be() -> None:
    polish = "Zażółć gęślą jaźń"
    assert decode(polish.encode("iso-8859-2"), "ISO-8859-2") == polish
    assert decode("“café”".encode("cp1252"), "iso-8859-1") == "“café”"
    assert decode(TEXT.encode(), "no-such-encoding") == TEXT
    assert decode(TEXT.encode(), "utf-16") == TEXT


def test_utf8_with_a_broken_character_stays_utf8() -> None:
    assert decode("é è ê ".encode() * 3 + b"\xff end") == "é è ê " * 3 + "\ufffd end"


def test_line_ends_are_one_and_nuls_are_shown() -> None:
    assert decode(b"a\r\nb\rc\x00d" + b" " * 2000) == "a\nb\nc\ufffdd" + " " * 2000


@pytest.mark.parametrize(("data", "reason"), [(b"\x89PNG\r\n\x1a\nabc", "a PNG image"), (bytes(range(32)), "binary")])
def test_binary_files_are_refused(data: bytes, reason: str) -> None:
    with pytest.raises(ReadError, match=reason):
        decode(data)


def test_a_mismatch_names_what_the_bytes_look_like() -> None:
    assert mismatch("a PDF", b"GIF89a") == "not a PDF, looks like a GIF image"
    assert mismatch("a PDF", b"hello") == "not a PDF, looks like text"
    assert mismatch("a PDF", b"\x00\xff\xfe") == "not a PDF"
    assert looks_like(b"hello") == ""
