"""Rows by id without a query: a copy of a table's rows as Arrow files, mapped into memory and sorted by id.

A row never changes once it has an id, so a file of rows stays right for ever: rows of documents that are gone are not asked
for, or are recognised by their document's number. The writer adds a file for what came since the last one; files of
similar size are joined. Rows that no file holds yet, or whose file is gone, are read from the table: the files only save time.

Searches answer with row addresses, which cost nothing to give. Files of addresses, sorted, say which ids they are: one more for
what came, joined as the files of rows are. They hold until the table is compacted, and are written anew then.
"""

from __future__ import annotations

import logging
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mergewise.files import new_file
from mergewise.protocols import FloatArray
from mergewise.store.tables import NUMBER

if TYPE_CHECKING:
    from mergewise.store.places.place import Place

log = logging.getLogger("mergewise")

FOLDER = "mapped"
# of rows that are written together, and so in memory at once
BLOCK_BYTES = 256_000_000
# a file is joined to the one before it unless that one is so many times as large
SIMILAR = 4

IntArray: TypeAlias = npt.NDArray[np.int64]
BlockRows = TypeVar("BlockRows")


@dataclass(frozen=True, slots=True)
class RowFile:
    """A file with so many rows. The ids of one come after those of the file before."""

    file: str
    rows: int


@dataclass(frozen=True, slots=True)
class Mapped:
    """What the manifest keeps of one table's files: they hold every row whose id is below `end` and whose document stands.

    The vector indexes of the table have every row whose id is below `indexed`; 0 where that is not known.
    """

    segments: tuple[RowFile, ...] = ()
    addresses: tuple[RowFile, ...] = ()
    end: int = 0
    indexed: int = 0

    def as_dict(self) -> dict[str, Any]:
        """An older mergewise knows one file of addresses: it asks the table for the others."""
        return {
            "segments": [[s.file, s.rows] for s in self.segments],
            "addresses": self.addresses[0].file if self.addresses else None,
            "address_files": [[s.file, s.rows] for s in self.addresses],
            "end": self.end,
            "indexed": self.indexed,
        }

    @classmethod
    def of(cls, raw: Mapping[str, Any] | None) -> Mapped:
        if raw is None:
            return cls()
        segments = tuple(RowFile(*segment) for segment in raw["segments"])
        files = raw.get("address_files")
        if files is None:
            # as an older mergewise wrote it: one file with all of them
            files = [] if raw["addresses"] is None else [(raw["addresses"], sum(s.rows for s in segments))]
        return cls(segments, tuple(RowFile(*file) for file in files), raw["end"], raw.get("indexed", 0))

    @property
    def files(self) -> list[str]:
        return [file.file for file in (*self.segments, *self.addresses)]


def files_of(mapped: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Return the files of all tables, as a manifest names them."""
    return {file for raw in mapped.values() for file in Mapped.of(raw).files}


class MappedRows:
    """The rows of one table in one state, as far as files hold them. What the state `before` has open is not opened again."""

    def __init__(self, place: Place, mapping: Mapped, before: MappedRows | None = None) -> None:
        self._place = place
        self._mapping = mapping
        self.end, self.indexed = mapping.end, mapping.indexed
        opened: dict[str, pa.Table] = {} if before is None else before._opened.copy()
        # columns of vectors, as they are stored, with the ids of their rows
        self._vectors: dict[str, list[tuple[IntArray, FloatArray]]] = {}
        self._opened: dict[str, pa.Table] = {name: opened[name] for name in mapping.files if name in opened}

    @cached_property
    def _blocks(self) -> list[tuple[IntArray, pa.Table]]:
        """Ids and rows of each block of each file. A file that is gone is left out."""
        tables = (self._table(segment.file) for segment in self._mapping.segments)
        blocks = (block for table in tables if table is not None for block in _blocks_of(table))
        return [(block["id"].chunk(0).to_numpy(), block) for block in blocks]

    @cached_property
    def addresses(self) -> list[tuple[IntArray, IntArray]]:
        """Addresses and ids of each file, sorted by address."""
        tables = (self._table(file.file) for file in self._mapping.addresses)
        return [address_columns(table) for table in tables if table is not None and len(table)]

    @property
    def is_whole(self) -> bool:
        """Whether no file is gone."""
        return len(self._blocks) > 0 and sum(len(known) for known, _ in self._blocks) == sum(
            segment.rows for segment in self._mapping.segments
        )

    def _table(self, file: str) -> pa.Table | None:
        table = self._opened.get(file)
        if table is None and (table := _fetch_table(self._place, file)) is not None:
            self._opened[file] = table
        return table

    def ids_at(self, addresses: IntArray) -> IntArray:
        """The ids of rows by address; -1 where no file knows."""
        ids = np.full(len(addresses), -1, np.int64)
        for known, of in self.addresses:
            ids = np.where(ids < 0, look_up(known, addresses, of), ids)
        return ids

    def ids_from(self, first: int) -> IntArray:
        """The ids of all rows from this one on."""
        parts = [known[np.searchsorted(known, first) :] for known, _ in self._blocks]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def documents_of(self, ids: IntArray) -> IntArray:
        """The numbers of the documents of rows; -1 where no file knows."""
        numbers = np.full(len(ids), -1, np.int64)
        for asked, at, table in _places(ids, self._blocks):
            numbers[asked] = table[NUMBER].chunk(0).to_numpy()[at]
        return numbers

    def by_document(self) -> Iterator[tuple[IntArray, IntArray]]:
        """The ids of all rows, with the numbers of their documents."""
        return ((known, table[NUMBER].chunk(0).to_numpy()) for known, table in self._blocks)

    def take(self, ids: IntArray, columns: Sequence[str]) -> Iterator[tuple[IntArray, pa.Table]]:
        """Rows by id, some from each block: where in `ids` they were asked for, and the columns that it has."""
        for asked, at, table in _places(ids, self._blocks):
            names = set(table.column_names)
            yield asked, table.select([column for column in columns if column in names]).take(pa.array(at))

    def vectors(self, ids: IntArray, column: str) -> Iterator[tuple[IntArray, FloatArray]]:
        """A column of vectors by id, some from each block: where in `ids` they were asked for, and the vectors."""
        if column not in self._vectors:
            self._vectors[column] = [
                (known, table[column].chunk(0).flatten().to_numpy(zero_copy_only=True).reshape(len(table), -1))
                for known, table in self._blocks
                if column in table.column_names
            ]
        for asked, at, vectors in _places(ids, self._vectors[column]):
            yield asked, vectors[at].astype(np.float32)


def _places(
    ids: IntArray, blocks: Iterable[tuple[IntArray, BlockRows]]
) -> Iterator[tuple[IntArray, IntArray, BlockRows]]:
    """Blocks with some of the rows: where in `ids` they were asked for, and where they stand in the block."""
    for known, rows in blocks:
        at = np.minimum(known.searchsorted(ids), len(known) - 1)
        asked = np.flatnonzero(known[at] == ids)
        if len(asked):
            yield asked, at[asked], rows


def address_columns(table: pa.Table) -> tuple[IntArray, IntArray]:
    """Addresses, sorted, and the ids of the rows there."""
    rows = table.combine_chunks() if table["address"].num_chunks != 1 else table
    return rows["address"].chunk(0).to_numpy(), rows["id"].chunk(0).to_numpy()


def look_up(known: IntArray, wanted: IntArray, values: IntArray) -> IntArray:
    """The value at each wanted key of a sorted array; -1 where it is missing."""
    if not len(known):
        return np.full(len(wanted), -1, np.int64)
    at = np.minimum(known.searchsorted(wanted), len(known) - 1)
    return np.where(known[at] == wanted, values[at], -1)


def _fetch_table(place: Place, file: str) -> pa.Table | None:
    """A file of the place, opened; one that was damaged here comes anew where there is another copy."""
    for anew in (False, True):
        try:
            path = place.fetch(file, anew=anew)
        except OSError as error:
            log.info("%s of %s is not there (%s): its rows come from the table", file, place, error)
            return None
        if (table := _open(path)) is not None:
            return table
    return None


def _open(path: Path) -> pa.Table | None:
    try:
        mapped = pa.memory_map(str(path))
        _refuse_packed(memoryview(mapped.read_buffer()))
        table = _with_plain_fields(pa.ipc.open_file(mapped).read_all())
        table.validate()
        for column in table.columns:
            for chunk in column.chunks:
                _check_layout(chunk)
        return table
    except (OSError, pa.ArrowException, ValueError, struct.error) as error:
        log.info("%s cannot be read (%s): its rows come from the table", path, error)
        return None


# places of fields in the tables of the format (`File.fbs` and `Message.fbs` of Arrow), bytes of a block and of the file's end
_DICTIONARIES, _BATCHES, _HEADER, _COMPRESSION = 2, 3, 2, 3
_BLOCK, _END = 24, 10
# of a file: each holds BLOCK_BYTES but the last
_MOST_BLOCKS = 100_000


def _refuse_packed(content: memoryview) -> None:
    """Raises ValueError where batches are compressed, or dictionaries are there: what they unpack to nobody knows beforehand.

    Arrow unpacks as it opens a file. So its footer is read here, which says where the messages of the batches stand, and of
    each message whether its batch is compressed. Nothing that is written here is.
    """
    if len(content) < _END:
        return
    start = len(content) - _END - _number(content, "<i", len(content) - _END)
    footer = start + _number(content, "<I", start)
    if _blocks(content, footer, _DICTIONARIES):
        raise ValueError("dictionaries")
    for block in _blocks(content, footer, _BATCHES):
        message = _number(content, "<q", block)
        # behind the mark of a message, and its length
        message += 8 if _number(content, "<i", message) == -1 else 4
        header = _field(content, message + _number(content, "<I", message), _HEADER)
        if header and _field(content, header + _number(content, "<I", header), _COMPRESSION):
            raise ValueError("compressed rows")


def _blocks(content: memoryview, footer: int, field: int) -> range:
    """Where the blocks of this field of the footer stand."""
    if not (at := _field(content, footer, field)):
        return range(0)
    at += _number(content, "<I", at)
    if (count := _number(content, "<I", at)) > _MOST_BLOCKS:
        raise ValueError(f"{count} blocks")
    return range(at + 4, at + 4 + _BLOCK * count, _BLOCK)


def _field(content: memoryview, table: int, field: int) -> int:
    """Where a field of a flatbuffer's table stands; 0 where the table does not have it."""
    fields = table - _number(content, "<i", table)
    at = 4 + 2 * field
    offset = _number(content, "<H", fields + at) if at < _number(content, "<H", fields) else 0
    return table + offset if offset else 0


def _number(content: memoryview, form: str, at: int) -> int:
    if at < 0:
        raise ValueError("offsets that lead outside")
    return int(struct.unpack_from(form, content, at)[0])


def _check_layout(array: pa.Array) -> None:
    """A type that tables have, and offsets of texts and lists that lead nowhere outside: Arrow follows them without looking.

    The rows themselves are not read.
    """
    kind = array.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_list(kind):
        _, offsets, *_ = array.buffers()
        if len(array) and offsets is not None:
            at = np.frombuffer(offsets, np.int32, len(array) + 1, array.offset * 4)
            content = None if pa.types.is_list(kind) else array.buffers()[2]
            end = len(array.values) if pa.types.is_list(kind) else 0 if content is None else content.size
            if at[0] < 0 or at[-1] > end or bool((at[1:] < at[:-1]).any()):
                raise ValueError("offsets that lead outside")
    elif not (pa.types.is_fixed_size_list(kind) or pa.types.is_primitive(kind)):
        raise ValueError(f"a column of the type {kind}")
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        _check_layout(array.values)


# -- writing


class MappingWriter:
    """Writes the files of one table. Nothing that a manifest names is ever written over."""

    def __init__(self, place: Place, table: str, mapping: Mapped) -> None:
        self._place = place
        self._folder = place.directory / FOLDER
        self._folder.mkdir(exist_ok=True, parents=True)
        self._table = table
        self._mapping = mapping

    def with_rows(self, parts: Iterable[pa.Table], living: Callable[[], IntArray]) -> Mapped:
        """The files, and one for these rows, which are sorted by id and come after all that the files hold.

        `living` gives the numbers of the documents that stand, sorted: joined files hold rows of no other.
        """
        fresh, end = self._write(parts)

        def join(tables: Sequence[pa.Table]) -> RowFile | None:
            standing = living()
            return self._write(rows_of_documents(block, standing) for table in tables for block in _blocks_of(table))[0]

        segments = self._with_similar_joined([*self._mapping.segments, *([fresh] if fresh else [])], join)
        return replace(self._mapping, segments=segments, end=max(end, self._mapping.end))

    def _with_similar_joined(
        self, files: Sequence[RowFile], join: Callable[[Sequence[pa.Table]], RowFile | None]
    ) -> tuple[RowFile, ...]:
        files = list(files)
        while len(files) > 1 and files[-1].rows * SIMILAR >= files[-2].rows:
            last = 2
            # all that would be joined one after the other, at once
            while last < len(files) and sum(f.rows for f in files[-last:]) * SIMILAR >= files[-last - 1].rows:
                last += 1
            tables = [table for f in files[-last:] if (table := _fetch_table(self._place, f.file)) is not None]
            if len(tables) < last:
                # one is gone: what the others hold stays
                break
            joined = join(tables)
            files[-last:] = [joined] if joined else []
        return tuple(files)

    def _write(self, parts: Iterable[pa.Table]) -> tuple[RowFile | None, int]:
        """One file of blocks, or None if there is no row, and the first id after its rows."""
        rows = end = 0
        file = self._new_file("rows")
        writer = None
        with pa.OSFile(str(self._folder / file), "wb") as out:
            for block in _regroup(parts):
                writer = writer or pa.ipc.new_file(out, block.schema)
                writer.write_table(block)
                rows += len(block)
                end = int(block["id"][-1].as_py()) + 1
            if writer is not None:
                writer.close()
        if not rows:
            (self._folder / file).unlink()
            return None, end
        return RowFile(file, rows), end

    def with_addresses(self, addresses: IntArray, ids: IntArray) -> Mapped:
        """The files, and one for the addresses of these rows, if there are any."""
        if not len(addresses):
            return self._mapping
        fresh = self._write_addresses(addresses, ids)

        def join(tables: Sequence[pa.Table]) -> RowFile:
            columns = zip(*map(address_columns, tables), strict=True)
            return self._write_addresses(*(np.concatenate(column) for column in columns))

        return replace(self._mapping, addresses=self._with_similar_joined([*self._mapping.addresses, fresh], join))

    def _write_addresses(self, addresses: IntArray, ids: IntArray) -> RowFile:
        order = np.argsort(addresses, kind="stable")
        table = pa.table({"address": addresses[order], "id": ids[order]})
        file = self._new_file("addresses")
        with pa.OSFile(str(self._folder / file), "wb") as out, pa.ipc.new_file(out, table.schema) as writer:
            writer.write_table(table)
        return RowFile(file, len(table))

    def _new_file(self, kind: str) -> str:
        """An empty file of a name that was never used: a reader may still hold the file of an older state."""
        handle, path = new_file(self._folder, f"{self._table}-{kind}-", ".arrow")
        os.close(handle)
        return path.name


def _blocks_of(table: pa.Table) -> Iterator[pa.Table]:
    """The blocks of a file, without a copy."""
    return (pa.Table.from_batches([batch]) for batch in table.to_batches() if len(batch))


def rows_of_documents(rows: pa.Table, living: IntArray) -> pa.Table:
    """The rows of documents that stand: mapped files keep the others for a while."""
    stands = look_up(living, rows[NUMBER].to_numpy(), living) >= 0
    return rows if stands.all() else rows.filter(pa.array(stands))


def _with_plain_fields(table: pa.Table) -> pa.Table:
    """The same columns. Whether they may lack values differs between tables that versions of mergewise made."""
    return pa.Table.from_arrays(table.columns, [field.name for field in table.schema])


def _regroup(parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in blocks of about BLOCK_BYTES, each in one piece; the last may be small."""
    waiting: list[pa.Table] = []
    for part in parts:
        waiting += [_with_plain_fields(part)] if len(part) else []
        if sum(table.nbytes for table in waiting) >= BLOCK_BYTES:
            yield pa.concat_tables(waiting).combine_chunks()
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting).combine_chunks()


def drop_unnamed(directory: Path, named: set[str], older_than: float) -> None:
    """Delete the files that no state names, once they are so many seconds old."""
    for path in (directory / FOLDER).glob("*.arrow"):
        try:
            if path.name not in named and time() - path.stat().st_mtime > older_than:
                path.unlink()
        except OSError:
            log.debug("%s cannot be removed now", path)
