"""Properties of the store on disk only: versions, interrupted changes, conditions, damage."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import HashEmbedder, create_store, lance_connection, manifest_record, new_store, reader_of, rows_of

from mergewise.designs import VIEWS
from mergewise.errors import CorruptIndex, NewerFormat, NotAnIndex, OlderFormat
from mergewise.index.tree.tables import LEAF
from mergewise.store.lance import LanceStore
from mergewise.store.lance_indexes import Upkeep
from mergewise.store.manifest import Manifest, read_manifest, write_manifest
from mergewise.store.numbers import DocumentFilter, DocumentNumbers
from mergewise.store.places.folder import Folder
from mergewise.store.places.place import Tag, WritingRight
from mergewise.types import AddReport, Document

EMBEDDER = HashEmbedder()


def document(number: int, text: str = "", **metadata: str | int | float | bool) -> Document:
    text = text or f"This is text number {number}. It has two sentences."
    return Document(f"d{number}", text, f"Title {number}", metadata)


@pytest.fixture
def store(tmp_path: Path) -> LanceStore:
    made = new_store("lance", tmp_path / "index", embedder=EMBEDDER)
    assert isinstance(made, LanceStore)
    return made


def test_a_reader_sees_one_state_while_a_writer_goes_on(store: LanceStore) -> None:
    store.write(rows_of([document(1)], EMBEDDER))
    before = store.reader()
    store.write(rows_of([document(2)], EMBEDDER))
    store.remove(["d1"])
    store.optimize()
    assert [info.id for info in before.documents()] == ["d1"]
    assert len(before.text_search("text", 5).result()) == 1
    assert [info.id for info in store.reader().documents()] == ["d2"]


def test_a_second_handle_sees_what_the_first_wrote(store: LanceStore) -> None:
    other = LanceStore(store.directory, VIEWS)
    assert other.reader().documents() == []
    store.write(rows_of([document(1)], EMBEDDER))
    assert [info.id for info in other.reader().documents()] == ["d1"]
    other.write(rows_of([document(2)], EMBEDDER))
    assert len(store.reader().documents()) == 2


def test_a_state_takes_over_open_tables_of_the_state_before(store: LanceStore) -> None:
    store.write(rows_of([document(1)], EMBEDDER))
    store.optimize()
    before = store.reader()
    assert before.row_counts() and reader_of(store).search("text", 1)
    store.describe({"d1": {"year": 2024}})
    after = store.reader()
    taken_over = {name for name, table in before.state.opened.items() if after.state.opened.get(name) is table}
    assert after is not before and taken_over == before.state.opened.keys() - {"documents"}
    assert after.state._mapped["leaf"]._opened == before.state._mapped["leaf"]._opened != {}
    assert after.ids("year = 2024") == ["d1"] and before.metadata_kinds() == {}


def test_a_recreated_table_is_opened_again_at_any_version(store: LanceStore) -> None:
    """Versions count from the beginning again, so a version may have the number of an open one."""
    store.write(rows_of([document(1, "Zebras graze.")], EMBEDDER))
    standing = store.manifest
    assert len(store.reader().text_search("zebras", 5).result()) == 1
    other = create_store(store.directory.with_name("other"), replace(standing, tables={}), VIEWS)
    other.write(rows_of([document(2, "Lions sleep."), document(3)], EMBEDDER))
    assert other.manifest.tables == standing.tables
    for table in standing.tables:
        shutil.rmtree(store.directory / f"{table}.lance")
        (other.directory / f"{table}.lance").rename(store.directory / f"{table}.lance")
    write_manifest(store.directory, other.manifest)
    reader = store.reader()
    assert reader.text_search("zebras", 5).result() == [] != reader.text_search("lions", 5).result()
    assert [info.id for info in reader.documents()] == ["d2", "d3"]


def set_version(store: LanceStore, table: str, version: int) -> None:
    """Set the version of a table in the manifest."""
    path = store.directory / "manifest.json"
    manifest = manifest_record(path)
    manifest["tables"][table] = version
    path.write_text(json.dumps(manifest))


def interrupt(store: LanceStore) -> None:
    """Leave the remains of a killed writer: new versions of tables that the manifest does not name."""
    tables = lance_connection(store.directory)
    leaf = tables.open_table("leaf")
    leaf.add(leaf.to_arrow())
    tables.open_table("documents").delete("id = 'd1'")


def test_an_interrupted_change_is_never_seen_and_the_next_writer_drops_it(store: LanceStore) -> None:
    store.write(rows_of([document(1), document(2)], EMBEDDER))
    counts = store.reader().row_counts()
    interrupt(store)
    fresh = LanceStore(store.directory, VIEWS)
    assert fresh.reader().row_counts() == counts
    assert fresh.check() == []
    assert fresh.write(rows_of([document(1), document(3)], EMBEDDER)) == AddReport(1, 0, 1)
    assert [info.id for info in fresh.reader().documents()] == ["d1", "d2", "d3"]
    assert fresh.check() == []


def test_an_interrupted_first_change_is_undone(store: LanceStore) -> None:
    lance_connection(store.directory).create_table("leaf", data=[{"id": 1}])
    assert store.reader().documents() == []
    assert store.write(rows_of([document(1)], EMBEDDER)) == AddReport(1, 0)
    assert store.check() == []


def test_a_change_updates_only_the_search_indexes_that_need_it(
    store: LanceStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This includes the first change, whose tables are in no manifest yet."""
    store.upkeep = Upkeep(many_rows=0)
    swaps: list[Manifest] = []
    swap = Folder.swap

    def counted(self: Folder, state: Manifest, tag: Tag, writer: WritingRight) -> Tag:
        swaps.append(state)
        return swap(self, state, tag, writer)

    monkeypatch.setattr(Folder, "swap", counted)
    for number in (1, 2):
        store.write(rows_of([document(number)], EMBEDDER), optimize=True)
        store.optimize()
        assert len(swaps) == number
        leaves = lance_connection(store.directory).open_table("leaf")
        assert {tuple(index.columns) for index in leaves.list_indices()} == {("id",), ("doc",)}
        for index in leaves.list_indices():
            statistics = leaves.index_stats(index.name)
            assert statistics is not None and statistics.num_unindexed_rows == 0
        assert store.manifest.mapped["leaf"]["end"] == store.manifest.next_id
    assert store.check() == [] and len(store.reader().text_search("text", 9).result()) == 2


@pytest.mark.parametrize("commits", [True, False])
def test_open_tables_are_opened_again_after_a_write_by_another_writer(store: LanceStore, commits: bool) -> None:
    other = LanceStore(store.directory, VIEWS)
    store.write(rows_of([document(1)], EMBEDDER))
    with store._writing() as change:
        # without such a write, it stays open
        assert set(change.tables._opened) == {"documents", "leaf", "section", "name"}
    store.write(rows_of([document(2)], EMBEDDER))
    with suppress(KeyboardInterrupt), other._writing() as change:
        change.rows.append(rows_of([document(3)], EMBEDDER))
        if not commits:
            raise KeyboardInterrupt
    store.write(rows_of([document(4)], EMBEDDER))
    assert sorted(store.reader().ids()) == (["d1", "d2", "d3", "d4"] if commits else ["d1", "d2", "d4"])
    assert store.check() == []


def test_runs_of_numbers_are_ranges() -> None:
    numbers = np.array([1, 2, 3, 7, 9, 10])
    for own, condition in (
        (numbers, "doc between 1 and 3 or doc between 9 and 10 or doc in (7)"),
        (numbers[:0], "false"),
    ):
        assert DocumentFilter(DocumentNumbers(own), excludes=False, share=0.5).condition == condition


def test_check_finds_damage_and_repair_drops_orphans(store: LanceStore) -> None:
    store.write(rows_of([document(1), document(2)], EMBEDDER))
    table = lance_connection(store.directory).open_table("documents")
    table.delete("id = 'd2'")
    set_version(store, "documents", table.version)
    problems = store.check()
    assert any("have no document" in problem.what for problem in problems)
    store.repair()
    assert store.check() == []
    assert [info.id for info in store.reader().documents()] == ["d1"]


def test_check_finds_a_missing_parent(store: LanceStore) -> None:
    store.write(rows_of([document(1)], EMBEDDER))
    table = lance_connection(store.directory).open_table("section")
    table.delete("true")
    set_version(store, "section", table.version)
    assert [problem.doc_id for problem in store.check()] == ["d1"]


def test_a_missing_version_is_a_corrupt_index(store: LanceStore) -> None:
    store.write(rows_of([document(1)], EMBEDDER))
    set_version(store, "leaf", 999)
    with pytest.raises(CorruptIndex, match="version 999 of table 'leaf'"):
        store.reader().text_search("text", 5).result()


def test_other_folders_and_broken_manifests_are_refused(tmp_path: Path) -> None:
    assert read_manifest(tmp_path / "absent") is None
    assert read_manifest(tmp_path) is None
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(NotAnIndex, match="not a mergewise index"):
        read_manifest(tmp_path)
    with pytest.raises(NotAnIndex):
        read_manifest(tmp_path / "notes.txt")
    for content, error, said in (
        ("{}", NotAnIndex, "not a mergewise manifest"),
        ('{"format": 99}', NewerFormat, "format 99"),
        ('{"format": 3}', OlderFormat, "format 3"),
        ('{"format": 4, "views": []}', CorruptIndex, "missing or malformed fields"),
    ):
        (tmp_path / "manifest.json").write_text(content)
        with pytest.raises(error, match=said):
            read_manifest(tmp_path)


def test_old_versions_are_dropped_when_no_reader_needs_them(store: LanceStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mergewise.store.sweep.KEPT", 0.0)
    monkeypatch.setattr("mergewise.store.places.folder.GROWN_BY", 0)
    store.upkeep = Upkeep(few_rows=0, many_rows=0)
    for i in range(8):
        store.write(rows_of([document(i)], EMBEDDER))
    store.optimize()
    versions = lance_connection(store.directory).open_table("leaf").list_versions()
    assert len(versions) <= 3
    assert len(store.reader().documents()) == 8
    assert store.check() == []


def test_a_vector_index_is_trained_again_when_the_table_has_grown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Partitions of few rows are too large for many rows: searches would read all of them."""
    tree = VIEWS["leaf"]
    tables = [replace(table, vector_index_rows=256) for table in tree.tables(tree.settings())]
    monkeypatch.setitem(VIEWS, "leaf", replace(tree, tables=lambda settings: tables))
    store = new_store("lance", tmp_path, embedder=EMBEDDER)
    assert isinstance(store, LanceStore)
    trained = []
    for first, count in ((0, 300), (300, 1200), (1500, 1200)):
        store.write(rows_of([document(i, f"Word{i % 97} number {i}.") for i in range(first, first + count)], EMBEDDER))
        store.repair()  # a repair also updates search indexes for few new rows
        trained.append(store.manifest.trained["leaf.vector"])
        question = EMBEDDER.embed_queries([f"Word7 number {first + 7}."])[0]
        ids = store.reader().whole("leaf", ["id"])["id"].to_pylist()
        exact = max(float(vector @ question) for vector in store.reader().vectors(ids).values())
        assert store.reader().vector_search(question, 3).result()[0][1] == pytest.approx(exact, abs=0.01)
    assert trained == [300, 300, 2700]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sets(st.integers(0, 40), min_size=1, max_size=8)),
        st.tuples(st.just("remove"), st.sets(st.integers(0, 40), max_size=5)),
        st.tuples(st.just("optimize"), st.just(set[int]())),
    ),
    min_size=2,
    max_size=7,
)


@settings(max_examples=5)
@given(steps, st.integers(0, 2**16))
def test_rows_addresses_and_searches_match_the_documents_after_any_changes(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[str, set[int]]], seed: int
) -> None:
    """Search indexes are extended, rebuilt and joined all the time here, with many files of rows and addresses."""
    tree = VIEWS["leaf"]
    tables = [replace(table, vector_index_rows=100) for table in tree.tables(tree.settings())]
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(VIEWS, "leaf", replace(tree, tables=lambda settings: tables))
        store = new_store("lance", tmp_path_factory.mktemp("changed") / "index", embedder=EMBEDDER)
        assert isinstance(store, LanceStore)
        store.upkeep = Upkeep(few_rows=6, many_rows=48, many_fragments=3, many_parts=2)
        standing = {f"base{i}": f"Word{i % 7} and base number {i} are here." for i in range(110)}
        store.write(rows_of([Document(doc_id, text) for doc_id, text in standing.items()], EMBEDDER))
        store.repair()
        for at, (kind, numbers) in enumerate(changes):
            if kind == "add":
                texts = {f"d{i}": f"Word{i % 7} number {i}, {seed} in step {at}." for i in numbers}
                store.write(rows_of([Document(*text) for text in texts.items()], EMBEDDER, digest=str(at)))
                standing |= texts
            elif kind == "remove":
                store.remove([f"d{i}" for i in numbers])
                standing = {doc_id: text for doc_id, text in standing.items() if doc_id[1:] not in map(str, numbers)}
            else:
                store.optimize()
            reader, leaves = store.reader(), reader_of(store)
            ids = reader.whole("leaf", ["id"])["id"].to_pylist()
            assert {row.doc_id: row.text for row in leaves.leaves(ids).values()} == standing
            vectors = reader.vectors(ids)
            for question in ("Word3 number 4", f"base {seed} step"):
                vector = EMBEDDER.embed_queries([question])[0].astype(np.float16).astype(np.float32)
                exact = sorted(((float(own @ vector), -row) for row, own in vectors.items()), reverse=True)
                found = reader.vector_search(vector, len(ids)).result()
                assert sorted(row for row, _ in found) == sorted(ids)
                assert [score for _, score in found] == pytest.approx([score for score, _ in exact], abs=2e-3)
            for i in (3, 40):
                found = reader.text_search(f"Word{i % 7}", len(ids), f"id = 'd{i}'").result()
                near = reader.vector_search(vector, len(ids), f"id = 'd{i}'").result()
                own = [row for row, leaf in leaves.leaves(ids).items() if leaf.doc_id == f"d{i}"]
                assert [row for row, _ in found] == [row for row, _ in near] == own
        assert store.check() == []


def test_a_document_in_another_language_rewrites_no_leaf(tmp_path: Path) -> None:
    """The new column of words is null for existing leaves, and their files stay."""
    store = new_store("lance", tmp_path / "index")
    store.write(
        rows_of([Document(f"d{i}", f"Cats of the house number {i} eat fish in the garden.") for i in range(40)])
    )
    store.optimize()
    data = set((tmp_path / "index" / "leaf.lance" / "data").iterdir())
    columns = set(store.reader().whole("leaf", ["id"]).column_names)
    french = "Les rivières se jettent dans le lac, qui est connu pour son eau claire et ses poissons."
    store.write(rows_of([Document("fr", french)]))
    after = set((tmp_path / "index" / "leaf.lance" / "data").iterdir())
    assert data <= after and len(after - data) == 1
    assert LEAF.words is not None
    words = store.reader().whole("leaf", ["doc", LEAF.words])
    assert words[LEAF.words].null_count == 40 and columns == {"id"}
    assert store.check() == []


def test_an_index_in_english_has_no_column_of_words(tmp_path: Path) -> None:
    store = new_store("lance", tmp_path / "index")
    store.write(rows_of([Document("d", "Cats of the house eat fish in the garden, and they sleep.")]))
    assert LEAF.words not in lance_connection(tmp_path / "index").open_table("leaf").schema.names


def test_an_unreadable_search_index_is_reported_if_the_rows_are_intact(
    store: LanceStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.upkeep = Upkeep(many_rows=0)
    store.write(rows_of([document(1)], EMBEDDER))
    store.optimize()
    for file in (store.directory / "leaf.lance/_indices").rglob("*.lance"):
        file.write_bytes(bytes(file.stat().st_size))
    problems = LanceStore(store.directory, VIEWS).check()
    assert "search indexes of table 'leaf'" in problems[0].what
    assert all("leaf.lance/_indices/" in problem.what for problem in problems[1:])


def test_a_repair_skips_numbers_that_are_in_use(store: LanceStore) -> None:
    store.write(rows_of([document(1), document(2)], EMBEDDER))
    path = store.directory / "manifest.json"
    path.write_text(json.dumps({**manifest_record(path), "next_id": 0, "next_number": 0}))
    fresh = LanceStore(store.directory, VIEWS)
    assert fresh.check()
    fresh.repair()
    assert fresh.check() == []
    fresh.write(rows_of([document(3)], EMBEDDER))
    assert len(fresh.reader().numbers()) == 3 and fresh.check() == []
