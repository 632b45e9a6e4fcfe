"""Chunks by their slices, their order, and merged ranges as candidates."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mergewise.assemble.sentences import fragments_within
from mergewise.designs.macrag.chunks import ScoredChunk, SliceSearch, parents
from mergewise.designs.macrag.slices import SliceParts
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens
from tests.designs.towns import QUESTION, STORE, Marks, reader


@given(st.lists(st.tuples(st.integers(0, 9), st.floats(0, 1)), max_size=40))
def test_parents_are_unique_with_their_best_slice(pairs: list[tuple[int, float]]) -> None:
    hits = [(SliceParts(i, f"d{chunk // 3}", chunk, ()), score) for i, (chunk, score) in enumerate(pairs)]
    found = parents(hits)
    assert found == {
        chunk: ScoredChunk(chunk, f"d{chunk // 3}", max(s for c, s in pairs if c == chunk))
        for chunk in {c for c, _ in pairs}
    }


def test_the_reranker_reads_whole_chunks_once_and_decides() -> None:
    marks = Marks([0.1, 0.9, 0.4])
    search = SliceSearch(QUESTION, reader(), Models(count_tokens, reranker=marks))
    found = search.parents(100, "hybrid")
    ranked = search.rerank(found)
    chunks = search.slices.chunks(list(found))
    assert marks.asked == [[f"{chunks[i].title}\n{chunks[i].text}".strip() for i in found]]
    expected = dict(zip(found, marks.score("", list(map(str, found))), strict=True))
    assert [x.id for x in ranked] == sorted(found, key=lambda i: (-expected[i], i))
    plain = SliceSearch(QUESTION, reader(), Models(count_tokens)).rerank(found)
    assert [x.score for x in plain] == sorted((x.score for x in found.values()), reverse=True)


LEAVES = [leaf for rows in STORE.document_rows(["d2"]) for leaf in rows["leaf"]]


@given(st.lists(st.tuples(st.integers(0, 900), st.integers(1, 200)), min_size=1, max_size=4))
def test_fragments_hold_the_text_of_its_parts_without_headings(pairs: list[tuple[int, int]]) -> None:
    text = STORE.document("d2").text  # type: ignore[union-attr]
    parts = [(start, min(start + length, len(text))) for start, length in pairs if start < len(text)]
    sentences = reader().sentences([leaf.id for leaf in LEAVES])
    fragments = fragments_within(sentences.values(), parts)
    shown = {at for f in fragments for at in range(*f.visible[:2])}
    headings = {at for leaf in LEAVES for at in range(leaf.start, leaf.body)}
    wanted = {at for start, end in parts for at in range(start, end)} - headings
    assert {at for at in wanted if not text[at].isspace()} <= shown <= wanted
    assert all(f.text == text[f.start : f.end] for f in fragments)
    starts = [f.start for f in fragments]
    assert len(parts) > 1 or starts == sorted(starts)
