"""The states of documents that were uploaded or that failed, and their transitions within the change of a job."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from mergewise.server.database import Database, Row, StateTables
from mergewise.server.records import DocumentState, DocumentStatus, Upload
from mergewise.server.tables.rows import ALL, columns, insert, record_of, records_of, selection, update
from mergewise.types import Json, frozen

_OF_UPLOADS = "name title metadata blob bytes media_type is_document".split()


@frozen
class DocumentTable:
    """The states of documents in a database. Documents from folders, or from an older index, have none."""

    database: Database

    def find(
        self,
        collection: str,
        *,
        ids: Collection[str] | None = None,
        prefix: str = "",
        statuses: Collection[DocumentStatus] | None = None,
        after: str | None = None,
        limit: int = ALL,
    ) -> list[DocumentState]:
        """Return the states of documents, ordered by id."""
        query, values = selection(
            "SELECT * FROM documents",
            " ORDER BY id LIMIT ?",
            more=[("id > ?", after)] * (after is not None)
            + [("substr(id, 1, ?) = ?", len(prefix), prefix)] * bool(prefix),
            collection=[collection],
            id=ids,
            status=statuses,
        )
        return records_of(DocumentState, self.database.rows(query, [*values, limit]))

    def forget(self, collection: str, ids: Iterable[str]) -> None:
        """Delete the records of these documents."""
        with self.database.change() as rows:
            for doc_id in ids:
                forget(rows, collection, doc_id)

    def blobs_needed(self, collection: str) -> set[str]:
        """Return the blobs of documents, and of uploads that may still be indexed."""
        rows = self.database.rows(
            "SELECT blob FROM documents WHERE collection = ? AND blob IS NOT NULL UNION "
            "SELECT blob FROM uploads JOIN jobs ON jobs.id = job WHERE jobs.collection = ?",
            [collection, collection],
        )
        return {row["blob"] for row in rows}


# -- transitions within a change. A `job` is the row of a job.


def queue_document(rows: StateTables, job: Row, upload: Upload) -> None:
    """Mark the document as waiting for the job. The record of an indexed document keeps describing the indexed bytes."""
    known = _row(rows, job["collection"], upload.id)
    if known is not None and known["indexed_at"] is not None:
        key = {"collection": job["collection"], "id": upload.id}
        update(rows, "documents", key, {"status": "queued", "job": job["id"], "error": None})
    else:
        _put(rows, _document(job, upload, "queued"))


def settle(rows: StateTables, job: Row, doc_id: str, problem: Json | None, now: float) -> None:
    """Record that a document of a job is indexed or has failed. Ignore a document withdrawn during the job."""
    upload = rows.execute("SELECT * FROM uploads WHERE job = ? AND id = ?", [job["id"], doc_id]).fetchone()
    if upload is None:
        if problem is not None:
            # a file of a folder has no upload
            _put(rows, DocumentState(job["collection"], doc_id, "failed", job["id"], problem))
        return
    current = _row(rows, job["collection"], doc_id)
    is_newest = current is None or current["job"] == job["id"]
    if problem is not None:
        if is_newest:
            key = {"collection": job["collection"], "id": doc_id}
            update(rows, "documents", key, {"status": "failed", "error": problem})
        return
    indexed = _document(job, record_of(Upload, upload), "indexed", now)
    if not is_newest:
        # a later upload is already waiting
        indexed = replace(indexed, status=current["status"], job=current["job"])
    _put(rows, indexed)
    rows.execute("DELETE FROM uploads WHERE job = ? AND id = ?", [job["id"], doc_id])


def withdraw(rows: StateTables, where: str, values: Sequence[object]) -> None:
    """Cancel the indexing of documents. Documents that the index already has stay as they are."""
    rows.execute(f"DELETE FROM documents WHERE {where} AND indexed_at IS NULL", values)
    rows.execute(f"UPDATE documents SET status = 'indexed' WHERE {where}", values)


def forget(rows: StateTables, collection: str, doc_id: str) -> None:
    """Delete the record of a removed document. If it was uploaded again since, it still waits."""
    rows.execute(
        "DELETE FROM documents WHERE collection = ? AND id = ? AND status NOT IN ('queued', 'indexing')",
        [collection, doc_id],
    )
    rows.execute("UPDATE documents SET indexed_at = NULL WHERE collection = ? AND id = ?", [collection, doc_id])


def _row(rows: StateTables, collection: str, id: str) -> Any:
    return rows.execute("SELECT * FROM documents WHERE collection = ? AND id = ?", [collection, id]).fetchone()


def _document(job: Row, upload: Upload, status: DocumentStatus, indexed_at: float | None = None) -> DocumentState:
    values = {name: getattr(upload, name) for name in _OF_UPLOADS}
    return DocumentState(job["collection"], upload.id, status, job["id"], indexed_at=indexed_at, **values)


def _put(rows: StateTables, document: DocumentState) -> None:
    insert(rows, "documents", columns(document), "collection, id")
