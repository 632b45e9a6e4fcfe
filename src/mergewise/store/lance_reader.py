"""The reader of one state of an index on LanceDB.

Rows come from mapped files (`store.mapped`), and rows that no file holds come from the table.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mergewise.errors import CorruptIndex
from mergewise.protocols import FloatArray
from mergewise.store import documents as d
from mergewise.store.damage import raising_store_errors, reading
from mergewise.store.digests import damaged_files
from mergewise.store.lance_search import DOC_ID, TIED, LanceSearch
from mergewise.store.lance_state import ID, load_indexes, run
from mergewise.store.manifest import Run
from mergewise.store.mapped import FOLDER, IntArray, rows_of_documents
from mergewise.store.numbers import sql_numbers
from mergewise.store.tables import NUMBER, form, unit_vectors

if TYPE_CHECKING:
    from lancedb.table import AsyncTable

Row = TypeVar("Row")

_ADDRESS = "_rowid"


# not a class of its own, because plain tuples are pickled much faster
ShardHit: TypeAlias = tuple[float, str, int, int]
"""A hit of a search: its negative score, the id of its document, its own id, and the number of its document."""


@raising_store_errors
class LanceReader(LanceSearch):
    """The `StoreReader` protocol over the versions that one manifest names."""

    @property
    def views(self) -> dict[str, Mapping[str, Any]]:
        return {name: self.manifest.views[name].settings for name in self.manifest.offered}

    def row_counts(self) -> dict[str, int]:
        return {name: self._row_count(name) for name in (d.DOCUMENTS, *self._specs)}

    def unembedded(self, table: str | None = None) -> IntArray:
        table = table or self._first
        spec = self._specs.get(table)
        runs = self.manifest.unembedded.get(table, ())
        if spec is None or spec.table.embed is None or not self.manifest.dimension:
            # even if a damaged manifest has runs
            runs = ()
        return (
            self._kept.once(f"unembedded {table}", lambda: self._ids_in(table, runs)) if runs else np.empty(0, np.int64)
        )

    def _ids_in(self, table: str, runs: Sequence[Run]) -> IntArray:
        rows = self.whole(table, [ID], f"{ID} >= {runs[0][0]} and {ID} < {runs[-1][1]}")
        ids: IntArray = np.sort(rows[ID].to_numpy())
        bounds = np.array(runs, np.int64)
        inside: IntArray = ids[ids < bounds[np.searchsorted(bounds[:, 0], ids, "right") - 1, 1]]
        return inside

    # -- rows

    def hits(self, method: str, table: str, question: Any, k: int, **options: Any) -> Callable[[], list[ShardHit]]:
        """Start a search of a table. The returned function waits for the hits, and adds their documents.

        With `frequencies`, scores are those of all shards, also without postings.
        """
        searched = self.searched_text(table) if options.get("frequencies") else None
        search = getattr(self, method)(question, k if searched is None else k + TIED, table=table, **options)
        columns = [DOC_ID] if searched is None else [DOC_ID, searched.column]

        def finish() -> list[ShardHit]:
            scores = dict(search.result())
            hits: list[ShardHit] = []
            for rows in self._parts(table, columns, list(scores)):
                own = scores if searched is None else searched.scores(question, rows, options["frequencies"])
                names = rows[DOC_ID].to_pylist() if DOC_ID in rows.column_names else [""] * len(rows)
                documents = zip(rows[ID].to_pylist(), rows[NUMBER].to_pylist(), names, strict=True)
                hits += [(-own[row], name, row, number) for row, number, name in documents]
            return sorted(hits)[:k]

        return finish

    def rows(self, table: str, record: type[Row], ids: Sequence[int]) -> dict[int, Row]:
        spec = self._specs.get(table)
        if spec is None:
            return {}
        read = form(spec.table, record)
        records: dict[int, Row] = {}
        for rows in self._parts(table, read.columns, ids):
            records |= zip(rows[ID].to_pylist(), read.read(rows), strict=True)
        return {row: records[row] for row in ids if row in records}

    def vectors(self, ids: Sequence[int], table: str | None = None, column: str = "vector") -> dict[int, FloatArray]:
        table = table or self._first
        by_id: dict[int, FloatArray] = {}
        for rows in self._parts(table, [column], ids) if self.manifest.dimension else ():
            vectors = unit_vectors(rows, column)
            if vectors is not None:
                known = ~np.isnan(vectors[:, 0])
                by_id |= zip(rows[ID].to_numpy()[known].tolist(), vectors[known], strict=True)
        return {row: by_id[row] for row in ids if row in by_id}

    def stored_rows(self, table: str, columns: Sequence[str], ids: Sequence[int]) -> list[pa.Table]:
        """Return columns of rows, for a reader in another process."""
        return list(self._parts(table, columns, ids))

    def _parts(self, table: str, columns: Sequence[str], ids: Sequence[int]) -> Iterator[pa.Table]:
        """Yield rows by id: first the rows in mapped files, then the rest."""
        if self._table(table) is None or not ids:
            return
        wanted = np.fromiter(ids, np.int64, len(ids))
        read = list(dict.fromkeys([ID, NUMBER, *columns]))
        if self._is_mapped(table):
            missing = np.ones(len(wanted), bool)
            blocks = []
            for at, rows in self.mapped_rows(table).take(wanted, read):
                missing[at] = False
                blocks.append(rows)
            # join the blocks, because records are built faster from many rows at once
            if blocks:
                numbers = self.numbers().array
                yield rows_of_documents(pa.concat_tables(blocks, promote_options="default"), numbers)
            wanted = wanted[missing]
        if len(wanted):
            condition = f"{ID} in ({sql_numbers(wanted.tolist())})"
            present = self._schema(table).names
            yield self.whole(table, [name for name in read if name in present], condition)

    # -- damage

    def addresses_match(self, table: str) -> bool:
        """Return whether all row addresses in mapped files are right."""
        opened = self._table(table)
        if opened is None:
            return True
        rows = run(opened.query().select([ID]).with_row_id().to_arrow())
        ids = self.mapped_rows(table).ids_at(rows[_ADDRESS].to_numpy().astype(np.int64))
        return bool(((ids == rows[ID].to_numpy()) | (ids < 0)).all())

    def damage(self) -> dict[str, str]:
        """Map the damaged tables to messages. Documents count only if their rows cannot be read or found."""
        files = (file for file in self.damaged_files() if not file.startswith((f"{d.DOCUMENTS}.lance/data/", FOLDER)))
        return self._failures("table {!r}", _read_through, [file for file in files if "/_indices/" not in file])

    def damaged_search(self) -> dict[str, str]:
        """Map the tables with damaged search indexes to messages."""
        files = [file for file in self.damaged_files() if "/_indices/" in file]
        return self._failures("search indexes of table {!r}", load_indexes, files)

    def damaged_files(self) -> list[str]:
        """Return the missing files, and those whose digest is not the one in the manifest."""
        return self._kept.once("damaged files", lambda: damaged_files(self.place, self.manifest.digests))

    def _failures(
        self, what: str, use: Callable[[AsyncTable], Coroutine[Any, Any, None]], damaged: Sequence[str]
    ) -> dict[str, str]:
        """Map the tables with `damaged` files, and those on which `use` fails, to messages.

        Damaged files are not used, because LanceDB ends the process for some damage.
        """
        parts = ((file, *file.split(".lance/")) for file in damaged)
        messages = {table: f"damaged {what.format(table)}: {file}" for file, table, _ in parts}
        for name in (name for name in (d.DOCUMENTS, *self._specs) if name not in messages):
            try:
                with reading(self.place, what.format(name)):
                    if (table := self._table(name)) is not None:
                        run(use(table))
            except CorruptIndex as error:
                messages[name] = error.message
        return messages

    def unreadable(self, name: str) -> list[str]:
        """Return the documents with unreadable rows in a table, found by bisection."""
        documents = self.whole(d.DOCUMENTS, ["_number", "id"]).to_pylist()
        by_number = {row["_number"]: row["id"] for row in documents}
        return [by_number[number] for number in self._unreadable(name, sorted(by_number))]

    def _unreadable(self, name: str, numbers: Sequence[int]) -> list[int]:
        try:
            with reading(self.place):
                if numbers:
                    self.whole(name, None, f"{NUMBER} >= {numbers[0]} and {NUMBER} <= {numbers[-1]}")
        except CorruptIndex:
            if len(numbers) == 1:
                return [numbers[0]]
            half = len(numbers) // 2
            return self._unreadable(name, numbers[:half]) + self._unreadable(name, numbers[half:])
        return []

    def first_free(self) -> tuple[int, int]:
        """Return the first id and document number above all in the tables, including rows of deleted documents."""
        columns = [(d.DOCUMENTS, "_number"), *((name, ID) for name, spec in self._specs.items() if spec.table.has_ids)]
        number, *ids = (_end(self.whole(name, [column])[column]) for name, column in columns)
        return max(ids, default=0), number

    def altered_documents(self) -> list[str]:
        """Return the documents whose text has changed since it was written, or whose pages or headings are unreadable."""
        table = self._table(d.DOCUMENTS)
        return [] if table is None else run(_altered_documents(table))


def _end(numbers: pa.ChunkedArray) -> int:
    return 1 + pc.max(numbers).as_py() if len(numbers) else 0


async def _read_through(table: AsyncTable) -> None:
    """Read every row of a table, in batches."""
    async for batch in await table.query().to_batches():
        batch.validate(full=True)


async def _altered_documents(table: AsyncTable) -> list[str]:
    batches = await table.query().to_batches()
    return [row["id"] async for batch in batches for row in batch.to_pylist() if not d.is_as_written(row)]
