"""Rows by id without a query: copies of a table's rows in memory-mapped Arrow files, sorted by id.

Vectors are read from the table's own files (`store.lance_values`). A writer to a bucket has no copies of these, so it copies the
vectors; but an index that was copied to a bucket has files without vectors, too.

A row never changes once it has an id, so a file of rows stays valid for ever. Rows of deleted documents are recognised by their
document's number. The writer adds a file for new rows, and merges files of similar size. The files only save time: rows without
a file, or with a missing file, are read from the table.

Searches return row addresses, which are free. Sorted files of addresses map them to ids. Each batch of new rows adds a file, and
files are merged like files of rows. Compaction of the table makes them invalid, so they are then written again.

Files of postings (`store.postings`) hold the terms of rows, for text search. They are written and merged like files of rows, and
also hold rows that wait for vectors. A reader makes the postings of rows that they lack.

Large values of rows are compared with the file's digest when they are read, everything else when the file is opened. A file that
is damaged when it is opened counts as missing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mergewise.errors import CorruptIndex
from mergewise.log import log
from mergewise.protocols import FloatArray
from mergewise.store.digests import CheckedBlocks
from mergewise.store.numbers import IntArray, look_up
from mergewise.store.postings import Postings
from mergewise.store.tables import NUMBER
from mergewise.types import Json, JsonDict, frozen

if TYPE_CHECKING:
    from mergewise.store.lance_values import StoredColumn
    from mergewise.store.places.place import Place

FOLDER = "mapped"
# number of vectors to convert at once, so that they stay in the processor's cache
CACHED_ROWS = 2048


class RowFile(NamedTuple):
    """A file and its number of rows. Ids increase from file to file."""

    file: str
    rows: int


@frozen
class Mapped:
    """The manifest's entry for one table's files. They hold all rows of existing documents with ids below `end`.

    The table's vector indexes hold all rows with ids below `indexed`, or an unknown set if it is 0. Postings hold the rows with
    ids below `posted`. Without text, in a very large table and in one of an older mergewise, no file has postings.
    """

    segments: tuple[RowFile, ...] = ()
    addresses: tuple[RowFile, ...] = ()
    postings: tuple[RowFile, ...] = ()
    end: int = 0
    indexed: int = 0
    posted: int = 0

    def as_dict(self) -> JsonDict:
        """Return the JSON form. Older versions read only the first file of addresses, and the table for the rest."""
        return {
            "segments": list(map(list, self.segments)),
            "addresses": self.addresses[0].file if self.addresses else None,
            "address_files": list(map(list, self.addresses)),
            "postings": list(map(list, self.postings)),
            "end": self.end,
            "indexed": self.indexed,
            "posted": self.posted,
        }

    @classmethod
    def of(cls, raw: Json | None) -> Mapped:
        if raw is None:
            return cls()
        segments = tuple(RowFile(*segment) for segment in raw["segments"])
        files = raw.get("address_files")
        if files is None:
            # the form of an older mergewise: one file with all addresses
            files = [] if raw["addresses"] is None else [(raw["addresses"], sum(s.rows for s in segments))]
        addresses, postings = (tuple(RowFile(*file) for file in some) for some in (files, raw.get("postings", ())))
        # an older mergewise wrote all postings with the rows
        posted = raw.get("posted", raw["end"] if postings else 0)
        return cls(segments, addresses, postings, raw["end"], raw.get("indexed", 0), posted)

    @property
    def files(self) -> list[str]:
        return [file.file for file in (*self.segments, *self.addresses, *self.postings)]


def files_of(mapped: Mapping[str, Json]) -> set[str]:
    """Return the names of all mapped files in a manifest."""
    return {file for raw in mapped.values() for file in Mapped.of(raw).files}


class _Values(NamedTuple):
    """The place of a column's values in a file, in bytes: `size` from `start` on, those of a row between two `offsets`."""

    start: int
    size: int
    width: int
    offsets: IntArray | None = None


class RowBlock:
    """Consecutive rows, sorted by id, in memory or in a file."""

    def __init__(self, rows: pa.Table, values: Mapping[str, _Values] | None = None, file: CheckedBlocks | None = None):
        self.rows, self.columns = rows, frozenset(rows.column_names)
        self.ids: IntArray = rows["id"].chunk(0).to_numpy()
        self.is_mapped, self._values, self._file = values is not None, values or {}, file
        self._vectors: dict[str, npt.NDArray[np.float16]] = {}

    def take(self, at: IntArray, columns: Sequence[str]) -> pa.Table:
        """Return the available columns of rows. Raise CorruptIndex if they are damaged."""
        names = [column for column in columns if column in self.columns]
        self._compare(at, names)
        # `pa.array` imports `numpy.ma`
        places = pa.Array.from_buffers(pa.int64(), len(at), [None, pa.py_buffer(at)])
        return self.rows.select(names).take(places)

    def vectors(self, at: IntArray, column: str) -> npt.NDArray[np.float16]:
        """Return vectors of rows in stored form. Raise CorruptIndex if they are damaged."""
        if column not in self._vectors:
            flat = self.rows[column].chunk(0).flatten().to_numpy(zero_copy_only=True)
            self._vectors[column] = flat.reshape(len(self.rows), -1)
        self._compare(at, [column])
        return self._vectors[column].take(at, 0)

    def _compare(self, at: IntArray, columns: Iterable[str]) -> None:
        if self._file is not None and len(at):
            ends, ranges = np.stack([at, at + 1]), [np.empty((2, 0), np.int64)]
            for column in self._values.keys() & set(columns):
                start, _, width, offsets = self._values[column]
                ranges.append(start + width * (ends if offsets is None else offsets[ends].astype(np.int64)))
            self._file.compare(*np.hstack(ranges))


class MappedRows:
    """The mapped rows of one table in one state. Files that the earlier state `before` has open are not opened again.

    `digests` are those of the manifest. Columns that files lack are read from the table's own files if they are `stored`.
    """

    def __init__(
        self,
        place: Place,
        mapping: Mapped,
        before: MappedRows | None = None,
        digests: Mapping[str, str] = MappingProxyType({}),
        stored: Mapping[str, StoredColumn] = MappingProxyType({}),
    ) -> None:
        self._place = place
        self._stored = stored
        self._mapping = mapping
        self._digests = digests
        self.end, self.indexed = mapping.end, mapping.indexed
        opened: dict[str, _OpenFile] = {} if before is None else before._opened.copy()
        self._opened: dict[str, _OpenFile] = {name: opened[name] for name in mapping.files if name in opened}

    @cached_property
    def _blocks(self) -> list[RowBlock]:
        """The blocks of each file. Missing files are left out."""
        blocks: list[RowBlock] = []
        for segment in self._mapping.segments:
            file = self._open(segment.file, lazily=True)
            blocks += [] if file is None else file.blocks
        return blocks

    @cached_property
    def addresses(self) -> list[tuple[IntArray, IntArray]]:
        """The addresses and ids of each file, sorted by address."""
        files = (self._open(file.file) for file in self._mapping.addresses)
        return [address_columns(file.table) for file in files if file is not None and len(file.table)]

    @cached_property
    def postings(self) -> list[Postings]:
        """The postings of each file, or none if a file is missing or damaged."""
        files = [self._open(file.file) for file in self._mapping.postings]
        whole = [Postings(file.table) for file in files if file is not None]
        return whole if len(whole) == len(files) else []

    def load(self) -> None:
        """Open all files."""
        _ = self.addresses, self._blocks, self.postings

    def with_rows(self, rows: pa.Table, end: int, vectors: Sequence[str]) -> MappedRows:
        """Return these rows together with rows in memory, which have addresses and ids from the present `end` to the new one.

        Rows in memory without vectors lack the columns `vectors`.
        """
        joined = MappedRows(self._place, replace(self._mapping, end=end), self, self._digests, self._stored)
        address, ids = rows["_rowid"].to_numpy().astype(np.int64), rows["id"].to_numpy()
        order = np.argsort(address, kind="stable")
        joined.addresses = [*self.addresses, (address[order], ids[order])]
        embedded = rows[vectors[0]].is_valid()
        parts = (rows.filter(embedded), rows.filter(pc.invert(embedded)).drop_columns(list(vectors)))
        blocks = (with_plain_fields(part.drop_columns("_rowid")).combine_chunks() for part in parts if len(part))
        joined._blocks = [*self._blocks, *map(RowBlock, blocks)]
        joined.is_whole = self.is_whole or not self._mapping.segments
        return joined

    @cached_property
    def is_whole(self) -> bool:
        """True if all files are present."""
        rows = sum(segment.rows for segment in self._mapping.segments)
        return len(self._blocks) > 0 and sum(len(block.ids) for block in self._blocks) == rows

    def _open(self, file: str, *, lazily: bool = False) -> _OpenFile | None:
        if file not in self._opened and (found := fetch_file(self._place, file, self._digests, lazily=lazily)):
            self._opened[file] = found
        return self._opened.get(file)

    def ids_at(self, addresses: IntArray) -> IntArray:
        """Return the ids of rows by address, or -1 for unknown addresses."""
        ids = np.full(len(addresses), -1, np.int64)
        for known, known_ids in self.addresses:
            ids = np.where(ids < 0, look_up(known, addresses, known_ids), ids)
        return ids

    def ids_from(self, first: int, column: str) -> IntArray:
        """Return the ids of all rows with this column, from `first` on."""
        with_column = (block.ids for block in self._blocks_with(column))
        parts = [known[np.searchsorted(known, first) :] for known in with_column]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def documents_of(self, ids: IntArray) -> IntArray:
        """Return the document numbers of rows, or -1 for unmapped rows."""
        numbers = np.full(len(ids), -1, np.int64)
        for asked, at, block in _locate(ids, self._blocks):
            numbers[asked] = block.rows[NUMBER].chunk(0).to_numpy()[at]
        return numbers

    def by_document(self, column: str) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield the ids of all rows with this column, and their document numbers, block by block."""
        return ((block.ids, block.rows[NUMBER].chunk(0).to_numpy()) for block in self._blocks_with(column))

    def take(self, ids: IntArray, columns: Sequence[str]) -> Iterator[tuple[IntArray, pa.Table]]:
        """Yield rows by id, block by block: their positions in `ids`, and their available columns."""
        for asked, at, block in _locate(ids, self._blocks):
            rows = block.take(at, columns)
            lacking = [name for name in columns if self._is_stored(block, name)]
            stored = [self._take_stored(block.ids[at], name) for name in lacking]
            if None not in stored:
                for name, values in zip(lacking, stored, strict=True):
                    rows = rows.append_column(name, values)
                yield asked, rows

    def vectors(self, ids: IntArray, column: str) -> Iterator[tuple[IntArray, FloatArray]]:
        """Yield vectors by id, block by block: their positions in `ids`, and the vectors."""
        for asked, at, block in _locate(ids, self._blocks_with(column)):
            for first in range(0, len(at), CACHED_ROWS):
                some = slice(first, first + CACHED_ROWS)
                if not self._is_stored(block, column):
                    yield asked[some], _floats(block.vectors(at[some], column))
                elif (stored := self._take_stored(block.ids[at[some]], column)) is not None:
                    yield asked[some], _floats(stored.values.to_numpy().reshape(len(stored), -1))

    def _is_stored(self, block: RowBlock, column: str) -> bool:
        return block.is_mapped and column in self._stored and column not in block.columns

    def _blocks_with(self, column: str) -> list[RowBlock]:
        return [one for one in self._blocks if column in one.columns or self._is_stored(one, column)]

    def _take_stored(self, ids: IntArray, column: str) -> pa.Array | None:
        """Return values from the table's own files, or None if they cannot be read there."""
        known, addresses = self._addresses_by_id
        addresses = look_up(known, ids, addresses)
        return None if (addresses < 0).any() else self._stored[column].take(addresses)

    @cached_property
    def _addresses_by_id(self) -> tuple[IntArray, IntArray]:
        """The ids of all rows, sorted, and their addresses."""
        nothing = np.empty(0, np.int64)
        addresses, ids = (np.concatenate(column) for column in zip((nothing, nothing), *self.addresses, strict=True))
        order = np.argsort(ids, kind="stable")
        return ids[order], addresses[order]


def _floats(halves: npt.NDArray[np.float16]) -> FloatArray:
    """Convert numbers exactly, several times faster than `astype`: shift their bits, then correct the exponent's bias."""
    bits = halves.view(np.int16).astype(np.int32)
    bits <<= 13
    bits &= ~0x70001FFF
    floats = bits.view(np.float32)
    floats *= np.float32(2.0**112)
    return floats


def _locate(ids: IntArray, blocks: Iterable[RowBlock]) -> Iterator[tuple[IntArray, IntArray, RowBlock]]:
    """Yield the blocks that hold some of the ids, with positions in `ids` and in the block."""
    for block in blocks:
        at = np.minimum(block.ids.searchsorted(ids), len(block.ids) - 1)
        asked = np.flatnonzero(block.ids[at] == ids)
        if len(asked):
            yield asked, at[asked], block


def address_columns(table: pa.Table) -> tuple[IntArray, IntArray]:
    """Return the sorted addresses and the ids of their rows."""
    rows = table.combine_chunks() if table["address"].num_chunks != 1 else table
    return rows["address"].chunk(0).to_numpy(), rows["id"].chunk(0).to_numpy()


def _values_of(array: pa.Array, address: int) -> _Values | None:
    """Return the place of the values of vectors, texts and lists of numbers."""
    kind = array.type
    if pa.types.is_fixed_size_list(kind):
        _, values = array.values.buffers()
        width = kind.list_size * kind.value_type.bit_width // 8
        return _Values(values.address - address, values.size, width)
    if pa.types.is_string(kind) or (pa.types.is_list(kind) and pa.types.is_primitive(kind.value_type)):
        _, offsets, *inner = array.buffers()
        if offsets is not None and inner and inner[-1] is not None:
            width = kind.value_type.bit_width // 8 if pa.types.is_list(kind) else 1
            return _Values(inner[-1].address - address, inner[-1].size, width, np.frombuffer(offsets, np.int32))
    return None


class _OpenFile(NamedTuple):
    """An open file, and its blocks if it has rows."""

    table: pa.Table
    blocks: list[RowBlock]


def fetch_file(place: Place, file: str, digests: Mapping[str, str], *, lazily: bool = False) -> _OpenFile | None:
    """Open a file of the place. A damaged local copy is fetched again if the place has another.

    The file is compared with its digest, which those of older indexes lack; `lazily`, without the large values of its rows.
    """
    for again in (False, True):
        try:
            path = place.fetch(file, again=again)
        except OSError as error:
            log.info("%s of %s is missing, its rows come from the table: %s", file, place, error)
            return None
        if (found := _open(path, digests.get(f"{FOLDER}/{file}"), lazily)) is not None:
            return found
    return None


def _open(path: Path, digest: str | None = None, lazily: bool = False) -> _OpenFile | None:
    try:
        mapped = pa.memory_map(str(path))
        content = mapped.read_buffer()
        _refuse_compressed(memoryview(content))
        table = with_plain_fields(pa.ipc.open_file(mapped).read_all())
        table.validate()
        for column in table.columns:
            for chunk in column.chunks:
                _check_layout(chunk)
        checked = None if digest is None else CheckedBlocks(memoryview(content), digest, f"{FOLDER}/{path.name}")
        blocks, large = [], []
        for block in blocks_of(table) if lazily else ():
            columns = ((name, _values_of(block[name].chunk(0), content.address)) for name in block.column_names)
            # an empty buffer is not in the file
            values = {name: own for name, own in columns if own is not None and own.size}
            blocks.append(RowBlock(block, values, checked))
            large += [(own.start, own.start + own.size) for own in values.values()]
        if checked is not None:
            checked.compare_all_but(large)
        return _OpenFile(table, blocks)
    except (OSError, pa.ArrowException, ValueError, KeyError, struct.error, CorruptIndex) as error:
        log.warning("cannot read %s, its rows come from the table: %s", path, error)
        return None


# field positions in the format's tables (`File.fbs` and `Message.fbs` of Arrow), and the bytes of a block and of the file's end
_DICTIONARIES, _BATCHES, _HEADER, _COMPRESSION = 2, 3, 2, 3
_BLOCK, _END = 24, 10
# maximum number of blocks in a file
_MOST_BLOCKS = 100_000


def _refuse_compressed(content: memoryview) -> None:
    """Raise ValueError for compressed batches and dictionaries, because their unpacked size is unbounded.

    Arrow unpacks them when it opens a file. So this reads the footer, which locates the messages of all batches, and checks
    each message for compression. Our own files have neither.
    """
    if len(content) < _END:
        return
    start = len(content) - _END - _number(content, "<i", len(content) - _END)
    footer = start + _number(content, "<I", start)
    if _blocks(content, footer, _DICTIONARIES):
        raise ValueError("dictionaries")
    for block in _blocks(content, footer, _BATCHES):
        message = _number(content, "<q", block)
        # skip the message's mark and length
        message += 8 if _number(content, "<i", message) == -1 else 4
        header = _field(content, message + _number(content, "<I", message), _HEADER)
        if header and _field(content, header + _number(content, "<I", header), _COMPRESSION):
            raise ValueError("compressed rows")


def _blocks(content: memoryview, footer: int, field: int) -> range:
    """Return the offsets of the blocks in a field of the footer."""
    if not (at := _field(content, footer, field)):
        return range(0)
    at += _number(content, "<I", at)
    if (count := _number(content, "<I", at)) > _MOST_BLOCKS:
        raise ValueError(f"{count} blocks")
    return range(at + 4, at + 4 + _BLOCK * count, _BLOCK)


def _field(content: memoryview, table: int, field: int) -> int:
    """Return the offset of a field of a flatbuffer's table, or 0 if the field is missing."""
    fields = table - _number(content, "<i", table)
    at = 4 + 2 * field
    offset = _number(content, "<H", fields + at) if at < _number(content, "<H", fields) else 0
    return table + offset if offset else 0


def _number(content: memoryview, form: str, at: int) -> int:
    if at < 0:
        raise ValueError("invalid offsets")
    return int(struct.unpack_from(form, content, at)[0])


def _check_layout(array: pa.Array) -> None:
    """Check the type of an array, and the offsets of texts and lists, which Arrow follows without a check.

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
                raise ValueError("invalid offsets")
    elif not (pa.types.is_fixed_size_list(kind) or pa.types.is_primitive(kind)):
        raise ValueError(f"unexpected column type: {kind}")
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        _check_layout(array.values)


def blocks_of(table: pa.Table) -> Iterator[pa.Table]:
    """Yield the blocks of a file without copying them."""
    return (pa.Table.from_batches([batch]) for batch in table.to_batches() if len(batch))


def rows_of_documents(rows: pa.Table, numbers: IntArray) -> pa.Table:
    """Drop the rows of deleted documents, which mapped files keep for a while. `numbers` are those of all documents, sorted."""
    exists = look_up(numbers, rows[NUMBER].to_numpy(), numbers) >= 0
    return rows if exists.all() else rows.filter(pa.array(exists))


def with_plain_fields(table: pa.Table) -> pa.Table:
    """Make all columns nullable, because versions of mergewise differ in that."""
    return pa.Table.from_arrays(table.columns, table.schema.names, metadata=table.schema.metadata)
