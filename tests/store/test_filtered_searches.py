"""Filtered searches against a literal scan: random conditions, copies and ties, with all ways to apply the filter."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence, Set
from concurrent.futures import Future
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from benchmarks.filters import DIMENSION, Drawing, rows_of
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from lancedb.table import AsyncTable
from tests.support import create_store

from mergewise.designs import VIEWS
from mergewise.protocols import FloatArray, Ranking
from mergewise.store import lance_search, numbers, snapshot
from mergewise.store.lance import LanceStore
from mergewise.store.lance_indexes import Upkeep
from mergewise.store.lance_reader import LanceReader
from mergewise.store.manifest import Manifest, ViewState
from mergewise.store.numbers import DocumentNumbers
from mergewise.store.places import place_of
from mergewise.store.snapshot import run
from mergewise.store.text_scores import text_terms
from mergewise.types import DocumentRows

DOCUMENTS, TEXTS = 700, 150
DRAWING = Drawing(5)
DRAWN = [DRAWING.text(8) for _ in range(TEXTS)]
VECTORS = DRAWING.vectors(TEXTS)

LEAVES = VIEWS["leaf"]
# few rows have a vector index
TABLES = [replace(table, vector_index_rows=100) for table in LEAVES.tables_of(LEAVES.dump())]
REGISTRY = {"leaf": replace(LEAVES, tables=lambda _: TABLES)}


def document(number: int, place: int, own_title: bool) -> DocumentRows:
    """Return a document with one of few texts. With its own title it ties with equal texts, without one it is a copy."""
    title = f"T{number}" if own_title else ""
    return rows_of(number, DRAWN[number % TEXTS], VECTORS[number % TEXTS], place, title)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> LanceReader:
    """Return the reader of an index that LanceDB searches, because it has no postings."""
    return filled_reader(tmp_path_factory, Upkeep(most_posted=0))


def filled_reader(tmp_path_factory: pytest.TempPathFactory, upkeep: Upkeep) -> LanceReader:
    directory = tmp_path_factory.mktemp("filtered") / "index"
    store = create_store(directory, Manifest("made", DIMENSION, {"leaf": ViewState(VIEWS["leaf"].dump())}), REGISTRY)
    store.upkeep = upkeep
    places = np.random.default_rng(0).permutation(DOCUMENTS).tolist()
    store.write([document(number, place, number % 3 > 0) for number, place in enumerate(places)])
    store.optimize()
    # some unindexed rows, and some deleted documents
    store.write([document(number, number, number % 3 > 0) for number in range(DOCUMENTS, DOCUMENTS + 40)])
    store.optimize()
    store.write([document(number, number, number % 3 > 0) for number in range(DOCUMENTS + 40, DOCUMENTS + 50)])
    store.remove([f"d{number:07}" for number in range(0, DOCUMENTS, 70)])
    return store.reader()


@pytest.fixture(scope="module")
def mapped_reader(reader: LanceReader) -> LanceReader:
    store = LanceStore(reader.directory, REGISTRY)
    store.optimize()
    return store.reader()


class Steps:
    """A query of LanceDB and its stream of batches of ten rows, which counts the requested batches."""

    schema = pa.schema([("_score", pa.float32())])

    def __init__(self, batches: int) -> None:
        self.left, self.asked = batches, 0

    async def execute(self, *_: object) -> Steps:
        return self

    def __aiter__(self) -> Steps:
        return self

    async def __anext__(self) -> pa.RecordBatch:
        self.asked += 1
        if not self.left:
            raise StopAsyncIteration
        self.left -= 1
        return pa.record_batch([pa.array([0.5] * 10, pa.float32())], self.schema)


@pytest.mark.parametrize(("batches", "asked"), [(0, 1), (1, 2), (2, 2)])
def test_no_batch_is_requested_after_the_last_row(batches: int, asked: int) -> None:
    steps = Steps(batches)
    assert len(asyncio.run(snapshot.rows_of(steps, 20))) == 10 * batches
    assert steps.asked == asked


WAYS = st.sampled_from([0, 10, 10**9])
"""Cost of a number in a condition: so a filter becomes a condition, the cheaper way, or a filter after the search."""


def run_search(way: int, search: Callable[[], Future[Ranking]]) -> Ranking:
    """Search by LanceDB."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numbers, "ROWS_OF_A_NUMBER", way)
        patch.setattr(lance_search.LanceSearch, "text_index", lambda *_: None)
        return search().result()


WHERE = st.one_of(
    st.none(),
    st.sampled_from([0, 1, 3, 30, 100, 300, DOCUMENTS, 10**6]).map(lambda size: f"place < {size}"),
    st.tuples(st.integers(0, DOCUMENTS), st.integers(0, 200)).map(
        lambda ab: f"(place >= {ab[0]} and place <= {sum(ab)})"
    ),
    st.integers(0, 9).map(lambda digit: f"id like '%{digit}'"),
    st.integers(0, 9).map(lambda digit: f"not id like '%{digit}'"),
)


def wanted_numbers(reader: LanceReader, where: str | None) -> set[int]:
    """Return the numbers of the documents that meet a condition, without duplicates."""
    documents = reader.state.table("documents")
    assert documents is not None
    rows = run(snapshot.scan(documents, ["_number", "id", "title", "_text"], where)).to_pylist()
    first: dict[tuple[str, str], int] = {}
    for row in sorted(rows, key=lambda row: row["_number"]):
        first.setdefault((row["_text"], "" if row["title"] == row["id"] else row["title"]), row["_number"])
    return set(first.values())


def of_documents(reader: LanceReader, ranking: Sequence[tuple[int, int, float]], wanted: set[int], k: int) -> Ranking:
    """Return the best `k` of the rows (id, document, score) of the wanted documents. Ties are in the order of document ids."""
    names = dict(zip(*map(list, reader.whole("leaf", ["id", "doc_id"]).to_pydict().values()), strict=True))
    among = [(row, score) for row, number, score in ranking if number in wanted]
    return sorted(among, key=lambda hit: (-round(hit[1], 6), names[hit[0]], hit[0]))[:k]


def literal_text_search(reader: LanceReader, question: str, k: int, wanted: set[int]) -> Ranking:
    leaves = reader.state.table("leaf")
    assert leaves is not None
    query = AsyncTable(leaves).query().nearest_to_text(question, columns=["key"])
    hits = run(query.select(["id", "doc", "_score"]).limit(10 * DOCUMENTS).to_arrow())
    ranking = list(zip(*(hits[name].to_pylist() for name in ("id", "doc", "_score")), strict=True))
    return of_documents(reader, ranking, wanted, k)


def literal_vector_search(reader: LanceReader, vector: FloatArray, k: int, wanted: set[int]) -> Ranking:
    rows = reader.whole("leaf", ["id", "doc"])
    vectors = reader.vectors(rows["id"].to_pylist())
    query = vector.astype(np.float16).astype(np.float32)
    near = [
        (row, doc, float(vectors[row] @ query)) for row, doc in zip(*map(list, rows.to_pydict().values()), strict=True)
    ]
    return of_documents(reader, near, wanted, k)


@settings(max_examples=8, phases=[Phase.generate])
@given(WAYS, WHERE, st.integers(0, TEXTS - 1), st.sampled_from([1, 10, 100]))
def test_a_text_search_equals_a_literal_scan(
    reader: LanceReader, way: int, where: str | None, asked: int, k: int
) -> None:
    if where is not None and way < 10**9:
        # LanceDB scores unindexed rows only against rows that meet its condition
        where = f"({where}) and place < {DOCUMENTS}"
    question = " ".join(DRAWN[asked].rstrip(".").split()[:3])
    ranking = run_search(way, lambda: reader.text_search(question, k, where))
    literal = literal_text_search(reader, question, k, wanted_numbers(reader, where))
    assert [row for row, _ in ranking] == [row for row, _ in literal]
    assert np.allclose([score for _, score in ranking], [score for _, score in literal], rtol=1e-5)


@settings(max_examples=8, phases=[Phase.generate])
@given(WHERE, st.integers(0, TEXTS - 1), st.sampled_from([1, 10, 100]))
def test_a_search_of_postings_equals_a_literal_scan(
    mapped_reader: LanceReader, where: str | None, asked: int, k: int
) -> None:
    reader = mapped_reader
    question = " ".join(DRAWN[asked].rstrip(".").split()[:3])
    index, terms = reader.search.text_index("leaf"), Counter(text_terms(question))
    assert index is not None
    ids, scores = index.scores(terms, index.frequencies(terms), numbers.EVERYTHING)
    documents = reader.state.mapped_rows("leaf").documents_of(ids)
    scored = list(zip(ids.tolist(), documents.tolist(), scores.tolist(), strict=True))
    literal = of_documents(reader, scored, wanted_numbers(reader, where), k)
    found = reader.text_search(question, k, where).result()
    assert [row for row, _ in found] == [row for row, _ in literal]
    assert np.allclose([score for _, score in found], [score for _, score in literal], atol=1e-6)


@settings(max_examples=8, phases=[Phase.generate])
@given(WAYS, WHERE, st.integers(0, TEXTS - 1), st.sampled_from([1, 10, 100]))
def test_a_vector_search_equals_a_literal_scan(
    reader: LanceReader, way: int, where: str | None, asked: int, k: int
) -> None:
    ranking = run_search(way, lambda: reader.vector_search(VECTORS[asked], k, where))
    literal = literal_vector_search(reader, VECTORS[asked], k, wanted_numbers(reader, where))
    # rows that tie for the last place may differ
    assert len(ranking) == len(literal)
    cosines, best = np.sort([score for _, score in ranking]), np.sort([score for _, score in literal])
    assert np.allclose(cosines, best, atol=1e-3) or np.mean(np.abs(cosines - best) < 1e-3) > 0.9


def test_document_numbers_behave_like_a_set() -> None:
    few: Set[int] = DocumentNumbers.of([5, 3, 3, 9])
    expected: Set[int] = frozenset({3, 5, 9})
    assert few == expected and list(few) == [3, 5, 9] and 5 in few and 4 not in few and len(few) == 3
    assert few - {3: 1}.keys() == {5, 9} and few >= frozenset({3, 9}) and frozenset({3}) <= few


# -- states that take over values of earlier ones

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.lists(st.integers(0, 11), min_size=1, max_size=3, unique=True), st.integers(0, 3)),
        st.tuples(st.just("remove"), st.lists(st.integers(0, 11), max_size=2), st.just(0)),
        st.tuples(st.just("describe"), st.lists(st.integers(0, 11), max_size=2), st.integers(0, 3)),
        st.tuples(st.just("optimize"), st.just([]), st.just(0)),
    ),
    min_size=3,
    max_size=8,
)


def values(reader: LanceReader) -> dict[str, object]:
    """Return all values that a state caches."""
    names = reader.sorted_columns("name", ["hash", "first_leaf", "leaf_count"])
    return {
        "numbers": list(reader.numbers()),
        "met": list(reader.numbers("place > 1")),
        "copies": reader.copies(),
        "copies met": reader.copies("place > 1"),
        "duplicates": {one.id: one for one in reader.duplicates()},
        "languages": reader.languages(),
        "listed": reader.documents("d"),
        "ids": reader.ids("place > 1"),
        "names": {name: column.tolist() for name, column in names.items()},
        "text": reader.text_search("word", 50).result(),
    }


@settings(max_examples=3, phases=[Phase.generate])
@given(STEPS, st.lists(st.booleans(), min_size=8, max_size=8))
def test_cached_values_equal_those_of_a_fresh_reader(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, list[int], int]], asks: list[bool]
) -> None:
    directory = tmp_path_factory.mktemp("states") / "index"
    views = {"leaf": ViewState(VIEWS["leaf"].dump())}
    store = create_store(directory, Manifest("none", 0, views), VIEWS)
    store.write([drawn_document(12, 1)])
    seen: list[tuple[LanceReader, dict[str, object]]] = []
    for (step, documents, draw), ask in zip(steps, asks, strict=False):
        ids = [f"d{number:07}" for number in documents]
        if step == "add":
            store.write([drawn_document(number, draw) for number in documents], force=True)
        elif step == "remove":
            store.remove(ids)
        elif step == "describe":
            store.describe({doc_id: {"place": draw} for doc_id in store.reader().texts(ids)})
        else:
            store.optimize()
        if ask:
            reader = store.reader()
            kept = values(reader)
            assert kept == values(LanceReader(place_of(directory), store.manifest, VIEWS))
            seen.append((reader, kept))
    # later states have not changed the values that they took over
    assert all(values(reader) == kept for reader, kept in seen)


def drawn_document(number: int, draw: int) -> DocumentRows:
    """Return a document with one of four texts, which may be a copy."""
    return rows_of(number, f"word {draw}.", None, draw)
