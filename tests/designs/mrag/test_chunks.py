"""The views of chunks: they tile every text, and match literal transcriptions of their rules."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import mergewise
from mergewise.designs import VIEWS
from mergewise.designs.mrag.chunks import FixedSettings, PICSettings, SemanticSettings, TextChunk
from mergewise.designs.mrag.chunks import summaries as asked_for
from mergewise.designs.mrag.chunks.fixed import fixed_bounds
from mergewise.designs.mrag.chunks.pic import extract, nearest, sides
from mergewise.designs.mrag.chunks.semantic import between, breakpoints, distances, runs, sentences_of, with_neighbours
from mergewise.errors import ModelError, UsageError
from mergewise.index.writing.calls import AT_ONCE
from mergewise.models.record import Models
from mergewise.models.scripted import ScriptedChat, Turn
from mergewise.models.tokens import count_tokens
from mergewise.types import Document, DocumentRows, Message
from tests.support import HashEmbedder, rows_of

NAMES = ("fixed", "semantic", "pic")
SETTINGS: list[tuple[str, Any]] = [
    ("fixed", FixedSettings(size=7)),
    ("fixed", FixedSettings()),
    ("semantic", SemanticSettings()),
    ("semantic", SemanticSettings(neighbours=0, percentile=60, most=20)),
    ("pic", PICSettings()),
    ("pic", PICSettings(group="points", sentences=3, most=20)),
]
WORDS = "cat dog sat ran Rome 1999 it. was, the (of) tree\n\n## Head\n\n naïve — <!--x--> ```\n e\u0301".split(" ")
words = st.sampled_from([*WORDS, "한국어입니다", "東京は。", "กรุงเทพ"])
texts = st.lists(words, min_size=1, max_size=200).map(" ".join).filter(lambda text: bool(text.strip()))
TALE = "\n\n".join(
    f"## Part {i}\n\nThe tower {i} of Arden was built in {1500 + i}. Cats eat {i} fish. A river floods it."
    for i in range(20)
)


def rows(text: str, title: str = "T") -> DocumentRows:
    return rows_of([Document("d", text, title)])[0]


def cut(name: str, text: str, chosen: Any, models: Models | None = None) -> tuple[TextChunk, ...]:
    built = VIEWS[name].build([rows(text)], chosen, models or Models(count_tokens, HashEmbedder()))
    chunks: tuple[TextChunk, ...] = built[0][name].records
    return chunks


# -- all three views


@settings(deadline=None)
@given(texts, st.sampled_from(SETTINGS))
def test_chunks_tile_the_text(text: str, given: tuple[str, Any]) -> None:
    name, chosen = given
    chunks = cut(name, text, chosen)
    assert chunks[0].start == 0 and chunks[-1].end == len(text)
    assert all(left.end == right.start for left, right in pairwise(chunks))
    for number, chunk in enumerate(chunks):
        assert chunk.id == number and chunk.start <= chunk.body <= chunk.end
        assert chunk.text == text[chunk.start : chunk.end] and chunk.text
        assert chunk.tokens == count_tokens([chunk.text])[0]
        assert not text[chunk.start : chunk.body].strip() or chunk.headings, "only headings before the body"
    document = rows(text)
    built = VIEWS[name].build([document], chosen, Models(count_tokens, HashEmbedder()))[0]
    assert built[name].records == chunks, "the same text gives the same chunks"
    stored = replace(document, tables={**document.tables, **built})
    assert list(VIEWS[name].problems(stored, chosen, 64)) == []


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("text", ["Hello", "  x  ", "東京", "*", "no end", "\n\n# Heading alone\n"])
def test_short_texts_are_one_chunk(name: str, text: str) -> None:
    (chunk,) = cut(name, text, VIEWS[name].settings())
    assert chunk.text == text


@pytest.mark.parametrize("name", NAMES)
def test_empty_text_has_no_chunks(name: str) -> None:
    models = Models(count_tokens, HashEmbedder())
    assert VIEWS[name].build([], VIEWS[name].settings(), models) == []
    empty = DocumentRows(Document("d", ""), "1", dict.fromkeys(("leaf", "section", "name"), rows("x").tables["name"]))
    (built,) = VIEWS[name].build([empty], VIEWS[name].settings(), models)
    assert built[name].records == ()


@pytest.mark.parametrize("name", NAMES)
def test_batches_match_single_documents(name: str) -> None:
    embedder = HashEmbedder()
    documents = rows_of(
        [Document("a", TALE, "A"), Document("b", "Dogs.", "B"), Document("c", "東京は大きい。雨が降る。", "C")]
    )
    chosen = VIEWS[name].settings()
    together = VIEWS[name].build(documents, chosen, Models(count_tokens, embedder))
    for document, built in zip(documents, together, strict=True):
        (alone,) = VIEWS[name].build([document], chosen, Models(count_tokens, embedder))
        assert built[name].records == alone[name].records
        keys = [" › ".join((row.title, *row.headings)) + "\n" + row.text for row in built[name].records]
        assert np.array_equal(built[name].columns["vector"], embedder.embed_documents([key.strip() for key in keys]))


@pytest.mark.parametrize("name", NAMES)
def test_chunks_of_a_long_document_are_limited(name: str) -> None:
    same = "The river flows into the sea. " * 3000
    chunks = cut(name, same, VIEWS[name].settings())
    assert "".join(chunk.text for chunk in chunks) == same
    assert max(chunk.tokens for chunk in chunks) <= 2000


@pytest.mark.parametrize("name", NAMES)
def test_problems_are_reported(name: str) -> None:
    chosen = SETTINGS[{"fixed": 0, "semantic": 3, "pic": 5}[name]][1]
    document = rows(TALE)
    built = VIEWS[name].build([document], chosen, Models(count_tokens, HashEmbedder()))[0][name]
    first, *rest = built.records

    def reported(*records: TextChunk) -> str:
        tables = {**document.tables, name: replace(built, records=records)}
        return " ".join(VIEWS[name].problems(replace(document, tables=tables), chosen, 64))

    assert reported(first, *rest) == ""
    assert "missing" in reported()
    assert all("tile" in reported(*records) for records in (rest, (first, *rest[:-1]), (first, first, *rest)))
    assert "text" in reported(replace(first, text=first.text[::-1]), *rest)
    assert "outside" in reported(replace(first, body=first.end + 1), *rest)


def test_chunk_has_the_headings_of_all_its_text() -> None:
    text = "# A\n\nOne two.\n\n## B\n\nThree four.\n\n# C\n\nFive six."
    (whole,) = cut("fixed", text, FixedSettings(size=500))
    assert whole.headings == () and whole.body == 0, "its headings are in its text"
    chunks = cut("semantic", text, SemanticSettings(neighbours=0, percentile=0, most=5))
    assert [chunk.headings for chunk in chunks] == [("A",), ("A", "B"), ("C",)]
    assert [text[chunk.body : chunk.end].strip() for chunk in chunks] == ["One two.", "Three four.", "Five six."]


@pytest.mark.parametrize("name", NAMES)
def test_settings_round_trip_and_are_validated(name: str) -> None:
    view = VIEWS[name]
    for known, chosen in SETTINGS:
        if known == name:
            assert view.load(json.loads(json.dumps(view.dump(chosen)))) == chosen
    wrong: dict[str, dict[str, Any]] = {"fixed": {"size": 0}, "semantic": {"percentile": 101}, "pic": {"group": "none"}}
    with pytest.raises(UsageError):
        view.settings(**wrong[name])


@pytest.mark.parametrize("name", ["semantic", "pic"])
def test_index_without_an_embedder_is_not_created(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"'{name}' needs an embedder"):
        mergewise.open(tmp_path / "new", embedder="none", views=("leaf", name))
    assert not (tmp_path / "new").exists()
    mergewise.open(tmp_path / "old", embedder="none").add(Document("d", "Cats eat fish."))
    with pytest.raises(UsageError, match=f"'{name}' needs an embedder"):
        mergewise.open(tmp_path / "old", views=("leaf", name))
    assert mergewise.open(tmp_path / "old", views=("leaf", "fixed")).check() == []
    with pytest.raises(UsageError, match="needs an embedder"):
        cut(name, "Cats eat fish.", VIEWS[name].settings(), Models(count_tokens))


# -- fixed


def literal_fixed(text: str, size: int) -> list[tuple[int, int]]:
    """Split word by word. A word that does not fit begins the next chunk."""
    starts = [match.start() for match in re.finditer(r"\S+", text)]
    bounds, first, held = [], 0, 0
    for start, end in pairwise([0, *starts[1:], len(text)]):
        tokens = count_tokens([text[start:end]])[0]
        if held and held + tokens > size:
            bounds.append((first, start))
            first, held = start, 0
        held += tokens
    return [*bounds, (first, len(text))]


@given(
    st.lists(st.sampled_from("cat dog. embeddings\n\n naïve, 1999 —".split(" ")), min_size=1, max_size=80),
    st.integers(8, 40),
)
def test_fixed_chunks_match_the_literal_rule(words: list[str], size: int) -> None:
    text = " ".join(words)
    if text.strip():
        assert fixed_bounds(text, size, count_tokens) == literal_fixed(text, size)


@settings(deadline=None)
@given(texts, st.integers(1, 40))
def test_fixed_chunks_never_exceed_their_size(text: str, size: int) -> None:
    for start, end in fixed_bounds(text, size, count_tokens):
        assert count_tokens([text[start:end]])[0] <= size or end - start == 1


def test_fixed_chunks_are_full_and_ignore_sentences() -> None:
    text = "The cats of Rome sleep all day. " * 100  # eight tokens
    chunks = cut("fixed", text, FixedSettings())
    assert [chunk.tokens for chunk in chunks[:-1]] == [128] * 6
    chunks = cut("fixed", text, FixedSettings(size=125))
    assert {chunk.tokens for chunk in chunks[:-1]} == {124, 125}, "a full stop stays with its word"
    assert not chunks[0].text.rstrip().endswith(".") and len({chunk.cut for chunk in chunks}) == 1


def test_scripts_without_spaces_fill_their_chunks() -> None:
    text = "東京の塔は一九五八年に建てられました。" * 60
    chunks = cut("fixed", text, FixedSettings(size=50))
    assert all(40 <= chunk.tokens <= 50 for chunk in chunks[:-1])
    assert not any(chunk.text.startswith("。") for chunk in chunks)


def test_words_longer_than_a_chunk_are_cut() -> None:
    text = "Look: " + "a1b2c3d4" * 200 + " and on."
    bounds = fixed_bounds(text, 16, count_tokens)
    assert len(bounds) > 8 and all(count_tokens([text[a:b]])[0] <= 16 and b - a <= 16 * 12 for a, b in bounds)


# -- semantic


def literal_semantic(said: Sequence[str], neighbours: int, percentile: float) -> list[list[int]]:
    """Group sentence by sentence, with a percentile computed by hand: linear between the two nearest ranks."""
    embedder = HashEmbedder()

    def vector(i: int) -> Any:
        combined = [said[j] for j in range(i - neighbours, i + neighbours + 1) if 0 <= j < len(said)]
        return embedder.embed_documents([" ".join(combined)])[0]

    gaps = [round(float(1 - np.dot(vector(i), vector(i + 1))), 6) for i in range(len(said) - 1)]
    ranked, threshold = sorted(gaps), 0.0
    if ranked:
        place = percentile / 100 * (len(ranked) - 1)
        low = ranked[int(place)]
        threshold = low + (place - int(place)) * (ranked[min(int(place) + 1, len(ranked) - 1)] - low)
    groups = [[0]]
    for i, gap in enumerate(gaps):
        if gap > threshold + 5e-7:
            groups.append([])
        groups[-1].append(i + 1)
    return groups


SAID = ["Cats eat fish.", "Dogs bark at cats.", "Rome fell in 476.", "The river floods.", "Fish swim in the river."]


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(SAID), min_size=1, max_size=25),
    st.sampled_from([0, 1, 2]),
    st.sampled_from([0.0, 50.0, 80.0, 95.0, 100.0]),
)
def test_semantic_chunks_match_the_literal_rule(said: list[str], neighbours: int, percentile: float) -> None:
    text = " ".join(said)
    sentences = sentences_of(rows(text))
    assert [text[a:b].strip() for a, b in sentences] == said
    windowed = with_neighbours(text, sentences, neighbours)
    gaps = distances(HashEmbedder().embed_documents(windowed))
    if len(gaps) and np.abs(gaps - np.percentile(gaps, percentile)).min() < 2e-6 < np.ptp(gaps):
        gaps = np.round(gaps, 5)  # a distance at the threshold depends on rounding
    found = [list(range(a, b)) for a, b in between(breakpoints(gaps, percentile), len(sentences))]
    assert [i for group in found for i in group] == list(range(len(said)))
    threshold = np.percentile(gaps, percentile) if len(gaps) else 0
    assert [group[-1] for group in found[:-1]] == [i for i, gap in enumerate(gaps) if gap > threshold]
    if not len(gaps) or np.abs(gaps - threshold).min() > 2e-6:
        assert found == literal_semantic(said, neighbours, percentile)


def test_change_of_topic_ends_a_chunk() -> None:
    cats = " ".join(f"Cats and kittens eat fish number {i}." for i in range(12))
    rome = " ".join(f"Emperors of ancient Rome ruled province number {i}." for i in range(12))
    chunks = cut("semantic", f"{cats} {rome}", SemanticSettings(percentile=95))
    assert any(chunk.start == len(cats) + 1 for chunk in chunks)
    assert {chunk.cut for chunk in chunks} == {"distance"}


def test_single_distance_is_not_a_breakpoint() -> None:
    assert len(cut("semantic", "Cats eat fish. Rome fell in 476.", SemanticSettings())) == 1
    assert between([], 0) == [] and breakpoints(np.zeros(0, np.float32), 95) == []


# -- PIC


unit_rows = arrays.arrays(
    np.float32, st.tuples(st.integers(1, 12), st.integers(1, 4)), elements=st.integers(-4, 4)
).map(lambda rows: rows / 4)


@given(unit_rows)
def test_sides_and_nearest_match_the_literal_rules(similarities: Any) -> None:
    column = similarities[:, :1]
    mean = sum(float(value) for value in column[:, 0]) / len(column)
    assert sides(column) == [int(float(value) >= round(mean, 6)) for value in column[:, 0]]
    expected = []
    for row in similarities.tolist():
        best = 0
        for i, value in enumerate(row):
            best = i if value > row[best] else best
        expected.append(best)
    assert nearest(similarities) == expected


@given(st.lists(st.integers(0, 2), max_size=20))
def test_runs_have_equal_labels(labels: list[int]) -> None:
    found = runs(labels)
    assert [i for first, end in found for i in range(first, end)] == list(range(len(labels)))
    assert all(len(set(labels[first:end])) == 1 for first, end in found)
    assert all(labels[a] != labels[b] for (a, _), (b, _) in pairwise(found))


def literal_mmr(vectors: Any, count: int) -> list[int]:
    whole = vectors.mean(axis=0)
    whole = whole / max(np.linalg.norm(whole), 1e-9)
    chosen: list[int] = []
    while len(chosen) < min(count, len(vectors)):
        scores = {}
        for i in range(len(vectors)):
            if i not in chosen:
                like = max((round(float(vectors[i] @ vectors[j]), 6) for j in chosen), default=0.0)
                scores[i] = round(0.7 * round(float(vectors[i] @ whole), 6) - 0.3 * max(like, 0.0), 5)
        chosen.append(max(scores, key=lambda i: (scores[i], -i)))
    return sorted(chosen)


@given(st.lists(st.sampled_from(SAID), min_size=1, max_size=8, unique=True), st.integers(1, 6))
def test_extract_matches_maximal_marginal_relevance(said: list[str], count: int) -> None:
    vectors = HashEmbedder().embed_documents(said)
    assert extract(vectors, count) == literal_mmr(vectors, count)


@settings(deadline=None)
@given(st.lists(st.sampled_from(SAID), min_size=1, max_size=20), st.sampled_from(["mean", "points"]))
def test_pic_chunks_match_the_literal_rule(said: list[str], group: Any) -> None:
    text, embedder = " ".join(said), HashEmbedder()
    vectors = embedder.embed_documents(said)
    points = [said[i] for i in extract(vectors, 3)]
    if group == "mean":
        (summary,) = embedder.embed_documents([" ".join(points)])
        likeness = [round(float(vector @ summary), 6) for vector in vectors]
        labels: list[int] = [value >= round(sum(likeness) / len(likeness), 6) - 1e-9 for value in likeness]
        if min(abs(value - sum(likeness) / len(likeness)) for value in likeness) < 2e-6 < np.ptp(likeness):
            return  # a similarity at the mean depends on rounding
    else:
        to = [[round(float(vector @ point), 6) for point in embedder.embed_documents(points)] for vector in vectors]
        labels = [row.index(max(row)) for row in to]
    ends = [i for i in range(1, len(said)) if labels[i] != labels[i - 1]]
    chunks = cut("pic", text, PICSettings(sentences=3, group=group))
    expected = [" ".join(said[a:b]) for a, b in pairwise([0, *ends, len(said)])]
    assert [chunk.text.strip() for chunk in chunks] == expected
    assert {chunk.cut for chunk in chunks} == {"extractive summary"}


def test_model_summarises_each_document_once() -> None:
    def answer(messages: Sequence[Message]) -> Turn:
        return Turn("" if "Dogs" in messages[-1].text else "Cats eat fish. Towers stand in Arden.")

    chat = ScriptedChat(answer)
    documents = rows_of([Document("a", TALE, "A"), Document("b", "Dogs bark. Wolves howl at night.", "B")])
    models = Models(count_tokens, HashEmbedder(), chat)
    first, second = VIEWS["pic"].build(documents, PICSettings(summary="abstractive", group="points"), models)
    assert len(chat.asked) == 3, "an empty answer is asked for again"
    assert {chunk.cut for chunk in first["pic"].records} == {"written summary"}
    assert {chunk.cut for chunk in second["pic"].records} == {"extractive summary"}
    cats = [chunk for chunk in first["pic"].records if chunk.text.startswith("Cats eat")]
    assert len(cats) > 15, "each sentence belongs to its nearest point"
    with pytest.raises(UsageError, match="chat model"):
        VIEWS["pic"].build(documents, PICSettings(summary="abstractive"), Models(count_tokens, HashEmbedder()))


def test_texts_longer_than_the_window_are_summarised_in_parts() -> None:
    text = "The tower of Arden was built by a mason. " * 400
    chat = ScriptedChat(
        lambda messages: "It was built." if "mason" in messages[-1].text else "Built it was.", window=1600
    )
    assert asked_for.summaries([text, ""], Models(count_tokens, chat=chat))[0] == "Built it was."
    parts = [asked for asked in chat.asked if "mason" in asked.text]
    assert len(parts) > 5 and all(count_tokens([asked.text])[0] < 1600 for asked in parts)


def test_empty_summaries_of_parts_are_asked_for_once_more() -> None:
    text = "The tower of Arden was built by a mason. " * 400
    chat = ScriptedChat([" "], window=1600)
    assert asked_for.summaries([text], Models(count_tokens, chat=chat)) == [None]
    assert all("mason" in asked.text for asked in chat.asked)
    assert len(chat.asked) == 2 * sum("of no use" in asked.text for asked in chat.asked)


def test_permanent_model_error_stops_the_batch() -> None:
    class Failing(ScriptedChat):
        async def complete(self, messages: Any, **options: Any) -> Any:
            await asyncio.sleep(0)
            self.asked.append(messages)
            raise ModelError("it is down", "start it")

    chat = Failing(["x"])
    with pytest.raises(ModelError):
        asked_for.summaries(["A text."] * 50, Models(count_tokens, chat=chat))
    assert len(chat.asked) <= AT_ONCE
