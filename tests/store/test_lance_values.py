"""Vectors from the table's own files: equal to those that LanceDB returns, or read through LanceDB."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import examples
from tests.support import lance_connection

import mergewise as mw
from mergewise.errors import CorruptIndex
from mergewise.store import lance_values
from mergewise.store.lance_values import StoredColumn

WIDTH = 256
SCHEMA = pa.schema([("id", pa.int64()), ("vector", pa.list_(pa.float16(), WIDTH)), ("bytes", pa.binary())])


def rows(first: int, count: int, null: int | None = None) -> pa.Table:
    vectors = (np.arange(first, first + count)[:, None] + np.arange(WIDTH)).astype(np.float16)
    mask = pa.array([at == null for at in range(count)])
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), WIDTH, mask=mask)
    rng = np.random.default_rng(first)
    texts = [rng.bytes(384 * (1 + at % 3)) for at in range(count)]
    return pa.table([range(first, first + count), column, texts], schema=SCHEMA)


@settings(max_examples=examples(12), deadline=None)
@given(
    counts=st.lists(st.integers(1, 40), min_size=1, max_size=4),
    compacts=st.booleans(),
    deletes=st.booleans(),
    asked=st.lists(st.integers(0, 159), min_size=1, max_size=30),
)
def test_values_equal_those_of_lancedb(
    tmp_path_factory: pytest.TempPathFactory, counts: list[int], compacts: bool, deletes: bool, asked: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("table")
    table = lance_connection(folder).create_table("t", schema=SCHEMA)
    for at, count in enumerate(counts):
        table.add(rows(40 * at, count))
    if deletes:
        table.delete("id % 3 = 1")
    if compacts:
        table.optimize()
    stored = table.search().with_row_id(True).limit(1000).to_arrow()
    places = [number % len(stored) for number in asked] if len(stored) else []
    addresses = stored["_rowid"].to_numpy().astype(np.int64)[places]
    for name in ("vector", "bytes") if places else ():
        column = StoredColumn(folder / "t.lance", table.version, name, {}, is_vector=name == "vector")
        taken = column.take(addresses)
        assert taken is not None and taken.to_pylist() == stored[name].take(places).to_pylist()


def test_other_forms_are_not_read(tmp_path: Path) -> None:
    table = lance_connection(tmp_path).create_table("t", rows(0, 20))
    table.add(rows(40, 20, null=7))
    column = StoredColumn(tmp_path / "t.lance", table.version, "vector", {}, is_vector=True)
    whole, lacking = np.arange(3), (1 << 32) + np.arange(3)
    assert column.holds(whole) and not column.holds(lacking) and column.take(lacking) is None
    assert not StoredColumn(tmp_path / "t.lance", table.version, "id", {}, is_vector=True).holds(whole)
    assert not StoredColumn(tmp_path / "t.lance", 99, "vector", {}, is_vector=True).holds(whole)
    assert not StoredColumn(tmp_path / "t.lance", table.version, "absent", {}, is_vector=True).holds(whole)


def documents(count: int) -> list[mw.Document]:
    return [mw.Document(f"d{i}", f"The owl {i} eats {i} mice. Nobody saw it.") for i in range(count)]


def test_an_index_keeps_one_copy_of_its_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def answers(name: str) -> list[object]:
        with mw.open(tmp_path / name) as index:
            index.add(documents(40))
            columns = {
                name
                for block in index.store.reader().state.mapped_rows("leaf")._blocks  # type: ignore[union-attr]
                for name in block.rows.schema.names
            }
            assert ("vector" in columns) is (name == "copied") and "key" in columns
            assert index.check() == []
            return [
                (one.text, [p.score for p in one.passages]) for one in map(index.context, ("owl 7", "mice", "nobody"))
            ]

    one = answers("one")
    monkeypatch.setattr(lance_values, "_MARK", (0, b""))
    assert answers("copied") == one, "a form of files that is not known"
    monkeypatch.undo()
    with mw.open(tmp_path / "copied") as index:
        index.add(documents(41))
        assert index.check() == [] and index.context("owl 40").text


def test_damage_is_found_when_it_is_read(tmp_path: Path) -> None:
    with mw.open(tmp_path / "index") as index:
        index.add(documents(40))
    file = max((tmp_path / "index/leaf.lance/data").iterdir(), key=lambda path: path.stat().st_size)
    content = bytearray(file.read_bytes())
    content[10] ^= 1
    file.write_bytes(content)
    with mw.open(tmp_path / "index") as index, pytest.raises(CorruptIndex, match=r"damaged file: leaf.lance/data/"):
        index.context("owl 7")
