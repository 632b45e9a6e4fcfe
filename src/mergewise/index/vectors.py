"""Embedding of rows that were written without vectors, table by table, here or in workers. A change takes under half a minute."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import pyarrow as pa

from mergewise.errors import IndexBusy
from mergewise.files import write_whole
from mergewise.index.executors import Executor
from mergewise.index.plan import batches
from mergewise.index.work import TEXTS_AT_ONCE, IndexingProgress
from mergewise.models.record import Models
from mergewise.protocols import Embedder, Store
from mergewise.store.numbers import IntArray
from mergewise.store.tables import Table, embedded_rows

CHANGE_SECONDS, PART_SECONDS = 20.0, 4.0
"""Seconds of embedding after which a change is written, and between two checks of the clock."""
CHANGE_LEAVES = 4096
KEPT = ".vectors-"
"""Beginning of the folder with the vectors of another embedder, until all rows have them."""
FIRST_PART, LARGEST_PART = 32, TEXTS_AT_ONCE
"""Number of leaves between two checks of the clock: the first number, and the maximum."""
SENT_LEAVES, READ_LEAVES = 128, 1024
"""Number of leaves in one request to a worker, at most about a second of work, and in one read from the store."""


def embed_some(store: Store, table: Table, models: Models, work: IndexingProgress, clock: Callable[[], float]) -> bool:
    """Embed rows for less than half a minute, and write their vectors in one change. Return whether there were any."""
    reader = store.reader()
    waiting: list[int] = reader.unembedded(table.name)[:CHANGE_LEAVES].tolist()
    assert table.embed is not None
    if not waiting or models.embedder is None:
        return False
    began, size = clock(), FIRST_PART
    ids: list[int] = []
    parts: list[Mapping[str, Any]] = []
    while len(ids) < len(waiting) and clock() - began < CHANGE_SECONDS:
        at = clock()
        records: dict[int, Any] = reader.rows(table.name, table.record, waiting[len(ids) : len(ids) + size])
        if not records:
            # the rows have no document, which `check` reports
            break
        work.look_at(next(record.doc_id for record in records.values()))
        parts.append(table.embed(list(records.values()), models.embedder))
        ids += records
        work.count_written(len(records))
        pace = len(records) / max(clock() - at, 1e-3)
        size = int(min(LARGEST_PART, max(1, PART_SECONDS * pace)))
    _write_vectors(store, table, ids, parts)
    return bool(ids)


def _write_vectors(store: Store, table: Table, ids: Sequence[int], parts: Sequence[Mapping[str, Any]]) -> None:
    if ids:
        store.write_vectors(table.name, ids, {name: [row for part in parts for row in part[name]] for name in parts[0]})


def embed_in_workers(
    store: Store, table: Table, embedder: Embedder, work: IndexingProgress, executor: Executor
) -> None:
    """Embed all rows in workers. In the meantime, this process reads the next rows and writes finished vectors."""
    assert table.embed is not None
    embed = partial(_embed_part, table.embed, embedder)
    waiting = store.reader().unembedded(table.name)
    began = monotonic()
    ids: list[int] = []
    parts: list[Mapping[str, Any]] = []
    for own, columns in executor.map(embed, _parts_of(store, table, waiting), work.tell):
        ids += own
        parts.append(columns)
        work.count_written(len(own))
        # write a change about every half minute: more workers embed more rows in that time
        if len(ids) >= CHANGE_LEAVES * executor.workers // 2 or monotonic() - began >= CHANGE_SECONDS:
            _write_vectors(store, table, ids, parts)
            ids, parts, began = [], [], monotonic()
    _write_vectors(store, table, ids, parts)


def _parts_of(store: Store, table: Table, waiting: IntArray) -> Iterator[dict[int, Any]]:
    """Yield rows by id in parts for workers. The rows of several parts are read at once, which is faster.

    Rows without a document are left out; `check` reports them.
    """
    for first in range(0, len(waiting), READ_LEAVES):
        ids = waiting[first : first + READ_LEAVES].tolist()
        records: dict[int, Any] = store.reader().rows(table.name, table.record, ids)
        for part in batches(records.items(), SENT_LEAVES):
            yield dict(part)


def _embed_part(
    embed: Callable[[Sequence[Any], Embedder], Mapping[str, Any]], embedder: Embedder, records: Mapping[int, Any]
) -> tuple[list[int], Mapping[str, Any]]:
    """Embed rows in a worker. Return their ids and columns."""
    return list(records), embed(list(records.values()), embedder)


def change_embedder(store: Store, directory: Path, table: Table, embedder: Embedder, work: IndexingProgress) -> None:
    """Embed all rows of a table by another embedder, then replace their vectors in one change. Queries use the old ones so long.

    New vectors are kept in a hidden folder of the index's `directory`. After a kill, the same call goes on with the rest.
    """
    assert table.embed is not None
    folder = directory / f"{KEPT}{blake2b(embedder.spec.encode(), digest_size=8).hexdigest()}"
    folder.mkdir(exist_ok=True)
    busy, before = None, np.empty(0, np.int64)
    while True:
        ids = store.reader().sorted_columns(table.name, ("id",))["id"]
        missing = np.setdiff1d(ids, _kept_vectors(folder)["id"])
        if busy is not None and np.array_equal(missing, before):
            raise busy
        before = missing
        work.begin_stage(len(missing), 1)
        for part in batches(missing.tolist(), 2 * SENT_LEAVES):
            records: dict[int, Any] = store.reader().rows(table.name, table.record, part)
            columns = table.embed(list(records.values()), embedder)
            schema = pa.schema([one for one in table.schema(embedder.dimension) if one.name in ("id", *columns)])
            rows, content = embedded_rows(table, list(records), columns, schema), pa.BufferOutputStream()
            with pa.ipc.new_file(content, schema) as writer:
                writer.write_table(rows)
            write_whole(folder / f"{part[0]}.arrow", content.getvalue())
            work.count_written(len(part))
        try:
            store.replace_vectors(embedder.spec, embedder.dimension, {table.name: _kept_vectors(folder)})
            break
        except IndexBusy as error:
            # rows that were written meanwhile
            busy = error
    for left in directory.glob(f"{KEPT}*"):
        shutil.rmtree(left)


def _kept_vectors(folder: Path) -> pa.Table:
    files = [pa.ipc.open_file(pa.memory_map(str(path))).read_all() for path in folder.glob("*.arrow")]
    return pa.concat_tables(files).combine_chunks() if files else pa.schema([("id", pa.int64())]).empty_table()


def waiting_characters(store: Store) -> int:
    """Estimate the number of characters in leaves without vectors."""
    waiting = len(store.reader().unembedded())
    leaves, characters = store.reader().sizes() if waiting else (0, 0)
    return characters * waiting // max(1, leaves)
