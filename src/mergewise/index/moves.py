"""Renaming of documents whose files have moved. They keep their rows, so nothing is embedded again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import PurePosixPath
from typing import Any

from mergewise.store.tables import with_own_ids
from mergewise.store.views import Registry, views_of
from mergewise.types import DocumentRows, Origin, Rows


def keeps_its_title(rows: DocumentRows, old: str, new: str) -> bool:
    """Return whether a title stays. A title that is the file's name changes with it, and with it the searched text."""
    before, after = PurePosixPath(old).stem, PurePosixPath(new).stem
    return rows.document.title != before or before == after


def rename_document(
    rows: DocumentRows, doc_id: str, origin: Origin, registry: Registry, settings: Mapping[str, Mapping[str, Any]]
) -> DocumentRows | None:
    """Return an existing document's rows as those of a new one, with ids from 0, or None if it lacks a view."""
    views = [view.tables_of(settings[view.name]) for view in views_of(registry, list(settings))]
    if any(table.name not in rows.tables for tables in views for table in tables):
        return None
    own = with_own_ids(rows, views)
    tables = {table.name: _rename_rows(own.tables[table.name], doc_id) for tables in views for table in tables}
    return DocumentRows(replace(rows.document, id=doc_id), rows.digest, tables, origin)


def _rename_rows(rows: Rows, doc_id: str) -> Rows:
    if not rows.records or all(field.name != "doc_id" for field in fields(rows.records[0])):
        return rows
    return replace(rows, records=tuple(replace(record, doc_id=doc_id) for record in rows.records))
