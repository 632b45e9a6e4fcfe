"""Origins and copies in both stores: written, read, changed and removed in one step, and left out of searches."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.support import HashEmbedder, new_store, reader_of, rows_of

from mergewise.types import AddReport, Document, Duplicate, Known, Origin

EMBEDDER = HashEmbedder()
CATS = Document("cats.md", "Cats eat fish. They drink milk.", "Cats", {"lang": "en"})
COPY = Document("copy.md", CATS.text, "Cats", {"lang": "fr"})
DOGS = Document("dogs.md", "Dogs eat meat.", "Dogs")
A, B = Origin("docs/cats.md", 31, 5), Origin("docs/it's.md", 14, 6)


@pytest.fixture(params=["memory", "lance"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_origins_are_stored_and_found(kind: str, tmp_path: Path) -> None:
    store = new_store(kind, tmp_path, embedder=EMBEDDER)
    assert store.reader().known_documents() == store.reader().known_documents(["x"], ["y"]) == []
    cats, dogs = rows_of([CATS, DOGS], EMBEDDER)
    store.write([replace(cats, origin=A), dogs])
    known = sorted(store.reader().known_documents(), key=lambda one: one.id)
    assert known == [Known("cats.md", "1", A), Known("dogs.md", "1")]
    assert store.reader().known_documents(sources=["docs/cats.md"]) == [Known("cats.md", "1", A)]
    assert store.reader().known_documents(["dogs.md", "nope"], ["docs/cats.md"]) != []
    assert [info.origin for info in store.reader().documents()] == [A, None]
    assert [rows.origin for rows in store.reader().document_rows(["cats.md", "dogs.md"])] == [A, None]
    assert store.check() == []


def test_documents_are_removed_in_the_step_that_adds_others(kind: str, tmp_path: Path) -> None:
    store = new_store(kind, tmp_path, embedder=EMBEDDER)
    store.write(rows_of([CATS, DOGS], EMBEDDER))
    before = store.reader()
    report = store.write(rows_of([replace(DOGS, id="hounds.md")], EMBEDDER), remove=["dogs.md", "nope"])
    assert report == AddReport(added=1, removed=1)
    assert [info.id for info in store.reader().documents()] == ["cats.md", "hounds.md"]
    assert store.write([], remove=["nope"]) == AddReport()
    assert store.write([], remove=["cats.md"]) == AddReport(removed=1)
    assert store.check() == []
    if kind == "lance":
        assert [info.id for info in before.documents()] == ["cats.md", "dogs.md"]


def test_searches_find_the_first_of_duplicate_documents(kind: str, tmp_path: Path) -> None:
    store = new_store(kind, tmp_path, embedder=EMBEDDER)
    assert store.reader().copies() == {} and store.reader().duplicates() == []
    store.write(rows_of([CATS, DOGS], EMBEDDER))
    assert reader_of(store, EMBEDDER).numbers() is None
    store.write(rows_of([COPY], EMBEDDER))
    store.optimize()
    assert store.reader().duplicates() == [Duplicate("copy.md", "cats.md")]

    def found(where: str | None = None) -> set[str]:
        reader = reader_of(store, EMBEDDER, where)
        vector = reader.question_vector("cats eat fish")
        assert vector is not None
        text = store.reader().text_search("cats eat fish", 10, where).result()
        near = store.reader().vector_search(vector, 10, where).result()
        leaves = reader.leaves([row for row, _ in [*text, *near]])
        of_names = {d.document for found in reader.definitions(["cats"]).values() for d in found}
        assert len(of_names) == 1
        return {leaf.doc_id for leaf in leaves.values()}

    assert found() == {"cats.md", "dogs.md"}
    assert found("lang = 'fr'") == {"copy.md"}
    assert found("lang is not null") == {"cats.md"}
    store.remove(["cats.md"])
    assert found() == {"copy.md", "dogs.md"} and store.reader().duplicates() == []
    assert store.check() == []
