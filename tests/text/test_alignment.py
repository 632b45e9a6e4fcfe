from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.text import alignment
from mergewise.text.alignment import SUPPORTED, Aligner, SourceSentence, sentences_at, words
from mergewise.types import Span

TEXT = (
    "The default timeout is five seconds. A retry waits twice as long as the one before, up to 30 seconds. "
    "Retries do not count against the quota. Marie Curie was born in Warsaw. She died in 1934 in Passy."
)
SOURCES = sentences_at(TEXT, Span("doc", 0, len(TEXT)))
ALIGNER = Aligner(SOURCES)


@pytest.mark.parametrize(
    ("said", "supported", "rests_on"),
    [
        ("The default timeout is five seconds.", True, [0]),
        ("the DEFAULT timeout — is five “seconds”", True, [0]),
        ("The default timeout is five.", True, [0]),
        ("A retry waits twice as long as the one before.", True, [1]),
        ("Marie Curie was born in Warsaw and died in 1934 in Passy.", True, [3, 4]),
        ("A retry waits twice as long as the one before, up to 60 seconds.", False, [1]),
        ("The default timeout is not five seconds.", False, [0]),
        ("Retries count heavily against everybody.", False, [2]),
        ("The Eiffel Tower stands by a river.", False, None),
        ("Zebras gallop.", False, []),
        ("Marie Curie was born in Paris.", False, [3]),
        ("Marie Curie died in 1934 in Passy.", True, [3, 4]),
    ],
)
def test_by_hand(said: str, supported: bool, rests_on: list[int] | None) -> None:
    found = ALIGNER.align(said)
    assert found.supported == supported
    if rests_on is not None:
        assert [SOURCES.index(source) for source in found.sources] == rests_on
    assert all(TEXT[span.start : span.end] == s.text for span, s in zip(found.spans, found.sources, strict=True))


def test_a_sentence_without_words_is_supported() -> None:
    assert (ALIGNER.align("* — …").support, ALIGNER.align("").sources) == (1.0, ())
    assert Aligner([]).align("Something.").support == 0.0


def test_words_in_another_order_lose_the_pairs() -> None:
    aligner = Aligner([SourceSentence("Rome beat Carthage", Span("d", 0, 18))])
    assert aligner.align("Carthage beat Rome").support == 0.5 < SUPPORTED


def test_neighbours_in_different_documents_are_not_joined() -> None:
    aligner = Aligner([SourceSentence("One two.", Span("a", 0, 8)), SourceSentence("Three four.", Span("b", 9, 20))])
    assert len(aligner.align("One two three four.").sources) == 1


def test_sentences_have_their_offsets_in_the_document() -> None:
    text = "First one. Second one.\n\nFar away."
    sentences = sentences_at(text[11:], Span("d", 11, len(text)))
    assert [s.text for s in sentences] == ["Second one.", "Far away."]
    assert all(text[s.span.start : s.span.end] == s.text for s in sentences)


def test_similar_sources_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand sentences share all words but the figure: all are equally good, and none has the figure."""
    read: list[str] = []

    def counted(text: str) -> list[str]:
        read.append(text)
        return words(text)

    monkeypatch.setattr(alignment, "words", counted)
    texts = [f"The timeout of server {i} is five seconds." for i in range(1000)]
    aligner = Aligner([SourceSentence(text, Span("d", 100 * i, 100 * i + len(text))) for i, text in enumerate(texts)])
    assert len(read) == 1000
    found = aligner.align("The timeout of server 5000 is five seconds.")
    assert (found.supported, len(read)) == (False, 1001)


some_words = st.lists(st.sampled_from("a b c d 7 8 not Zed".split()), min_size=1, max_size=8).map(" ".join)


@given(st.lists(some_words, min_size=1, max_size=5), some_words)
def test_support_matches_its_definition(texts: list[str], said: str) -> None:
    """A literal transcription: one source after another, no index."""
    sources = [SourceSentence(text, Span("d", 100 * i, 100 * i + len(text))) for i, text in enumerate(texts)]

    def support(source: list[str]) -> float:
        mine = said.split()
        share = (Counter(mine) & Counter(source)).total() / len(mine)
        if len(mine) > 1:
            pairs = Counter(pairwise(mine)) & Counter(pairwise(source))
            share = (share + pairs.total() / (len(mine) - 1)) / 2
        lacks = any(word in {"7", "8", "not"} and word not in source for word in mine)
        return share / 2 if lacks else share

    candidates = [[text] for text in texts] + [list(pair) for pair in pairwise(texts)]
    invented = 2 if "Zed" in said.split()[1:] and not any("Zed" in text.split() for text in texts) else 1
    expected = max(support(" ".join(candidate).split()) for candidate in candidates)
    found = Aligner(sources).align(said)
    assert found.support == pytest.approx(expected / invented)
    assert not found.sources or support(" ".join(s.text for s in found.sources).split()) == pytest.approx(expected)


@given(st.lists(some_words, min_size=1, max_size=6), st.data())
def test_a_copy_is_fully_supported(texts: list[str], data: st.DataObject) -> None:
    sources = [SourceSentence(text, Span("d", 100 * i, 100 * i + len(text))) for i, text in enumerate(texts)]
    copied = data.draw(st.sampled_from(texts))
    found = Aligner(sources).align(copied.upper() + "!")
    assert found.support == 1.0
    assert words(copied) == words(" ".join(s.text for s in found.sources)) or len(found.sources[0].text) >= len(copied)
