"""Digests: any damage of a block is found before its values are used, and older indexes get digests by their next change."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import examples
from tests.store.test_damage import document
from tests.support import HashEmbedder

import mergewise
from mergewise.errors import CorruptIndex
from mergewise.store import digests
from mergewise.store.digests import BLOCK, CheckedBlocks, digest_of, file_digest
from mergewise.store.manifest import NAME, read_manifest, write_manifest
from mergewise.store.mapped import FOLDER, Mapped, MappedRows
from mergewise.store.mapped_writer import MappingWriter
from mergewise.store.places.folder import Folder

SMALL = 16


@pytest.fixture
def index(tmp_path: Path) -> mergewise.Index:
    opened = mergewise.open(tmp_path / "index", embedder=HashEmbedder())
    opened.add(map(document, range(4)))
    return opened


@given(
    content=st.binary(min_size=1, max_size=200),
    flipped=st.integers(0, 199),
    ranges=st.lists(st.tuples(st.integers(0, 199), st.integers(0, 90))),
)
def test_a_flip_is_found_exactly_when_its_block_is_read(
    content: bytes, flipped: int, ranges: list[tuple[int, int]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(digests, "BLOCK", SMALL)
        blocks = [content[at : at + SMALL] for at in range(0, len(content), SMALL)]
        damaged = bytearray(content)
        damaged[at := flipped % len(content)] ^= 4
        checked = CheckedBlocks(memoryview(bytes(damaged)), digest_of(blocks), "file")
        for start, length in ranges:
            first, end = min(start, len(content)), min(start + length, len(content))
            # literally: some byte of the range lies in the block of the flipped byte
            touches = any(byte // SMALL == at // SMALL for byte in range(first, end))
            try:
                checked.compare(np.array([first]), np.array([end]))
                assert not touches
            except CorruptIndex:
                assert touches
        with pytest.raises(CorruptIndex, match="damaged file: file"):
            checked.compare_all_but([])
        with pytest.raises(ValueError, match="length"):
            CheckedBlocks(memoryview(content + bytes(SMALL)), digest_of(blocks), "file")


def rows(first: int, end: int) -> pa.Table:
    ids = np.arange(first, end)
    texts = [f"row {i} " * random.Random(int(i)).randrange(40) for i in ids]
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.repeat(ids.astype(np.float16), 64)), 64)
    numbers = pa.array([list(range(i % 7)) for i in ids], pa.list_(pa.int32()))
    return pa.table({"doc": ids // 10, "id": ids, "text": texts, "numbers": numbers, "vector": vectors})


@pytest.mark.parametrize("seed", range(examples(40)))
def test_rows_of_damaged_files_are_right_or_an_error(tmp_path: Path, seed: int) -> None:
    """Every column of every row is read, one row after the other."""
    written = rows(0, 4000)
    mapping = MappingWriter(Folder(tmp_path), "t", Mapped()).with_rows(iter([written]), lambda: np.arange(400))
    (file,) = (tmp_path / FOLDER).glob("*.arrow")
    known = {f"{FOLDER}/{file.name}": file_digest(file)}
    content = bytearray(file.read_bytes())
    assert len(content) > 6 * BLOCK
    pick = random.Random(seed)
    content[pick.randrange(len(content))] ^= 1 << pick.randrange(8)
    file.write_bytes(content)
    mapped = MappedRows(Folder(tmp_path), mapping, digests=known)
    failed = not mapped.is_whole
    for id in () if failed else pick.sample(range(4000), 60):
        for column in ("doc", "text", "numbers"):
            try:
                (found,) = [part for _, part in mapped.take(np.array([id]), ["id", column])]
                assert found[column][0] == written[column][id]
            except CorruptIndex as error:
                failed = failed or bool(error.hint)
        try:
            (vector,) = [part for _, part in mapped.vectors(np.array([id]), "vector")]
            assert vector.tolist() == [[float(np.float16(id))] * 64]
        except CorruptIndex:
            failed = True
    # all rows together touch every block
    if not failed:
        with pytest.raises(CorruptIndex):
            list(mapped.take(np.arange(4000), ["text", "numbers"]))
            list(mapped.vectors(np.arange(4000), "vector"))


def test_every_byte_of_a_manifest_counts(index: mergewise.Index, tmp_path: Path) -> None:
    index.close()
    path = tmp_path / "index" / NAME
    content = path.read_bytes()
    known = read_manifest(path.parent)
    for at in range(0, len(content), 1 + len(content) // 400):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with pytest.raises(CorruptIndex, match=r"manifest\.json") as error:
            read_manifest(path.parent)
        assert error.value.hint
    path.write_bytes(content)
    assert read_manifest(path.parent) == known


def test_all_named_files_have_digests_and_merged_changes_keep_them(index: mergewise.Index, tmp_path: Path) -> None:
    for change in (
        lambda: index.add(document(9)),
        lambda: index.remove(["d1"]),
        lambda: index.add_views({"slice": None}),
        lambda: index.check(repair=True),
    ):
        change()
        manifest = index.manifest
        named = {f"{FOLDER}/{file}" for raw in manifest.mapped.values() for file in Mapped.of(raw).files}
        assert named < manifest.digests.keys()
        assert {file.partition(".lance/")[0] for file in manifest.digests.keys() - named} == manifest.tables.keys()
        assert all(file_digest(tmp_path / "index" / file) == known for file, known in manifest.digests.items())
        assert index.check() == []


def test_an_older_index_gets_digests_by_its_next_change(index: mergewise.Index, tmp_path: Path) -> None:
    write_manifest(tmp_path / "index", replace(index.manifest, digests={}))
    assert index.context("lighthouse").passages
    (problem,) = index.check()
    assert problem.what.startswith("no digests yet: the next change") and problem.kind == "note"
    index.remove(["d0"])
    assert index.manifest.digests and index.check() == []


def change_posted_ids(table: pa.Table) -> pa.Table:
    ids = table["ids"].chunk(0)
    return table.set_column(3, "ids", pa.ListArray.from_arrays(ids.offsets, pa.array(ids.values.to_numpy() + 10**6)))


def change_positions(table: pa.Table) -> pa.Table:
    packed = table["packed"].chunk(0)
    values = pa.array(packed.values.to_numpy() | np.uint32(1 << 31))
    return table.set_column(2, "packed", pa.ListArray.from_arrays(packed.offsets, values))


@pytest.mark.parametrize("change", [change_posted_ids, change_positions])
def test_impossible_values_of_an_older_index_are_damage(
    index: mergewise.Index, tmp_path: Path, change: Callable[[pa.Table], pa.Table]
) -> None:
    write_manifest(tmp_path / "index", replace(index.manifest, digests={}))
    index.close()
    for path in (tmp_path / "index" / FOLDER).glob("leaf-postings-*"):
        table = change(pa.ipc.open_file(path.read_bytes()).read_all())
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table)
    with mergewise.open(tmp_path / "index", embedder=HashEmbedder()) as damaged:
        with pytest.raises(CorruptIndex) as error:
            damaged.context("lighthouse of Norr", strategy="bm25")
        assert "check --repair" in error.value.hint


@pytest.mark.parametrize("kind", ["leaf-rows", "leaf-postings", "leaf-addresses"])
def test_a_damaged_mapped_file_is_told_and_replaced(
    index: mergewise.Index, tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    expected = index.context("lighthouse").text
    index.close()
    file = max((tmp_path / "index" / FOLDER).glob(f"{kind}-*"), key=lambda path: path.stat().st_size)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 8
    file.write_bytes(content)
    with mergewise.open(tmp_path / "index", embedder=HashEmbedder()) as opened, caplog.at_level(logging.WARNING):
        assert opened.context("lighthouse").text == expected
        # a small index finds rows without addresses
        assert (f"damaged file: {FOLDER}/{file.name}" in caplog.text) == (kind != "leaf-addresses")
        assert [problem.what for problem in opened.check()] == [f"damaged file: {FOLDER}/{file.name}"]
        caplog.clear()
        assert opened.check(repair=True) == []
        assert file.name in caplog.text and "made anew" in caplog.text
        assert opened.context("lighthouse").text == expected


def test_a_change_gives_no_damage_a_new_digest(index: mergewise.Index, tmp_path: Path) -> None:
    """A damaged file of rows is not merged, so `check` still tells it after further changes."""
    index.close()
    (file,) = (tmp_path / "index" / FOLDER).glob("section-rows-*")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 8
    file.write_bytes(content)
    with mergewise.open(tmp_path / "index", embedder=HashEmbedder()) as opened:
        opened.add(map(document, range(10, 14)))
        assert f"damaged file: {FOLDER}/{file.name}" in [problem.what for problem in opened.check()]
        assert opened.check(repair=True) == []


def test_a_change_compares_nothing_that_it_does_not_read(index: mergewise.Index, tmp_path: Path) -> None:
    """Files that a change leaves as they are still count as not compared."""
    index.close()
    (file,) = (tmp_path / "index").glob("leaf.lance/data/*")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 8
    file.write_bytes(content)
    with mergewise.open(tmp_path / "index", embedder=HashEmbedder()) as opened:
        opened.add(document(9))
        with pytest.raises(CorruptIndex, match=r"damaged file: leaf\.lance/data"):
            opened.store.reader().whole("leaf", ["id"])
        known = len(opened.store.place.compared)
        for number in range(10, 20):
            opened.add(document(number))
            opened.context("lighthouse", strategy="sentence")  # reads no leaf beside a hit
        assert len(opened.store.place.compared) < known + 200
