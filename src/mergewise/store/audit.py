"""The invariants of an index, checked one by one against what is stored: its own here, those of a view by the view."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from mergewise.protocols import FloatArray, StoreReader
from mergewise.store.tables import Table
from mergewise.store.views import Registry, View
from mergewise.types import DocumentRows, Problem

_DOCUMENTS_AT_ONCE = 64


def audit(reader: StoreReader, registry: Registry, dimension: int) -> list[Problem]:
    """Every broken invariant: documents twice, what the views demand, and rows that belong to no document."""
    views = with_settings(registry, reader.views)
    tables = [table for view, settings in views for table in view.tables(settings)]
    ids = reader.ids()
    problems = [Problem("is in the index more than once", doc_id) for doc_id, n in Counter(ids).items() if n > 1]
    seen: Counter[str] = Counter()
    unique = list(dict.fromkeys(ids))
    for first in range(0, len(unique), _DOCUMENTS_AT_ONCE):
        stored = reader.document_rows(unique[first : first + _DOCUMENTS_AT_ONCE])
        for rows in stored:
            seen.update({"documents": 1, **{name: len(of_table.records) for name, of_table in rows.tables.items()}})
            problems += document_problems(rows, [(v, s) for v, s in views if _has(rows, v, s)], dimension)
            problems += _unembedded(rows, tables, reader)
        problems += _unread(reader, stored, tables)
    problems += [
        Problem(f"{count - seen[table]} rows of the table {table!r} belong to no document")
        for table, count in reader.row_counts().items()
        if count > seen[table]
    ]
    return problems


def _has(rows: DocumentRows, view: View, settings: Any) -> bool:
    """Whether the document has the view: one that came a moment ago may still wait for it."""
    return all(table.name in rows.tables for table in view.tables(settings))


def _unembedded(rows: DocumentRows, tables: Iterable[Table], reader: StoreReader) -> Iterator[Problem]:
    """Rows without a vector that nobody would give one, and rows that wait for what they have."""
    for table in tables:
        if table.embed is not None and table.name in rows.tables:
            ids = np.array([record.id for record in rows[table.name]], np.int64)
            waits = np.isin(ids, reader.unembedded(table.name))
            for column in table.vectors:
                vectors = rows.column(table.name, column)
                if vectors is not None and not np.array_equal(np.isnan(vectors[:, 0]), waits):
                    yield Problem(
                        f"rows of the table {table.name!r} lack vectors, or wait for some that they have",
                        rows.document.id,
                    )


def with_settings(registry: Registry, kept: Mapping[str, Mapping[str, Any]]) -> list[tuple[View, Any]]:
    """The views that an index has, each with its settings out of the form in which the manifest keeps them."""
    return [(view, view.load(kept[name])) for name, view in registry.items() if name in kept]


def _unread(reader: StoreReader, stored: Sequence[DocumentRows], tables: Iterable[Table]) -> Iterator[Problem]:
    """Rows that are not read by id as they are stored: a store may keep copies to read from."""
    for table in tables:
        if table.has_ids:
            ids = list(dict.fromkeys(record.id for rows in stored for record in rows[table.name]))
            records: Mapping[int, Any] = reader.rows(table.name, table.record, ids)
            vectors = {column: reader.vectors(ids, table.name, column) for column in table.vectors}
            for rows in stored:
                own = rows[table.name]
                same = all(records.get(record.id) == record for record in own)
                for column, read in vectors.items():
                    given = rows.column(table.name, column)
                    nothing = np.full(0 if given is None else given.shape[1], np.nan)
                    same &= given is None or _same([read.get(record.id, nothing) for record in own], given)
                if not same:
                    yield Problem(f"rows of the table {table.name!r} are not read as they are stored", rows.document.id)


def _same(read: Sequence[FloatArray], given: FloatArray) -> bool:
    return len(read) == len(given) and all(
        np.array_equal(one, other, equal_nan=True) for one, other in zip(read, given, strict=True)
    )


def document_problems(rows: DocumentRows, views: Iterable[tuple[View, Any]], dimension: int) -> list[Problem]:
    """What is wrong with one document's rows in these views."""
    doc_id = rows.document.id
    problems = []
    for view, settings in views:
        problems += [Problem(what, doc_id) for what in view.problems(rows, settings, dimension)]
        for table in view.tables(settings):
            ids = [record.id for record in rows[table.name]] if table.has_ids else []
            if any(later != earlier + 1 for earlier, later in pairwise(ids)):
                problems.append(Problem(f"ids of the table {table.name!r} are not consecutive", doc_id))
            for column in table.vectors if dimension else ():
                vectors = rows.column(table.name, column)
                if vectors is None or vectors.shape != (len(ids), dimension):
                    problems.append(Problem(f"vectors of {table.name!r} are missing or of the wrong dimension", doc_id))
    return problems
