"""The records of collections."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

from mergewise.extend import is_url
from mergewise.server.database import Database, Row
from mergewise.server.records import CollectionRecord
from mergewise.server.tables.rows import Conflict, columns, insert, record_of, update
from mergewise.types import Json, frozen


@frozen
class CollectionTable:
    """The collections in a database. Paths within `storage` are stored relative to it, so that the data can be moved."""

    database: Database
    storage: Path

    def all(self) -> list[CollectionRecord]:
        """Return all collections, ordered by name."""
        return [self._record(row) for row in self.database.rows("SELECT * FROM collections ORDER BY name")]

    def get(self, name: str) -> CollectionRecord | None:
        rows = self.database.rows("SELECT * FROM collections WHERE name = ?", [name])
        return self._record(rows[0]) if rows else None

    def _record(self, row: Row) -> CollectionRecord:
        record = record_of(CollectionRecord, row)
        path, blobs = (one if is_url(one) else str(self.storage / one) for one in (record.path, record.blobs))
        return replace(record, path=path, blobs=blobs)

    def add(self, collection: CollectionRecord) -> CollectionRecord:
        """Add a collection. Raises Conflict if the name is taken.

        A configured collection replaces its older record. A title and defaults that the configuration leaves out stay.
        The writer creates the index soon after. Until then `path` has no manifest, and the collection is empty.
        """
        with self.database.change() as rows:
            row = rows.execute("SELECT * FROM collections WHERE name = ?", [collection.name]).fetchone()
            if row is not None and not collection.configured:
                raise Conflict(f"collection {collection.name!r} already exists", "choose another name")
            known = replace(collection, created=time.time()) if row is None else record_of(CollectionRecord, row)
            title, defaults = collection.title or known.title, collection.defaults or known.defaults
            collection = replace(
                collection, title=title, defaults=defaults, created=known.created, metadata=known.metadata
            )
            path, blobs = self._stored_path(collection.path), self._stored_path(collection.blobs)
            insert(rows, "collections", columns(replace(collection, path=path, blobs=blobs)), "name")
        return collection

    def _stored_path(self, path: str) -> str:
        if is_url(path):
            return path
        is_within = Path(path).is_relative_to(self.storage)
        return os.path.relpath(path, self.storage) if is_within else str(Path(path).absolute())

    def change(
        self, name: str, *, title: str | None = None, defaults: Json | None = None, metadata: Json | None = None
    ) -> CollectionRecord | None:
        """Change the title, the defaults or the metadata. Return the new record, or None if the collection does not exist."""
        wanted = {"title": title, "defaults": defaults, "metadata": metadata}
        changes = {column: value for column, value in wanted.items() if value is not None}
        with self.database.change() as rows:
            update(rows, "collections", {"name": name}, {"name": name, **changes})
        return self.get(name)

    def forget(self, name: str) -> None:
        """Delete the records of a collection, of its documents and of questions to it. Its jobs remain."""
        with self.database.change() as rows:
            rows.execute("DELETE FROM conversations WHERE collection = ?", [name])
            rows.execute("DELETE FROM collections WHERE name = ?", [name])
            rows.execute("DELETE FROM documents WHERE collection = ?", [name])
        self.database.overwrite_deleted(rewrite=True)
