from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mergewise.assemble.budget import pack
from mergewise.assemble.fragments import Candidate
from mergewise.designs.mergerag.pieces import ChunkLengths, fragments_of, sentences_of, sources_of, spans_of, text_of
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens
from mergewise.types import Document, Hit
from tests.support import memory_store

TEXT = "# Cats\n\n## Food\n\nCats eat fish. They drink milk. Some eat mice.\n\n## Sleep\n\n" + "".join(
    f"Cat number {i} sleeps on a warm stone in the sun. " for i in range(5)
)
words = st.sampled_from(
    ["Cats eat fish. ", "# One\n\n", "They drink. ", "A line\n", "\n\n", "Yes! ", "- item\n", "## Two\n"]
)


def hits(text: str, scores: list[float] | None = None) -> tuple[Document, list[Hit]]:
    document = Document(id="d", title="Animals", text=text)
    leaves = memory_store([document]).document_rows(["d"])[0]["leaf"]
    return document, [Hit(leaf, (scores or [0.5] * 99)[i]) for i, leaf in enumerate(leaves)]


@given(st.lists(words, min_size=1, max_size=25), st.integers(0, 80))
def test_sentences_tile_their_chunk_and_have_their_offsets(parts: list[str], chunk_tokens: int) -> None:
    text = "".join(parts)
    if not text.strip():
        return
    document, found = hits(text)
    sources = sources_of(found, chunk_tokens)
    for source, own in zip(sources, sentences_of(sources, count_tokens), strict=True):
        if not own:
            assert not source.fragment.visible[2]
            continue
        assert (own[0].fragment.start, own[-1].fragment.end) == (source.fragment.start, source.fragment.end)
        assert all(a.fragment.end == b.fragment.start for a, b in pairwise(own))
        for sentence in own:
            start, end, shown = sentence.fragment.visible
            assert document.text[start:end] == shown == sentence.text
            assert sentence.tokens == count_tokens([shown])[0]
        (whole,) = fragments_of(own)
        assert whole.visible == source.fragment.visible and document.text[whole.start : whole.end] == whole.text


def test_chunks_are_leaves_or_neighbours_up_to_a_size() -> None:
    _, found = hits(TEXT, [0.2, 0.9, 0.4, 0.8, 0.1, 0.3, 0.25])
    assert [source.score for source in sources_of(found, 0)] == sorted((h.score for h in found), reverse=True)
    joined_up = sources_of(found, 200)
    assert len(joined_up) < len(found) and joined_up[0].score == 0.9
    assert sum(len(source.fragment.span) for source in joined_up) == len(TEXT)


@given(st.lists(words, min_size=1, max_size=25), st.sets(st.integers(0, 30)))
def test_a_length_matches_the_tokens_of_the_context(parts: list[str], chosen: set[int]) -> None:
    text = "".join(parts)
    if not text.strip():
        return
    document, found = hits(text)
    all_sentences = [s for own in sentences_of(sources_of(found, 0), count_tokens) for s in own]
    kept = sorted((s for i, s in enumerate(all_sentences) if i in chosen), key=lambda s: s.fragment.start)
    if not kept:
        return
    lengths = ChunkLengths(all_sentences, count_tokens)
    context = pack("q", [Candidate(fragments_of(kept), 1.0)], 10_000, Models(count_tokens))
    assert abs(lengths(kept) - context.tokens) <= 3  # a word piece may cross the end of a sentence
    assert [span for p in context.passages for span in p.spans] == list(spans_of(kept))
    assert all(
        document.text[s.start : s.end] in text_of(kept) or "\n" in document.text[s.start : s.end]
        for s in spans_of(kept)
    )
