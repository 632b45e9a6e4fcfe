"""Renaming of documents whose files have moved. They keep their rows, so nothing is embedded again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import PurePosixPath
from typing import Any

from mergewise.store.tables import columns_of
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
    leaf: int | None = None
    tables: dict[str, Rows] = {}
    for view in views_of(registry, list(settings)):
        names = [table.name for table in view.tables_of(settings[view.name])]
        if any(name not in rows.tables for name in names):
            return None
        numbered = [table.name for table in view.tables_of(settings[view.name]) if table.has_ids]
        first = min((record.id for name in numbered for record in rows[name]), default=0)
        # the first view is the tree, and its first rows are the leaves
        leaf = first if leaf is None else leaf
        tables |= {name: _rename_rows(rows.tables[name], doc_id, {"row": first, "leaf": leaf}) for name in names}
    return DocumentRows(replace(rows.document, id=doc_id), rows.digest, tables, origin)


def _rename_rows(rows: Rows, doc_id: str, by: Mapping[str, int]) -> Rows:
    if not rows.records:
        return rows
    record: type = type(rows.records[0])
    shifted = [column for column in columns_of(record) if by.get(column.moves)]
    names = {"doc_id": doc_id} if any(field.name == "doc_id" for field in fields(record)) else {}

    def as_new(row: Any) -> Any:
        ids = {column.name: column.shift(getattr(row, column.name), -by[column.moves]) for column in shifted}
        return replace(row, **names, **ids)

    return replace(rows, records=tuple(map(as_new, rows.records)))
