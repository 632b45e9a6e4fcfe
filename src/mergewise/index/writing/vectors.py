"""Vectors beside the rows of a view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mergewise.models.record import embed_groups
from mergewise.protocols import Embedder
from mergewise.store.views import ViewRows
from mergewise.text.keys import search_key


def with_vectors(
    views: Sequence[ViewRows], table: str, embedder: Embedder | None, column: str = "vector", text: str = "text"
) -> list[ViewRows]:
    """Add a column with the vectors of a table's records, of all documents in one call; nothing without an embedder.

    What is embedded is the field `text` of a record, below its title and headings.
    """
    if embedder is None:
        return list(views)
    keys = [
        [search_key(row.title, row.headings, getattr(row, text)).strip() for row in rows[table].records]
        for rows in views
    ]
    return [
        {**rows, table: replace(rows[table], columns={**rows[table].columns, column: vectors})}
        for rows, vectors in zip(views, embed_groups(embedder, keys), strict=True)
    ]
