"""The check of all invariants of an index against the stored data. Each view checks its own invariants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from mergewise.protocols import StoreReader
from mergewise.store.tables import Table
from mergewise.store.views import Registry, View
from mergewise.types import DocumentRows, Json, Problem

_DOCUMENTS_AT_ONCE = 64


def audit(reader: StoreReader, registry: Registry, dimension: int) -> list[Problem]:
    """Return all broken invariants: duplicate documents, problems of views, and rows without a document."""
    views = with_settings(registry, reader.views)
    tables = [table for view, settings in views for table in view.tables(settings)]
    ids = reader.ids()
    problems = [Problem("is in the index more than once", doc_id) for doc_id, n in Counter(ids).items() if n > 1]
    seen: Counter[str] = Counter()
    unique = list(dict.fromkeys(ids))
    for first in range(0, len(unique), _DOCUMENTS_AT_ONCE):
        stored = reader.document_rows(unique[first : first + _DOCUMENTS_AT_ONCE])
        for rows in stored:
            seen.update({"documents": 1, **{name: len(some.records) for name, some in rows.tables.items()}})
            # a new document may still lack a view
            own = [(view, s) for view, s in views if all(table.name in rows.tables for table in view.tables(s))]
            problems += document_problems(rows, own, dimension)
            problems += _vector_problems(rows, tables, reader)
        problems += _reading_problems(reader, stored, tables)
    problems += [
        Problem(f"{count - seen[table]} rows of the table {table!r} have no document")
        for table, count in reader.row_counts().items()
        if count > seen[table]
    ]
    return problems


def _vector_problems(rows: DocumentRows, tables: Iterable[Table], reader: StoreReader) -> Iterator[Problem]:
    """Find rows whose vectors are missing but not listed as missing, or present but listed as missing."""
    for table in tables:
        if table.embed is not None and table.name in rows.tables:
            ids = np.array([record.id for record in rows[table.name]], np.int64)
            waits = np.isin(ids, reader.unembedded(table.name))
            for column in table.vectors:
                vectors = rows.column(table.name, column)
                if vectors is not None and not np.array_equal(np.isnan(vectors[:, 0]), waits):
                    yield Problem(
                        f"rows of the table {table.name!r} lack vectors, or wait for vectors that they have",
                        rows.document.id,
                    )


def with_settings(registry: Registry, stored: Mapping[str, Json]) -> list[tuple[View, Any]]:
    """Return the views of an index with their loaded settings."""
    return [(registry[name], registry[name].load(stored[name])) for name in registry if name in stored]


def _reading_problems(
    reader: StoreReader, stored: Sequence[DocumentRows], tables: Iterable[Table]
) -> Iterator[Problem]:
    """Find rows whose value read by id differs from the stored one, because a store may read by id from copies."""
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
                    found = [read.get(record.id, nothing) for record in own]
                    same &= given is None or (
                        len(found) == len(given)
                        and all(np.array_equal(*pair, equal_nan=True) for pair in zip(found, given, strict=True))
                    )
                if not same:
                    yield Problem(
                        f"rows of the table {table.name!r} read by id differ from the stored rows", rows.document.id
                    )


def document_problems(rows: DocumentRows, views: Iterable[tuple[View, Any]], dimension: int) -> list[Problem]:
    """Return the problems of one document's rows in these views."""
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
