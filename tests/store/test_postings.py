"""Postings against LanceDB's own text search: equal scores for random texts, after any changes, and a fallback without files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import new_store, rows_of

from mergewise.designs import VIEWS
from mergewise.protocols import Ranking
from mergewise.store import lance_change, lance_search, postings
from mergewise.store.lance import LanceStore
from mergewise.store.lance_reader import LanceReader
from mergewise.store.manifest import write_manifest
from mergewise.store.mapped import FOLDER, Mapped
from mergewise.store.numbers import EVERYTHING
from mergewise.store.postings import Postings, TextFrequencies, TextIndex, join_postings, make_postings
from mergewise.types import Document

WORDS = [
    "cat",
    "Cats",
    "dog",
    "running",
    "über",
    "Straße",
    "東京タワー",
    "中文句子",
    "кошки",
    "the",
    "O'Neil",
    "x1",
    "qzvxkjwq",
]
QUESTIONS = ["cat", "cats cat dog", "running über straße", "東京 中文", "Кошка x1", "the", "qzvxkjwq", "absent dog"]


def filled(directory: Path, changes: Sequence[Sequence[str]]) -> LanceStore:
    store = new_store("lance", directory)
    assert isinstance(store, LanceStore)
    number = 0
    for texts in changes:
        store.write(rows_of([Document(f"d{number + at}", text) for at, text in enumerate(texts)]))
        store.optimize()
        number += len(texts)
    return store


def lance_search_of(reader: LanceReader, question: str, k: int = 100, where: str | None = None) -> Ranking:
    """Search by LanceDB."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lance_search.LanceSearch, "_text_index", lambda *_: None)
        return reader.text_search(question, k, where).result()


def assert_equal(found: Ranking, wanted: Ranking, tolerance: float = 1e-5) -> None:
    assert len(found) == len(wanted)
    assert dict(found) == pytest.approx(dict(wanted), rel=tolerance)
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)


def compact(store: LanceStore) -> None:
    """Compact the leaves and rebuild their text index, after which LanceDB's statistics have no deleted rows."""
    with store._writing() as change:
        change.drop_search_indexes(["leaf"])
        change.build_indexes(["leaf"])
        change.map_rows(["leaf"])


texts = st.lists(st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join), min_size=1, max_size=8)


@settings(max_examples=12)
@given(changes=st.lists(texts, min_size=1, max_size=4), removed=st.sets(st.integers(0, 12)))
def test_scores_equal_those_of_lancedb(
    tmp_path_factory: pytest.TempPathFactory, changes: list[list[str]], removed: set[int]
) -> None:
    directory = tmp_path_factory.mktemp("postings") / "index"
    store = filled(directory, [["A cat sat by the well-known dog."], *changes])
    store.remove([f"d{number}" for number in removed])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lance_change, "MAPPED_IDS", 3)
        compact(store)
    for reader in (store.reader(), LanceStore(directory, VIEWS).reader()):
        if reader.row_counts()["leaf"]:
            assert reader._text_index("leaf") is not None
        for question in QUESTIONS:
            assert_equal(reader.text_search(question, 100).result(), lance_search_of(reader, question))


def test_deleted_documents_are_neither_found_nor_counted(tmp_path: Path) -> None:
    said = [f"The cat has {n} {'fish' if n % 3 else 'dogs'} today." for n in range(30)]
    store = filled(tmp_path / "all", [said[:20], said[20:]])
    store.remove([f"d{n}" for n in range(0, 30, 2)])
    index = store.reader()._text_index("leaf")
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
    assert store.reader()._text_index("leaf") is None
    assert len(store.reader().text_search("birds", 9).result()) == 1
    assert store.reader().text_search("cats", 9).result() == []
    store.optimize()
    assert store.reader()._text_index("leaf") is not None


def test_filters_admit_documents(tmp_path: Path) -> None:
    documents = [Document(f"d{n}", f"A cat has {n} fish.", metadata={"year": n}) for n in range(40)]
    store = new_store("lance", tmp_path)
    store.write(rows_of([*documents, Document("copy", documents[7].text)]))
    store.optimize()
    reader = store.reader()
    assert isinstance(reader, LanceReader) and reader._text_index("leaf") is not None
    for where, count in (("year < 5", 5), ("year >= 5", 35), ("id = 'copy'", 1), ("year > 50", 0), (None, 40)):
        found = reader.text_search("cat", 50, where).result()
        assert len(found) == count
        assert_equal(found, lance_search_of(reader, "cat", 50, where))


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


@pytest.mark.parametrize("damage", ["missing", "cut", "other rows", "other columns"])
def test_without_a_file_lancedb_searches(tmp_path: Path, damage: str) -> None:
    store = filled(tmp_path, [["Cats eat fish.", "Dogs eat meat.", "Fish eat cats and cats."]])
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
    assert reader._text_index("leaf") is None and reader.text_frequencies("cats") == frequencies
    assert_equal(reader.text_search("cats fish", 9).result(), before)


def test_an_index_of_an_older_mergewise_gets_postings_at_the_next_change(tmp_path: Path) -> None:
    store = filled(tmp_path, [["Cats eat fish.", "Dogs eat meat."]])
    mapped = {name: {k: v for k, v in raw.items() if k != "postings"} for name, raw in store.manifest.mapped.items()}
    write_manifest(tmp_path, replace(store.manifest, mapped=mapped))
    store = LanceStore(tmp_path, VIEWS)
    assert not postings_files(store) and store.reader()._text_index("leaf") is None
    store.optimize()
    index = store.reader()._text_index("leaf")
    assert index is not None and index.rows == 2


def test_a_large_table_has_no_postings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = filled(tmp_path, [["Cats eat fish.", "Dogs eat meat."]])
    assert postings_files(store)
    monkeypatch.setattr(lance_change, "MAX_ROWS", 2)
    store.write(rows_of([Document("more", "Fish swim.")]))
    store.optimize()
    assert not postings_files(store) and len(store.reader().text_search("fish", 9).result()) == 2


class Token(str):
    @property
    def text(self) -> str:
        return str(self)


def split(text: str) -> list[Token]:
    return [Token(word) for word in text.split()]


def table_of(texts: Sequence[str], first: int = 0) -> pa.Table:
    ids = np.arange(first, first + len(texts))
    return make_postings(pa.table({"id": ids, "doc": ids // 2, "text": list(texts)}), "text", split)


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
