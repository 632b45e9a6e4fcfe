"""Writing of mapped files (`store.mapped`)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from mergewise.files import new_file
from mergewise.store.mapped import (
    FOLDER,
    Mapped,
    RowFile,
    address_columns,
    blocks_of,
    fetch_file,
    rows_of_documents,
    with_plain_fields,
)
from mergewise.store.numbers import BoolArray, IntArray, look_up
from mergewise.store.places.place import Place
from mergewise.store.postings import Postings, join_postings

# bytes of rows that are written, and so in memory, at once
BLOCK_BYTES = 256_000_000
# a file is merged with the one before it, unless that one is more than this many times larger
SIMILAR = 4
# number of rows up to which merged files keep the rows of deleted documents, which cost less than the numbers of all documents
FEW_JOINED = 4096


class MappingWriter:
    """A writer for the files of one table. It never overwrites a file that a manifest names."""

    def __init__(
        self, place: Place, table: str, mapping: Mapped, digests: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self._place, self._digests = place, digests
        self._folder = place.directory / FOLDER
        self._folder.mkdir(exist_ok=True, parents=True)
        self._table = table
        self._mapping = mapping

    def with_rows(self, parts: Iterable[pa.Table], document_numbers: Callable[[], IntArray]) -> Mapped:
        """Write a file of new rows, sorted by id. All ids must be above those in the present files.

        `document_numbers` returns the sorted numbers of all documents. Large merged files drop the rows of other documents.
        """
        fresh, end = self._write(parts)

        def join(tables: Sequence[pa.Table]) -> RowFile | None:
            # an older mergewise copied the vectors
            common = [name for name in tables[-1].column_names if all(name in one.column_names for one in tables)]
            blocks = (block for table in tables for block in blocks_of(table.select(common)))
            if sum(map(len, tables)) >= FEW_JOINED:
                existing = document_numbers()
                blocks = (rows_of_documents(block, existing) for block in blocks)
            return self._write(blocks)[0]

        segments = self._join_similar([*self._mapping.segments, *([fresh] if fresh else [])], join)
        return replace(self._mapping, segments=segments, end=max(end, self._mapping.end))

    def _join_similar(
        self, files: Sequence[RowFile], join: Callable[[Sequence[pa.Table]], RowFile | None]
    ) -> tuple[RowFile, ...]:
        files = list(files)
        while len(files) > 1 and files[-1].rows * SIMILAR >= files[-2].rows:
            last = 2
            # join a whole chain of similar files at once
            while last < len(files) and sum(f.rows for f in files[-last:]) * SIMILAR >= files[-last - 1].rows:
                last += 1
            # compare whole files, so that no damage gets a new digest
            found = [file for f in files[-last:] if (file := fetch_file(self._place, f.file, self._digests))]
            if len(found) < last:
                # a file is missing, so leave the others unmerged
                break
            joined = join([file.table for file in found])
            files[-last:] = [joined] if joined else []
        return tuple(files)

    def _write(self, parts: Iterable[pa.Table]) -> tuple[RowFile | None, int]:
        """Write rows to a new file. Return the file, or None without rows, and the first id after its rows."""
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
        """Write a file of the rows' addresses, if there are any."""
        if not len(addresses):
            return self._mapping

        def write(addresses: IntArray, ids: IntArray) -> RowFile:
            order = np.argsort(addresses, kind="stable")
            return self._write_table("addresses", pa.table({"address": addresses[order], "id": ids[order]}), len(order))

        def join(tables: Sequence[pa.Table]) -> RowFile:
            columns = zip(*map(address_columns, tables), strict=True)
            return write(*(np.concatenate(column) for column in columns))

        files = [*self._mapping.addresses, write(addresses, ids)]
        return replace(self._mapping, addresses=self._join_similar(files, join))

    def with_postings(self, parts: Iterable[pa.Table], document_numbers: Callable[[], IntArray]) -> Mapped:
        """Write a file of the postings of new rows. Merged files drop the rows of other documents than `document_numbers`."""

        def living(documents: IntArray) -> BoolArray:
            return look_up(document_numbers(), documents, document_numbers()) >= 0

        def write(tables: Iterable[pa.Table], exists: Callable[[IntArray], BoolArray]) -> RowFile | None:
            first, *others = tables
            joined = join_postings(list(map(Postings, (first, *others))), exists) if others else first
            return joined and self._write_table("postings", joined, len(joined["ids"].chunk(0).values))

        fresh = write(parts, lambda documents: np.ones(len(documents), bool))
        files = [*self._mapping.postings, *([fresh] if fresh else [])]
        return replace(self._mapping, postings=self._join_similar(files, lambda tables: write(tables, living)))

    def _write_table(self, kind: str, table: pa.Table, rows: int) -> RowFile:
        file = self._new_file(kind)
        with pa.OSFile(str(self._folder / file), "wb") as out, pa.ipc.new_file(out, table.schema) as writer:
            writer.write_table(table)
        return RowFile(file, rows)

    def _new_file(self, kind: str) -> str:
        """Create an empty file under a new name, because a reader may still use the file of an older state."""
        handle, path = new_file(self._folder, f"{self._table}-{kind}-", ".arrow")
        os.close(handle)
        return path.name


def _regroup(parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Regroup rows into contiguous blocks of about BLOCK_BYTES. The last block may be smaller."""
    waiting: list[pa.Table] = []
    for part in parts:
        waiting += [with_plain_fields(part)] if len(part) else []
        if sum(table.nbytes for table in waiting) >= BLOCK_BYTES:
            yield pa.concat_tables(waiting).combine_chunks()
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting).combine_chunks()
