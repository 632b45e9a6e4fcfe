"""Masked keys in texts, whole and in pieces, compared with an obvious implementation."""

from __future__ import annotations

import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise import redaction
from mergewise.cli.output import PrintableFormatter, say_error
from mergewise.errors import ModelError
from mergewise.redaction import MASK, MaskedPieces, masked, remember_key, remember_keys_of

KEYS = ["abcabc", "abcabcabd", "cabcab"]


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_keys", redaction._Keys())


def masked_slowly(text: str) -> str:
    """Replace the longest key at each character, or keep the character."""
    ordered = sorted(redaction._keys.forms, key=lambda form: (-len(form), form))
    out, at = "", 0
    while at < len(text):
        key = next((key for key in ordered if text[at:].lower().startswith(key)), "")
        out, at = out + (MASK if key else text[at]), at + max(1, len(key))
    return out


@given(st.lists(st.text("abcdABC ", max_size=12), max_size=8))
def test_pieces_equal_the_whole(pieces: list[str]) -> None:
    for key in KEYS:
        remember_key(key)
    whole, shown = "".join(pieces), MaskedPieces()
    parts = [*map(shown.add, pieces), shown.add("", last=True)]
    assert masked(whole) == masked_slowly(whole)
    assert not any(key in "".join(parts).lower() for key in KEYS)
    if not any(key in whole.lower() for key in KEYS):
        assert "".join(parts) == whole


def test_keys_in_an_address() -> None:
    remember_keys_of("https://me:pass%2Fword1@host:8/v1?api_key=querykey1&q=ordinary&token=querykey2#model")
    shown = masked("pass/word1 pass%2Fword1 querykey1 querykey2 ordinary host me")
    assert shown == "*** *** *** *** ordinary host me"
    remember_keys_of("http://[no address")


def test_errors_logs_and_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    remember_key("sk-1234567890")
    error = ModelError("failed: sk-1234567890", "not with SK-1234567890")
    assert str(error) == "failed: *** (not with ***)" and "1234" not in repr(error)
    record = logging.LogRecord("mergewise", logging.INFO, "", 0, "the key %s", ("sk-1234567890",), None)
    assert PrintableFormatter().format(record) == "the key ***"
    say_error("sk-1234567890")
    assert "1234" not in capsys.readouterr().err


def test_text_that_cannot_begin_a_key_is_shown_at_once() -> None:
    remember_key("abcdefgh")
    shown = MaskedPieces()
    assert [shown.add(piece) for piece in ("a fish, ", "an ab", "a, abcd", "efgh.")] == [
        "a fish, ",
        "an ",
        "aba, ",
        "***.",
    ]


def test_key_in_json() -> None:
    remember_key('geh"eim-schlüssel')
    assert masked(json.dumps({"sent": 'Bearer geh"eim-schlüssel, twice'})) == '{"sent": "Bearer ***, twice"}'


def test_key_with_invalid_unicode_is_masked() -> None:
    remember_key("secret \udc80 4711")
    assert masked("the key is secret \udc80 4711") == f"the key is {MASK}"
