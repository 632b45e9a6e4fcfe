"""One contract for all stores: on LanceDB, in a folder and on a bucket, and in memory."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.object_store import Proxy
from tests.support import HashEmbedder, new_store, reader_of, rows_of

from mergewise.designs import VIEWS
from mergewise.errors import UsageError
from mergewise.protocols import Ranking, Store
from mergewise.retrieve.hybrid import HybridReader
from mergewise.store.places import place_of
from mergewise.types import AddReport, Document, Heading, Page, Span

EMBEDDER = HashEmbedder()
CATS_TEXT = "## Food\n\nCats eat fish.\n\n## Sleep\n\nCats sleep all day long.\n"
CATS = Document("cats", CATS_TEXT, "Cats", {"year": 2020})
DOGS = Document(id="dogs.md", title="Dogs", text="Dogs bark. Dogs eat meat.", metadata={"year": 2021, "lang": "en"})
PAGED = Document(
    id="p'aged", text="One.\nTwo.", outline=(Heading(1, "One.", 0, 5),), pages=(Page(1, 0, 5), Page(2, 5, 9))
)


# on a bucket only these run, unless MERGEWISE_ATTACK=1
TELLING = (
    "test_nodes_survive_a_round_trip",
    "test_replacing_removes_all_old_rows",
    "test_rebuilt_rows_replace_only_what_they_were_built_from",
    "test_a_removed_view_leaves_nothing",
)


@pytest.fixture(params=["memory", "lance", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param != "bucket":
        return new_store(request.param, tmp_path / "index", embedder=EMBEDDER)
    if request.node.originalname not in TELLING and "MERGEWISE_ATTACK" not in os.environ:
        pytest.skip("long: MERGEWISE_ATTACK=1 runs it")
    proxy: Proxy = request.getfixturevalue("proxy")
    url = f"s3://indexes/stores/{request.node.originalname}"
    return new_store("bucket", place_of(url, proxy.storage, tmp_path, refresh="1h"), embedder=EMBEDDER)


def texts(store: Store, found: Ranking) -> list[str]:
    leaves = reader_of(store).leaves([leaf for leaf, _ in found])
    return [leaves[leaf].text.strip().splitlines()[-1] for leaf, _ in found]


def test_an_empty_store_answers(store: Store) -> None:
    reader = store.reader()
    assert reader.documents() == []
    assert reader.document("x") is None
    assert reader.row_counts() == {"documents": 0, "leaf": 0, "section": 0, "name": 0}
    assert reader.text_search("cats", 5).result() == []
    assert reader.vector_search(EMBEDDER.embed_queries(["cats"])[0], 5).result() == []
    assert store.remove(["x"]) == 0
    store.optimize()
    assert store.check() == []


def test_documents_survive_a_round_trip(store: Store) -> None:
    assert store.write(rows_of([CATS, DOGS, PAGED], EMBEDDER)) == AddReport(3, 0)
    reader = store.reader()
    for document in (CATS, DOGS, PAGED):
        assert reader.document(document.id) == document
    assert [info.id for info in reader.documents()] == ["cats", "dogs.md", "p'aged"]
    assert reader.documents()[1].metadata == {"year": 2021, "lang": "en"}
    assert [(known.id, known.digest) for known in reader.known_documents(["cats", "none"])] == [("cats", "1")]
    assert store.check() == []


def test_nodes_survive_a_round_trip(store: Store) -> None:
    (made,) = rows_of([CATS], EMBEDDER)
    store.write(rows_of([DOGS], EMBEDDER))
    store.write([made])
    (stored,) = store.reader().document_rows(["cats"])
    leaves, sections = stored["leaf"], stored["section"]
    by = leaves[0].id
    assert by > 0
    moved = [replace(leaf, id=leaf.id + by, ancestors=tuple(a + by for a in leaf.ancestors)) for leaf in made["leaf"]]
    assert list(leaves) == moved
    assert [(s.headings, s.first_leaf - by) for s in sections] == [(s.headings, s.first_leaf) for s in made["section"]]
    np.testing.assert_allclose(stored.column("leaf", "vector"), made.column("leaf", "vector"), atol=1e-3)
    ids = [leaf.id for leaf in leaves]
    for _ in range(2):
        reader = reader_of(store)
        assert list(reader.leaves([*reversed(ids), 10**9]).values()) == moved[::-1]
        assert list(reader.sections([*leaves[0].ancestors, -1])) == list(leaves[0].ancestors)
        np.testing.assert_allclose(list(reader.vectors(ids).values()), made.column("leaf", "vector"), atol=1e-3)
        sentences = reader.sentences(ids)
        assert [sentences[leaf.id].sentences for leaf in moved] == [leaf.sentences for leaf in moved]
        store.optimize()  # from now on, rows come from mapped files


def test_the_leaves_of_a_document_are_found_by_its_id(store: Store) -> None:
    store.write(rows_of([DOGS, CATS, PAGED], EMBEDDER))
    store.write(rows_of([replace(DOGS, text="Dogs bark.")], EMBEDDER, digest="2"))
    for _ in range(2):
        ids = [CATS.id, DOGS.id, PAGED.id]
        ranges = store.reader().leaf_ranges([*ids, "none"])
        assert list(ranges) == ids
        for stored in store.reader().document_rows(ids):
            assert [leaf.id for leaf in stored["leaf"]] == list(ranges[stored.document.id])
        store.optimize()
    store.remove([CATS.id])
    assert list(store.reader().leaf_ranges(ids)) == ids[1:] and store.reader().leaf_ranges([]) == {}


@pytest.mark.parametrize("kind", ["memory", "lance"])
def test_leaves_under_spans_overlap_a_span(kind: str, tmp_path: Path) -> None:
    store = new_store(kind, tmp_path / "index")
    towns = "".join(f"## Town {n}\n\nTown {n} has a tower. It is {n} metres high, and old.\n\n" for n in range(12))
    store.write(rows_of([CATS, Document("towns", towns), DOGS]))
    leaves = [leaf for stored in store.reader().document_rows(["towns", "cats"]) for leaf in stored["leaf"]]
    store.optimize()
    reader = reader_of(store)

    @settings(deadline=None)
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        spans = []
        for _ in range(data.draw(st.integers(0, 4))):
            doc_id, length = data.draw(st.sampled_from([("towns", len(towns)), ("cats", len(CATS.text)), ("none", 9)]))
            start = data.draw(st.integers(0, length - 1))
            spans.append(Span(doc_id, start, data.draw(st.integers(start + 1, length))))
        sharing = {leaf.id for leaf in leaves if any(leaf.span.overlaps(span) for span in spans)}
        found = reader.leaves_under(spans)
        assert len(found) == len(set(found)) and set(found) == sharing
        for doc_id in ("towns", "cats"):
            own = [leaf for leaf, row in reader.leaves(found).items() if row.doc_id == doc_id]
            assert own == sorted(own)

    holds()


def test_both_searches_find_best_first(store: Store) -> None:
    store.write(rows_of([CATS, DOGS], EMBEDDER))
    for _ in range(2):
        found = store.reader().text_search("what do cats eat", 9).result()
        assert texts(store, found)[0] == "Cats eat fish."
        assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
        near = store.reader().vector_search(EMBEDDER.embed_queries(["Cats sleep all day long."])[0], 2).result()
        assert texts(store, near)[0] == "Cats sleep all day long."
        assert near[0][1] <= 1.01
        store.optimize()
    assert store.reader().text_search("   ", 5).result() == []
    assert store.reader().text_search("?!* the (", 5).result() == []
    assert store.reader().text_search('"AND" OR cats* -dogs', 5).result()


def test_ties_for_the_last_places_go_to_the_first_documents(store: Store) -> None:
    for start in (0, 30, 60):  # several changes make several parts, which are searched in parallel
        said = ["Cats eat fish." if n % 9 == 7 else "Cats eat meat." for n in range(start, start + 30)]
        store.write(
            rows_of([Document(f"d{n:02}", f"{text} That is note {n}.") for n, text in enumerate(said, start)], EMBEDDER)
        )
    reader = store.reader()
    every = [row for row, _ in reader.text_search("cats eat", 1_000).result()]
    assert every == sorted(every) and len(every) == 90
    for k in (1, 9, 40, 89):
        assert [row for row, _ in reader.text_search("cats eat", k).result()] == every[:k]
        fish = [row for row, _ in reader.text_search("cats eat fish", k).result()]
        assert fish == [*fish[:10], *[row for row in every if row not in fish[:10]]][:k]


def test_titles_and_headings_are_searched(store: Store) -> None:
    store.write(rows_of([CATS, DOGS], EMBEDDER))
    assert texts(store, store.reader().text_search("food", 1).result()) == ["Cats eat fish."]


def test_words_are_searched_in_every_script(store: Store) -> None:
    texts_ = ["The cat saw a dog.", "Über die Straße.", "中文句子。東京タワー", "Jean O'Neil wrote well-known code."]
    store.write(rows_of([Document(id=str(i), text=text) for i, text in enumerate(texts_)], EMBEDDER))
    for word, at in (("cat", 0), ("dog", 0), ("über", 1), ("straße", 1), ("known", 3)):
        found = store.reader().text_search(word, 5).result()
        assert [leaf.doc_id for leaf in reader_of(store).leaves([i for i, _ in found]).values()] == [str(at)], word


def test_scripts_without_spaces_are_searched_on_disk(tmp_path: Path) -> None:
    store = new_store("lance", tmp_path)
    store.write(rows_of([Document(id="ja", text="中文句子。東京タワー"), DOGS]))
    assert len(store.reader().text_search("東京", 5).result()) == 1


def test_replacing_removes_all_old_rows(store: Store) -> None:
    store.write(rows_of([CATS, DOGS], EMBEDDER))
    changed = Document(id="cats", title="Cats", text="Cats climb trees.")
    assert store.write(rows_of([changed], EMBEDDER, digest="2")) == AddReport(0, 1)
    assert store.reader().document("cats") == changed
    assert store.reader().text_search("fish", 5).result() == []
    assert texts(store, store.reader().text_search("climb", 5).result()) == ["Cats climb trees."]
    assert store.reader().row_counts()["documents"] == 2
    assert store.check() == []


def test_documents_with_equal_digests_are_skipped_unless_forced(store: Store) -> None:
    rows = rows_of([CATS], EMBEDDER)
    assert store.write(rows) == AddReport(1, 0)
    assert store.write(rows) == AddReport(unchanged=1)
    assert store.write(rows, force=True) == AddReport(0, 1)
    assert store.check() == []


def test_rebuilt_rows_replace_only_what_they_were_built_from(store: Store) -> None:
    rows = rows_of([CATS, DOGS, PAGED], EMBEDDER)
    store.write(rows)
    store.remove([DOGS.id])
    store.write(rows_of([replace(PAGED, text="Another text.", pages=())], EMBEDDER, digest="2"))
    store.describe({CATS.id: {"year": 7}})
    store.rewrite(rows)
    assert store.reader().document(CATS.id) == replace(CATS, metadata={**CATS.metadata, "year": 7})
    assert {known.id: known.digest for known in store.reader().known_documents()} == {CATS.id: "1", PAGED.id: "2"}
    assert store.check() == []


def test_a_removed_view_leaves_nothing(store: Store) -> None:
    store.write(rows_of([CATS, DOGS], EMBEDDER))
    before, settings = store.reader().row_counts(), VIEWS["outline"].dump()
    for _ in range(2):
        store.begin_view("outline", settings)
        whole = rows_of([CATS, DOGS], EMBEDDER, outline=VIEWS["outline"].load(settings))
        store.write_view("outline", whole)
        assert store.finish_view("outline") and store.reader().row_counts()["outline"] > 0
        store.remove_view("outline")
        assert store.reader().row_counts() == before and store.settings.keys() == {"leaf"}
        # as does a process that was building it
        store.write_view("outline", whole)
        assert store.missing("outline") == [] and store.check() == []
        assert store.write(rows_of([CATS], EMBEDDER, digest="1")) == AddReport(unchanged=1)
    store.remove_view("outline")


def test_removing_deletes_all_rows(store: Store) -> None:
    store.write(rows_of([CATS, DOGS, PAGED], EMBEDDER))
    assert store.remove(["cats", "p'aged", "none"]) == 2
    assert store.reader().row_counts()["documents"] == 1
    assert store.reader().text_search("fish", 5).result() == []
    assert store.check() == []


def test_ids_are_never_used_again(store: Store) -> None:
    store.write(rows_of([CATS], EMBEDDER))
    last = max(leaf.id for leaf in store.reader().document_rows(["cats"])[0]["leaf"])
    store.remove(["cats"])
    store.write(rows_of([CATS], EMBEDDER))
    assert min(leaf.id for leaf in store.reader().document_rows(["cats"])[0]["leaf"]) > last


def test_conditions_select_documents(store: Store) -> None:
    documents = [
        Document(f"d{i}", f"Text number {i}.", f"Title {i}", {"year": 2000 + i, "draft": i == 3, "weight": i / 2})
        for i in range(6)
    ]
    store.write(rows_of([*documents, Document("bare", "Text number 9.")], EMBEDDER))
    for _ in range(2):
        for where, wanted in (
            ("year > 2003", {"d4", "d5"}),
            ("not draft = true and year < 2002", {"d0", "d1"}),
            ("weight >= 1 and weight <= 2 or id = 'd0'", {"d0", "d2", "d3", "d4"}),
            ("title like 'Title 5'", {"d5"}),
            ("year is null", {"bare"}),
            ("year > 3000", set()),
        ):
            reader = store.reader()
            for ranking in (
                reader.text_search("text number", 50, where).result(),
                reader.vector_search(EMBEDDER.embed_queries(["text number"])[0], 50, where).result(),
            ):
                leaves = reader_of(store).leaves([leaf for leaf, _ in ranking])
                assert {leaf.doc_id for leaf in leaves.values()} == wanted, where
        with pytest.raises(UsageError, match="invalid condition"):
            store.reader().text_search("text", 5, "bogus = 1").result()
        store.optimize()


def test_rows_of_removed_documents_are_not_found(store: Store) -> None:
    store.write(rows_of([CATS, DOGS], EMBEDDER))
    store.optimize()
    ids = [leaf.id for leaf in store.reader().document_rows(["cats"])[0]["leaf"]]
    store.remove(["cats"])
    assert reader_of(store).leaves(ids) == {} and reader_of(store).vectors(ids) == {}
    store.optimize()
    assert reader_of(store).leaves(ids) == {}
    assert store.check() == []


def test_documents_have_languages(store: Store) -> None:
    french = Document(
        id="fr", text="La rivière se jette dans le lac, qui est connu pour son eau claire et ses poissons."
    )
    store.write(rows_of([replace(CATS, metadata={"lang": "en-GB"}), french, PAGED], EMBEDDER))
    assert dict(store.reader().languages()) == {"en": 1, "fr": 1, "und": 1}
    assert [info.language for info in store.reader().documents()] == ["en", "fr", "und"]


FRENCH = Document(
    id="fr",
    text="Les rivières se jettent dans le lac, qui est connu pour son eau claire et ses poissons.\n\n"
    "Le château est dans la montagne, et il est fermé en hiver pour les visiteurs de la ville.",
)


def found_words(store: Store, words: str, where: str | None = None) -> list[str]:
    found = store.reader().text_search(words, 10, where, words=True).result()
    return [leaf.doc_id for leaf in reader_of(store).leaves([leaf for leaf, _ in found]).values()]


def test_words_of_other_languages_are_searched_next_to_the_text(store: Store) -> None:
    store.write(rows_of([CATS, DOGS], EMBEDDER))
    store.optimize()
    assert found_words(store, "riviere") == [] == found_words(store, "eat")
    before = store.reader()
    english = before.text_search("cats eat", 10).result()
    store.write(rows_of([FRENCH], EMBEDDER))
    assert found_words(store, "rivier #rivi") == ["fr"] == found_words(store, "visiteur")
    assert found_words(store, "rivier", "year = 2020") == [] == found_words(store, "eat")
    assert [row for row, _ in store.reader().text_search("cats eat", 10).result()] == [row for row, _ in english]
    store.optimize()
    assert found_words(store, "rivier #rivi") == ["fr"]
    assert store.check() == []
    store.write(rows_of([PAGED, replace(FRENCH, id="copy", title="Lac")], EMBEDDER))
    assert sorted(found_words(store, "rivier #rivi")) == ["copy", "fr"]
    store.remove(["fr"])
    store.optimize()
    assert found_words(store, "rivier #rivi") == ["copy"] and store.check() == []


def test_a_sample_spreads_over_the_leaves_of_a_language(store: Store) -> None:
    store.write(rows_of([CATS, FRENCH, DOGS], EMBEDDER))
    reader = store.reader()
    own = list(reader.leaf_ranges(["fr"])["fr"])
    english = sorted(leaf for ids in reader.leaf_ranges([CATS.id, DOGS.id]).values() for leaf in ids)
    assert reader.sample("fr", 1000).tolist() == own and reader.sample("en", 1000).tolist() == english
    assert reader.sample("fr", 1).tolist() == own[:1] and reader.sample("de", 5).tolist() == []


def test_inflected_questions_find_french_leaves(store: Store) -> None:
    store.write(rows_of([CATS, DOGS, FRENCH], EMBEDDER))
    reader = HybridReader(store.reader(), None, VIEWS)
    assert reader.search("Où est la rivière claire ?", 1)[0].row.doc_id == "fr"
    assert reader.search("Quels châteaux sont fermés ?", 1)[0].row.text.startswith("Le château")
    assert reader.search("What do dogs eat?", 1)[0].row.doc_id == "dogs.md"


def test_documents_get_metadata_and_keep_their_rows(store: Store) -> None:
    store.write(rows_of([CATS, DOGS, PAGED], EMBEDDER))
    before = store.reader().document_rows(["cats", "p'aged"])
    store.describe({doc_id: {"year": 2024, "team": "it's"} for doc_id in ("cats", "p'aged")})
    reader = store.reader()
    given = {"year": 2024, "team": "it's"}
    found = [info.metadata for info in sorted(reader.documents(), key=lambda info: info.id)]
    assert found == [given, {"year": 2021, "lang": "en"}, given]
    after = reader.document_rows(["cats", "p'aged"])
    assert [(row.digest, repr(row.tables)) for row in after] == [(row.digest, repr(row.tables)) for row in before]
    assert reader.metadata_kinds() == {"year": int, "lang": str, "team": str}
    assert reader.ids("team = 'it''s'") == ["cats", "p'aged"] and reader.ids() == ["cats", "dogs.md", "p'aged"]
    assert [row for row, _ in reader.text_search("eat", 5, "team = 'it''s'").result()] == [0]
    store.optimize()
    assert store.check() == []
