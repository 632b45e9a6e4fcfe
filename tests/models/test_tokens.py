from __future__ import annotations

import gzip
import json
import random
import sys
import unicodedata
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import examples

from mergewise.models import tokens
from mergewise.models.tokens import VOCABULARY, count_tokens, encode, load_tokenizer, token_offsets

WORDS: set[str] = set(json.loads(VOCABULARY.read_text(encoding="utf-8"))["model"]["vocab"])


def plain_count(text: str) -> int:
    """Count with the tokenizer, the whole text at once, without a cache."""
    return len(encode([text], marks=False, offsets=False)[0].ids)


def literal_words(text: str) -> Iterator[str]:
    """Split like BERT's basic tokenizer: lower case, no accents, punctuation and Chinese characters separate."""
    word = ""
    for character in text:
        category = unicodedata.category(character)
        if character in "\0\ufffd" or (category[0] == "C" and character not in "\t\n\r"):
            continue
        for plain in unicodedata.normalize("NFD", character):
            if unicodedata.category(plain) == "Mn":
                continue
            alone = unicodedata.category(plain)[0] == "P" or (plain.isascii() and not plain.isalnum())
            if plain.isspace() or alone or "\u4e00" <= plain <= "\u9fff":
                yield word
                yield plain.strip()
                word = ""
            else:
                word += plain.lower()
    yield word


def literal_count(text: str) -> int:
    """Count greedy longest matches word by word. A word outside the vocabulary counts as one unknown token."""
    return sum(pieces_of(word) for word in literal_words(text) if word)


def pieces_of(word: str) -> int:
    if len(word) > 100:
        return 1
    start = count = 0
    while start < len(word):
        prefix = "##" if start else ""
        ends = (end for end in range(len(word), start, -1) if prefix + word[start:end] in WORDS)
        end = next(ends, None)
        if end is None:
            return 1
        start, count = end, count + 1
    return count


plain_text = st.text(st.characters(max_codepoint=0x24F, exclude_categories=("Cs", "Co", "Cn")), max_size=60)
english = st.lists(st.sampled_from([*sorted(WORDS)[5000:9000:40], ".", ",", "'s", "naïve", "x" * 120, "Zürich"])).map(
    " ".join
)


@given(st.lists(plain_text | english, max_size=5))
def test_counts_match_the_literal_algorithm(texts: list[str]) -> None:
    assert count_tokens(texts) == [literal_count(text) for text in texts]


@given(st.text(max_size=60))
def test_offsets_match_counts_and_increase(text: str) -> None:
    offsets = token_offsets(text)
    assert [len(offsets)] == count_tokens([text])
    assert np.all(offsets[:, 0] <= offsets[:, 1])
    assert np.all(offsets[:-1, 0] <= offsets[1:, 0])
    assert not len(offsets) or offsets.max() <= len(text)


def test_offsets_are_in_characters_of_the_original_text() -> None:
    text = "Ünïted 🚀 Köln 東京 tokenizers"
    words = [text[start:end] for start, end in token_offsets(text)]
    assert words == ["Ünïted", "🚀", "Köln", "東", "京", "token", "izer", "s"]


def test_texts_are_not_truncated_marked_or_padded() -> None:
    assert count_tokens(["river " * 5000, "", " \n", "river"]) == [5000, 0, 0, 1]
    assert count_tokens([]) == []
    assert token_offsets("").shape == (0, 2)


def test_special_tokens_in_a_text_are_plain_text() -> None:
    assert count_tokens(["[SEP]", "[PAD]"]) == [literal_count("[sep]"), literal_count("[pad]")]


def test_a_lone_surrogate_does_not_shift_offsets() -> None:
    assert count_tokens(["a\ud800b", "river"]) == [1, 1]
    assert token_offsets("\udfff a river").tolist() == [[2, 3], [4, 9]]


def test_the_embedder_does_not_turn_on_truncation() -> None:
    from mergewise.models.onnx import minilm

    minilm().embed_documents(["river " * 400])
    assert load_tokenizer(VOCABULARY).truncation is None and load_tokenizer(VOCABULARY).padding is None
    assert count_tokens(["river " * 400]) == [400]


# any character, and more often separators, combining and vanishing characters, and those that change in lower case
bounds = " \t\n\r.,'#[]\0\x01\x0b\x0c\x1c\x7f\x85\xa0\xad\u200b\u200d\u2028\u3000\ufeff\ufffd"
combining = "\u0301\u0316\u0338\u0345\u05b0\u0f71\U0001d165\u302a\u20dd\U000e0001"
letters = "éİıßΣςŉΐǅﬁ\u037e\u1fef\u212a\u2126\u2260\u226e한각가東京、。\U00020000🚀\ud800\udfff"
words = [*"[SEP] [UNK] ##ing The rivers don't U.S. http://a.b/c?e=f".split(), "x" * 100, "y" * 101, "é" * 99]
odd = st.sampled_from([*bounds, *combining, *letters, *words])
any_text = st.lists(odd | st.characters() | st.sampled_from([" ", ". "]), max_size=40).map("".join)


@given(st.lists(any_text, max_size=6), st.booleans())
@settings(max_examples=examples(400))
def test_counts_match_the_whole_text(texts: list[str], cold: bool) -> None:
    if cold:
        tokens._memory().clear()
    expected = [plain_count(text) for text in texts]
    assert count_tokens(texts) == expected
    assert count_tokens(texts) == expected


@given(any_text, st.integers(1, 20))
def test_counts_match_the_whole_text_for_pieces_of_it(text: str, size: int) -> None:
    for piece in (text[i : i + size] for i in range(0, len(text), size)):
        assert count_tokens([piece]) == [plain_count(piece)]


@pytest.mark.slow
def test_every_character_counts_as_in_a_whole_text() -> None:
    characters = [chr(code) for code in range(sys.maxunicode + 1)]
    surrounded = [f"a{c}b {c}{c} {c}\u0301X" for c in characters if not "\ud800" <= c <= "\udfff"]
    for start in range(0, 0x20000, 256):  # planes 0 and 1; single texts of 256 words each
        text = " ".join(surrounded[start : start + 256])
        assert count_tokens([text]) == [plain_count(text)], hex(start)


def test_no_other_character_becomes_the_full_stop_that_separates_words() -> None:
    """`_count_parts` separates words by full stops."""
    stop = load_tokenizer(VOCABULARY).token_to_id(tokens._STOP)
    text = " ".join(chr(code) for code in range(sys.maxunicode + 1) if chr(code) != tokens._STOP)
    assert stop not in encode([text], marks=False, offsets=False)[0].ids


@pytest.mark.parametrize("name", ["hotpotqa", "musique", "2wiki", "squad", "covidqa"])
def test_counts_on_real_texts(bench: Path, name: str) -> None:
    with gzip.open(bench / name / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
        texts = [json.loads(line)["text"][:20_000] for line in lines]
    sample = random.Random(0).sample(texts, min(len(texts), 40))
    assert count_tokens(sample) == [plain_count(text) for text in sample]
    paragraphs = [part for text in sample[:10] for part in text.split("\n")]
    assert [count_tokens([part])[0] for part in paragraphs] == [plain_count(part) for part in paragraphs]


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "MOST_REMEMBERED", 50)
    for start in range(0, 1000, 20):
        texts = [f"word{i} and {'é' * i}" for i in range(start, start + 20)]
        assert count_tokens(texts) == [plain_count(text) for text in texts]
        assert len(tokens._memory()) <= 50
        assert all(len(word) <= tokens.LONGEST_REMEMBERED for word in tokens._memory())


def test_threads_share_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "MOST_REMEMBERED", 30)
    texts = [f"thread{i % 97} zürich{i % 89}, ham-{i % 83}" for i in range(4000)]
    expected = [plain_count(text) for text in texts]
    with ThreadPoolExecutor(8) as pool:
        assert [count for (count,) in pool.map(lambda text: count_tokens([text]), texts)] == expected
