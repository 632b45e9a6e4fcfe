"""One contract for every store: the one on LanceDB and its twin in memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.support import HashEmbedder, rows_of

from mergewise.index.slices import SliceSettings, build_slices, embed_slices
from mergewise.models.tokens import count_tokens
from mergewise.protocols import Store
from mergewise.store.lance import LanceStore
from mergewise.store.manifest import Manifest
from mergewise.store.memory import MemoryStore
from mergewise.types import AddReport, Document, DocumentRows, Heading, Page

EMBEDDER = HashEmbedder()
CATS = Document(
    id="cats",
    title="Cats",
    text="## Food\n\nCats eat fish.\n\n## Sleep\n\nCats sleep all day long.\n",
    metadata={"year": 2020},
)
DOGS = Document(id="dogs.md", title="Dogs", text="Dogs bark. Dogs eat meat.", metadata={"year": 2021, "lang": "en"})
PAGED = Document(
    id="p'aged", text="One.\nTwo.", outline=(Heading(1, "One.", 0, 5),), pages=(Page(1, 0, 5), Page(2, 5, 9))
)


@pytest.fixture(params=["memory", "lance"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "memory":
        return MemoryStore(EMBEDDER.dimension)
    manifest = Manifest(embedder="hash", dimension=EMBEDDER.dimension, views=("leaf",), sizes={})
    return LanceStore.create(tmp_path / "index", manifest)


def texts(store: Store, found: list[tuple[int, float]]) -> list[str]:
    leaves = store.reader().leaves([leaf for leaf, _ in found])
    return [leaves[leaf].text.strip().splitlines()[-1] for leaf, _ in found]


def test_an_empty_store_answers(store: Store) -> None:
    reader = store.reader()
    assert reader.documents() == []
    assert reader.document("x") is None
    assert reader.row_counts() == {"documents": 0, "leaf": 0, "section": 0, "name": 0}
    assert reader.text_search("cats", 5) == []
    assert reader.vector_search(EMBEDDER.embed_queries(["cats"])[0], 5) == []
    assert store.remove(["x"]) == 0
    store.optimize()
    assert store.check() == []


def test_documents_come_back_whole(store: Store) -> None:
    assert store.write(rows_of([CATS, DOGS, PAGED], EMBEDDER)) == AddReport(3, 0)
    reader = store.reader()
    for document in (CATS, DOGS, PAGED):
        assert reader.document(document.id) == document
    assert [info.id for info in reader.documents()] == ["cats", "dogs.md", "p'aged"]
    assert reader.documents()[1].metadata == {"year": 2021, "lang": "en"}
    assert reader.digests(["cats", "none"]) == {"cats": "1"}
    assert store.check() == []


def test_nodes_come_back_as_they_were_made(store: Store) -> None:
    (made,) = rows_of([CATS], EMBEDDER)
    store.write(rows_of([DOGS], EMBEDDER))
    store.write([made])
    (stored,) = store.reader().stored(["cats"])
    by = stored.leaves[0].id
    assert [replace(x, id=x.id - by, ancestors=tuple(a - by for a in x.ancestors)) for x in stored.leaves] == list(
        made.leaves
    )
    assert [s.headings for s in stored.sections] == [s.headings for s in made.sections]
    assert [s.first_leaf - by for s in stored.sections] == [s.first_leaf for s in made.sections]
    assert stored.vectors is not None and made.vectors is not None
    np.testing.assert_allclose(stored.vectors, made.vectors, atol=1e-3)
    ids = [leaf.id for leaf in stored.leaves]
    assert list(store.reader().leaves([*ids, 10**9])) == ids
    assert set(store.reader().sections([*stored.leaves[0].ancestors, -1])) == set(stored.leaves[0].ancestors)


def test_both_searches_find_best_first(store: Store) -> None:
    store.write(rows_of([CATS, DOGS], EMBEDDER))
    for _ in range(2):
        found = store.reader().text_search("what do cats eat", 9)
        assert texts(store, found)[0] == "Cats eat fish."
        assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
        near = store.reader().vector_search(EMBEDDER.embed_queries(["Cats sleep all day long."])[0], 2)
        assert texts(store, near)[0] == "Cats sleep all day long."
        assert near[0][1] <= 1.01
        store.optimize()
    assert store.reader().text_search("   ", 5) == []
    assert store.reader().text_search("?!* the (", 5) == []
    assert store.reader().text_search('"AND" OR cats* -dogs', 5)


def test_titles_and_headings_are_searched(store: Store) -> None:
    store.write(rows_of([CATS, DOGS], EMBEDDER))
    assert texts(store, store.reader().text_search("food", 1)) == ["Cats eat fish."]


def test_words_are_searched_in_every_script(store: Store) -> None:
    texts_ = ["The cat saw a dog.", "Über die Straße.", "中文句子。東京タワー", "Jean O'Neil wrote well-known code."]
    store.write(rows_of([Document(id=str(i), text=text) for i, text in enumerate(texts_)], EMBEDDER))
    for word, at in (("cat", 0), ("dog", 0), ("über", 1), ("straße", 1), ("known", 3)):
        found = store.reader().text_search(word, 5)
        assert [leaf.doc_id for leaf in store.reader().leaves([i for i, _ in found]).values()] == [str(at)], word


def test_scripts_without_spaces_are_searched_on_disk(tmp_path: Path) -> None:
    store = LanceStore.create(tmp_path, Manifest(embedder="none", dimension=0, views=("leaf",), sizes={}))
    store.write(rows_of([Document(id="ja", text="中文句子。東京タワー"), DOGS]))
    assert len(store.reader().text_search("東京", 5)) == 1


def test_replacing_leaves_nothing_of_the_old(store: Store) -> None:
    store.write(rows_of([CATS, DOGS], EMBEDDER))
    changed = Document(id="cats", title="Cats", text="Cats climb trees.")
    assert store.write(rows_of([changed], EMBEDDER, digest="2")) == AddReport(0, 1)
    assert store.reader().document("cats") == changed
    assert store.reader().text_search("fish", 5) == []
    assert texts(store, store.reader().text_search("climb", 5)) == ["Cats climb trees."]
    assert store.reader().row_counts()["documents"] == 2
    assert store.check() == []


def test_equal_digests_are_left_alone_unless_forced(store: Store) -> None:
    rows = rows_of([CATS], EMBEDDER)
    assert store.write(rows) == AddReport(1, 0)
    assert store.write(rows) == AddReport(unchanged=1)
    assert store.write(rows, force=True) == AddReport(0, 1)
    assert store.check() == []


def test_removing_takes_all_rows(store: Store) -> None:
    store.write(rows_of([CATS, DOGS, PAGED], EMBEDDER))
    assert store.remove(["cats", "p'aged", "none"]) == 2
    assert store.reader().row_counts()["documents"] == 1
    assert store.reader().text_search("fish", 5) == []
    assert store.check() == []


def test_ids_are_never_used_again(store: Store) -> None:
    store.write(rows_of([CATS], EMBEDDER))
    last = max(leaf.id for leaf in store.reader().stored(["cats"])[0].leaves)
    store.remove(["cats"])
    store.write(rows_of([CATS], EMBEDDER))
    assert min(leaf.id for leaf in store.reader().stored(["cats"])[0].leaves) > last


# -- the slice view

SLICES = SliceSettings(chunk=160, overlap=40, slice=80, slice_overlap=40, vectors=("slice", "chunk", "summary"))
TALE = Document("tale", "The cat of Rome ate a fish. A dog of Brook barked at noon. " * 12, "Tale")


def sliced(documents: list[Document], digest: str = "1") -> list[DocumentRows]:
    rows = rows_of(documents, EMBEDDER, digest=digest)
    built = embed_slices(EMBEDDER, build_slices(rows, count_tokens, SLICES), SLICES)
    return [replace(row, slices=own) for row, own in zip(rows, built, strict=True)]


@pytest.fixture(params=["memory", "lance"])
def slicing(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "memory":
        return MemoryStore(EMBEDDER.dimension)
    manifest = Manifest(
        embedder="hash", dimension=EMBEDDER.dimension, views=("leaf", "slice"), sizes={}, slices=SLICES.as_dict()
    )
    return LanceStore.create(tmp_path / "index", manifest)


def test_slices_come_back_whole_and_are_found(slicing: Store) -> None:
    rows = sliced([CATS, TALE, DOGS])
    slicing.write(rows)
    reader = slicing.reader()
    assert slicing.check() == []
    for given, stored in zip(rows, reader.stored([row.document.id for row in rows]), strict=True):
        assert given.slices is not None and stored.slices is not None
        assert [x.text for x in stored.slices.slices] == [x.text for x in given.slices.slices]
        assert [x.parts for x in stored.slices.slices] == [x.parts for x in given.slices.slices]
        assert [x.summary for x in stored.slices.chunks] == [x.summary for x in given.slices.chunks]
        assert stored.slices.chunks[0].first_leaf == stored.leaves[0].id
        assert stored.slices.vectors is not None and given.slices.vectors is not None
        assert np.allclose(stored.slices.vectors, given.slices.vectors, atol=0.01)
    counts = reader.row_counts()
    own = [row.slices for row in rows if row.slices is not None]
    assert counts["slice"] == sum(len(x.slices) for x in own) and counts["chunk"] == sum(len(x.chunks) for x in own)
    for view in ("slice", "chunk", "summary"):
        for found in (
            reader.text_search("barked at noon", 3, view=view),
            reader.vector_search(EMBEDDER.embed_queries(["dog barked at noon"])[0], 3, view=view),
        ):
            assert found == sorted(found, key=lambda pair: (-pair[1], pair[0]))
            chunk = reader.slices([found[0][0]])[found[0][0]].chunk if view == "slice" else found[0][0]
            assert reader.chunks([chunk])[chunk].doc_id == "tale"
            place, whole = reader.chunk_bounds([chunk, -1])[chunk], reader.chunks([chunk])[chunk]
            assert (place.start, place.end, place.first_leaf) == (whole.start, whole.end, whole.first_leaf)
    assert reader.chunk_bounds([10**9]) == {} and reader.chunks([10**9]) == {} and reader.slices([10**9]) == {}


def test_replacing_and_removing_take_the_slices_along(slicing: Store) -> None:
    slicing.write(sliced([CATS, TALE]))
    slicing.write(sliced([Document("tale", "A short tale.", "Tale")], digest="2"))
    assert slicing.check() == []
    assert not slicing.reader().text_search("barked", 5, view="slice")
    assert len(slicing.reader().text_search("short", 5, view="slice")) == 1
    slicing.remove(["tale", "cats"])
    assert slicing.check() == []
    assert set(slicing.reader().row_counts().values()) == {0}


def test_a_broken_slice_view_is_found(slicing: Store) -> None:
    (rows,) = sliced([TALE])
    assert rows.slices is not None
    own = rows.slices
    broken = [
        replace(own, chunks=own.chunks[1:]),
        replace(own, chunks=(replace(own.chunks[0], text="x"), *own.chunks[1:])),
        replace(own, slices=(replace(own.slices[0], text="x"), *own.slices[1:])),
        replace(own, slices=(replace(own.slices[0], parts=((0, 10**6),)), *own.slices[1:])),
        replace(own, chunks=(replace(own.chunks[0], first_leaf=10**6), *own.chunks[1:])),
    ]
    for damage in broken:
        if len(damage.chunks) == len(own.chunks):
            slicing.write([replace(rows, slices=damage)], force=True)
            assert {problem.doc_id for problem in slicing.check()} == {"tale"}
    slicing.write([rows], force=True)
    assert slicing.check() == []
