"""The steps of the transactions on a server's state, and the conversion of table rows to records."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from hashlib import sha256
from typing import Any, TypeVar

from mergewise.errors import MergewiseError, UsageError
from mergewise.server.database import Row, StateTables
from mergewise.server.records import (
    CHANGING,
    READ_ONLY,
    CollectionRecord,
    DocumentState,
    DocumentStatus,
    Job,
    JobProgress,
    JobState,
    Token,
    Upload,
)
from mergewise.store import check_filter

Record = TypeVar("Record", CollectionRecord, DocumentState, Job, Token, Upload)

KEY_SECONDS = 86_400.0
"""Seconds for which an idempotency key returns the same job."""
MOST_TOGETHER = 500
"""Largest number of documents in a group of uploads."""
SMALL_BYTES = 200_000
"""Largest size of a small group of uploads: seconds of work."""
LONGEST_WAIT = 5.0
"""Seconds after which a group of uploads starts even if more uploads keep coming."""
ALONE_AFTER = 2
"""Deaths of the writer at one document after which its jobs run one by one, and no other job beside them."""
_OF_UPLOADS = ("name", "title", "metadata", "blob", "bytes", "media_type", "is_document")
UNDER_WAY = ("waiting_lock", "running", "cancelling")
WAITS_FOR_WRITER = ("queued", *UNDER_WAY)
ALL = 2**62
"""The limit of a query without one: SQLite wants a number before OFFSET, and Postgres none below 0."""


class Conflict(MergewiseError):
    """A request in conflict with the current state: a name in use, a reused idempotency key, or a job that has ended."""


def digest(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()


def marks(values: Collection[object]) -> str:
    # NULL equals nothing, and Postgres refuses an empty list
    return ", ".join("?" * len(values)) or "NULL"


def _stored_filter(stored: Any) -> Any:
    """Return the filter of a token. An invalid one of an older version becomes one that every question refuses."""
    try:
        check_filter(stored)
    except UsageError:
        return {"type": "invalid"}
    return stored


# the columns that hold JSON, with the types of their values
_FROM_JSON: Mapping[str, Callable[[Any], Any]] = {
    "scopes": frozenset,
    "collections": frozenset,
    "views": tuple,
    "progress": lambda values: JobProgress(**values),
    "filter": _stored_filter,
    **dict.fromkeys(("settings", "defaults", "metadata", "error", "report", "request"), dict),
}


def columns(record: Any) -> dict[str, Any]:
    """Return the fields of a record without `number`, which the database assigns."""
    return {f.name: getattr(record, f.name) for f in fields(record) if f.name != "number"}


def _column(value: Any) -> Any:
    """Convert a value for the database: collections and records to JSON."""
    if isinstance(value, JobProgress):
        value = asdict(value)
    if isinstance(value, frozenset | tuple):
        value = sorted(value)
    if isinstance(value, Mapping):
        value = dict(value)
    return json.dumps(value) if isinstance(value, dict | list) else value


def record_of(kind: type[Record], row: Row) -> Record:
    """Convert a row to a record of this kind."""
    values: dict[str, Any] = {}
    for f in fields(kind):
        value = row[f.name]
        if value is not None and f.name in _FROM_JSON:
            value = _FROM_JSON[f.name](json.loads(value))
        # f.type is a string because of postponed annotations
        values[f.name] = bool(value) if f.type == "bool" else value
    return kind(**values)


def insert(rows: StateTables, table: str, values: Mapping[str, Any], replacing: str = "") -> None:
    """Insert a row. It replaces the row with the same key in the columns `replacing`, if given."""
    changes = ", ".join(f"{name} = excluded.{name}" for name in values)
    instead = f" ON CONFLICT ({replacing}) DO UPDATE SET {changes}" if replacing else ""
    rows.execute(
        f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks(values)}){instead}", [*map(_column, values.values())]
    )


def update(rows: StateTables, table: str, key: Mapping[str, str], values: Mapping[str, Any]) -> None:
    """Change columns of the row with this key."""
    changes = ", ".join(f"{name} = ?" for name in values)
    where = " AND ".join(f"{name} = ?" for name in key)
    rows.execute(f"UPDATE {table} SET {changes} WHERE {where}", [*map(_column, values.values()), *key.values()])


def token_unless_expired(row: Row) -> Token | None:
    return record_of(Token, row) if row["expires"] is None or row["expires"] > time.time() else None


def document_row(rows: StateTables, collection: str, id: str) -> Any:
    return rows.execute("SELECT * FROM documents WHERE collection = ? AND id = ?", [collection, id]).fetchone()


def job_row(rows: StateTables, id: str) -> Any:
    return rows.execute("SELECT * FROM jobs WHERE id = ?", [id]).fetchone()


def conditions(
    *among: tuple[str, Collection[object] | None], more: Sequence[tuple[object, ...]] = ()
) -> tuple[str, list[object]]:
    """Return a WHERE clause and its values, from columns with their allowed values (None: any) and further conditions."""
    given = [(f"{name} IN ({marks(values)})", *values) for name, values in among if values is not None]
    parts = [*given, *more]
    where = " AND ".join(str(part[0]) for part in parts)
    return f" WHERE {where}" if where else "", [value for part in parts for value in part[1:]]


# -- steps of transactions


def known_request(rows: StateTables, token: str, key: str, fingerprint: str, now: float) -> Any:
    rows.execute("DELETE FROM idempotency WHERE created < ?", [now - KEY_SECONDS])
    known = rows.execute("SELECT * FROM idempotency WHERE token = ? AND key = ?", [token, key]).fetchone()
    if known is None:
        return None
    if known["fingerprint"] != fingerprint:
        raise Conflict("Idempotency-Key already used for another request", "use a new key for a new request")
    return job_row(rows, known["job"])


def add_event(rows: StateTables, id: str, *, is_progress: bool = False) -> None:
    """Write an event. Only the last progress event is kept."""
    if is_progress:
        rows.execute("DELETE FROM events WHERE job = ? AND is_progress = 1", [id])
    rows.execute("UPDATE jobs SET event = event + 1 WHERE id = ?", [id])
    row = job_row(rows, id)
    data = json.dumps(record_of(Job, row).as_dict())
    rows.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?)", [id, row["event"], data, is_progress, time.time()])


def change_job(rows: StateTables, id: str, state: JobState, values: Mapping[str, Any] | None = None) -> None:
    """Set the state and other values of a job, and write an event."""
    update(rows, "jobs", {"id": id}, {"state": state, **(values or {})})
    add_event(rows, id)


def end_job(
    rows: StateTables,
    id: str,
    state: JobState,
    report: Mapping[str, Any] | None = None,
    error: Mapping[str, Any] | None = None,
) -> None:
    """End a job, and its unfinished documents."""
    waits = "job = ? AND status IN ('queued', 'indexing')"
    if state == "failed":
        rows.execute(f"UPDATE documents SET status = 'failed', error = ? WHERE {waits}", [_column(error), id])
    else:
        withdraw(rows, waits, [id])
    change_job(rows, id, state, {"finished": time.time(), "report": report, "error": error})


def withdraw(rows: StateTables, where: str, values: Sequence[object]) -> None:
    """Cancel the indexing of documents. Documents that the index already has stay as they are."""
    rows.execute(f"DELETE FROM documents WHERE {where} AND indexed_at IS NULL", values)
    rows.execute(f"UPDATE documents SET status = 'indexed' WHERE {where}", values)


def queue_again(rows: StateTables, row: Row) -> None:
    if row["state"] == "cancelling":
        end_job(rows, row["id"], "cancelled")
        return
    rows.execute("UPDATE documents SET status = 'queued' WHERE job = ? AND status = 'indexing'", [row["id"]])
    change_job(rows, row["id"], "queued")


def queue_document(rows: StateTables, job: Job, upload: Upload) -> None:
    """Mark the document as waiting for the job. The record of an indexed document keeps describing the indexed bytes."""
    known = document_row(rows, job.collection, upload.id)
    if known is not None and known["indexed_at"] is not None:
        key = {"collection": job.collection, "id": upload.id}
        update(rows, "documents", key, {"status": "queued", "job": job.id, "error": None})
    else:
        put_document(rows, _document(job, upload, "queued"))


def _document(job: Job, upload: Upload, status: DocumentStatus, indexed_at: float | None = None) -> DocumentState:
    values = {name: getattr(upload, name) for name in _OF_UPLOADS}
    return DocumentState(job.collection, upload.id, status, job.id, indexed_at=indexed_at, **values)


def put_document(rows: StateTables, document: DocumentState) -> None:
    insert(rows, "documents", columns(document), "collection, id")


def settle(rows: StateTables, row: Row, doc_id: str, problem: Mapping[str, Any] | None, now: float) -> None:
    """Record that a document of a job is indexed or has failed. Ignore a document withdrawn during the job."""
    upload = rows.execute("SELECT * FROM uploads WHERE job = ? AND id = ?", [row["id"], doc_id]).fetchone()
    if upload is None:
        if problem is not None:
            # a file of a folder has no upload
            put_document(rows, DocumentState(row["collection"], doc_id, "failed", row["id"], problem))
        return
    current = document_row(rows, row["collection"], doc_id)
    is_newest = current is None or current["job"] == row["id"]
    if problem is not None:
        if is_newest:
            key = {"collection": row["collection"], "id": doc_id}
            update(rows, "documents", key, {"status": "failed", "error": problem})
        return
    indexed = _document(record_of(Job, row), record_of(Upload, upload), "indexed", now)
    if not is_newest:
        # a later upload is already waiting
        indexed = replace(indexed, status=current["status"], job=current["job"])
    put_document(rows, indexed)
    rows.execute("DELETE FROM uploads WHERE job = ? AND id = ?", [row["id"], doc_id])


def forget_document(rows: StateTables, collection: str, doc_id: str) -> None:
    """Delete the record of a removed document. If it was uploaded again since, it still waits."""
    rows.execute(
        "DELETE FROM documents WHERE collection = ? AND id = ? AND status NOT IN ('queued', 'indexing')",
        [collection, doc_id],
    )
    rows.execute("UPDATE documents SET indexed_at = NULL WHERE collection = ? AND id = ?", [collection, doc_id])


def withdraw_uploads(rows: StateTables, collection: str, asked: Mapping[str, Any]) -> None:
    """Withdraw the uploads of removed documents from earlier jobs and from their retries."""
    jobs = "SELECT id FROM jobs WHERE collection = ?"
    for doc_id in asked.get("ids", ()):
        rows.execute(f"DELETE FROM uploads WHERE id = ? AND job IN ({jobs})", [doc_id, collection])
        withdraw(rows, "collection = ? AND id = ?", [collection, doc_id])
    if "prefix" in asked:
        prefix = [len(asked["prefix"]), asked["prefix"]]
        rows.execute(f"DELETE FROM uploads WHERE substr(id, 1, ?) = ? AND job IN ({jobs})", [*prefix, collection])
        withdraw(rows, "substr(id, 1, ?) = ? AND collection = ?", [*prefix, collection])


def cancel_all(rows: StateTables, collection: str, but: str) -> None:
    among = ("collection", [collection]), ("state", WAITS_FOR_WRITER)
    where, values = conditions(*among, more=[("id != ?", but)])
    for row in rows.execute(f"SELECT * FROM jobs{where}", values).fetchall():
        cancel_job(rows, row)


def cancel_job(rows: StateTables, row: Row) -> None:
    """Cancel a queued job at once. A running job becomes `cancelling`, and an ended job stays as it is."""
    if row["state"] == "queued":
        end_job(rows, row["id"], "cancelled")
    elif row["state"] in UNDER_WAY:
        change_job(rows, row["id"], "cancelling")


def next_group(
    rows: StateTables,
    queue: Sequence[Row],
    quiet: float,
    now: float,
    busy: Collection[str],
    turns: Mapping[str, float],
    only_small: bool,
) -> list[Row]:
    """Return the group to run next, or an empty list. Removals go first, then the collection whose last turn is the oldest.

    Collections in `busy` have a running job. A job at which its process died repeatedly runs before the others, and alone.
    """
    groups = [group for group in groups_to_run(rows, queue) if group[0]["collection"] not in busy]
    groups = [group for group in groups if is_ripe(group, quiet, now) and not _waits_for_changes(rows, group[0])]
    for group in groups:
        if group[0]["kills"] >= ALONE_AFTER:
            return [] if busy else group
    groups = [group for group in groups if not only_small or _is_small(rows, group)]
    return min(groups, key=lambda group: (not group[0]["urgent"], turns.get(group[0]["collection"], 0.0)), default=[])


def _is_small(rows: StateTables, group: Sequence[Row]) -> bool:
    if group[0]["kind"] not in ("add", "replace"):
        return group[0]["kind"] in ("check", "drop", "metadata", "remove")
    total = f"SELECT coalesce(sum(bytes), 0) AS bytes FROM uploads WHERE job IN ({marks(group)})"
    return bool(rows.execute(total, [row["id"] for row in group]).fetchone()["bytes"] <= SMALL_BYTES)


def _waits_for_changes(rows: StateTables, row: Row) -> bool:
    """Check if earlier jobs must change the collection before this job reads it."""
    among = ("collection", [row["collection"]]), ("state", WAITS_FOR_WRITER), ("kind", CHANGING)
    where, values = conditions(*among, more=[("number < ?", row["number"])])
    return row["kind"] in READ_ONLY and rows.execute(f"SELECT 1 FROM jobs{where}", values).fetchone() is not None


def groups_to_run(rows: StateTables, queue: Sequence[Row]) -> Iterator[list[Row]]:
    """Yield the next group of jobs for each collection: a single job, or consecutive uploads."""
    begun: set[str] = set()
    for row in queue:
        if row["collection"] in begun:
            continue
        begun.add(row["collection"])
        group, documents = [row], 0
        for other in queue if _may_be_joined(row) else ():
            if other["collection"] != row["collection"] or other["number"] <= row["number"]:
                continue
            documents += len(rows.execute("SELECT id FROM uploads WHERE job = ?", [other["id"]]).fetchall())
            if not _may_be_joined(other) or documents > MOST_TOGETHER:
                break
            group.append(other)
        yield group


def _may_be_joined(row: Row) -> bool:
    """Check for uploads at which the writer did not die repeatedly. After deaths, uploads run alone to find the culprit."""
    return row["kind"] in ("add", "replace") and row["kills"] < ALONE_AFTER


def is_ripe(group: Sequence[Row], quiet: float, now: float) -> bool:
    """Check that a group need not wait for more uploads. A job from the future is ripe: the clock was set back."""
    created = [row["created"] for row in group]
    return not _may_be_joined(group[0]) or not quiet < max(created) <= now or min(created) <= now - LONGEST_WAIT


def death_error(deaths: int, document: str | None) -> dict[str, Any]:
    at = "at this job" if document is None else f"at the document {document}"
    return {
        "code": "writer_killed",
        "detail": f"the process that runs jobs died {deaths} times {at}",
        "hint": "see the log for the reason; leave the document out, or give the server more memory",
        "document": document,
    }
