"""Single sentences of leaves: their offsets, and how they tile the leaf."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mergewise.assemble.sentences import SentenceInLeaf, inverse_frequency, leaf_fragment, neutral, sentence_cosines
from mergewise.types import Document, LeafSentences
from tests.support import memory_store, reader_of

WORDS = st.sampled_from(["Cats eat fish. ", "# One\n\n", "They drink. ", "A line\n", "\n\n", "Yes! ", "- item\n", "  "])


def leaves_of(text: str) -> list[LeafSentences]:
    store = memory_store([Document(id="d", title="T", text=text)])
    return list(
        reader_of(store).sentences([leaf.id for rows in store.document_rows(["d"]) for leaf in rows["leaf"]]).values()
    )


@given(st.lists(WORDS, min_size=1, max_size=25).map("".join).filter(str.strip))
def test_sentences_have_their_offsets_and_tile_their_leaf(text: str) -> None:
    for leaf in leaves_of(text):
        sentences = [SentenceInLeaf(leaf, number) for number in range(len(leaf.sentences))]
        for sentence in sentences:
            span = sentence.span
            assert text[span.start : span.end] == sentence.text == sentence.text.strip() != ""
            for fragment in (sentence.fragment, sentence.headed_fragment):
                assert fragment.text == text[fragment.start : fragment.end]
                assert fragment.visible == (span.start, span.end, sentence.text)
                assert fragment.section == sentence.section == ("d", leaf.headings)
        headed = [sentence.headed_fragment for sentence in sentences]
        assert all(left.end == right.start for left, right in pairwise(headed))
        assert not headed or (headed[0].start, headed[-1].end) == (leaf.start, leaf.end)
        assert leaf_fragment(leaf).text == leaf.text


def test_the_headed_fragment_includes_the_heading() -> None:
    (leaf,) = leaves_of("# Cats\n\nCats eat fish. They drink.")
    first, second = SentenceInLeaf(leaf, 0), SentenceInLeaf(leaf, 1)
    assert first.fragment.text == "Cats eat fish. " and first.headed_fragment.text == "# Cats\n\nCats eat fish. "
    assert second.fragment == second.headed_fragment and second.fragment.text == "They drink."


@given(st.integers(1, 50), st.data())
def test_idf_falls_with_every_text_that_holds_the_term(total: int, data: st.DataObject) -> None:
    holding = data.draw(st.integers(0, total - 1))
    assert inverse_frequency(holding, total) > inverse_frequency(holding + 1, total) > 0
    assert math.isclose(math.exp(inverse_frequency(holding, total)), (total + 1) / (holding + 0.5))


def test_missing_cosines_get_the_mean_of_the_others() -> None:
    leaf = reader_of(memory_store([Document("d", "One. Two.")])).sentences([0])[0]
    vectors = np.eye(len(leaf.sentences), 2, dtype=np.float32)
    known, waiting = replace(leaf, vectors=vectors), replace(leaf, vectors=None)
    found = sentence_cosines([known, waiting], np.array([0.5, 0.25], np.float32))
    own = (vectors @ [0.5, 0.25]).tolist()
    assert found[: len(own)].tolist() == own and np.isnan(found[len(own) :]).all()
    assert neutral(found).tolist() == [*own, *len(own) * [sum(own) / len(own)]]
    assert not neutral(sentence_cosines([waiting], None)).any()
