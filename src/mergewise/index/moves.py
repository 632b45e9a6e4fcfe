"""Renaming of documents whose files have moved. They keep their rows, so nothing is embedded again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain

from mergewise.store.tables import with_own_ids
from mergewise.store.views import Registry, views_of
from mergewise.types import DocumentRows, Json, Origin


def rename_document(
    rows: DocumentRows, doc_id: str, origin: Origin, registry: Registry, settings: Mapping[str, Json]
) -> DocumentRows | None:
    """Return an existing document's rows as those of a new one, with ids from 0, or None if it lacks a view."""
    views = [view.tables_of(settings[view.name]) for view in views_of(registry, list(settings))]
    if any(table.name not in rows.tables for tables in views for table in tables):
        return None
    own = with_own_ids(rows, views)
    tables = {}
    for table in chain.from_iterable(views):
        old = own.tables[table.name]
        records = (replace(record, doc_id=doc_id) if table.names_documents else record for record in old.records)
        tables[table.name] = replace(old, records=tuple(records))
    return DocumentRows(replace(rows.document, id=doc_id), rows.digest, tables, origin)
