"""Counts of o200k, against those of tiktoken 0.14, and names of counters."""

from __future__ import annotations

import shutil
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mergewise as mw
from mergewise.errors import UsageError
from mergewise.extend import token_counter
from mergewise.models.o200k import _ranks, count_o200k
from mergewise.models.tokens import VOCABULARY, count_tokens

GOLD = [
    ("The quick brown fox doesn't jump.", 7),
    ("Gr\u00f6\u00dfe: 12345,67 \u20ac\r\n\r\n\t\u00dcberraschungsei", 15),
    ("\u6a21\u578b\u4e0a\u4e0b\u6587\u534f\u8bae\u662f\u4e00\u4e2a\u5f00\u653e\u6807\u51c6", 8),
    ("\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! \u041a\u0430\u043a \u0434\u0435\u043b\u0430?", 8),
    ("\u0627\u0644\u0633\u0644\u0627\u0645 \u0639\u0644\u064a\u0643\u0645", 2),
    ("\u0939\u093f\u0928\u094d\u0926\u0940 \u092e\u0947\u0902", 4),
    ("def f(x):\n    return x**2  # ok\n\n\n", 13),
    ("HELLO'S WE'RE it'\u017f", 9),
    ("  \u3000\u2028 x", 4),
    ("e\u0301\u0301 \ud83d\ude00/\n//", 5),
    ("<|endoftext|>", 7),
    (
        "QUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJD",
        80,
    ),
    ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 6),
]


@pytest.mark.parametrize(("text", "tokens"), GOLD)
def test_counts_of_tiktoken(text: str, tokens: int) -> None:
    assert count_o200k([text, ""]) == [tokens, 0]


def literal_merges(piece: bytes) -> int:
    """Merge the leftmost pair of the lowest rank until no pair has a rank."""
    parts = [piece[i : i + 1] for i in range(len(piece))]
    while pairs := [(_ranks()[a + b], i) for i, (a, b) in enumerate(pairwise(parts)) if a + b in _ranks()]:
        _, i = min(pairs)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return len(parts)


@given(st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=40))
def test_merges_follow_the_ranks(word: str) -> None:
    assert count_o200k([word]) == [literal_merges(word.encode())]


@given(st.text(max_size=50))
def test_every_text_is_counted(text: str) -> None:
    assert count_o200k([text])[0] <= len(text.encode("utf-8", "replace"))


def test_long_runs_take_no_quadratic_time() -> None:
    assert count_o200k(["QUJD" * 50_000]) == [100_000]


def test_counters_have_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(VOCABULARY, tmp_path / "tokenizer.json")
    text = ["Größe: 12345"]
    # the tokenizer of the working directory is nobody's choice
    monkeypatch.chdir(tmp_path)
    assert token_counter("o200k") is token_counter("") is token_counter("", "openai:gpt-5") is count_o200k
    assert token_counter("wordpiece") is count_tokens
    for name in (f"hf:{tmp_path}", str(tmp_path), tmp_path / "tokenizer.json"):
        assert token_counter(name)(text) == count_tokens(text)
    assert token_counter("", f"hf:{tmp_path}")(text) == count_tokens(text)
    with pytest.raises(UsageError, match="invalid tokenizer file"):
        token_counter("hf:nothing")
    with mw.open(tmp_path / "index", embedder="none", tokens="o200k") as index:
        assert index.tokens is count_o200k
