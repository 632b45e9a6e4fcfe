"""The slice view: no lost tails, exact spans, the paper's sizes, and each step against a literal transcription."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.designs.macrag.slices import VIEW, Chunk, Slice, SliceSettings
from mergewise.designs.macrag.slices.build import build, extract, salience
from mergewise.designs.macrag.slices.records import SLICE_GAP, tables
from mergewise.errors import UsageError
from mergewise.index.windows import windows
from mergewise.models.record import Models
from mergewise.models.scripted import ScriptedChat, Turn
from mergewise.models.tokens import count_tokens
from mergewise.store.views import ViewRows
from mergewise.text.spans import union
from mergewise.types import Document, DocumentRows, Message
from tests.support import HashEmbedder, rows_of

SMALL = SliceSettings(chunk=60, overlap=20, slice=90, slice_overlap=45)
SETTINGS = [
    SMALL,
    SliceSettings(chunk=300, overlap=80, unit="characters", slice=40, slice_overlap=20),
    SliceSettings(chunk=60, overlap=0, summary="none", slice=30, slice_overlap=10, slice_unit="tokens"),
]
words = st.sampled_from("cat dog sat ran Rome 1999 it. was, the (of) tree\n\n## Head\n\n naïve 東京 — x".split(" "))
texts = st.lists(words, min_size=1, max_size=400).map(" ".join).filter(lambda text: bool(text.strip()))


def rows(text: str, title: str = "T") -> DocumentRows:
    return rows_of([Document("d", text, title)])[0]


class Sliced:
    """The chunks and slices of one document."""

    def __init__(self, built: ViewRows) -> None:
        self.chunks: tuple[Chunk, ...] = built["chunk"].records
        self.slices: tuple[Slice, ...] = built["slice"].records


def sliced(text: str, settings: SliceSettings = SMALL) -> Sliced:
    return Sliced(build([rows(text)], settings, Models(count_tokens))[0])


def literal_windows(sizes: list[int], size: int, overlap: int) -> list[tuple[int, int]]:
    """Try all ranges and take the longest that fit: slow and obvious."""
    found = [(0, max(e for e in range(1, len(sizes) + 1) if e == 1 or sum(sizes[:e]) <= size))]
    while found[-1][1] < len(sizes):
        first, end = found[-1]
        starts = [s for s in range(first + 1, end) if sum(sizes[s:end]) <= min(overlap, size - sizes[end])]
        start = min(starts, default=end)
        ends = [e for e in range(start + 1, len(sizes) + 1) if e == start + 1 or sum(sizes[start:e]) <= size]
        found.append((start, max(ends)))
    return found


@given(st.lists(st.integers(0, 30), min_size=1, max_size=30), st.integers(1, 50), st.data())
def test_windows_match_the_literal_rule(sizes: list[int], size: int, data: st.DataObject) -> None:
    overlap = data.draw(st.integers(0, size - 1))
    found = windows(sizes, size, overlap)
    assert {i for first, end in found for i in range(first, end)} == set(range(len(sizes))), "a unit was lost"
    assert found[-1][1] == len(sizes)
    for (first, end), (start, stop) in pairwise(found):
        assert first < start <= end < stop, "a window brings something new and leaves no gap"
        assert sum(sizes[start:end]) <= overlap
    for first, end in found:
        assert sum(sizes[first:end]) <= size or end == first + 1
    if all(sizes):
        assert found == literal_windows(sizes, size, overlap)


@given(texts, st.sampled_from(SETTINGS))
def test_chunks_cover_the_document_and_slices_are_its_text(text: str, settings: SliceSettings) -> None:
    own = sliced(text, settings)
    assert own.chunks[0].start == 0 and own.chunks[-1].end == len(text)
    for left, right in pairwise(own.chunks):
        assert left.start < right.start <= left.end < right.end
    for chunk in own.chunks:
        assert chunk.text == text[chunk.start : chunk.end]
        assert SLICE_GAP.join(text[a:b] for a, b in chunk.parts) == chunk.summary
    ids = [chunk.id for chunk in own.chunks] + [piece.id for piece in own.slices]
    assert ids == list(range(len(own.chunks) + len(own.slices)))
    for piece in own.slices:
        assert piece.text == SLICE_GAP.join(text[a:b] for a, b in piece.parts)
        assert all(a < b for a, b in piece.parts)


@given(texts, st.sampled_from(SETTINGS))
def test_the_slices_of_a_summary_are_all_of_it(text: str, settings: SliceSettings) -> None:
    own = sliced(text, settings)
    for chunk in own.chunks:
        held = union(part for piece in own.slices if piece.chunk == chunk.id for part in piece.parts)
        said = "".join(text[a:b] for a, b in held)
        assert "".join(said.split()) == "".join(chunk.summary.split())
        assert settings.summary != "none" or "".join(chunk.summary.split()) == "".join(chunk.text.split())


def test_sizes_of_the_paper() -> None:
    sentence = "The {} river of the country of Arden flows for {} miles past the town of Brook into the sea. "
    text = "".join(sentence.format(i, 3 * i) for i in range(200))
    own = sliced(text, SliceSettings())
    assert all(300 <= chunk.tokens <= 400 for chunk in own.chunks[:-1])
    shared = [left.end - right.start for left, right in pairwise(own.chunks)]
    assert all(count_tokens([text[: max(1, s)]])[0] <= 105 and s > 200 for s in shared)
    assert all(0.5 <= len(chunk.summary) / len(chunk.text) <= 0.65 for chunk in own.chunks[:-1])
    assert max(len(piece.text) for piece in own.slices) <= 450
    by_characters = sliced(text, SliceSettings(chunk=1500, overlap=375, unit="characters"))
    assert all(1300 <= len(chunk.text) <= 1500 for chunk in by_characters.chunks[:-1])


def test_a_slice_has_the_headings_above_its_start() -> None:
    text = "# One\n\n" + "The cats of Arden sleep all day. " * 3 + "\n\n# Two\n\n" + "Dogs of Brook bark. " * 3
    own = sliced(text, SliceSettings(chunk=400, overlap=0, summary="none", slice=60, slice_overlap=0))
    (chunk,) = own.chunks
    assert chunk.headings == ()
    two = text.index("# Two")
    assert {piece.headings for piece in own.slices if piece.parts[0][0] < two} == {("One",)}
    assert {piece.headings for piece in own.slices if piece.parts[0][0] >= two} == {("Two",)}


def test_leaves_below_a_chunk_hold_its_text() -> None:
    text = "# A\n\n" + "One two three four. " * 30 + "\n\n## B\n\n" + "Five six seven eight. " * 30
    document = rows(text)
    for chunk in Sliced(build([document], SMALL, Models(count_tokens))[0]).chunks:
        own = document["leaf"][chunk.first_leaf : chunk.first_leaf + chunk.leaf_count]
        assert own[0].start <= chunk.start < own[0].end and own[-1].start < chunk.end <= own[-1].end


def literal_salience(sentences: list[str]) -> list[float]:
    from math import log, sqrt

    from mergewise.text.terms import content_terms

    weights = []
    for i, sentence in enumerate(sentences):
        terms = content_terms(sentence)
        weight = sum(log(1 + sum(term in content_terms(other) for other in sentences)) for term in terms)
        weights.append((1.25 if i == 0 else 1.0) * weight / sqrt(max(1, len(terms))))
    return weights


@given(st.lists(st.sampled_from(["Cats eat fish.", "Dogs bark at cats.", "It is.", "Rome fell in 476."]), max_size=8))
def test_salience_is_the_formula(sentences: list[str]) -> None:
    assert salience(sentences) == pytest.approx(literal_salience(sentences))


def test_salience_does_not_depend_on_the_order_of_sets() -> None:
    terms = [[f"{letter * 3}{times}" for times in range(10)] for letter in "bcdfghjklmnp"]
    others = [f"{row[times]}." for row in terms for times in range(10) for _ in range(times)]
    weights = salience(["The first.", *(" ".join(row) + "." for row in terms), *others])
    assert len(set(weights[1 : len(terms) + 1])) == 1


def test_the_summary_keeps_the_subject_of_its_chunk() -> None:
    sentences = ["Cats eat fish and cats sleep.", "Well.", "A cat eats fish at night.", "So it goes, oh dear."]
    text, parts = "", []
    for sentence in sentences:
        parts.append((len(text), len(text) + len(sentence)))
        text += sentence + " "
    kept = extract(text, parts, [False] * 4, 0.7)
    assert [text[a:b] for a, b in kept] == [sentences[0], sentences[2]]
    assert extract(text, parts, [False] * 4, 1.0) == parts
    assert extract(text, parts, [False, True, False, False], 0.1) == [parts[0], parts[1]], "one sentence, and headings"


def summary_of(text: str, settings: SliceSettings) -> str:
    (chunk,) = sliced(text, settings).chunks
    return " ".join(chunk.summary.split())


def test_a_chunk_as_short_as_a_summary_stays_whole() -> None:
    """A summary of 100 tokens has 60. Twelve sentences of five tokens stay whole, and with one more they are compressed."""
    tokens = SliceSettings(chunk=100, overlap=20)
    twelve = [f"Cats eat {word} fish." for word in "one two ten red big old new bad hot icy raw wet".split()]
    short, longer = " ".join(twelve), " ".join([*twelve, "Cats eat dry fish."])
    assert set(count_tokens(twelve)) == {5}
    assert summary_of(short, tokens) == short
    assert len(summary_of(longer, tokens)) <= 0.6 * len(longer)
    assert summary_of(longer, replace(tokens, chunk=109)) == longer
    just, not_quite = (SliceSettings(chunk=len(short) * 10 // 6 + by, overlap=20, unit="characters") for by in (2, -2))
    assert summary_of(short, just) == short != summary_of(short, not_quite)


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_a_summary_of_three_sentences_keeps_them_all(count: int) -> None:
    text = " ".join(f"The town {i} has {'very ' * 22}many bridges." for i in range(count))
    chunk = 29 * count + 10
    assert (summary_of(text, SliceSettings(chunk=chunk, overlap=20)) == text) == (count <= 3)


def test_headings_do_not_count_as_sentences() -> None:
    text = "## Towns\n\nOne town is old. Two towns are new. Six towns are big."
    assert 0.6 * 24 < count_tokens([text])[0] <= 24
    assert summary_of(text, SliceSettings(chunk=24, overlap=5)) == " ".join(text.split())


def test_a_model_s_summary_keeps_the_spans_of_its_chunk() -> None:
    asked: list[str] = []

    def answer(messages: Sequence[Message]) -> Turn:
        """Answer nothing, twice, for the second chunk."""
        text = messages[-1].text
        asked.append(text)
        number = next(i for i, chunk in enumerate(chunks) if chunk.text.strip() in text)
        return Turn("" if number == 1 else "Dogs bark." if "Dogs" in text else f"Cats eat {number}. Cats eat fish.")

    fish = " ".join(f"Cats eat {i} fish." for i in range(60))
    documents = rows_of([Document("a", fish, "A"), Document("b", "Dogs bark.", "B")])
    settings = SliceSettings(chunk=60, overlap=20, slice=30, slice_overlap=10, summary="abstractive")
    extractive = build(documents, replace(settings, summary="extractive"), Models(count_tokens))
    chunks: list[Chunk] = [chunk for rows in extractive for chunk in rows["chunk"].records]
    first, second = map(Sliced, build(documents, settings, Models(count_tokens, chat=ScriptedChat(answer))))
    assert len(asked) == len(chunks) + 1
    for own in (first, second):
        for piece in own.slices:
            chunk: Chunk = own.chunks[piece.chunk]
            if chunk.id == 1 and own is first:
                assert chunk.parts, "the model gave nothing, so the summary is extractive"
            else:
                assert piece.parts == ((chunk.start, chunk.end),) and piece.text in chunk.summary
    with pytest.raises(UsageError, match="chat model"):
        build(documents, settings, Models(count_tokens))


def test_vectors_are_those_of_the_keys() -> None:
    embedder = HashEmbedder()
    documents = rows_of([Document("a", "Cats eat fish. " * 60, "A"), Document("b", "Dogs.", "B")])
    settings = SliceSettings(chunk=60, overlap=20, slice=90, slice_overlap=45, vectors=("slice", "chunk", "summary"))
    for own in build(documents, settings, Models(count_tokens, embedder)):
        slices, chunks = own["slice"], own["chunk"]
        expected = embedder.embed_documents([f"{x.title}\n{x.text}".strip() for x in slices.records])
        assert (slices.columns["vector"] == expected).all()
        assert len(chunks.columns["vector"]) == len(chunks.columns["summary_vector"]) == len(chunks.records)
    assert build(documents, SMALL, Models(count_tokens, embedder))[0]["chunk"].columns == {}


def test_chunks_have_the_requested_columns() -> None:
    of_chunks = {names: tables(SliceSettings(vectors=names))[0] for names in (("slice",), ("slice", "summary"))}
    assert [(table.vectors, table.text) for table in of_chunks.values()] == [((), None), (("summary_vector",), "key")]


@pytest.mark.parametrize(
    "wrong",
    [{"chunk": 100, "overlap": 100}, {"slice": 300}, {"summary_share": 0.0}, {"vectors": ("chunk",)}, {"overlap": -1}],
)
def test_invalid_settings(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        SliceSettings(**wrong)  # type: ignore[arg-type]


def test_settings_survive_the_manifest() -> None:
    settings = SliceSettings(vectors=("slice", "summary"), summary="none")
    assert VIEW.load(json.loads(json.dumps(VIEW.dump(settings)))) == settings
