"""Postings against LanceDB's own text search: equal scores for random texts, after any changes, with and without files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from unicodedata import normalize

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lancedb.index import FTS
from tests.support import new_store, rows_of

from mergewise.designs import VIEWS
from mergewise.protocols import Ranking
from mergewise.store import lance_search, postings
from mergewise.store.lance import LanceStore
from mergewise.store.lance_indexes import Upkeep
from mergewise.store.lance_reader import LanceReader
from mergewise.store.manifest import write_manifest
from mergewise.store.mapped import FOLDER, Mapped
from mergewise.store.numbers import EVERYTHING
from mergewise.store.postings import Postings, TextFrequencies, TextIndex, join_postings, make_postings, term_hash
from mergewise.store.snapshot import call_in_loop, run
from mergewise.store.text_scores import text_index, text_terms
from mergewise.text.exact import index_terms
from mergewise.types import Document

WORDS = ["cat", "Cats", "dog", "running", "über", "Straße", "東京タワー", "中文句子", "кошки", "the", "O'Neil", "x1"]
QUESTIONS = ["cat", "cats cat dog", "running über straße", "東京 中文", "Кошка x1", "the", "absent dog", "the dogs run"]


def filled(directory: Path, changes: Sequence[Sequence[str]]) -> LanceStore:
    store = new_store("lance", directory)
    assert isinstance(store, LanceStore)
    number = 0
    for texts in changes:
        store.write(rows_of([Document(f"d{number + at}", text) for at, text in enumerate(texts)]))
        store.optimize()
        number += len(texts)
    return store


def lance_search_of(
    reader: LanceReader, question: str, k: int = 100, where: str | None = None, every: bool = False
) -> Ranking:
    """Search by LanceDB."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lance_search.LanceSearch, "text_index", lambda *_: None)
        return reader.text_search(question, k, where, every=every).result()


def assert_equal(found: Ranking, wanted: Ranking, tolerance: float = 1e-5) -> None:
    assert len(found) == len(wanted)
    # scores are rounded to six digits
    assert dict(found) == pytest.approx(dict(wanted), rel=tolerance, abs=2e-6)
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)


def add_text_index(store: LanceStore) -> None:
    """Compact the leaves, and build LanceDB's text index, as an older mergewise did next to postings."""
    with store._writing() as change:
        change.indexes.drop(["leaf"])
        change.indexes.build(["leaf"])
        change.mapped.write(["leaf"])
        if change.tables.open("leaf").count_rows():
            change.tables.open("leaf").create_index("key", config=FTS(**vars(text_index())))


def text_indexes(reader: LanceReader) -> list[str]:
    table = reader.state.table("leaf")
    assert table is not None
    return [index.name for index in run(call_in_loop(table.list_indices)) if index.columns == ["key"]]


texts = st.lists(st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join), min_size=1, max_size=8)


@settings(max_examples=12)
@given(changes=st.lists(texts, min_size=1, max_size=4), removed=st.sets(st.integers(0, 12)))
def test_scores_equal_those_of_lancedb(
    tmp_path_factory: pytest.TempPathFactory, changes: list[list[str]], removed: set[int]
) -> None:
    directory = tmp_path_factory.mktemp("postings") / "index"
    store = filled(directory, [["A cat sat by the well-known dog."], *changes])
    store.remove([f"d{number}" for number in removed])
    store.upkeep = Upkeep(mapped_ids=3)
    add_text_index(store)
    for reader in (store.reader(), LanceStore(directory, VIEWS).reader()):
        if reader.row_counts()["leaf"]:
            assert reader.search.text_index("leaf") is not None
        for question in QUESTIONS:
            assert_equal(reader.text_search(question, 100).result(), lance_search_of(reader, question))
            found = reader.text_search(question, 100, every=True).result()
            assert_equal(found, lance_search_of(reader, question, every=True))


def test_deleted_documents_are_neither_found_nor_counted(tmp_path: Path) -> None:
    said = [f"The cat has {n} {'fish' if n % 3 else 'dogs'} today." for n in range(30)]
    store = filled(tmp_path / "all", [said[:20], said[20:]])
    store.remove([f"d{n}" for n in range(0, 30, 2)])
    index = store.reader().search.text_index("leaf")
    assert index is not None and sum(len(file.ids) for file, _ in index._files) > index.rows == 15
    fresh = filled(tmp_path / "rest", [said[1::2]])
    for question in ("cat fish", "dogs 3"):
        some, others = (
            store.reader().text_search(question, 50).result(),
            fresh.reader().text_search(question, 50).result(),
        )
        assert [score for _, score in some] == [score for _, score in others]
        assert store.reader().text_frequencies(question) == fresh.reader().text_frequencies(question)


def test_unmapped_rows_are_found(tmp_path: Path) -> None:
    """As many rows as files hold are not the same rows: one was deleted, and another is not mapped yet."""
    store = filled(tmp_path, [["Cats eat fish.", "Dogs eat meat."]])
    store.write(rows_of([Document("new", "Birds eat fish.")]))
    store.remove(["d0"])
    before = store.reader()
    assert text_indexes(before) == [] and len(postings_files(store)) == 1
    assert len(before.text_search("birds", 9).result()) == 1
    assert before.text_search("cats", 9).result() == []
    store.optimize()
    for question in ("fish", "eat meat", "birds eat"):
        for every in (False, True):
            found = store.reader().text_search(question, 9, every=every).result()
            assert found == before.text_search(question, 9, every=every).result() != []


@pytest.mark.parametrize("optimize", [False, True])
def test_an_emptied_index_finds_nothing(tmp_path: Path, optimize: bool) -> None:
    store = filled(tmp_path, [["Cats eat fish.", "Dogs eat meat."]])
    store.write([], remove=["d0", "d1"], optimize=optimize)
    reader = store.reader()
    assert reader.row_counts()["leaf"] == 0 and reader.text_frequencies("cats") == (0, 0, {"cat": 0})
    assert [reader.text_search("cats", 9, every=every).result() for every in (False, True)] == [[], []]
    store.write(rows_of([Document("new", "Cats sleep.")]), optimize=optimize)
    assert len(store.reader().text_search("cats", 9).result()) == 1


def test_filters_admit_documents(tmp_path: Path) -> None:
    documents = [Document(f"d{n}", f"A cat has {n} fish.", metadata={"year": n}) for n in range(40)]
    store = new_store("lance", tmp_path)
    store.write(rows_of([*documents, Document("copy", documents[7].text)]))
    store.optimize()
    reader = store.reader()
    assert isinstance(store, LanceStore) and isinstance(reader, LanceReader)
    assert reader.search.text_index("leaf") is not None
    add_text_index(store)
    with_index = store.reader()
    for where, count in (("year < 5", 5), ("year >= 5", 35), ("id = 'copy'", 1), ("year > 50", 0), (None, 40)):
        found = reader.text_search("cat", 50, where).result()
        assert len(found) == count
        assert_equal(found, lance_search_of(with_index, "cat", 50, where))


def test_parts_score_like_one_index_with_its_statistics(tmp_path: Path) -> None:
    said = [f"{'cat ' * (n % 4)} {'fish ' * (n % 3)} number {n} of many." for n in range(60)]
    whole = filled(tmp_path / "whole", [said]).reader()
    parts = [filled(tmp_path / f"part{first}", [said[first::3]]).reader() for first in range(3)]
    for question in ("cat fish", "number many cat", "absent"):
        own = [part.text_frequencies(question) for part in parts]
        total = TextFrequencies.total([frequencies for frequencies in own if frequencies is not None])
        assert total == whole.text_frequencies(question) and len(own) == 3
        searches = [part.text_search(question, 100, frequencies=total).result() for part in parts]
        scores = sorted((score for found in searches for _, score in found), reverse=True)
        assert scores == [score for _, score in whole.text_search(question, 100).result()]


def postings_files(store: LanceStore) -> list[Path]:
    return [store.place.directory / FOLDER / file.file for file in Mapped.of(store.manifest.mapped["leaf"]).postings]


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("damage", ["missing", "cut", "other rows", "other columns"])
def test_a_damaged_file_is_replaced_in_memory_or_by_lancedb(tmp_path: Path, damage: str, older: bool) -> None:
    store = filled(tmp_path, [["Cats eat fish.", "Dogs eat meat.", "Fish eat cats and cats."]])
    if older:
        add_text_index(store)
    before, frequencies = store.reader().text_search("cats fish", 9).result(), store.reader().text_frequencies("cats")
    assert len(before) == 2
    (path,) = postings_files(store)
    table = pa.ipc.open_file(path.read_bytes()).read_all()
    if damage == "missing":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:-40])
    else:
        packed = pa.array([table["packed"][0].values.to_numpy() + (7 << 12)], table["packed"].type)
        changed = table.set_column(2, "packed", packed) if damage == "other rows" else table.drop_columns(["starts"])
        with pa.OSFile(str(path), "wb") as out, pa.ipc.new_file(out, changed.schema) as writer:
            writer.write_table(changed)
    reader = LanceStore(tmp_path, VIEWS).reader()
    assert (reader.search.text_index("leaf") is None) == older and reader.text_frequencies("cats") == frequencies
    assert_equal(reader.text_search("cats fish", 9).result(), before)
    assert len(reader.text_search("cats fish", 9, every=True).result()) == 2


def test_an_index_of_an_older_mergewise_gets_postings_at_the_next_change(tmp_path: Path) -> None:
    store = filled(tmp_path, [["Cats eat fish.", "Dogs eat meat."]])
    add_text_index(store)
    fields = ("postings", "posted")
    mapped = {name: {k: v for k, v in raw.items() if k not in fields} for name, raw in store.manifest.mapped.items()}
    write_manifest(tmp_path, replace(store.manifest, mapped=mapped))
    store = LanceStore(tmp_path, VIEWS)
    assert not postings_files(store) and store.reader().search.text_index("leaf") is None
    store.optimize()
    index = store.reader().search.text_index("leaf")
    assert index is not None and index.rows == 2


def test_the_text_index_of_an_older_mergewise_is_dropped_when_indexes_are_updated(tmp_path: Path) -> None:
    store = filled(tmp_path, [["Cats eat fish.", "Dogs eat meat."]])
    add_text_index(store)
    mapped = {name: {k: v for k, v in raw.items() if k != "posted"} for name, raw in store.manifest.mapped.items()}
    write_manifest(tmp_path, replace(store.manifest, mapped=mapped))
    store = LanceStore(tmp_path, VIEWS)
    assert text_indexes(store.reader()) and store.reader().search.text_index("leaf") is not None
    for first in range(0, 1200, 60):
        store.write(rows_of([Document(f"new{first + n}", f"Bird {first + n} eats.") for n in range(60)]))
    assert len(store.reader().text_search("bird", 2000).result()) == 1200
    store.optimize()
    assert text_indexes(store.reader()) == []
    assert len(store.reader().text_search("cats birds", 2000).result()) == 1201


def test_a_large_table_has_a_text_index_instead_of_postings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = filled(tmp_path, [["Cats eat fish.", "Dogs eat meat."]])
    assert postings_files(store)
    store.upkeep = Upkeep(most_posted=2)
    store.write(rows_of([Document("more", "Fish swim.")]))
    assert text_indexes(store.reader())
    store.optimize()
    assert not postings_files(store) and store.reader().search.text_index("leaf") is None
    assert len(store.reader().text_search("fish", 9).result()) == 2
    assert len(store.reader().text_search("fish swim", 9, every=True).result()) == 1
    # deletions make it small again
    store.remove(["more"])
    store.optimize()
    assert postings_files(store) and len(store.reader().text_search("fish", 9).result()) == 1


def table_of(texts: Sequence[str], first: int = 0, terms: Callable[[str], list[str]] = str.split) -> pa.Table:
    ids = np.arange(first, first + len(texts))
    return make_postings(pa.table({"id": ids, "doc": ids // 2, "text": list(texts)}), "text", terms)


def counts_of(table: pa.Table) -> list[tuple[int, int, int]]:
    """Return the hash of a term, a row and a count for each posting."""
    file = Postings(table)
    hashes = np.repeat(file.terms, np.diff(file.starts))
    rows, counts = file.packed >> postings._COUNT_BITS, file.packed & postings._LARGEST
    return sorted(zip(hashes.tolist(), rows.tolist(), counts.tolist(), strict=True))


SIGNS = "aBé'\u2019._-:,@#1٣½²ªßΣςİIıﬁ\u0301\u200b\u200d\ufe0f\u202f\xa0\xad\x1f\x0b\n\t\r 東京ータ中กำ\u0e48ខ្ញុំहिन्दीא״🙂👍🏽"


@settings(max_examples=300)
@given(st.lists(st.text(SIGNS, max_size=12) | st.text(max_size=12), min_size=1, max_size=6))
def test_postings_count_the_terms_of_whole_texts(texts: list[str]) -> None:
    """Words are tokenized once, and apart from the text. Each word has the same terms as in its text."""
    wanted = [
        (term_hash(term), row, count)
        for row, text in enumerate(texts)
        for term, count in Counter(
            [*text_terms(normalize("NFKC", text)), *index_terms(normalize("NFKC", text))]
        ).items()
    ]
    table = table_of(texts, terms=text_terms)
    assert counts_of(table) == sorted(wanted)
    assert Postings(table).lengths.tolist() == [len(text_terms(normalize("NFKC", text))) for text in texts]


@settings(max_examples=50)
@given(st.lists(st.lists(st.sampled_from("abcde "), max_size=9).map(" ".join), min_size=1, max_size=9), st.data())
def test_joined_files_equal_one(texts: list[str], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(texts)))
    gone = data.draw(st.sets(st.integers(0, 4)))

    def exists(documents: np.ndarray) -> np.ndarray:
        return ~np.isin(documents, list(gone))

    parts = [table_of(texts[:cut]), table_of(texts[cut:], cut)] if 0 < cut < len(texts) else [table_of(texts)]
    joined = join_postings(list(map(Postings, parts)), exists)
    left = [at for at in range(len(texts)) if at // 2 not in gone]
    assert (joined is None) == (not left)
    if joined is not None:
        index = TextIndex([Postings(joined)], len(left), exists)
        own = {term: sum(term in texts[at].split() for at in left) for term in "abcde"}
        tokens = sum(len(texts[at].split()) for at in left)
        assert index.frequencies("abcde") == (sum(bool(texts[at].split()) for at in left), tokens, own)
        ids, scores = index.scores({"a": 1}, index.frequencies("a"), EVERYTHING)
        assert ids.tolist() == [at for at in left if "a" in texts[at].split()] and (scores > 0).all()


def test_high_counts_are_cut() -> None:
    rows, counts = Postings(table_of(["a " * 5000, "a"])).rows_and_counts("a")
    assert rows.tolist() == [0, 1] and counts.tolist() == [postings._LARGEST, 1]
