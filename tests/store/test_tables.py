"""Conversion of records to rows and back for any values, against a literal transcription."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.designs import VIEWS
from mergewise.index.tree.tables import LEAF
from mergewise.store.tables import (
    NUMBER,
    PlacedRows,
    SerializedColumn,
    Table,
    arrow_table,
    columns_of,
    form,
    ids_used,
    rows_from,
    unit_vectors,
)
from mergewise.types import Leaf, LeafId, LeafSentences, RowId, Rows, Sentence


@dataclass(frozen=True, slots=True)
class Note:
    id: RowId
    parent: RowId | None
    others: tuple[RowId, ...]
    leaf: LeafId
    text: str
    weight: float
    done: bool
    tags: tuple[str, ...]
    parts: tuple[tuple[int, int], ...]
    author: str
    year: int


def unpack(rows: pa.Table) -> Mapping[str, Sequence[Any]]:
    pairs = [packed.rsplit("/", 1) for packed in rows["signed"].to_pylist()]
    return {"author": [author for author, _ in pairs], "year": [int(year) for _, year in pairs]}


SIGNED = SerializedColumn("signed", pa.string(), lambda note: f"{note.author}/{note.year}", unpack, ("author", "year"))
BLOB = SerializedColumn("blob", pa.binary())
NOTE = Table("note", Note, (SIGNED, BLOB), vectors=("vector",))

numbers = st.integers(0, 1000)
others = st.lists(numbers, max_size=3).map(tuple)
parts = st.lists(st.tuples(numbers, numbers), max_size=3).map(tuple)
placed = {"id": numbers, "parent": st.none() | numbers, "others": others, "leaf": numbers, "parts": parts}
notes = st.builds(Note, **placed, weight=st.floats(allow_nan=False), year=st.integers(-5, 3000))


def moved(note: Note, row: int, leaf: int) -> Note:
    parent = None if note.parent is None else note.parent + row
    others = tuple(other + row for other in note.others)
    return replace(note, id=note.id + row, parent=parent, others=others, leaf=note.leaf + leaf)


@given(st.lists(st.tuples(st.lists(notes, max_size=3), numbers, numbers), max_size=3))
def test_records_survive_a_round_trip_with_shifted_ids(documents: list[tuple[list[Note], int, int]]) -> None:
    placed = [
        PlacedRows(number, Rows(tuple(own), {"vector": np.ones((len(own), 4)), "blob": [b"x"] * len(own)}), by)
        for number, (own, row, leaf) in enumerate(documents)
        for by in [{"row": row, "leaf": leaf}]
    ]
    table = arrow_table(NOTE, placed, NOTE.schema(4))
    assert table.schema == NOTE.schema(4)
    expected = [moved(note, row, leaf) for own, row, leaf in documents for note in own]
    assert form(NOTE, Note).read(table) == expected
    assert table[NUMBER].to_pylist() == [i for i, (own, _, _) in enumerate(documents) for _ in own]
    rows = rows_from(NOTE, table)
    assert list(rows.records) == expected
    assert rows.columns["vector"].shape == (len(expected), 4) and rows.columns["blob"] == [b"x"] * len(expected)


def test_only_optional_columns_are_nullable() -> None:
    nullable = {field.name for field in NOTE.schema(4) if field.nullable}
    assert nullable == {"parent", "blob"} | ({"vector"} if NOTE.embed else set())


ADA = Note(0, None, (), 0, "", 0.0, False, (), (), "Ada", 1840)


def test_an_index_without_an_embedder_has_only_the_columns_of_records() -> None:
    table = arrow_table(NOTE, [PlacedRows(0, Rows((ADA,)), {})], NOTE.schema(0))
    assert {"vector", "blob"}.isdisjoint(table.column_names)
    assert rows_from(NOTE, table) == Rows((ADA,))
    assert unit_vectors(table, "vector") is None


def test_a_form_reads_only_the_columns_that_it_needs() -> None:
    @dataclass(frozen=True, slots=True)
    class Signature:
        id: int
        document: int
        year: int
        nothing: str | None = None

    wanted = form(NOTE, Note)
    assert set(wanted.columns) == set(NOTE.schema(4).names) - {NUMBER, "blob", "vector"}
    assert form(NOTE, Note) is wanted
    assert form(LEAF, LeafSentences).columns == (
        "id", "doc", "doc_id", "start", "body", "key", "sentences", "leads", "sentence_vectors",
    )  # fmt: skip


def test_vectors_of_the_wrong_shape_are_refused() -> None:
    for columns in ({"vector": np.ones((2, 4)), "blob": [b""]}, {}):
        with pytest.raises(ValueError, match="shape"):
            arrow_table(NOTE, [PlacedRows(0, Rows((ADA,), columns), {})], NOTE.schema(4))


def test_a_leaf_survives_a_round_trip() -> None:
    text = "# A\n\nOne. Two."
    leaf = Leaf(
        3,
        "d",
        "T",
        (9, 8),
        0,
        40,
        40 + len(text),
        45,
        ("A",),
        text,
        5,
        (Sentence(45, 49, 2, "row"), Sentence(50, 54, 2)),
    )
    vectors = np.array([[3, 4, 0], [0, 0, 127]], np.int8)
    rows = Rows((leaf,), {"vector": np.ones((1, 3)), "sentence_vectors": [vectors.tobytes()]})
    table = arrow_table(LEAF, [PlacedRows(7, rows, {})], LEAF.schema(3))
    assert form(LEAF, Leaf).read(table) == [leaf]
    (read,) = form(LEAF, LeafSentences).read(table)
    assert (read.document, read.sentences, read.text, read.headings) == (7, leaf.sentences, text, ("A",))
    assert read.vectors is not None
    np.testing.assert_allclose(read.vectors, [[0.6, 0.8, 0.0], [0.0, 0.0, 1.0]], atol=1e-6)


def test_every_table_of_every_view_stores_each_field_once() -> None:
    """No field is stored twice, and every stored column belongs to a field or is packed."""
    for view in VIEWS.values():
        for table in view.tables(view.settings()):
            packed = {field for p in table.packed for field in p.fields}
            plain = {column.name for column in columns_of(table.record)} - packed
            stored = set(table.schema(8).names)
            assert plain | {NUMBER} | {p.column for p in table.packed} | set(table.vectors) == stored
            assert table.text is None or table.text in stored


def test_ids_are_counted_over_the_tables_of_a_view() -> None:
    tables = VIEWS["leaf"].tables(VIEWS["leaf"].settings())
    assert ids_used(tables, {"leaf": Rows((1, 2)), "section": Rows((3,)), "name": Rows((4, 5, 6))}) == 3
