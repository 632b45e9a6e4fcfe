"""The invariants of an index, checked one by one against what is stored: its own here, those of a view by the view."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from mergewise.protocols import StoreReader
from mergewise.store.views import Registry
from mergewise.types import DocumentRows, Problem

_DOCUMENTS_AT_ONCE = 64


def audit(reader: StoreReader, registry: Registry, dimension: int) -> list[Problem]:
    """Every broken invariant: documents twice, what the views demand, and rows that belong to no document."""
    ids = [info.id for info in reader.documents()]
    problems = [Problem("is in the index more than once", doc_id) for doc_id, n in Counter(ids).items() if n > 1]
    seen: Counter[str] = Counter()
    unique = list(dict.fromkeys(ids))
    for first in range(0, len(unique), _DOCUMENTS_AT_ONCE):
        for rows in reader.stored(unique[first : first + _DOCUMENTS_AT_ONCE]):
            seen.update({"documents": 1, **{name: len(of_table.records) for name, of_table in rows.tables.items()}})
            problems += document_problems(rows, registry, reader.views, dimension)
            problems += _unread(reader, rows, registry)
    problems += [
        Problem(f"{count - seen[table]} rows of the table {table!r} belong to no document")
        for table, count in reader.row_counts().items()
        if count > seen[table]
    ]
    return problems


def _unread(reader: StoreReader, rows: DocumentRows, registry: Registry) -> Iterator[Problem]:
    """Rows that are not read by id as they are stored: a store may keep copies to read from."""
    for table in (t for name, settings in reader.views.items() for t in registry[name].tables_of(settings)):
        if table.numbered:
            stored = {record.id: record for record in rows[table.name]}
            same = reader.rows(table.name, table.record, list(stored)) == stored
            for column in table.vectors:
                read = reader.vectors(list(stored), table.name, column)
                given = rows.column(table.name, column)
                same &= given is None or (len(read) == len(given) and np.array_equal(list(read.values()), given))
            if not same:
                yield Problem(f"rows of the table {table.name!r} are not read as they are stored", rows.document.id)


def document_problems(
    rows: DocumentRows, registry: Registry, settings: Mapping[str, Mapping[str, Any]], dimension: int
) -> list[Problem]:
    """What is wrong with one document's rows in these views."""
    doc_id = rows.document.id
    problems = []
    for view in (view for name, view in registry.items() if name in settings):
        chosen = view.load(settings[view.name])
        problems += [Problem(what, doc_id) for what in view.problems(rows, chosen, dimension)]
        for table in view.tables(chosen):
            ids = [record.id for record in rows[table.name]] if table.numbered else []
            if any(later != earlier + 1 for earlier, later in pairwise(ids)):
                problems.append(Problem(f"ids of the table {table.name!r} are not consecutive", doc_id))
            for column in table.vectors if dimension else ():
                vectors = rows.column(table.name, column)
                if vectors is None or vectors.shape != (len(ids), dimension):
                    problems.append(Problem(f"vectors of {table.name!r} are missing or of the wrong dimension", doc_id))
    return problems
