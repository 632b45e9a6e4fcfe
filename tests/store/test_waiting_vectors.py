"""Searches while rows wait for vectors: the same results from the table and from memory, and no search of all vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from benchmarks.filters import Drawing
from tests.store.test_shards import LEAVES, MANIFEST, TABLES, drawn, new_sharded
from tests.support import create_store

from mergewise.protocols import StoreReader
from mergewise.store import lance_search, snapshot
from mergewise.store.lance import LanceStore
from mergewise.store.lance_reader import LanceReader
from mergewise.store.shards.store import ShardedStore
from mergewise.store.snapshot import Snapshot
from mergewise.types import DocumentRows, Leaf

VECTOR_INDEX_ROWS = 256
INDEXED = {
    "leaf": replace(LEAVES, tables=lambda _: [replace(table, vector_index_rows=VECTOR_INDEX_ROWS) for table in TABLES])
}
CONDITIONS = [None, "place < 40", "place < 200", "place > 290", "place < 0"]


def without_vectors(rows: Sequence[DocumentRows]) -> list[DocumentRows]:
    return [replace(row, tables={**row.tables, "leaf": replace(row.tables["leaf"], columns={})}) for row in rows]


def write_waiting(store: LanceStore | ShardedStore, *, finished: int, waiting: int, embedded: int) -> None:
    """Write finished documents, and further ones that wait for vectors, and then embed some of these."""
    if finished:
        store.write(drawn(0, finished))
        store.optimize()
    if finished >= VECTOR_INDEX_ROWS:
        # builds all search indexes
        store.repair()
    rows = drawn(finished, waiting, seed=1)
    store.write(without_vectors(rows), optimize=True)
    store.remove([rows[1].document.id])
    by_name = {row.document.id: row.tables["leaf"].columns for row in rows}
    ids = store.reader().unembedded()[:embedded].tolist()
    leaves = store.reader().rows("leaf", Leaf, ids)
    columns = {name: [by_name[leaves[row].doc_id][name][0] for row in ids] for name in ("vector", "sentence_vectors")}
    if ids:
        store.write_vectors("leaf", ids, columns)


def results(reader: StoreReader) -> tuple[list[Any], list[float]]:
    """Return the results of searches, and the cosines, which the database computes in another order."""
    found: list[Any] = []
    scores: list[float] = []
    drawing = Drawing(7)
    for vector, k in zip(drawing.vectors(4), (3, 10, 50, 400), strict=True):
        for where in CONDITIONS:
            near = reader.vector_search(vector, k, where).result()
            words = reader.text_search("word1 word9", k, where).result()
            leaves = reader.rows("leaf", Leaf, [row for row, _ in words])
            vectors = {row: own.tolist() for row, own in reader.vectors(list(leaves)).items()}
            scores += [score for _, score in near]
            found += [[row for row, _ in near], words, leaves, vectors]
    return found, scores


STATES = {
    "nothing embedded": {"finished": 0, "waiting": 300, "embedded": 0},
    "half embedded": {"finished": 0, "waiting": 300, "embedded": 150},
    "new documents of a mapped index": {"finished": 250, "waiting": 60, "embedded": 30},
    "new documents of an index with vectors searched": {"finished": 300, "waiting": 40, "embedded": 10},
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("shards", [0, 2])
def test_rows_in_memory_are_those_of_the_table(
    state: str, shards: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store: LanceStore | ShardedStore
    store = new_sharded(tmp_path / "i", shards) if shards else create_store(tmp_path / "i", MANIFEST, INDEXED)
    write_waiting(store, **STATES[state])
    for module in (snapshot, lance_search):
        monkeypatch.setattr(module, "MOST_HELD", 0)
    stored, cosines = results(store.reader())
    readers: Sequence[LanceReader] = store.reader().shards.readers if shards else [store.reader()]  # type: ignore[union-attr, list-item]
    monkeypatch.setattr(lance_search, "MOST_HELD", 10**9)
    for reader in readers:
        reader.state.renew()
    read, same = results(store.reader())
    assert read == stored and same == pytest.approx(cosines, abs=2e-3)
    assert not any(reader.state.held for reader in readers)
    monkeypatch.setattr(snapshot, "MOST_HELD", 10**9)
    monkeypatch.setattr(snapshot, "SEARCHES", 0)
    held, same = results(store.reader())
    assert held == stored and same == pytest.approx(cosines, abs=2e-3)
    assert all(reader.state.held for reader in readers)
    assert not store.finish_vectors() and store.check() == []


@pytest.mark.parametrize("state", ["half embedded", "new documents of an index with vectors searched"])
def test_vectors_are_read_once_while_others_wait(state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = create_store(tmp_path / "index", MANIFEST, INDEXED)
    write_waiting(store, **STATES[state])
    read: list[int] = []
    whole = Snapshot.whole

    def counted(self: Snapshot, table: str, columns: Sequence[str] | None, condition: str | None = None) -> pa.Table:
        rows = whole(self, table, columns, condition)
        if "vector" in (columns or ()):
            read.append(len(rows))
        return rows

    monkeypatch.setattr(Snapshot, "whole", counted)
    vector, embedded = Drawing(3).vectors(1)[0], STATES[state]["embedded"]
    rankings = [store.reader().vector_search(vector, 5).result() for _ in range(snapshot.SEARCHES)]
    # the document that was removed had a vector too
    assert read == [embedded] or read == [embedded - 1]
    assert all([row for row, _ in ranking] == [row for row, _ in rankings[0]] for ranking in rankings)
    # a new state reads them again
    store.remove([drawn(7, 1)[0].document.id])
    store.reader().vector_search(vector, 5).result()
    assert len(read) == 2
