"""Mapped files of one change of an index on LanceDB (`store.mapped`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mergewise.log import log
from mergewise.store import documents as d
from mergewise.store.damage import tells_full_disk
from mergewise.store.lance_indexes import LAST_ATTEMPT, SearchIndexes, Upkeep
from mergewise.store.lance_tables import WritableTables, scan_rows
from mergewise.store.lance_values import stored_columns
from mergewise.store.mapped import Mapped, files_of
from mergewise.store.mapped_writer import MappingWriter
from mergewise.store.numbers import IntArray
from mergewise.store.postings import make_postings
from mergewise.store.snapshot import ADDRESS
from mergewise.store.tables import NUMBER
from mergewise.store.text_scores import text_terms

if TYPE_CHECKING:
    from lancedb.table import Table as LanceTable


@dataclass(frozen=True)
class MappedFiles:
    """The mapped files of a change."""

    tables: WritableTables
    indexes: SearchIndexes
    upkeep: Upkeep
    attempt: int

    def write(self, compacted: Sequence[str] | None = None) -> None:
        """Write new rows to mapped files.

        Compaction moves rows, so all addresses of `compacted` tables (default: all tables) are written again. If a file cannot
        be written, its rows are read from the table. A full disk is an error at the first attempt; the last attempt maps nothing.
        """
        if self.attempt == LAST_ATTEMPT:
            return
        tables = self.tables
        mapped = dict(tables.manifest.mapped)
        for name, spec in tables.specs.items():
            if not spec.table.mapped or not tables.exists(name):
                continue
            moved = compacted is None or name in compacted
            try:
                written = self._write_files(name, Mapped.of(mapped.get(name)), moved)
            except OSError as error:
                if self.attempt == 1 and tells_full_disk(error):
                    raise
                log.warning("cannot map rows of %s, queries are slower: %s", name, error)
                # drop unfinished files, because the commit may need the disk space
                tables.place.drop_unnamed(files_of(tables.committed.mapped) | files_of(mapped))
                if moved:
                    # the old addresses are wrong now
                    mapped.pop(name, None)
                continue
            if written is not None:
                mapped[name] = written.as_dict()
        tables.update(mapped=mapped)

    def _write_files(self, name: str, mapped: Mapped, compacted: bool) -> Mapped | None:
        table, manifest = self.tables.open(name), self.tables.manifest
        # mapped rows must never change, so rows that wait for vectors are not mapped yet
        waiting = manifest.unembedded.get(name, ())
        end = waiting[0][0] if waiting else manifest.next_id
        text = self.indexes.text_of_postings(name)
        needs_postings = text is not None and mapped.posted < manifest.next_id
        if not compacted and end <= mapped.end and not needs_postings:
            return None
        below = f" and id < {end}" if waiting else ""
        spec = self.tables.specs[name].table
        # the `words` column is searched, but never read
        columns = [column for column in table.schema.names if column != spec.words]
        few = not compacted and end - mapped.end <= self.upkeep.mapped_ids
        condition = f"id >= {0 if compacted else mapped.end}{below}"
        rows = scan_rows(table, columns if few else ["id"], condition, with_row_id=True)
        addresses, ids = rows[ADDRESS].to_numpy().astype(np.int64), rows["id"].to_numpy()
        stored = stored_columns(self.tables.place, replace(manifest, tables={name: table.version}, digests={}), spec)
        columns = [column for column in columns if column not in stored or not stored[column].holds(addresses)]
        fresh = np.sort(ids[ids >= mapped.end])

        def writer(present: Mapped) -> MappingWriter:
            return MappingWriter(self.tables.place, name, present, manifest.digests)

        written, parts = mapped, [rows.select(columns).sort_by("id")] if few else []
        if len(fresh):
            written = writer(mapped).with_rows(
                parts or self._sorted_rows(table, columns, fresh), lambda: self._document_numbers
            )
        if compacted or len(fresh):
            written = writer(replace(written, addresses=()) if compacted else written).with_addresses(addresses, ids)
        if text is None:
            written = replace(written, postings=(), posted=0)
        elif needs_postings:
            has_all = mapped.posted == mapped.end and not waiting
            unposted = fresh
            if not has_all:
                unposted = np.sort(scan_rows(table, ["id"], f"id >= {mapped.posted}")["id"].to_numpy())
            if len(unposted):
                texts = parts if few and has_all else self._sorted_rows(table, ["id", NUMBER, text], unposted)
                postings = (make_postings(part, text, text_terms) for part in texts)
                written = writer(written).with_postings(postings, lambda: self._document_numbers)
            written = replace(written, posted=manifest.next_id)
        return replace(written, end=max(end, written.end), indexed=self.indexes.indexed.get(name, mapped.indexed))

    def _sorted_rows(self, table: LanceTable, columns: Sequence[str], ids: IntArray) -> Iterator[pa.Table]:
        """Yield the rows in blocks of sorted ids. Uses the stored ids, because the manifest's next id may be wrong."""
        for first in range(0, len(ids), self.upkeep.mapped_ids):
            some = ids[first : first + self.upkeep.mapped_ids]
            yield scan_rows(table, columns, f"id >= {some[0]} and id <= {some[-1]}").sort_by("id")

    @cached_property
    def _document_numbers(self) -> IntArray:
        """The sorted numbers of all documents. Read this only after all documents are added and removed."""
        return np.sort(scan_rows(self.tables.open(d.DOCUMENTS), ["_number"], None)["_number"].to_numpy())
