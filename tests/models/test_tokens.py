from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.models.tokens import VOCABULARY, count_tokens, token_offsets, wordpiece

WORDS: set[str] = set(json.loads(VOCABULARY.read_text(encoding="utf-8"))["model"]["vocab"])


def literal_words(text: str) -> Iterator[str]:
    """Splits as BERT's basic tokenizer does: lower case, no accents, punctuation and Chinese characters stand alone."""
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
    """Greedy longest match first, one word at a time; a word that cannot be spelled counts as one unknown."""
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
def test_counts_are_those_of_the_literal_algorithm(texts: list[str]) -> None:
    assert count_tokens(texts) == [literal_count(text) for text in texts]


@given(st.text(max_size=60))
def test_offsets_agree_with_counts_and_rise(text: str) -> None:
    offsets = token_offsets(text)
    assert [len(offsets)] == count_tokens([text])
    assert np.all(offsets[:, 0] <= offsets[:, 1])
    assert np.all(offsets[:-1, 0] <= offsets[1:, 0])
    assert not len(offsets) or offsets.max() <= len(text)


def test_offsets_are_in_characters_of_the_text_as_it_stands() -> None:
    text = "Ünïted 🚀 Köln 東京 tokenizers"
    words = [text[start:end] for start, end in token_offsets(text)]
    assert words == ["Ünïted", "🚀", "Köln", "東", "京", "token", "izer", "s"]


def test_nothing_is_cut_added_or_padded() -> None:
    assert count_tokens(["river " * 5000, "", " \n", "river"]) == [5000, 0, 0, 1]
    assert count_tokens([]) == []
    assert token_offsets("").shape == (0, 2)


def test_special_tokens_in_a_text_are_plain_text() -> None:
    assert count_tokens(["[SEP]", "[PAD]"]) == [literal_count("[sep]"), literal_count("[pad]")]


def test_half_a_surrogate_pair_is_no_error_and_moves_no_offset() -> None:
    assert count_tokens(["a\ud800b", "river"]) == [1, 1]
    assert token_offsets("\udfff a river").tolist() == [[2, 3], [4, 9]]


def test_the_embedder_leaves_no_truncation_behind() -> None:
    from mergewise.models.minilm import MiniLM

    MiniLM().embed_documents(["river " * 400])
    assert wordpiece().truncation is None and wordpiece().padding is None
    assert count_tokens(["river " * 400]) == [400]


@pytest.mark.parametrize("text", ["One sentence, of a usual kind.", "Antidisestablishmentarianism"])
def test_one_by_one_and_together(text: str) -> None:
    assert count_tokens([text, text]) == 2 * count_tokens([text])
