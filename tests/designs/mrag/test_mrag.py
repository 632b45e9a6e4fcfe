"""M-RAG: search by keys, contexts of values, written values next to verbatim ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mergewise.designs import strategies
from mergewise.designs.mrag.markers import Marker, MarkerSettings, ValueSentence
from mergewise.designs.mrag.notes import GroundingNote, MarkerNote
from mergewise.designs.mrag.pieces import piece_of, value_text
from mergewise.designs.weave.quotable import evidence_in
from mergewise.errors import UsageError
from mergewise.generate import extractive
from mergewise.generate.citations import cite
from mergewise.generate.mode import Request
from mergewise.generate.sources import base_sources
from mergewise.jsonable import context_json
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens
from mergewise.protocols import Store
from mergewise.text.blocks import WRITTEN
from mergewise.types import GAP, Context, Document, DocumentRows, Rows
from tests.conftest import examples
from tests.designs.mrag.marking import ground
from tests.designs.towns import document
from tests.memory_store import MemoryStore
from tests.support import SMALL, HashEmbedder, memory_store, new_store, reader_of, rows_of

EMBEDDER = HashEmbedder()
SETTINGS = MarkerSettings(segment=32)
DOCUMENTS = [document(number) for number in range(5)]
TEXTS = {given.id: given.text for given in DOCUMENTS}
QUESTION = "Was the tower 2 of Corin built in 1514?"

MILL = Document(
    "mill",
    "The mill was built by Ella Stone in 1850. It has two wheels and five stones.\n\nIt was never sold. Her brother Per kept the "
    "books until 1871. The river floods it each spring.",
    "Norrby Mill",
)


def written(key: str, value: str, rows: DocumentRows, numbers: Sequence[int] = (0,)) -> Marker:
    """Return a marker as a model would write it, grounded in its segments."""
    made = rows["marker"]
    spans = tuple(span for marker in made for span in marker.spans)
    held = tuple(dict.fromkeys(spans))
    chosen = tuple(held[number] for number in numbers)
    grounded = ground(value, chosen, rows.document.text, "keep", rows.document.title)
    counts = count_tokens([key, value])
    return Marker(
        0, "mill", "Norrby Mill", (), 0, key, value, tuple(numbers), chosen, "model", grounded.sentences, *counts
    )


def with_markers(rows: DocumentRows, markers: Sequence[Marker]) -> DocumentRows:
    """Return the document with these markers instead of the markers by rules."""
    placed = tuple(replace(marker, id=number, ordinal=number) for number, marker in enumerate(markers))
    vectors = EMBEDDER.embed_documents([marker.key for marker in placed])
    (extraction,) = rows["marking"]
    tables = {
        **rows.tables,
        "marker": Rows(placed, {"vector": vectors}),
        "marking": Rows((replace(extraction, id=len(placed)),)),
    }
    return replace(rows, tables=tables)


def mill_rows() -> DocumentRows:
    (rows,) = rows_of([MILL], EMBEDDER, marker=MarkerSettings(segment=64))
    markers = [
        written("Who built Norrby Mill and when?", "Ella Stone built Norrby Mill in 1850. Napoleon visited it.", rows),
        written(
            "How many wheels has Norrby Mill?", "Norrby Mill has 2 wheels. Ella Stone built the mill in 1850.", rows
        ),
        *rows["marker"],
    ]
    return with_markers(rows, markers)


def store_of(rows: Sequence[DocumentRows]) -> MemoryStore:
    store = memory_store([], EMBEDDER, marker=SETTINGS)
    store.write(rows)
    return store


STORE = memory_store(DOCUMENTS, EMBEDDER, marker=SETTINGS)
MIXED = store_of([mill_rows(), *rows_of(DOCUMENTS, EMBEDDER, marker=SETTINGS)])


def ask(
    spec: str = "mrag", budget: int = 200, store: Store = STORE, question: str = QUESTION, where: str | None = None
) -> Context:
    return strategies.assemble(spec, question, reader_of(store, EMBEDDER, where), budget, Models(count_tokens))


def notes(context: Context) -> list[MarkerNote]:
    return [step.note for step in context.trace if isinstance(step.note, MarkerNote)]


def check(context: Context) -> None:
    """Assert that the budget holds, and that verbatim passages have the text of their spans."""
    texts = {**TEXTS, "mill": MILL.text}
    assert context.tokens == (count_tokens([context.text])[0] if context.text else 0) <= context.budget
    for passage in context.passages:
        assert passage.spans
        if passage.verbatim:
            assert passage.text == GAP.join(texts[s.doc_id][s.start : s.end] for s in passage.spans)


@given(
    st.integers(1, 500),
    st.sampled_from(["position", "similarity"]),
    st.booleans(),
    st.sampled_from(["cut", "skip", "stop", "end"]),
    st.sampled_from([QUESTION, "Who built Norrby Mill?", "wheels of the mill and towers", "zzz"]),
)
def test_budget_holds_and_spans_are_right(budget: int, order: str, merge: bool, last: str, question: str) -> None:
    context = ask(f"mrag(order={order}, merge={merge}, last={last})", budget, MIXED, question)
    check(context)
    if merge:
        spans = [span for passage in context.passages if passage.verbatim for span in passage.spans]
        assert not any(a.overlaps(b) for i, a in enumerate(spans) for b in spans[:i])


@pytest.mark.parametrize("search", ["hybrid", "vectors"])
def test_context_has_the_value_of_the_best_key(search: str) -> None:
    context = ask(f"mrag(search={search})", 60)
    assert "The tower 2 of Corin was built in 1514." in context.text
    assert any(note.marker.key.startswith("Corin") for note in notes(context))


@pytest.mark.parametrize("kind", ["memory", "lance"])
def test_both_stores_give_the_same_context(kind: str, tmp_path: Path) -> None:
    chosen = {"leaf": SMALL, "marker": SETTINGS}
    store = new_store(kind, tmp_path, embedder=EMBEDDER, settings=chosen)
    store.write([mill_rows(), *rows_of(DOCUMENTS, EMBEDDER, marker=SETTINGS)])
    store.optimize()
    for question in (QUESTION, "Who built Norrby Mill and when?"):
        context = ask("mrag(search=vectors)", 150, store, question)
        check(context)
        assert context.text == ask("mrag(search=vectors)", 150, MIXED, question).text


def test_order() -> None:
    by_place = ask("mrag(order=position)", 300)
    by_score = ask("mrag(order=similarity)", 300)
    assert [p.score for p in by_score.passages] == sorted((p.score for p in by_score.passages), reverse=True)
    places = [(s.doc_id, s.start) for p in by_place.passages for s in p.spans]
    documents = list(dict.fromkeys(doc for doc, _ in places))
    assert places == sorted(places, key=lambda place: (documents.index(place[0]), place[1]))
    assert len(documents) > 1


WORDS = st.sampled_from("mill wheel stone river tower bridge mason flood built sold north spring".split())
SENTENCES = st.lists(WORDS, min_size=3, max_size=12).map(lambda words: f"{' '.join(words).capitalize()}.")
SECTIONS = st.tuples(WORDS, st.lists(SENTENCES, min_size=1, max_size=5)).map(
    lambda section: f"## {section[0].capitalize()}\n\n{' '.join(section[1])}"
)
CORPORA = st.lists(st.lists(SECTIONS, min_size=1, max_size=4).map("\n\n".join), min_size=1, max_size=3)


def held_values(context: Context) -> set[tuple[str, tuple[ValueSentence, ...]]]:
    """Return the selected markers, each with its selected sentences."""
    return {(f"{note.marker.doc_id} {note.marker.id}", note.sentences) for note in notes(context)}


@settings(max_examples=examples(60))
@given(
    CORPORA,
    st.lists(WORDS, min_size=1, max_size=4).map(" ".join),
    st.integers(1, 200),
    st.sampled_from(["cut", "skip", "stop", "end"]),
    st.booleans(),
    st.booleans(),
)
def test_both_orders_have_the_same_values(
    corpus: list[str], question: str, budget: int, last: str, merge: bool, headings: bool
) -> None:
    documents = [Document(f"d{number}", text, f"Title {number}") for number, text in enumerate(corpus)]
    store = store_of([mill_rows(), *rows_of(documents, EMBEDDER, marker=SETTINGS)])
    spec = f"mrag(last={last}, merge={merge}, headings={headings}, order="
    by_place, by_key = (ask(f"{spec}{order})", budget, store, question) for order in ("position", "similarity"))
    assert held_values(by_place) == held_values(by_key)
    assert by_place.budget >= by_place.tokens and by_key.budget >= by_key.tokens


def test_values_without_headings_are_sorted_by_key() -> None:
    headed, alone = ask("mrag(order=similarity)", 300), ask("mrag(order=similarity, headings=off)", 300)
    assert [passage.title for passage in alone.passages] == [""] * len(alone.passages)
    assert len(alone.passages) == len(notes(alone)) > len(notes(headed)), "room for values instead of headings"
    scores = [passage.score for passage in alone.passages]
    assert scores == sorted(scores, reverse=True)
    check(alone)


def test_filter() -> None:
    context = ask(budget=300, where="id = 'd1'")
    assert {span.doc_id for passage in context.passages for span in passage.spans} == {"d1"}


def test_shared_text_of_values_is_given_once() -> None:
    sentences = [
        f"The mason {name} built a long wall of grey stone."
        for name in ("Ada", "Bo", "Cy", "Di", "Ed", "Flo", "Gus", "Hal")
    ]
    text = "\n\n".join([sentences[0], *(f"It was then that {s[0].lower()}{s[1:]}" for s in sentences[1:])])
    (rows,) = rows_of([Document("w", text, "Walls")], EMBEDDER, marker=SETTINGS)
    store = store_of([with_markers(rows, [*rows["marker"], *rows["marker"]])])
    apart = ask("mrag(merge=false)", 400, store, "Who built a long wall?")
    once = ask("mrag(merge=true)", 400, store, "Who built a long wall?")
    assert once.tokens < apart.tokens
    assert all(once.text.count(name) == 1 for name in ("Ada", "Bo", "Cy"))
    assert any(step.action == "merge" for step in once.trace)


def test_written_values_are_marked_and_have_their_sources() -> None:
    context = ask("mrag", 60, MIXED, "Who built Norrby Mill and when?")
    passage = context.passages[0]
    assert not passage.verbatim and passage.text.startswith("Ella Stone built Norrby Mill in 1850.")
    assert f"[1] Norrby Mill {WRITTEN}\n" in context.text
    assert MILL.text[passage.spans[0].start : passage.spans[0].end] == "The mill was built by Ella Stone in 1850."


def test_verbatim_values_are_not_marked_as_written() -> None:
    assert WRITTEN not in ask().text and all(passage.verbatim for passage in ask().passages)


def test_similar_written_sentences_with_the_same_source_are_given_once() -> None:
    one, two = (piece_of(marker, 1.0) for marker in mill_rows()["marker"][:2])
    left = two.beyond([one])
    assert left is not None and value_text(left.marker, left.sentences) == "Norrby Mill has 2 wheels."
    assert one.beyond([two, one]) is None or "Napoleon" in value_text(one.marker, one.sentences)


def test_written_sentences_are_compared_only_within_their_source() -> None:
    rows = mill_rows()
    one = rows["marker"][0]
    place, other = ((0, 40),), ((41, 80),)
    held = replace(one, value="The wheels turn. The stones grind.", sentences=(
        ValueSentence(0, 16, place), ValueSentence(17, 34, other)))  # fmt: skip
    same = replace(one, value="Stones grind.", sentences=(ValueSentence(0, 13, place),))
    assert piece_of(same, 1.0).beyond([piece_of(held, 1.0)]) == piece_of(same, 1.0)
    again = replace(same, sentences=(ValueSentence(0, 13, other),))
    assert piece_of(again, 1.0).beyond([piece_of(held, 1.0)]) is None


def test_written_sentences_with_a_quoted_source_are_dropped() -> None:
    rows = mill_rows()
    quoted = next(piece_of(marker, 1.0) for marker in rows["marker"] if not marker.written)
    left = piece_of(rows["marker"][1], 1.0).beyond([quoted])
    assert left is None


def test_trace_has_key_value_spans_and_grounding() -> None:
    context = ask("mrag", 60, MIXED, "Who built Norrby Mill and when?")
    (shown, *_) = [step for step in context_json(context)["trace"] if step["action"] == "marker"]
    marker = json.loads(json.dumps(shown))["marker"]
    assert marker["key"] == "Who built Norrby Mill and when?" and marker["made"] == "model"
    good, bad = marker["sentences"]
    assert good["supported"] and MILL.text[good["support"][0]["start"] :].startswith("The mill was built")
    assert not bad["supported"] and "name Napoleon" in bad["flags"]
    assert marker["spans"] and marker["value"].startswith("Ella Stone")
    (grounding,) = [step.note for step in context.trace if isinstance(step.note, GroundingNote)]
    assert grounding.unsupported == 1 and grounding.share == pytest.approx(1 / grounding.sentences)


def test_citations_of_written_values_quote_their_support() -> None:
    context = ask("mrag", 60, MIXED, "Who built Norrby Mill and when?")
    lookup = {"mill": MILL}.get
    cited = cite("The mill was built by Ella Stone [1].", base_sources(context, lookup), lookup)
    assert [citation.text for citation in cited.citations] == ["The mill was built by Ella Stone in 1850."]


@pytest.mark.parametrize("last", ["stop", "skip", "cut"])
def test_values_that_do_not_fit(last: str) -> None:
    contexts = {name: ask(f"mrag(last={name}, order=similarity)", 70) for name in ("stop", "skip", "cut")}
    assert contexts["stop"].tokens <= contexts["skip"].tokens <= contexts["cut"].tokens
    assert len(notes(contexts["stop"])) >= 1
    check(contexts[last])


@pytest.mark.parametrize("headings", ["on", "off"])
@pytest.mark.parametrize("count", range(1, 6))
def test_last_stop_leaves_no_value_that_fits_in_both_orders(headings: str, count: int) -> None:
    parts = [f"### Street {n}\n\nThe tower {n} of Corin was built in {1510 + n} by Mason {n}y.\n\n" for n in range(8)]
    town = Document("town", f"# The old town of Corin\n\n## Towers within the walls\n\n{''.join(parts)}", "Corin")
    store, spec = memory_store([town], EMBEDDER, marker=SETTINGS), f"mrag(headings={headings}, last=stop"
    whole = [ask(f"{spec}, k={count}, order={order})", 1000, store) for order in ("position", "similarity")]
    held = len(notes(whole[0]))
    for order in ("position", "similarity"):
        fitting = ask(f"{spec}, order={order})", max(context.tokens for context in whole), store)
        assert len(notes(fitting)) >= held


def test_search_by_vectors_needs_vectors() -> None:
    store = memory_store(DOCUMENTS, None, marker=SETTINGS)
    with pytest.raises(UsageError, match="no vectors"):
        strategies.assemble("mrag(search=vectors)", QUESTION, reader_of(store), 100, Models(count_tokens))
    assert strategies.assemble("mrag", QUESTION, reader_of(store), 100, Models(count_tokens)).passages


def test_empty_index_gives_an_empty_context() -> None:
    context = ask(store=memory_store([], EMBEDDER, marker=SETTINGS))
    assert (context.text, context.passages) == ("", ())


def test_extractive_answers_quote_the_document_instead_of_a_written_value() -> None:
    question = "Who built Norrby Mill and when?"
    context = ask("mrag(k=1)", 60, MIXED, question)
    assert [passage.verbatim for passage in context.passages] == [False]
    reader = reader_of(MIXED, EMBEDDER)
    found = replace(context, evidence=evidence_in(context, reader))
    models = Models(count_tokens, EMBEDDER)
    given = extractive.answer(Request(found, {"mill": MILL}.get, models), models)
    assert [citation.text for citation in given.citations] == ["The mill was built by Ella Stone in 1850."]


def test_note_lists_its_sentences() -> None:
    value = "Ada built the mill. It burnt in 1850."
    sentences = (ValueSentence(0, 19, ((0, 19),)), ValueSentence(20, 37, (), flags=("number 1850",)))
    key = "Who built the mill?"
    marker = Marker(0, "mill", "Mill", (), 0, key, value, (0,), ((0, 40),), "model", sentences, 5, 9)
    noted = MarkerNote(marker, sentences).as_dict()["sentences"]
    assert isinstance(noted, list)
    assert [one["text"] for one in noted] == ["Ada built the mill.", "It burnt in 1850."]
    assert [one["flags"] for one in noted] == [[], ["number 1850"]]
