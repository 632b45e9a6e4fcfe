"""Declaration of tables by records: each column is defined once, as a field of a dataclass.

Fields become columns of the same name. A field that is stored in another form has a `SerializedColumn`. Rows can also be read
as any other dataclass whose fields are a subset of the columns. Only the columns of its fields are then read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from itertools import chain
from operator import attrgetter
from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mergewise.protocols import Embedder
from mergewise.types import DocumentRows, Json, JsonDict, Rows, frozen

NUMBER = "doc"
"""The column of the document's number in every table. The field `document` is read from it."""

_RECORD = b"mergewise"
_PLAIN: Mapping[Any, pa.DataType] = {int: pa.int64(), float: pa.float64(), str: pa.string(), bool: pa.bool_()}


class SerializedColumn(NamedTuple):
    """A column with its own stored form.

    `pack(record)` returns the stored value. Without `pack`, the values come from `Rows.columns` under this name.
    `unpack(rows)` returns a list of values for each of the record's `fields`, from an Arrow table with this column and the
    columns in `needs`. A column without fields is only searched.
    """

    column: str
    type: pa.DataType
    pack: Callable[[Any], object] | None = None
    unpack: Callable[[pa.Table], Mapping[str, Sequence[Any]]] | None = None
    fields: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()


@frozen
class Table:
    """One table of a view.

    `text` is the column of full text search. `words` is a second search column of space-separated words. Its values come from
    `Rows.columns`, for some documents only, and the first of them adds the column to the table.

    `vectors` are columns of unit vectors in half precision. An index without an embedder lacks them. From `vector_index_rows`
    rows on they get a search index.

    `keys` are columns that rows are looked up by. Rows of a `mapped` table are read by id without a query (`store.mapped`).
    With `embed(records, embedder)`, rows may be written first and get their vectors later.
    """

    name: str
    record: type
    packed: tuple[SerializedColumn, ...] = ()
    vectors: tuple[str, ...] = ()
    text: str | None = None
    words: str | None = None
    keys: tuple[str, ...] = ("id", NUMBER)
    mapped: bool = False
    embed: Callable[[Sequence[Any], Embedder], Mapping[str, Any]] | None = None
    # below this, an exact scan is as fast (benchmarks/vectors.py)
    vector_index_rows: int = 4_000

    @property
    def has_ids(self) -> bool:
        return any(field.name == "id" for field in fields(self.record))

    @property
    def computed(self) -> tuple[str, ...]:
        """The columns that an embedder computes."""
        return (*self.vectors, *(p.column for p in self.packed if p.pack is None))

    @property
    def names_documents(self) -> bool:
        return any(field.name == "doc_id" for field in fields(self.record))

    def schema(self, dimension: int) -> pa.Schema:
        """Return the schema. `dimension` is 0 in an index without an embedder."""
        packed = {field for column in self.packed for field in column.fields}
        plain = [
            column for column in columns_of(self.record) if column.name not in packed and column.name != "document"
        ]
        return pa.schema(
            [
                pa.field(NUMBER, pa.int64(), nullable=False),
                *(pa.field(column.name, column.type, nullable=column.optional) for column in plain),
                *(pa.field(p.column, p.type, nullable=False) for p in self.packed if p.pack is not None),
                *(pa.field(p.column, p.type) for p in self.packed if p.pack is None and dimension),
                *(
                    pa.field(v, pa.list_(pa.float16(), dimension), self.embed is not None)
                    for v in self.vectors
                    if dimension
                ),
            ]
        )


def with_record(schema: pa.Schema, record: Json) -> pa.Schema:
    """Record facts about the index in the schema of a new table, from which `restoring` rebuilds a lost manifest."""
    return schema.with_metadata({_RECORD: json.dumps(record)})


def with_embedder(field: pa.Field, embedder: str) -> pa.Field:
    """Record a later embedder in a column of vectors."""
    return field.with_nullable(True).with_metadata({_RECORD: json.dumps({"embedder": embedder})})


def record_of(recorded: pa.Schema | pa.Field) -> JsonDict:
    """Return the record of a table or a column. Empty without one, as in a table of an older mergewise."""
    return dict(json.loads((recorded.metadata or {}).get(_RECORD, b"{}")))


class Column(NamedTuple):
    """A column for a field of a record. `moves` names the offset that the store adds to its ids: "row", "leaf" or nothing."""

    name: str
    type: pa.DataType
    optional: bool = False
    # a tuple
    many: bool = False
    # a tuple of pairs, stored flat
    pairs: bool = False
    moves: str = ""

    def column_values(self, records: Sequence[Any], by: Mapping[str, int]) -> list[Any]:
        values = list(map(attrgetter(self.name), records))
        if self.pairs:
            return [[number for pair in value for number in pair] for value in values]
        shift = by.get(self.moves, 0)
        return [self.shift(value, shift) for value in values] if shift else values

    def shift(self, value: Any, shift: int) -> Any:
        """Add an offset to the ids of one record."""
        if self.many:
            return tuple(number + shift for number in value)
        return None if value is None else value + shift

    def read(self, rows: pa.Table) -> Sequence[Any]:
        values = rows[NUMBER if self.name == "document" else self.name]
        if not self.many:
            return values.to_pylist()  # type: ignore[no-any-return]
        if self.pairs:
            return [tuple(zip(numbers[::2], numbers[1::2], strict=True)) for numbers in values.to_pylist()]
        return list(map(tuple, values.to_pylist()))


@cache
def columns_of(record: type) -> tuple[Column, ...]:
    """Return the columns for the fields of a record. Fields of other types need a `SerializedColumn`."""
    hints = get_type_hints(record, localns={"np": np, "npt": npt}, include_extras=True)
    return tuple(_column(field.name, hints[field.name]) for field in fields(record))


def _column(name: str, hint: Any) -> Column:
    if get_origin(hint) in (Union, UnionType):
        inner = next(part for part in get_args(hint) if part is not type(None))
        plain = _column(name, inner)
        return Column(name, plain.type, optional=True, moves=plain.moves)
    if get_origin(hint) is tuple:
        inner = get_args(hint)[0]
        if get_origin(inner) is tuple:
            return Column(name, pa.list_(pa.int64()), many=True, pairs=True)
        plain = _column(name, inner)
        return Column(name, pa.list_(plain.type), many=True, moves=plain.moves)
    base, *notes = get_args(hint) if hasattr(hint, "__metadata__") else (hint,)
    moves = notes[0] if notes else "row" if name == "id" and base is int else ""
    return Column(name, _PLAIN.get(base, pa.null()), moves=moves)


# -- writing


class PlacedRows(NamedTuple):
    """Rows of one document with its number and the offsets of its ids.

    `by` maps "row" to the first id of the view's range, "leaf" to the document's first leaf.
    """

    number: int
    rows: Rows
    by: Mapping[str, int]

    def lacks_vectors(self, table: Table) -> bool:
        """Return whether some rows get their vectors later."""
        if table.embed is None or not self.rows.records:
            return False
        given = [self.rows.columns.get(column) for column in table.vectors]
        return any(vectors is None or bool(np.isnan(vectors[:, :1]).any()) for vectors in given)


def arrow_table(table: Table, placed: Sequence[PlacedRows], schema: pa.Schema) -> pa.Table:
    """Convert the rows of several documents to their stored form, with columns in the order of the schema."""
    columns = {column.name: column for column in columns_of(table.record)}
    packed = {p.column: p for p in table.packed}
    arrays = []
    for field in schema:
        pack = packed[field.name].pack if field.name in packed else None
        if field.name in table.vectors:
            arrays.append(_vectors(field, placed))
            continue
        if field.name == NUMBER:
            values: Any = [p.number for p in placed for _ in p.rows.records]
        elif pack is not None:
            values = [pack(record) for p in placed for record in p.rows.records]
        elif field.name in packed or field.name == table.words:
            extra = (p.rows.columns.get(field.name) or [None] * len(p.rows.records) for p in placed)
            values = list(chain.from_iterable(extra))
        else:
            values = [value for p in placed for value in columns[field.name].column_values(p.rows.records, p.by)]
        arrays.append(pa.array(values, field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def _vectors(field: pa.Field, placed: Sequence[PlacedRows]) -> pa.Array:
    dimension = field.type.list_size
    given = [p.rows.columns.get(field.name) for p in placed]
    if field.nullable:
        # a document that moved with some of its vectors missing needs all of them again
        none = (np.full((len(p.rows.records), dimension), np.nan, np.float16) for p in placed)
        given = [empty if own is None or np.isnan(own).any() else own for own, empty in zip(given, none, strict=True)]
    vectors = [own for own in given if own is not None]
    rows = sum(len(p.rows.records) for p in placed)
    flat = np.concatenate(vectors).astype(np.float16) if vectors else np.empty((0, dimension), np.float16)
    if flat.shape != (rows, dimension):
        raise ValueError(f"invalid shape of {field.name}: {flat.shape} (expected {(rows, dimension)})")
    return vector_array(flat)


def vector_array(vectors: npt.NDArray[np.float16]) -> pa.Array:
    """Convert vectors to their stored form. A row of NaN is a missing vector."""
    missing = np.isnan(vectors[:, :1]).any(axis=1)
    mask = pa.array(missing) if missing.any() else None
    return pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1], mask=mask)


def embedded_rows(table: Table, ids: Sequence[int], columns: Mapping[str, Any], schema: pa.Schema) -> pa.Table:
    """Convert ids and the columns from `table.embed` to their stored form."""
    arrays = []
    for field in schema:
        values = ids if field.name == "id" else columns[field.name]
        is_vector = field.name in table.vectors
        arrays.append(vector_array(np.asarray(values, np.float16)) if is_vector else pa.array(values, field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def ids_used(tables: Sequence[Table], rows: Mapping[str, Rows]) -> int:
    """Return the number of ids that the rows of one view need."""
    return sum(len(rows[table.name].records) for table in tables if table.has_ids)


def with_shift(rows: Rows, by: Mapping[str, int]) -> Rows:
    """Add offsets to the ids of rows."""
    if not rows.records:
        return rows
    record: type = type(rows.records[0])
    columns = [column for column in columns_of(record) if by.get(column.moves)]

    def shift(record: Any) -> Any:
        return replace(record, **{one.name: one.shift(getattr(record, one.name), by[one.moves]) for one in columns})

    return replace(rows, records=tuple(map(shift, rows.records))) if columns else rows


def with_own_ids(rows: DocumentRows, views: Iterable[Sequence[Table]]) -> DocumentRows:
    """Return stored rows with ids from 0 in each view, as a store receives them. `views` are the tables of each view."""
    tables = dict(rows.tables)
    leaf: int | None = None
    for view in views:
        first = min((record.id for table in view if table.has_ids for record in rows[table.name]), default=0)
        # the first view is the tree, and its first rows are the leaves
        leaf = first if leaf is None else leaf
        by = {"row": -first, "leaf": -leaf}
        tables |= {table.name: with_shift(rows.tables[table.name], by) for table in view if table.name in rows.tables}
    return replace(rows, tables=tables)


# -- reading


class RecordForm:
    """The conversion of a table's rows to records of one type."""

    def __init__(self, table: Table, record: type) -> None:
        wanted = {field.name for field in fields(record)}
        self._record = record
        self._packed = [p for p in table.packed if p.unpack is not None and wanted & set(p.fields)]
        unpacked = {name for p in self._packed for name in p.fields}
        self._plain = {column.name: column for column in columns_of(record) if column.name not in unpacked}
        plain = [NUMBER if name == "document" else name for name in self._plain]
        packed = [name for p in self._packed for name in (p.column, *p.needs)]
        self.columns: tuple[str, ...] = tuple(dict.fromkeys([*plain, *packed]))

    def read(self, rows: pa.Table) -> list[Any]:
        """Convert rows to records. Fields of missing columns are None."""
        unpacked: dict[str, Sequence[Any]] = {}
        for p in self._packed:
            if p.unpack is not None and p.column in rows.column_names:
                unpacked |= p.unpack(rows)
        nothing = [None] * len(rows)
        values = [
            self._plain[field.name].read(rows) if field.name in self._plain else unpacked.get(field.name, nothing)
            for field in fields(self._record)
        ]
        return list(map(self._record, *values))


form: Callable[[Table, type], RecordForm] = cache(RecordForm)
"""The form of a record type in a table. Cached."""


def unit_vectors(rows: pa.Table, column: str) -> npt.NDArray[np.float32] | None:
    """Return a column of vectors, shape (rows, dimension), or None without the column. A missing vector is a row of NaN."""
    if column not in rows.column_names:
        return None
    held = rows[column].combine_chunks()
    flat = held.flatten().to_numpy(zero_copy_only=False).astype(np.float32)
    vectors = np.full((len(rows), held.type.list_size), np.nan, np.float32)
    vectors[held.is_valid().to_numpy(zero_copy_only=False)] = flat.reshape(-1, held.type.list_size)
    return vectors


def rows_from(table: Table, rows: pa.Table) -> Rows:
    """Convert stored rows back to the form in which the store received them, with final ids."""
    columns: dict[str, Any] = {name: unit_vectors(rows, name) for name in table.vectors}
    extra = [p.column for p in table.packed if p.pack is None] + ([table.words] if table.words else [])
    columns |= {name: rows[name].to_pylist() for name in extra if name in rows.column_names}
    return Rows(tuple(form(table, table.record).read(rows)), {k: v for k, v in columns.items() if v is not None})


def rows_by_document(table: Table, rows: pa.Table, numbers: Iterable[int]) -> dict[int, Rows]:
    """Split stored rows by document number, in the order of ids. One conversion of all rows is much faster than one each."""
    of_all = rows.sort_by([(NUMBER, "ascending"), *([("id", "ascending")] if table.has_ids else [])])
    known = of_all[NUMBER].to_numpy()
    made = rows_from(table, of_all)

    by_number = {}
    for number in numbers:
        at = slice(*np.searchsorted(known, [number, number + 1]))
        by_number[number] = Rows(made.records[at], {name: values[at] for name, values in made.columns.items()})
    return by_number
