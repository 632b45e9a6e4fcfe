"""Searches while rows wait for vectors: the same results from the table and from memory, and no search of all vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks.filters import Drawing
from tests.store.test_shards import LEAVES, MANIFEST, TABLES, drawn, new_sharded

from mergewise.protocols import StoreReader
from mergewise.store import lance_search, lance_state
from mergewise.store.lance import LanceStore
from mergewise.store.lance_reader import LanceReader
from mergewise.store.shards.store import ShardedStore
from mergewise.types import DocumentRows, Leaf

INDEXED = {"leaf": replace(LEAVES, tables=lambda _: [replace(table, vector_index_rows=256) for table in TABLES])}
CONDITIONS = [None, "place < 40", "place < 200", "place > 290", "place < 0"]


def without_vectors(rows: Sequence[DocumentRows]) -> list[DocumentRows]:
    return [replace(row, tables={**row.tables, "leaf": replace(row.tables["leaf"], columns={})}) for row in rows]


def write_waiting(store: LanceStore | ShardedStore, *, finished: int, waiting: int, embedded: int) -> None:
    """Write finished documents, and further ones that wait for vectors, and then embed some of these."""
    if finished:
        store.write(drawn(0, finished))
        store.optimize()
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
    store = new_sharded(tmp_path / "i", shards) if shards else LanceStore.create(tmp_path / "i", MANIFEST, INDEXED)
    write_waiting(store, **STATES[state])
    monkeypatch.setattr(lance_state, "MOST_HELD", 0)
    stored, cosines = results(store.reader())
    readers: Sequence[LanceReader] = store.reader().shards.readers if shards else [store.reader()]  # type: ignore[union-attr, list-item]
    assert not any(reader._held for reader in readers)
    monkeypatch.setattr(lance_state, "MOST_HELD", 10**9)
    monkeypatch.setattr(lance_state, "SEARCHES", 0)
    held, same = results(store.reader())
    assert held == stored and same == pytest.approx(cosines, abs=2e-3)
    assert all(reader._held for reader in readers)
    assert not store.finish_vectors() and store.check() == []


def test_later_searches_do_not_scan_the_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LanceStore.create(tmp_path / "index", MANIFEST, INDEXED)
    write_waiting(store, **STATES["half embedded"])
    scans: list[object] = []
    hits = lance_search._hits

    def counted(query: Any, most: int) -> Any:
        scans.append(query)
        return hits(query, most)

    monkeypatch.setattr(lance_search, "_hits", counted)
    vector = Drawing(3).vectors(1)[0]
    rankings = [store.reader().vector_search(vector, 5).result() for _ in range(8)]
    assert len(scans) == lance_state.SEARCHES
    assert all([row for row, _ in ranking] == [row for row, _ in rankings[0]] for ranking in rankings)
    # a new state begins with its table
    store.remove([drawn(7, 1)[0].document.id])
    store.reader().vector_search(vector, 5).result()
    assert len(scans) == lance_state.SEARCHES + 1
