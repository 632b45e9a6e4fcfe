"""Shards compared with one index of the same documents: searches, reads, changes, and the state after a killed writer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks.filters import DIMENSION, Drawing, rows_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support import HashEmbedder, create_store

import mergewise as mw
from mergewise.designs import VIEWS
from mergewise.errors import CorruptIndex, NewerFormat
from mergewise.protocols import Ranking, StoreReader
from mergewise.store.lance_indexes import Upkeep
from mergewise.store.lance_reader import LanceReader
from mergewise.store.manifest import SHARDS_NAME, Manifest, ShardedManifest, ViewState
from mergewise.store.places import copy_index, place_of
from mergewise.store.places.folder import Folder
from mergewise.store.shards.calls import LocalShards
from mergewise.store.shards.place import shard_of
from mergewise.store.shards.reader import BITS, ShardedReader
from mergewise.store.shards.store import ShardedStore
from mergewise.types import DocumentRows, Leaf, Section

SHARDS, DOCUMENTS = 3, 300
LEAVES = VIEWS["leaf"]
TABLES = [replace(table, vector_index_rows=10**6) for table in LEAVES.tables_of(LEAVES.dump())]
REGISTRY = {"leaf": replace(LEAVES, tables=lambda _: TABLES)}
MANIFEST = Manifest("made", DIMENSION, {"leaf": ViewState(LEAVES.dump())})


def new_sharded(directory: Path, shards: int) -> ShardedStore:
    place = Folder(directory)
    place.create(ShardedManifest.of([MANIFEST] * shards, None), 10)
    return ShardedStore(place, REGISTRY)


def drawn(first: int, count: int, seed: int = 0) -> list[DocumentRows]:
    drawing = Drawing(seed)
    vectors = drawing.vectors(count)
    lengths = np.random.default_rng(seed).integers(3, 60, count).tolist()
    return [rows_of(first + at, drawing.text(length), vectors[at], first + at) for at, length in enumerate(lengths)]


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> tuple[StoreReader, ShardedReader]:
    folder = tmp_path_factory.mktemp("shards")
    whole = create_store(folder / "whole", MANIFEST, REGISTRY)
    sharded = new_sharded(folder / "sharded", SHARDS)
    for store in (whole, sharded):
        store.write(drawn(0, DOCUMENTS))
        store.optimize()
    return whole.reader(), sharded.reader()


def local_readers(reader: ShardedReader) -> tuple[LanceReader, ...]:
    assert isinstance(reader.shards, LocalShards)
    return reader.shards.readers


def scores_by_document(reader: StoreReader, ranking: Ranking) -> list[tuple[str, float]]:
    rows = reader.rows("leaf", Leaf, [row for row, _ in ranking])
    return [(rows[row].doc_id, score) for row, score in ranking]


def assert_same(first: list[tuple[str, float]], second: list[tuple[str, float]], tolerance: float) -> None:
    """Check that the rows and scores are equal. Rows that tie within single precision may be in any order."""
    np.testing.assert_allclose([score for _, score in first], [score for _, score in second], rtol=tolerance)
    last = min(score for _, score in first) * (1 + tolerance) if first else 0.0
    above = [{name for name, score in found if score > last} for found in (first, second)]
    assert above[0] == above[1]
    at = dict(second)
    assert all(at.get(name, score) == pytest.approx(score, rel=tolerance) for name, score in first)


WORDS = st.lists(st.integers(0, 400), min_size=1, max_size=6).map(lambda ns: " ".join(f"word{n}" for n in ns))


@given(question=WORDS, k=st.sampled_from([1, 50]))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_text_is_ranked_as_by_one_index(readers: tuple[StoreReader, ShardedReader], question: str, k: int) -> None:
    whole, sharded = (scores_by_document(reader, reader.text_search(question, k).result()) for reader in readers)
    assert_same(whole, sharded, 2e-4)


def test_shards_without_postings_score_as_one_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mergewise.store.lance_search.MAX_ROWS", 0)
    whole = create_store(tmp_path / "whole", MANIFEST, REGISTRY)
    sharded = new_sharded(tmp_path / "sharded", SHARDS)
    for store in (whole, sharded):
        store.upkeep = Upkeep(most_posted=0)
        store.write(drawn(0, DOCUMENTS))
        store.optimize()
    for question in ("word1", "word3 word40 word3", "word7 word90 word200 nowhere"):
        one, other = (
            scores_by_document(own.reader(), own.reader().text_search(question, 40).result())
            for own in (whole, sharded)
        )
        assert_same(one, other, 2e-4)


def test_local_scores_of_shards_differ(readers: tuple[StoreReader, ShardedReader]) -> None:
    whole, sharded = readers
    local = [
        hit
        for one in local_readers(sharded)
        for hit in scores_by_document(one, one.text_search("word40 word90", 50).result())
    ]
    local.sort(key=lambda hit: -hit[1])
    with pytest.raises(AssertionError):
        assert_same(scores_by_document(whole, whole.text_search("word40 word90", 50).result()), local[:50], 2e-4)


@given(seed=st.integers(0, 1000), below=st.sampled_from([None, 20, 200]))
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_vectors_are_ranked_as_by_one_index(
    readers: tuple[StoreReader, ShardedReader], seed: int, below: int | None
) -> None:
    vector, where = Drawing(seed).vectors(1)[0], None if below is None else f"place < {below}"
    whole, sharded = (
        scores_by_document(reader, reader.vector_search(vector, 30, where).result()) for reader in readers
    )
    assert [name for name, _ in whole] == [name for name, _ in sharded]


def test_rows_have_ids_of_their_own_in_every_shard(readers: tuple[StoreReader, ShardedReader]) -> None:
    whole, sharded = readers
    assert {shard_of(name, SHARDS) for name in whole.ids()} == set(range(SHARDS))
    assert sorted(sharded.ids()) == sorted(whole.ids()) and len(sharded.numbers()) == DOCUMENTS
    assert sharded.row_counts() == whole.row_counts() and sharded.sizes() == whole.sizes()
    assert sharded.documents("d00001", limit=7) == whole.documents("d00001", limit=7)
    for name in ("d0000003", "d0000077"):
        (leaf,) = sharded.leaf_ranges([name])[name]
        assert leaf >> BITS == shard_of(name, SHARDS)
        row = sharded.rows("leaf", Leaf, [leaf])[leaf]
        assert (row.id, row.doc_id) == (leaf, name)
        # a leaf's ancestor id finds the section
        section = sharded.rows("section", Section, [row.parent])[row.parent]
        assert section.doc_id == name and section.first_leaf == leaf
        np.testing.assert_array_equal(
            sharded.vectors([leaf])[leaf], whole.vectors([whole.leaf_ranges([name])[name][0]]).popitem()[1]
        )
    names = sharded.sorted_columns("name", ("hash", "first_leaf", "doc", "leaf_count"))
    assert (np.diff(names["hash"]) >= 0).all()
    assert {n >> BITS for n in names["doc"].tolist()} == set(range(SHARDS))
    assert set(names["doc"].tolist()) == set(sharded.numbers())


def test_a_sample_has_leaves_of_every_shard(readers: tuple[StoreReader, ShardedReader]) -> None:
    single, sharded = readers
    for language in sharded.languages():
        whole = sharded.sample(language, 100_000).tolist()
        assert len(set(whole)) == len(whole) == len(single.sample(language, 100_000)) > 6
        assert set(sharded.rows("leaf", Leaf, whole)) == set(whole)
        few = sharded.sample(language, 6).tolist()
        assert set(few) <= set(whole) and len(few) <= 6 + len(local_readers(sharded))
        assert {leaf >> BITS for leaf in few} == {leaf >> BITS for leaf in whole}
    assert sharded.sample("xx", 5).tolist() == []


def test_copies_in_other_shards_are_found_once(tmp_path: Path) -> None:
    store = new_sharded(tmp_path / "index", SHARDS)
    assert store.reader().row_counts()["leaf"] == 0 and store.reader().text_search("word1", 5).result() == []
    vector = Drawing(1).vectors(1)[0]
    texts = ["word1 word2 word3.", *("word1 word5." for _ in range(3))]
    store.write([rows_of(n, texts[n // 10], vector, n, title="same.md") for n in range(40)])
    store.optimize()
    reader = store.reader()
    for hits in (reader.text_search("word1", 5).result(), reader.vector_search(vector, 5).result()):
        assert len({row for row, _ in hits}) == len(hits) == 2
    assert len(reader.duplicates()) == len(reader.copies()) == 38
    assert {n >> BITS != of >> BITS for n, of in reader.copies().items()} == {True, False}
    assert len(reader.text_search("word1", 5, "place > 35").result()) == 1


@pytest.fixture
def store(tmp_path: Path) -> ShardedStore:
    store = new_sharded(tmp_path / "index", 3)
    store.write(drawn(0, 30))
    return store


def test_changes_go_to_the_shards_of_their_documents(store: ShardedStore) -> None:
    again = [*drawn(0, 29), *drawn(29, 3, seed=5)]
    report = store.write(again, remove=["d0000000"])
    assert (report.added, report.replaced, report.unchanged, report.removed) == (2, 0, 30, 1)
    changed = [replace(row, digest="other") for row in drawn(29, 3, seed=5)]
    assert store.write(changed).replaced == 3
    store.describe({"d0000004": {"year": 7}})
    assert store.reader().ids("year = 7") == ["d0000004"]
    # a key has the same type in all shards
    other = [replace(row, document=replace(row.document, metadata={"year": "x"})) for row in drawn(500, 9, seed=9)]
    assert len(store.write(other).failed) == 9
    assert store.remove(["d0000004", "d0000005", "nobody"]) == 2
    store.optimize()
    assert len(store.reader().ids()) == 29 and store.check() == []
    # another store reads the same
    beside = ShardedStore(Folder(store.directory), REGISTRY)
    assert beside.reader().snapshot == store.reader().snapshot


def test_a_reader_keeps_its_state_and_sees_no_partial_change(store: ShardedStore) -> None:
    reader = store.reader()
    ids, snapshot = reader.ids(), reader.snapshot
    seen: list[int] = []
    with store._change() as shards:
        for at, shard in enumerate(shards):
            shard.write([row for row in drawn(100, 20, seed=3) if shard_of(row.document.id, 3) == at])
            seen.append(len(ShardedStore(Folder(store.directory), REGISTRY).reader().ids()))
    assert seen == [30, 30, 30]
    assert len(store.reader().ids()) == 50 and store.reader().snapshot != snapshot
    assert reader.ids() == ids


@pytest.mark.parametrize("shard", [0, 2])
def test_a_death_between_shards_leaves_the_state_before(store: ShardedStore, shard: int) -> None:
    before = store.reader().snapshot
    with pytest.raises(KeyboardInterrupt), store._change() as shards:
        for at in range(shard + 1):
            shards[at].write([row for row in drawn(200, 20, seed=4) if shard_of(row.document.id, 3) == at])
        raise KeyboardInterrupt
    assert store.reader().snapshot == before and len(store.reader().ids()) == 30
    # repeating the call does the rest
    assert store.write(drawn(200, 20, seed=4)).added == 20
    store.optimize()
    assert store.check() == [] and len(store.reader().ids()) == 50


def test_vectors_are_added_later(store: ShardedStore) -> None:
    rows = drawn(300, 10, seed=6)
    bare = [replace(row, tables={**row.tables, "leaf": replace(row.tables["leaf"], columns={})}) for row in rows]
    store.write(bare)
    waiting = store.reader().unembedded().tolist()
    assert len(waiting) == 10 and {row >> BITS for row in waiting} > {0}
    assert not store.finish_vectors()
    names = {row: leaf.doc_id for row, leaf in store.reader().rows("leaf", Leaf, waiting).items()}
    by_name = {row.document.id: row.tables["leaf"].columns for row in rows}
    columns = {column: [by_name[names[row]][column][0] for row in waiting] for column in ("vector", "sentence_vectors")}
    assert store.write_vectors("leaf", waiting, columns) == 10
    assert store.finish_vectors() and store.check() == []
    vector = rows[0].tables["leaf"].columns["vector"][0]
    assert (
        scores_by_document(store.reader(), store.reader().vector_search(vector, 1).result())[0][0]
        == rows[0].document.id
    )


@pytest.mark.parametrize(
    ("content", "error"),
    [("{", CorruptIndex), ('{"format": 1, "shards": []}', CorruptIndex), ('{"format": 2, "shards": []}', NewerFormat)],
)
def test_an_unreadable_state_is_refused(store: ShardedStore, content: str, error: type[Exception]) -> None:
    (store.directory / SHARDS_NAME).write_text(content)
    with pytest.raises(error):
        store.reader()


def test_documents_in_the_wrong_shard_are_problems(store: ShardedStore) -> None:
    with store._change() as shards:
        shards[0].write([row for row in drawn(400, 9, seed=8) if shard_of(row.document.id, 3) == 1])
    assert {problem.what for problem in store.check()} == {"in shard 0 (expected in shard 1)"}


def test_an_index_is_opened_with_its_shards(tmp_path: Path) -> None:
    text = "# Tower {0}\n\nTower {0} of Brook fell in {1}. It is called Spire {0}."
    documents = [mw.Document(f"d{n}", text.format(n, 1900 + n), f"Tower {n}") for n in range(12)]
    whole, sharded = (
        mw.open(tmp_path / name, embedder=HashEmbedder(), shards=shards) for name, shards in (("a", None), ("b", 3))
    )
    assert whole.add(documents) == sharded.add(documents)
    for strategy in ("topk", "weave", "auto-merge"):
        question = "When did Tower 7 of Brook fall?"
        found = [index.context(question, strategy=strategy, budget=60).text for index in (whole, sharded)]
        assert found[0] == found[1] != ""
    before = sharded.snapshot
    sharded.remove(["d7"])
    assert sharded.snapshot != before and len(sharded) == 11
    assert sharded.check(repair=True) == []
    again = mw.open(tmp_path / "b", embedder=HashEmbedder(), views=("leaf", "slice"))
    assert again.context("Tower 3", strategy="macrag", budget=60).text and again.check() == []
    for name, shards in (("a", 2), ("b", 2), ("c", 0)):
        with pytest.raises(mw.UsageError):
            mw.open(tmp_path / name, embedder=HashEmbedder(), shards=shards)
    copy_index(place_of(tmp_path / "b"), place_of(tmp_path / "d"), 1)
    copied = mw.open(tmp_path / "d", embedder=HashEmbedder(), shards=3)
    assert copied.check() == [] and copied.documents() == sharded.documents()
