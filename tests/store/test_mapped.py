"""Mapped files: every row by id after any additions, removals and merges, and nothing lost if a file is missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import examples
from tests.support import HashEmbedder, new_store, reader_of, rows_of

from mergewise.designs import VIEWS
from mergewise.store import mapped
from mergewise.store.lance import LanceStore
from mergewise.store.lance_indexes import Upkeep
from mergewise.store.manifest import write_manifest
from mergewise.store.mapped import FOLDER, Mapped, MappedRows
from mergewise.store.mapped_writer import SIMILAR, MappingWriter
from mergewise.store.places import folder
from mergewise.store.places.folder import Folder
from mergewise.types import Document, Leaf

EMBEDDER = HashEmbedder()


def part(ids: list[int]) -> pa.Table:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.repeat(np.array(ids, np.float16), 2)), 2)
    columns = {"doc": [i // 10 for i in ids], "id": ids, "text": [f"row {i}" for i in ids], "vector": vectors}
    return pa.table(columns)


@settings(max_examples=examples(40))
@given(
    batches=st.lists(st.sets(st.integers(0, 30), min_size=1), min_size=1, max_size=6),
    dead=st.sets(st.integers(0, 20)),
    wanted=st.lists(st.integers(-5, 250), unique=True),
)
def test_rows_equal_the_written_ones(
    tmp_path_factory: pytest.TempPathFactory, batches: list[set[int]], dead: set[int], wanted: list[int]
) -> None:
    directory = tmp_path_factory.mktemp("mapped")
    mapped, written, base = Mapped(), dict[int, str](), 0
    for batch in batches:
        ids = sorted(base + i for i in batch)
        base = ids[-1] + 1
        written |= {i: f"row {i}" for i in ids}
        living = np.array(sorted({i // 10 for i in written} - dead), np.int64)
        mapped = MappingWriter(Folder(directory), "t", mapped).with_rows(iter([part(ids)]), living.copy)
    assert mapped.end == base
    for smaller, larger in zip(mapped.segments[1:], mapped.segments, strict=False):
        assert smaller.rows * SIMILAR < larger.rows, "files of similar size are merged"
    rows = MappedRows(Folder(directory), Mapped.of(mapped.as_dict()))
    found: dict[int, str] = {}
    asked = np.array(wanted, np.int64)
    for at, table in rows.take(asked, ["id", "text", "absent"]):
        assert asked[at].tolist() == table["id"].to_pylist() and table.column_names == ["id", "text"]
        found |= zip(table["id"].to_pylist(), table["text"].to_pylist(), strict=True)
    alive = {i: text for i, text in written.items() if i // 10 not in dead}
    assert {i: t for i, t in alive.items() if i in wanted}.items() <= found.items() <= written.items()
    for at, vectors in rows.vectors(asked, "vector"):
        assert vectors.tolist() == [[float(i)] * 2 for i in asked[at]]


def test_files_of_one_size_are_merged(tmp_path: Path) -> None:
    mapped, living = Mapped(), np.arange(4)
    for number in range(4):
        mapped = MappingWriter(Folder(tmp_path), "t", mapped).with_rows(iter([part([10 * number])]), lambda: living)
    assert [segment.rows for segment in mapped.segments] == [4]


@given(st.dictionaries(st.integers(0, 2**40), st.integers(0, 10**6)), st.lists(st.integers(0, 2**40)))
@settings(max_examples=30)
def test_addresses_lead_to_ids(
    tmp_path_factory: pytest.TempPathFactory, known: dict[int, int], asked: list[int]
) -> None:
    directory = tmp_path_factory.mktemp("addresses")
    addresses, ids = np.array(list(known), np.int64), np.array(list(known.values()), np.int64)
    mapped = MappingWriter(Folder(directory), "t", Mapped()).with_addresses(addresses, ids)
    wanted = [*known, *asked]
    found = MappedRows(Folder(directory), mapped).ids_at(np.array(wanted, np.int64))
    assert found.tolist() == [known.get(address, -1) for address in wanted]


def documents(first: int, count: int) -> list[Document]:
    return [Document(f"d{i}", f"Text number {i} is here. It says {i} twice: {i}.") for i in range(first, first + count)]


def filled(directory: Path) -> LanceStore:
    store = new_store("lance", directory, embedder=EMBEDDER)
    assert isinstance(store, LanceStore)
    for first in (0, 4, 8):
        store.write(rows_of(documents(first, 4), EMBEDDER))
        store.optimize()
    return store


def rewritten(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """Replace the table in a file."""
    table = change(pa.ipc.open_file(path.read_bytes()).read_all())
    with pa.OSFile(str(path), "wb") as out, pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)


def other_tokens(table: pa.Table) -> pa.Table:
    return table.set_column(table.column_names.index("tokens"), "tokens", pa.array([7] * len(table), pa.int64()))


def turned(table: pa.Table) -> pa.Table:
    return pa.table({"address": table["address"], "id": table["id"].to_pylist()[::-1]})


def texts(store: LanceStore, question: str = "text number 5") -> list[str]:
    return [hit.row.text for hit in reader_of(store, EMBEDDER).search(question, 20)]


def nearest(store: LanceStore) -> list[tuple[int, float]]:
    return list(store.reader().vector_search(EMBEDDER.embed_queries(["text number 5"])[0], 20).result())


def test_a_missing_or_broken_file_only_costs_time(tmp_path: Path) -> None:
    store = filled(tmp_path)
    before, near = texts(store), nearest(store)
    files = sorted((tmp_path / FOLDER).glob("*.arrow"))
    assert len(before) == 12 and files
    files[0].unlink()
    for path in files[1:]:
        path.write_bytes(b"not Arrow")
    fresh = LanceStore(tmp_path, VIEWS)
    # without postings LanceDB searches, and scores each part of its index by statistics of that part
    assert texts(fresh)[0] == before[0] and sorted(texts(fresh)) == sorted(before) and nearest(fresh) == near
    fresh.repair()
    assert texts(fresh) == before and fresh.check() == []


def test_ids_without_a_row_are_not_looked_up_in_the_table(tmp_path: Path) -> None:
    reader = filled(tmp_path).reader()
    end = reader.manifest.next_id
    leaves = reader.rows("leaf", Leaf, range(end))
    assert 0 < len(leaves) < end
    for file in (tmp_path / "leaf.lance" / "data").iterdir():
        file.unlink()
    assert reader.rows("leaf", Leaf, range(end)) == leaves


def test_unmapped_rows_are_read_from_the_table(tmp_path: Path) -> None:
    store = filled(tmp_path)
    store.write(rows_of(documents(20, 2), EMBEDDER))  # without an update of the mapped files
    assert "Text number 21 is here." in texts(store, "Text number 21")[0]
    assert len(texts(store)) == 14


@pytest.mark.parametrize("has_digests", [True, False])
@pytest.mark.parametrize(
    ("files", "change", "said"),
    [("segments", other_tokens, "differ from the stored rows"), ("addresses", turned, "addresses")],
)
def test_a_wrong_copy_is_reported_and_repaired(
    tmp_path: Path, files: str, change: Callable[[pa.Table], pa.Table], said: str, has_digests: bool
) -> None:
    store = filled(tmp_path)
    if not has_digests:
        write_manifest(tmp_path, replace(store.manifest, digests={}))
    file = getattr(Mapped.of(store.manifest.mapped["leaf"]), files)[0].file
    rewritten(tmp_path / FOLDER / file, change)
    said = f"damaged file: {FOLDER}/{file}" if has_digests else said
    fresh = LanceStore(tmp_path, VIEWS)
    assert any(said in problem.what for problem in fresh.check())
    fresh.repair()
    assert fresh.check() == []


def test_a_manifest_with_one_file_of_addresses_is_read_and_extended(tmp_path: Path) -> None:
    """An older mergewise wrote it, and can also read the new form: it reads the other addresses from the table."""
    store = filled(tmp_path)
    before, manifest = texts(store), store.manifest
    kept = ("segments", "addresses", "postings", "end")
    older = {name: {key: raw[key] for key in kept} for name, raw in manifest.mapped.items()}
    write_manifest(tmp_path, replace(manifest, mapped=older))
    fresh = LanceStore(tmp_path, VIEWS)
    assert Mapped.of(older["leaf"]).addresses[0].file == older["leaf"]["addresses"]
    assert texts(fresh) == before and fresh.check() == []
    fresh.write(rows_of(documents(20, 1), EMBEDDER))
    fresh.optimize()
    assert len(Mapped.of(fresh.manifest.mapped["leaf"]).addresses) == 2
    assert len(texts(fresh)) == 13 and fresh.check() == []


def test_compaction_moves_rows_and_the_addresses_follow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = filled(tmp_path)
    before = texts(store)
    store.upkeep = Upkeep(many_fragments=0)
    store.remove(["d3", "d4"])
    store.optimize()
    assert [text for text in before if " 3 " not in text and " 4 " not in text] == texts(store)
    assert store.check() == []


def test_a_full_disk_only_costs_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are added or compacted during that time are not lost, and the next writer maps them."""
    store = filled(tmp_path)

    def full(*_: object) -> Mapped:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(MappingWriter, "with_rows", full)
        store.write(rows_of(documents(20, 2), EMBEDDER))
        store.optimize()
        assert len(texts(store)) == 14 and store.check() == []
        store.upkeep = Upkeep(many_fragments=0)
        store.remove(["d3"])
        store.optimize()  # this compacts, so old addresses would be wrong
        assert store.manifest.mapped == {} and len(texts(store)) == 13 and store.check() == []
    store.repair()
    assert set(store.manifest.mapped) == {"leaf", "section"} and len(texts(store)) == 13 and store.check() == []


def test_unnamed_files_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "is_read", lambda *_: True)
    store = filled(tmp_path)
    named = {file for raw in store.manifest.mapped.values() for file in Mapped.of(raw).files}
    assert {path.name for path in (tmp_path / FOLDER).iterdir()} > named
    store.place.drop_unnamed(named)
    assert {path.name for path in (tmp_path / FOLDER).iterdir()} == named
    assert len(texts(store)) == 12 and store.check() == []


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_compressed_rows_are_not_decompressed(tmp_path: Path, codec: str) -> None:
    """A file of up to a megabyte would decompress to 32: it stays out of memory, and rows come from the table."""
    store = filled(tmp_path / "index")
    expected = texts(store)
    batch = pa.record_batch({"id": np.zeros(1_000_000, np.int64)})
    files = list((tmp_path / "index" / FOLDER).glob("*.arrow"))
    for path in files:
        with pa.ipc.new_file(str(path), batch.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
            for _ in range(4):
                writer.write_batch(batch)
        assert path.stat().st_size < 1_000_000
    standing, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(pool)
    try:
        assert files and all(mapped._open(path) is None for path in files)
    finally:
        pa.set_memory_pool(standing)
    assert pool.max_memory() < 1_000_000
    found = texts(LanceStore(tmp_path / "index", VIEWS))
    assert found[0] == expected[0] and sorted(found) == sorted(expected)


columns = st.sampled_from([pa.array([1, 2, 3]), pa.array(["a", "", "ccc"]), pa.array([[1.0], [], [2.0, 3.0]])])


@given(
    st.lists(columns, min_size=1, max_size=4), st.integers(0, 3), st.sampled_from([None, "lz4", "zstd"]), st.booleans()
)
def test_compression_and_dictionaries_are_recognised(
    tmp_path_factory: pytest.TempPathFactory, given: list[pa.Array], batches: int, codec: str | None, encoded: bool
) -> None:
    arrays = [*given, *([pa.array(["x", "y", "x"]).dictionary_encode()] if encoded else [])]
    batch = pa.record_batch({str(number): array for number, array in enumerate(arrays)})
    path = tmp_path_factory.mktemp("packed") / "rows.arrow"
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_file(str(path), batch.schema, options=options) as writer:
        for _ in range(batches):
            writer.write_batch(batch)
    packed = batches > 0 and (codec is not None or encoded)
    assert (mapped._open(path) is None) == packed


@given(st.data())
def test_a_file_with_changed_bytes_is_read_or_ignored(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("changed")
    table = part([1, 2, 3])
    with pa.ipc.new_file(str(folder / "rows.arrow"), table.schema) as writer:
        writer.write_table(table)
    content = bytearray((folder / "rows.arrow").read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        # most of them in the footer
        at = data.draw(st.integers(0, len(content) - 1) | st.integers(len(content) * 2 // 3, len(content) - 1))
        content[at] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.sampled_from([None, 0, 5, len(content) - 3]))]
    (folder / "rows.arrow").write_bytes(content)
    mapped._open(folder / "rows.arrow")
